"""Charts are functions from frames to specifications: what is drawn, where, and what is left open."""

import re
from dataclasses import replace
from datetime import datetime
from html import unescape

import altair as alt
import pandas as pd
import pytest
import vl_convert
from altair.utils.schemapi import SchemaValidationError
from jsonschema import ValidationError

from analytics import text
from analytics.vocabulary.states import STATES
from service.charts import bars, heatmap, timelines, whatif
from service.charts import usage as chart_usage
from service.charts.cache import Look
from service.charts.frame import TimeAxis, percent_of, stripes, with_end
from service.charts.theme import DARK, LIGHT
from service.charts.window import Window
from service.summaries.headline import headline, sentence

at = datetime.fromisoformat
WINDOW = Window(from_ts=at("2026-11-20T10:05"), to_ts=at("2026-11-20T11:00"), step_s=600)
AXIS = TimeAxis(window=WINDOW, utc=True)
STEPS = pd.to_datetime(
    ["2026-11-20T10:05", "2026-11-20T10:10", "2026-11-20T10:20", "2026-11-20T10:30", "2026-11-20T10:40"],
    utc=True,
).as_unit("us")


@pytest.fixture
def usage() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ts": STEPS,
            "installed_gpus": [4.0] * 5,
            "allocated_gpus": [2.0, 3.0, 3.0, 0.0, 4.0],
            "used_gpus": [1.0, 1.5, 0.0, 0.0, 4.0],
            "held_used_gpus": [1.0, 1.5, 0.0, 0.0, 4.0],
            "held_unknown_gpus": [0.0] * 5,
            "unknown_gpus": [0.0, 0.0, 0.0, 4.0, 0.0],
            "utilization_ratio": [0.25, 0.375, 0.0, None, 1.0],
            "allocated_ratio": [0.5, 0.75, 0.75, None, 1.0],
        }
    )


@pytest.fixture
def ledger() -> pd.DataFrame:
    hours = {"good": 1.0, "held-idle": 0.5, "allocated-empty": 0.25, "unknown": 0.25, "free": 2.0}
    frame = pd.DataFrame({"state": list(hours), "gpu_hours": list(hours.values())})
    return frame.assign(share_ratio=frame["gpu_hours"] / 4, cost=frame["gpu_hours"] * 2, currency="EUR")


@pytest.fixture
def cells() -> pd.DataFrame:
    rows = [
        (uuid, node, index, step, busy, held, state)
        for uuid, node, index, busy, held, state in (
            ("GPU-a", "n1", 0, 0.9, 1.0, "good"),
            ("GPU-b", "n1", 1, 0.0, 1.0, "held-idle"),
            ("GPU-c", "n2", 0, 0.0, 0.0, "free"),
        )
        for step in STEPS[:3]
    ]
    names = ["uuid", "node", "gpu_index", "ts", "utilization_ratio", "held_ratio", "state"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(gpu_place=frame["gpu_index"].astype(str))


def shares(usage: pd.DataFrame) -> pd.DataFrame:
    return chart_usage.usage_shares(usage, WINDOW)


def test_steps_end_where_the_next_begins_and_the_last_with_the_window(usage) -> None:
    ends = with_end(usage, WINDOW)["end"]
    assert list(ends[:-1]) == list(STEPS[1:])
    assert ends.iloc[-1] == pd.Timestamp("2026-11-20T10:50", tz="UTC")


def test_usage_is_drawn_as_shares_of_what_is_installed(usage) -> None:
    drawn = shares(usage)
    assert list(drawn["allocated"]) == [0.5, 0.75, 0.75, 0.0, 1.0]
    assert drawn["known"].iloc[3] == 0.0
    assert "100" in drawn["unknown_text"].iloc[3]


def test_what_somebody_held_is_drawn_in_gpus_and_not_missed_where_they_held_none(usage) -> None:
    theirs = usage.assign(
        allocated_gpus=[2.0, 0.0, 3.0, 0.0, 1.0], used_gpus=[1.0, 0.0, 0.0, 0.0, 1.0], unknown_gpus=0.0
    ).assign(installed_gpus=[2.0, 0.0, 4.0, 0.0, 1.0])
    theirs.loc[2, "unknown_gpus"] = 1.0
    drawn = chart_usage.held_gpus(theirs, WINDOW)
    assert list(drawn["allocated"]) == [2.0, 0.0, 3.0, 0.0, 1.0]
    assert list(drawn["top"] - drawn["known"]) == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert set(drawn["top"]) == {4.0}
    assert "50" in drawn["used_text"].iloc[0]


def test_headline_leaves_out_what_was_not_measured(usage, ledger) -> None:
    head = headline(usage, ledger, WINDOW)
    minutes = [5, 10, 10, 10]
    used = sum(u * m for u, m in zip([1.0, 1.5, 0.0, 4.0], minutes, strict=True))
    assert head.utilization_ratio == pytest.approx(used / (4 * sum(minutes)))
    assert head.wasted_gpu_hours == 0.75
    assert head.wasted_cost == 1.5
    assert head.measured_ratio == pytest.approx(1 - 0.25 / 4)
    assert "lay fallow" in sentence(head, None)


def test_time_before_the_first_gpu_was_seen_makes_the_cluster_no_smaller(usage, ledger) -> None:
    whole = sentence(headline(usage, ledger, WINDOW), None)
    earlier = usage.assign(ts=usage["ts"] - pd.Timedelta(days=30))
    nothing = earlier.assign(**{name: float("nan") for name in usage.columns if name != "ts"})
    longer = replace(WINDOW, from_ts=at("2026-10-20T10:05"))
    head = headline(pd.concat([nothing, usage], ignore_index=True), ledger, longer)
    assert sentence(head, None) == whole
    assert head.there_ratio == pytest.approx(0.5, abs=0.1)


def test_what_rests_on_gpu_utilization_alone_is_told_as_a_bound(usage, ledger) -> None:
    whole = headline(usage, ledger, WINDOW)
    assert whole.bound_used_gpu_hours == 0.0 and "at most" not in sentence(whole, None)  # an older service's
    bound = headline(usage.assign(bound_used_gpus=usage["used_gpus"]), ledger, WINDOW)
    # 1.0 GPU for 5 min, 1.5 for 10 and 4.0 for 10
    assert bound.bound_used_gpu_hours == pytest.approx((1.0 * 5 + 1.5 * 10 + 4.0 * 10) / 60)
    assert "handed out and at most" in sentence(bound, None) and ": at least " in sentence(bound, None)
    assert " and used at most " in sentence(bound, "ann")


def test_a_cell_of_gpu_utilization_alone_is_marked_where_it_is_pointed_at(cells) -> None:
    assert not heatmap.upper_bounds(cells).any()
    some = cells.assign(is_upper_bound=[True] + [False] * (len(cells) - 1))
    assert heatmap.upper_bounds(some).sum() == 1
    drawn = heatmap.heat_map(some, AXIS, LIGHT).to_dict()
    assert any(row.get("is_upper_bound") for rows in drawn["datasets"].values() for row in rows)
    job = cells.drop(columns="state").assign(rung=[1] * len(cells))
    assert (heatmap.upper_bounds(job) == job["utilization_ratio"].gt(0)).all()


def test_headline_has_no_cost_where_a_wasted_hour_has_no_price(usage, ledger) -> None:
    ledger.loc[ledger["state"] == "held-idle", "cost"] = None
    assert headline(usage, ledger, WINDOW).wasted_cost is None


def test_what_nobody_measured_of_what_was_given_lies_not_fallow(usage, ledger) -> None:
    # By hand: for ten of 45 minutes three GPUs are given, 1.5 are used and one is dark: half lies fallow.
    whole = headline(usage, ledger, WINDOW)
    dark = headline(usage.assign(held_unknown_gpus=[0.0, 1.0, 0.0, 0.0, 0.0]), ledger, WINDOW)
    assert whole.fallow_gpu_hours - dark.fallow_gpu_hours == pytest.approx(10 / 60)
    assert whole.fallow_gpus - dark.fallow_gpus == pytest.approx(10 / 45)
    assert "unknown" not in sentence(whole, None)
    assert sentence(dark, None).endswith(" lay fallow, 0.22 unknown")


def test_headline_of_nothing_measured_is_unknown(usage, ledger) -> None:
    blind = usage.assign(
        used_gpus=0.0,
        held_used_gpus=0.0,
        held_unknown_gpus=0.0,
        allocated_gpus=0.0,
        unknown_gpus=4.0,
        utilization_ratio=None,
        allocated_ratio=None,
    ).astype({"utilization_ratio": float, "allocated_ratio": float})
    head = headline(blind, ledger, WINDOW)
    assert head.utilization_ratio is None
    assert head.allocated_ratio is None


def test_states_of_a_step_are_stacked_without_hole_or_overlap() -> None:
    hours = {state.column: [0.1 * n] for n, state in enumerate(STATES, start=1)}
    stack = chart_usage.state_stack(pd.DataFrame({"ts": STEPS[:1], **hours}), WINDOW)
    assert list(stack["label"]) == [state.label for state in STATES]
    assert list(stack["low"][1:]) == pytest.approx(list(stack["high"][:-1]))
    assert stack["high"].iloc[-1] == pytest.approx(4.5 / (5 / 60))


def test_cells_without_a_row_are_unknown_and_never_zero(cells) -> None:
    whole = heatmap.every_cell(cells, AXIS)
    assert len(whole) == 3 * 6
    late = whole[whole["ts"] == STEPS[4]]
    assert late["utilization_ratio"].isna().all()
    assert late["state"].isna().all()


def test_held_cells_are_joined_into_one_outline_a_gpu(cells) -> None:
    held = heatmap.held_stretches(with_end(heatmap.every_cell(cells, AXIS), WINDOW))
    assert list(held["uuid"]) == ["GPU-a", "GPU-b"]
    assert list(held["ts"]) == [STEPS[0], STEPS[0]]
    assert list(held["end"]) == [STEPS[3], STEPS[3]]


def test_rows_stand_by_node_and_index_and_nodes_apart(cells) -> None:
    rows = heatmap.placed(cells.sample(frac=1, random_state=1))
    assert list(rows["uuid"]) == ["GPU-a", "GPU-b", "GPU-c"]
    assert rows["y"].iloc[1] == rows["y2"].iloc[0]
    assert rows["y"].iloc[2] > rows["y2"].iloc[1]
    assert list(rows["label"]) == ["n1  0", "1", "n2  0"]


def test_gpus_without_an_index_are_told_apart_by_their_ids(cells) -> None:
    rows = heatmap.placed(cells.assign(gpu_index=float("nan"), gpu_place=None))
    assert list(rows["label"]) == ["n1  GPU-a", "GPU-b", "n2  GPU-c"]


def test_many_gpus_are_shown_by_node(cells) -> None:
    by_node = cells.groupby(["node", "ts"], as_index=False)[["utilization_ratio", "held_ratio"]].mean()
    nodes = heatmap.nodes_as_rows(by_node)
    assert list(nodes["uuid"]) == list(nodes["node"])
    assert nodes["gpu_index"].isna().all()


@pytest.mark.parametrize(("gpus", "nodes"), [(1, 1), (32, 4), (72, 9), (1000, 125), (10_000, 1_250)])
def test_a_map_has_no_more_cells_than_a_browser_draws_at_once(gpus, nodes) -> None:
    lines = nodes if gpus > heatmap.MOST_GPUS else gpus
    steps = heatmap.most_steps(gpus, nodes)
    assert steps >= 40
    assert steps == 40 or lines * steps <= heatmap.MOST_CELLS


def test_waste_ranks_the_worst_first_and_leaves_out_who_wasted_nothing() -> None:
    people = pd.DataFrame(
        {
            "name": ["ada", "bo", "cy"],
            "gpu_hours": [10.0, 20.0, 5.0],
            "used_gpu_hours": [4.0, 5.0, 5.0],
            "wasted_gpu_hours": [2.0, 9.0, 0.0],
            "utilization_ratio": [0.4, 0.25, 1.0],
        }
    )
    assert list(bars.most_wasted(people, top=5)["name"]) == ["bo", "ada"]
    assert list(bars.best_used(people, top=2)["name"]) == ["cy", "ada"]
    parts = bars.split_hours(people)
    lengths = (parts["high"] - parts["low"]).groupby(parts["name"]).sum()
    assert lengths.to_dict() == pytest.approx({"ada": 10.0, "bo": 20.0, "cy": 5.0})


def test_those_who_hold_a_gpu_at_once_are_named_in_one_label() -> None:
    at = [WINDOW.from_ts, WINDOW.from_ts]
    holders = pd.DataFrame({"from_ts": at, "to_ts": [WINDOW.to_ts] * 2, "user_name": ["ada", "bo"]})
    holders = holders.assign(
        from_ts=pd.to_datetime(at, utc=True), to_ts=pd.to_datetime([WINDOW.to_ts] * 2, utc=True)
    )
    holders = holders.assign(job_name=["a", "b"], job=["slurm:1", "slurm:2"], project=None, source="slurm")
    strip = timelines.holder_strip(holders, WINDOW, LIGHT)
    assert list(strip.stretches["text"]) == ["ada · a, bo · b", ""]


def test_words_beside_a_bar_begin_where_it_ends_though_more_was_used_than_held() -> None:
    people = pd.DataFrame({"name": ["lab"], "gpu_hours": [5.0], "used_gpu_hours": [4.5]})
    drawn = bars.waste_bars(people.assign(wasted_gpu_hours=2.5, utilization_ratio=0.9), LIGHT)
    assert list(drawn.rows["ends"]["end"]) == list(drawn.rows["parts"]["high"].tail(1)) == [1.0]


def test_measures_nobody_took_get_no_lane_and_idle_video_none_either() -> None:
    timeline = pd.DataFrame(
        {
            "ts": STEPS[:2],
            "utilization_ratio": [0.5, None],
            "power_w": [None, None],
            "encoder_ratio": [0.0, 0.0],
        }
    )
    kept = timelines.measured_lanes(timelines.lanes_of(), timeline)
    assert [lane.title for lane in kept] == ["Utilization"]
    missing = timelines.unmeasured(timelines.lanes_of(), timeline)
    assert "Power" in missing
    assert not {"Utilization", "Video"} & set(missing)


def test_a_gap_in_a_timeline_stays_open() -> None:
    timeline = pd.DataFrame({"ts": STEPS[[0, 4]], "utilization_ratio": [0.5, 0.7]})
    whole = timelines.whole_timeline(timeline, AXIS)
    assert len(whole) == 6
    assert whole["utilization_ratio"].isna().sum() == 4


def test_states_in_a_strip_are_joined_and_a_gap_is_unknown() -> None:
    timeline = pd.DataFrame({"ts": STEPS[:3], "state": ["good", "good", "free"]})
    strip = timelines.state_strip(timeline, WINDOW, LIGHT)
    assert list(strip.stretches["told"]) == ["good use", "free", "unknown"]
    assert strip.stretches["end"].iloc[-1] == pd.Timestamp("2026-11-20T11:00", tz="UTC")


def test_a_holder_keeps_one_shade() -> None:
    shades = timelines.shades_of(["ada", "bo", "ada"], LIGHT)
    assert shades[0] == shades[2] != shades[1]


@pytest.mark.slow
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_chart_is_a_valid_specification(usage, ledger, cells, colours) -> None:
    hours = {state.column: [0.1] * 5 for state in STATES}
    people = pd.DataFrame(
        {
            "name": ['it\'s "me"'],
            "gpu_hours": [3.0],
            "used_gpu_hours": [1.0],
            "wasted_gpu_hours": [1.0],
            "utilization_ratio": [0.3],
        }
    )
    timeline = pd.DataFrame(
        {"ts": STEPS, "state": "good", "utilization_ratio": 0.5, "gpu_utilization_ratio": 0.9}
    )
    lanes = timelines.measured_lanes(timelines.lanes_of(), timeline)
    strip = timelines.state_strip(timeline, WINDOW, colours)
    charts = (
        chart_usage.allocated_and_used(usage, AXIS, colours),
        chart_usage.allocated_and_used(usage, AXIS, colours, held_only=True),
        chart_usage.gpus_by_state(pd.DataFrame({"ts": STEPS, **hours}), AXIS, colours),
        chart_usage.ledger_bars(ledger, colours),
        heatmap.heat_map(cells, AXIS, colours),
        bars.waste_bars(people, colours),
        bars.use_bars(people, colours),
        timelines.lanes_chart(timeline, lanes, AXIS, colours, strips=[strip]),
    )
    for chart in charts:
        assert chart.to_dict()["layer"]


def test_other_rows_in_the_same_colours_need_no_other_specification(usage, ledger) -> None:
    """A browser that is sent what it shows already exchanges the rows; else it makes the chart anew."""
    half = usage.assign(allocated_gpus=usage["allocated_gpus"] / 2, used_gpus=0.0, unknown_gpus=1.0)
    later = TimeAxis(window=replace(WINDOW, to_ts=at("2026-11-20T12:00")), utc=True)
    people = pd.DataFrame({"name": ["ada"], "gpu_hours": [3.0], "used_gpu_hours": [1.0]})
    people = people.assign(wasted_gpu_hours=1.0, utilization_ratio=0.3)
    hours = pd.DataFrame({"ts": STEPS, **{state.column: [0.1] * 5 for state in STATES}})
    for one, other in (
        (
            chart_usage.allocated_and_used(usage, AXIS, LIGHT),
            chart_usage.allocated_and_used(half, later, LIGHT),
        ),
        (
            chart_usage.gpus_by_state(hours, AXIS, LIGHT),
            chart_usage.gpus_by_state(hours.head(2), later, LIGHT),
        ),
        (chart_usage.ledger_bars(ledger, LIGHT), chart_usage.ledger_bars(ledger.head(1), LIGHT)),
        (
            bars.waste_bars(people, LIGHT),
            bars.waste_bars(people.assign(name="bo", gpu_hours=9.0), LIGHT),
        ),
    ):
        assert one.look is other.look
        assert one.spec() == other.spec() and one.rows.keys() == other.rows.keys()
    dark = chart_usage.ledger_bars(ledger, DARK)
    assert dark.look != chart_usage.ledger_bars(ledger, LIGHT).look


def test_a_chart_without_its_look_in_the_schema_is_refused(ledger) -> None:
    drawn = chart_usage.ledger_bars(ledger, LIGHT)
    broken = replace(drawn, look=Look(drawn.look.text.replace('"type": "bar"', '"type": "notamark"')))
    assert drawn.to_dict()["datasets"]["bars"][0]["label"] == "good use"
    with pytest.raises(ValidationError, match="notamark"):
        broken.to_dict()


def test_what_is_written_behind_the_longest_row_finds_room_on_a_phone() -> None:
    row = {"action": "tell", "how": "", "gpu_hours": 593.0, "low": 408.0, "high": 778.0, "before": 593.0}
    frame = pd.DataFrame([{**row, "jobs": 1, "disturbed": 0}])
    spec = whatif.given_chart(frame, LIGHT, both=False).to_dict()
    drawn = vl_convert.vegalite_to_svg({**spec, "width": 260})
    (written,) = re.findall(r"translate\(([\d.]+),[^>]*>593[^<]*to 778\)", drawn)
    assert float(written) + 150 <= 260, "150 px is how wide it is"


def test_a_hatch_is_as_high_as_the_chart_whatever_is_in_it(usage) -> None:
    frame = with_end(shares(usage), WINDOW)
    curve = chart_usage.braced(frame)
    assert (curve["allocated"][0], curve["used"][0]) == (1.0, 0.0)
    assert curve.iloc[1][["used", "allocated", "known", "top"]].isna().all()
    assert curve["ts"][0] == curve["ts"][1] == frame["ts"][0]
    pd.testing.assert_frame_equal(curve.iloc[2:].reset_index(drop=True), frame)


def test_stripes_never_run_out_within_their_box() -> None:
    for tilt in (1.0, 0.22, 0.001):
        made = stripes("#fff", "#000", bands=10, tilt=tilt).to_dict()
        reach = (made["x2"] + made["y2"]) and (made["x2"] ** 2 + made["y2"] ** 2)
        assert (1 * made["x2"] + 1 * made["y2"]) / reach <= 1 + 1e-9


def test_a_browser_writes_percents_as_the_pages_do() -> None:
    ratios = [0.0, 0.0004, 0.004, 0.0994, 0.0996, 0.25, 0.994, 1.0]
    frame = pd.DataFrame({"ratio": ratios, "at": range(len(ratios))})
    texts = alt.Chart(frame).transform_calculate(told=percent_of("ratio")).mark_text()
    drawn = vl_convert.vegalite_to_svg(texts.encode(x="at:O", text="told:N").to_dict())
    shown = re.findall(r">((?:&lt;)?[\d.]+%)<", drawn)
    assert [unescape(each) for each in shown] == [text.percent(ratio) for ratio in ratios]


def test_a_map_of_nodes_tells_the_node_and_what_it_mostly_was(cells) -> None:
    def told(map_of: pd.DataFrame) -> list[str]:
        layers = heatmap.heat_map(map_of, AXIS, LIGHT).to_dict()["layer"]
        return [each["title"] for each in layers[1]["encoding"]["tooltip"]]

    by_node = cells[["node", "ts", "utilization_ratio", "held_ratio", "state"]].drop_duplicates(
        ["node", "ts"]
    )
    assert told(cells) == ["GPU", "Time", "Utilization", "Held", "State"]
    assert told(heatmap.nodes_as_rows(by_node)) == ["Node", "Time", "Utilization", "Held", "Mostly"]
    assert told(cells.assign(state=None, gpu_index=float("nan"), gpu_place=None)) == [
        "GPU",
        "Time",
        "Utilization",
        "Held",
    ]


def test_a_map_draws_waste_in_amber_and_free_apart_from_work_at_nothing(cells) -> None:
    layers = heatmap.heat_map(cells, AXIS, LIGHT).to_dict()["layer"]
    colour = layers[1]["encoding"]["color"]
    assert colour["scale"]["range"] == list(LIGHT.ramp) and colour["field"] == "utilization_ratio"
    own = {each["test"]: each["value"] for each in colour["condition"]}
    assert own == {
        "datum.state === 'held-idle'": "#e9a63a",
        "datum.state === 'allocated-empty'": "#a8480f",
        "datum.state === 'free'": "#e4e2da",
    }


def test_a_step_of_which_most_is_unknown_is_striped_not_drawn_as_unused(cells) -> None:
    dark = cells.assign(state=cells["state"].where(cells["uuid"] != "GPU-b", "unknown"))
    assert list(dark["uuid"][heatmap.not_measured(dark)].unique()) == ["GPU-b"]
    spec = heatmap.heat_map(with_end(dark, WINDOW), AXIS, LIGHT, whole=False).to_dict()
    filters = [each["transform"][-1]["filter"] for each in spec["layer"] if "transform" in each]
    assert sum("datum.state === 'unknown'" in each for each in filters) == 3, "left out, paper, stripes"
    plain = heatmap.heat_map(with_end(cells, WINDOW), AXIS, LIGHT, whole=False).to_dict()
    assert len(plain["layer"]) == len(spec["layer"]) - 1, "no stripes where all was measured"


def test_altair_checks_parts_again_after_a_chart_is_built(cells) -> None:
    heatmap.heat_map(cells, AXIS, LIGHT)
    with pytest.raises(SchemaValidationError, match="notamark"):
        alt.MarkDef(type="notamark")
