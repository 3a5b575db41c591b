"""The address bar is the view: it can be sent, read back, and never shows an error."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.query import STEPS_MOST
from service.charts.window import MOST_STEPS, step_for
from service.pages.parts.url_state import FILTERS, RANGES, UrlState, address, parse, pinned, shared, window

at = datetime.fromisoformat
NOW = datetime(2026, 11, 21, 9, 30, 45, tzinfo=UTC)
names = st.one_of(st.none(), st.text(min_size=1, max_size=12))
instants = st.datetimes(min_value=at("2020-01-01"), max_value=at("2027-01-01")).map(
    lambda when: when.replace(second=0, microsecond=0)
)


@given(
    st.sampled_from(sorted(RANGES)),
    st.one_of(st.none(), st.tuples(instants, instants).filter(lambda pair: pair[0] < pair[1])),
    st.fixed_dictionaries(dict.fromkeys((*FILTERS, "gpu", "job", "kind", "by", "closed", "find"), names)),
    st.sampled_from(("local", "utc")),
)
def test_the_address_brings_the_same_view_back(chosen, fixed, picked, zone) -> None:
    since, until = fixed or (None, None)
    view = UrlState(range="24h" if fixed else chosen, since=since, until=until, tz=zone, **picked)
    assert parse(address(view)) == view


@pytest.mark.parametrize(
    "params",
    [
        {"range": "a year"},
        {"from": "yesterday", "to": "now"},
        {"from": "2026-11-21T10:00Z"},
        {"from": "2026-11-21T10:00Z", "to": "2026-11-20T10:00Z"},
        {"from": "0001-01-01T00:00+14:00", "to": "2026-11-25"},
        {"from": "0001-01-01", "to": "2026-11-25"},
        {"from": "2026-11-20", "to": "9999-12-31T23:59:59-10:00"},
        {"from": "2026-11-20", "to": "9999-12-31"},
        {"tz": "Mars"},
        {"unheard": "of"},
    ],
)
def test_an_address_that_makes_no_sense_shows_the_default(params) -> None:
    assert parse(params) == UrlState()


def test_the_default_view_has_a_bare_address() -> None:
    assert address(UrlState()) == {}


def test_a_live_window_ends_on_the_last_whole_minute() -> None:
    shown = window(UrlState(range="1h"), NOW)
    assert (shown.from_ts, shown.to_ts) == (at("2026-11-21T08:30"), at("2026-11-21T09:30"))


def test_a_pinned_view_stays_where_it_is() -> None:
    view = UrlState(range="6h", user="ada")
    then = window(view, NOW)
    fixed = pinned(view, then)
    later = window(parse(address(fixed)), datetime(2027, 1, 1, tzinfo=UTC))
    assert not fixed.live
    assert later == then


def test_an_offset_in_the_address_is_understood() -> None:
    view = parse({"from": "2026-11-21T10:00+02:00", "to": "2026-11-21T11:00+02:00"})
    assert view.since == at("2026-11-21T08:00")


@pytest.mark.parametrize("name", sorted(RANGES))
def test_no_range_draws_more_points_than_a_screen_shows(name) -> None:
    shown = window(UrlState(range=name), NOW)
    assert 24 <= shown.seconds / shown.step_s <= 180


def test_a_window_longer_than_any_step_still_has_one() -> None:
    assert step_for(86_400 * 2_900) == 86_400
    seconds = 86_400 * 3_650
    assert seconds / step_for(seconds) <= MOST_STEPS <= STEPS_MOST, "else no query answers"


def test_time_and_filters_go_along_and_picks_stay_behind() -> None:
    view = UrlState(range="7d", user="ada", gpu="GPU-1", job="slurm:1", kind="held-idle", by="project")
    assert shared(view) == UrlState(range="7d", user="ada")
