"""The acting pages' words and charts, without a browser: a job's life, evidence, orders, gains, plans."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from service import errors, wording
from service.charts.evidence import evidence_chart, evidence_window, measures_of, over_job
from service.charts.frame import TimeAxis
from service.charts.job_timeline import gpu_hours, life_chart, life_of
from service.charts.theme import DARK, LIGHT
from service.pages.actions import told_outcome, undoable
from service.pages.data.jobs import answered
from service.pages.parts.advised import expected
from service.pages.parts.job_buttons import CANCEL, KEEP, PAUSE, RESIZE, RESUME, unfit
from service.pages.parts.messages import explain_acting
from service.pages.parts.waiting_plans import gain_told
from service.pages.sign_in import readable
from service.schemas.answer import read
from service.schemas.control import Done, Gain
from service.schemas.records import Action, Command, GivenCommand, Job, JobDetail, Submission

G = wording.GAP
START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NOW = START + timedelta(hours=6)


def hour(many: float) -> datetime:
    return START + timedelta(hours=many)


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def told(number: int, verb: str, gpus: int, at: float | None, failed: str | None = None) -> GivenCommand:
    devices = tuple(f"GPU-{each}" for each in range(gpus))
    return GivenCommand(
        number=number,
        verb=verb,
        directive=Command(is_=verb.title(), number=number, gpus=devices),
        given_ms=ms(hour(number / 10) if at is None else hour(at)),
        acknowledged_ms=None if at is None else ms(hour(at)),
        failed=failed,
    )


def job(*directives: GivenCommand, ended: datetime | None = None) -> JobDetail:
    return JobDetail(
        job="fallow:1",
        state="running",
        submission=Submission(),
        submitted_ms=ms(START),
        ended_ms=None if ended is None else ms(ended),
        directives=directives,
    )


def stands(state: str, **wanted: object) -> Job:
    return read(Job, {"job": "x", "state": state, "submission": wanted})


def test_a_life_is_read_off_what_was_carried_out() -> None:
    life = life_of(
        job(
            told(1, "start", 1, 1),
            told(2, "reallocate", 3, 2),
            told(3, "pause", 0, 3),
            told(4, "notify", 0, 3.2),
            told(5, "resume", 2, 4),
        ),
        NOW,
    )
    assert list(life["state"]) == ["pending", "running", "running", "paused", "running"]
    assert list(life["gpus"]) == [0, 1, 3, 0, 2]
    assert gpu_hours(life, 1.0) == 1 + 3 + 2 * 2
    assert gpu_hours(life, 0.5) == 4


def test_what_failed_or_was_superseded_unseen_changed_nothing() -> None:
    life = life_of(
        job(
            told(1, "start", 1, 1),
            told(2, "reallocate", 4, 2, failed="no such device"),
            told(3, "notify", 0, 3),
        ),
        NOW,
    )
    assert list(life["gpus"]) == [0, 1]


def test_an_ended_job_ends_where_it_ended() -> None:
    life = life_of(job(told(1, "start", 2, 1), told(2, "cancel", 0, 3), ended=hour(3)), NOW)
    assert life["end"].max() == pd.Timestamp(hour(3))
    assert gpu_hours(life, 1.0) == 4


def test_a_job_cancelled_while_it_waited_has_only_waited() -> None:
    life = life_of(job(ended=hour(1)), NOW)
    assert list(life["state"]) == ["pending"]
    assert gpu_hours(life, 1.0) == 0


def test_an_unknown_submission_draws_no_life() -> None:
    assert life_of(JobDetail(job="x", state="running", submission=Submission()), NOW).empty


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_the_life_chart_is_a_whole_specification(colours) -> None:
    chart = life_chart(life_of(job(told(1, "start", 2, 1)), NOW), colours, utc=True)
    assert len(chart.to_dict()["layer"]) == 3


EVIDENCE = {"idle_s": 7200, "expected_idle_s": 3600, "expected_low_s": 600, "expected_high_s": 7200}


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        ({"class": "reclaim", "evidence": EVIDENCE}, [0.01, None]),
        ({"class": "cap-memory", "evidence": {"memory_needed_bytes": 5 << 30}}, [5 << 30, 0.25]),
        ({"class": "pack", "evidence": {}}, [0.5, None]),
        (
            {"class": "right-size", "evidence": {"utilization_p95_ratio": 0.2, "memory_peak_bytes": 1}},
            [0.2, 1],
        ),
        ({"class": "consolidate", "evidence": {}}, [None, None]),
    ],
)
def test_each_class_is_drawn_with_the_line_it_turns_on(row, lines) -> None:
    thresholds = {"idle_ratio": 0.01, "hog_utilization_ratio": 0.25, "pack_p95": 0.5}
    assert [each.line for each in measures_of(row, thresholds)] == lines


def test_the_window_of_evidence_holds_the_idle_time_and_some_before() -> None:
    window = evidence_window(EVIDENCE, NOW)
    assert window.seconds == 3 * 3600
    assert evidence_window({}, NOW).seconds == 2 * 3600
    assert evidence_window({"window_s": 10**9}, NOW).seconds == 7 * 86_400


def test_the_line_of_a_chart_says_what_it_is_and_gaps_stay_open() -> None:
    window = evidence_window({}, NOW)
    times = pd.to_datetime([window.from_ts, window.from_ts], utc=True).as_unit("us")
    timeline = pd.DataFrame({"ts": times, "uuid": ["a", "b"], "utilization_ratio": [0.2, 0.4]})
    steps = over_job(timeline, "utilization_ratio")
    assert steps["value"].tolist() == [pytest.approx(0.3)]
    (measure, _) = measures_of({"class": "pack", "evidence": {}}, {"pack_p95": 0.5})
    spec = evidence_chart(steps, measure, TimeAxis(window=window, utc=True), LIGHT).to_dict()
    texts = [row.get("words") for rows in spec["datasets"].values() for row in rows]
    assert "fits beside another up to 50%" in texts


def test_an_expected_gain_has_its_error_or_says_that_none_was_earned() -> None:
    row = {"gain_gpu_hours": 2.0, "gain_is_past": False, "gpus": ["a", "b"], "evidence": EVIDENCE}
    assert expected(row) == "2.0 GPU-hours (four of five times between 0.3 and 4.0)"
    half = {**row, "gain_gpu_hours": 0.5, "gpus": ["a"]}
    assert expected(half) == "0.5 GPU-hours (four of five times between 0.1 and 1.0)", "a share of a GPU"
    assert "too little recorded" in expected({**row, "evidence": {"expected_low_s": None}})


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (None, None),
        (Gain(gpu_hours=0.0), None),
        (Gain(gpu_hours=3.5), "3.5 GPU-hours"),
        (Gain(gpu_hours=3.5, horizon_s=7200.0), "3.5 GPU-hours within 2 h"),
    ],
)
def test_a_gain_is_told_with_the_time_it_is_expected_in(gain, said) -> None:
    assert gain_told(gain) == said


def test_a_rigid_job_is_neither_paused_nor_resized_and_a_share_keeps_its_size() -> None:
    rigid = stands("running", mobility="rigid")
    assert [unfit(order, rigid) is None for order in (PAUSE, RESUME, RESIZE, KEEP, CANCEL)] == [
        False,
        True,
        False,
        True,
        True,
    ]
    waiting = stands("pending", mobility="rigid")
    assert unfit(PAUSE, waiting) is None
    assert unfit(RESUME, waiting) is not None
    fixed = stands("running", mobility="elastic", min_gpus=2, max_gpus=2)
    assert "--gpus 1-4" in (unfit(RESIZE, fixed) or "")
    elastic = stands("running", mobility="elastic", share=0.5, max_gpus=2)
    assert unfit(PAUSE, elastic) is None
    assert unfit(RESIZE, elastic) is not None


def test_an_answer_says_whether_it_went_well() -> None:
    assert answered("pause fallow:1", Done(outcome="done")).well
    refused = answered("pause fallow:1", Done(outcome="stale", message="it has ended"))
    assert not refused.well
    assert refused.sentence == "Pause fallow:1: stale. it has ended"


def test_an_outcome_says_what_was_found_and_by_what_it_was_undone() -> None:
    row = Action(action=1, job="x", verb="pause", actor="fallow")
    assert told_outcome(row) == "being done"
    assert told_outcome(Action(action=1, job="x", verb="p", actor="f", outcome="stale", found="gone")) == (
        "stale: gone"
    )


@pytest.mark.parametrize(
    ("change", "there"),
    [({}, True), ({"outcome": "failed"}, False), ({"undo": None}, False), ({"undone_by": 9}, False)],
)
def test_only_what_was_done_and_not_undone_can_be_undone(change, there) -> None:
    row = {"action": 4, "verb": "pause", "outcome": "done", "undo": "fallow resume fallow:1", **change}
    assert undoable(read(Action, row)) is there


@pytest.mark.parametrize("given", ["", " ", "a b", "a\nb", "a\x00", "\u2192", "ü", "\u00a0"])
def test_what_cannot_be_a_secret_is_never_tried_as_one(given) -> None:
    assert not readable(given)
    assert readable("fallow-0123456789_abcdef")


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (errors.ServiceDown("no"), "No service runs"),
        (errors.ServiceOlder("old"), "The service that runs is older than this page"),
        (errors.NotAllowed("who"), "The service does not let this dashboard in"),
    ],
)
def test_what_keeps_an_acting_page_empty_is_told_apart(error, title) -> None:
    assert explain_acting(error).title == title
