"""What the wall shows when: read from an address, turned by a clock that is handed in; and its pieces."""

from itertools import pairwise
from types import SimpleNamespace

import altair as alt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.charts.theme import DARK, LIGHT
from service.charts.wall_size import SIZES, enlarged
from service.pages.wall.wall import (
    EARLY_S,
    EVERY_S,
    FRESH_S,
    LEAST_S,
    MOST_S,
    PANELS,
    Turn,
    Wall,
    turned,
    wall_of,
)
from service.pages.wall.widgets import MOST_WRITTEN, figures_html, kind_figures, lines_html, tiles_html


def test_an_address_without_it_asks_for_a_page() -> None:
    assert wall_of({}) is None
    assert wall_of({"kiosk": "0"}) is None
    assert wall_of({"kiosk": ""}) is None


@pytest.mark.parametrize(
    ("every", "kept"),
    [
        ("60", 60),
        ("7.6", 8),
        ("0", LEAST_S),
        ("-3", LEAST_S),
        ("1e9", MOST_S),
        ("soon", EVERY_S),
        ("nan", EVERY_S),
    ],
)
def test_seconds_that_cannot_be_are_brought_within_bounds(every: str, kept: int) -> None:
    assert wall_of({"kiosk": "1", "every": every}) == Wall(held=None, every_s=kept)


@pytest.mark.parametrize("asked", ["1", *PANELS])
@pytest.mark.parametrize("every_s", [EVERY_S, 45])
def test_an_address_that_a_wall_writes_asks_for_the_same_wall(asked: str, every_s: int) -> None:
    wall = Wall(held=asked if asked in PANELS else None, every_s=every_s)
    assert wall_of(wall.params) == wall


@given(st.integers(LEAST_S, MOST_S), st.floats(0, 0.2))
def test_it_turns_through_all_panels_in_order_each_for_its_time(every_s: int, late: float) -> None:
    """However late each drawing comes: none is skipped, and each stays its time to within one drawing."""
    wall, step = Wall(held=None, every_s=every_s), 0.0
    turns: list[Turn] = []
    turn: Turn | None = None
    while len(turns) < 7:
        turn = turned(turn, wall, step)
        if not turns or turns[-1] != turn:
            turns.append(turn)
        step += wall.beat_s * (1 + late)
    order = list(PANELS)
    assert [each.panel for each in turns] == [order[at % len(order)] for at in range(len(turns))]
    for before, after in pairwise(turns):
        stayed = after.since_s - before.since_s
        assert every_s - EARLY_S <= stayed <= every_s + wall.beat_s * (1 + late)


@given(st.integers(LEAST_S, MOST_S))
def test_no_figure_is_older_than_a_tick(every_s: int) -> None:
    assert Wall(held=None, every_s=every_s).beat_s <= FRESH_S
    assert Wall(held="queue", every_s=every_s).beat_s <= FRESH_S


def test_a_held_panel_stays_whatever_came_before() -> None:
    wall = Wall(held="projects", every_s=5)
    assert turned(Turn(panel="queue", since_s=0.0), wall, 1e6).panel == "projects"
    assert turned(turned(None, wall, 0.0), wall, 1e6).panel == "projects"


def test_a_chart_is_enlarged_and_its_figures_are_not() -> None:
    frame = pd.DataFrame({"height": [3.0, 4.0], "fontSize": [1, 2]})
    chart = (
        alt.Chart(frame)
        .mark_bar(height=10)
        .encode(x="height:Q", y=alt.Y("fontSize:Q", axis=alt.Axis(labelFontSize=12, tickCount=5)))
        .properties(height=100)
        .configure_axis(titleFontSize=11)
    )
    spec = chart.to_dict()
    larger = enlarged(spec, 2.0)
    assert larger["mark"]["height"] == 20
    assert larger["height"] == 200
    assert larger["encoding"]["y"]["axis"] == {"labelFontSize": 24, "tickCount": 5}
    assert larger["config"]["axis"]["titleFontSize"] == 22
    assert larger["datasets"] == spec["datasets"]
    assert enlarged(spec, 2.0, height=33)["height"] == 33
    assert "tickCount" not in SIZES


def gpu(**given: object) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "node": "n1",
            "gpu_place": "0",
            "state": "good",
            "utilization_ratio": 0.5,
            "engines_ratio": None,
            "uuid": "GPU-0",
            **given,
        }
    )


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_a_tile_that_was_not_measured_is_striped_and_has_no_number(colours: object) -> None:
    html = tiles_html([gpu(), gpu(gpu_place="1", state=None, utilization_ratio=None)], colours)  # type: ignore[arg-type]
    measured, unknown = html.split('class="wall-tile"')[1:]
    assert ">50<" in measured and "repeating-linear-gradient" not in measured
    assert "repeating-linear-gradient" in unknown and ">\N{EN DASH}<" in unknown
    assert "GPU 1: unknown" in unknown


def test_many_gpus_are_tiles_without_words() -> None:
    html = tiles_html([gpu(gpu_place=str(at), node=f"n{at // 8}") for at in range(MOST_WRITTEN + 8)], LIGHT)
    assert "wall-many" in html and ">50<" not in html
    assert html.count('class="wall-tile"') == MOST_WRITTEN + 8


def test_what_people_named_is_text_on_the_wall() -> None:
    bad = "<script>alert(1)</script>"
    whole = tiles_html([gpu(node=bad, state=bad)], LIGHT) + figures_html([(bad, bad)])
    whole += lines_html([[bad]], [bad], frozenset())
    assert "<script" not in whole
    assert whole.count("&lt;script&gt;") == 7


def test_kinds_without_room_are_counted_and_not_left_out() -> None:
    some = [("Held, idle", 9), ("Rarely used", 4), ("Straggler", 3), ("Intruder", 2), ("Memory hog", 1)]
    full = [*some, ("Uses a part", 1)]
    assert [figure for figure, _ in kind_figures(full)] == [kind for kind, _ in full]
    assert kind_figures([*full, ("Crash loop", 1)]) == [
        *((kind, str(n)) for kind, n in some),
        ("2 more kinds", "2"),
    ]
