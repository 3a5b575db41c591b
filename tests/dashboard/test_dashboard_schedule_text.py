"""The lines that the Reports page shows are a schedule that the service takes, meaning what was chosen."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.config.file import parse
from service.config.telling import REPORT_KINDS
from service.durations import parse_span
from service.pages.data.reports import OFTEN, WEEKDAYS, Regular, length_text, often_for, toml_of
from service.pages.reports import KINDS
from service.reports.due import next_due

WORDS = st.text(min_size=1, max_size=30).filter(lambda text: text.strip() != "")
WHEN = st.tuples(st.sampled_from(list(OFTEN)), st.sampled_from(list(WEEKDAYS)), st.integers(0, 23))


@given(WHEN, WORDS, WORDS, st.lists(WORDS.map("json://{}".format), max_size=3))
def test_whatever_is_chosen_is_read_back_as_it_was(
    when: tuple[str, str, int], name: str, project: str, to: list[str]
) -> None:
    often, weekday, hour = when
    wanted = Regular(
        name=name,
        kind="project-week",
        often=often,
        weekday=weekday,
        hour=hour,
        zone="Europe/Berlin",
        since="7d",
        format="md",
        project=project,
        to=tuple(to),
    )
    (found,) = parse(toml_of(wanted), origin="fallow.toml").config.reports.items()
    assert found[0] == name
    report = found[1]
    assert (report.kind, report.project, report.to, report.since) == (
        "project-week",
        project,
        tuple(to),
        "7d",
    )
    due = next_due(report, datetime(2026, 11, 18, 12, tzinfo=UTC))
    assert due is not None
    local = due.astimezone(ZoneInfo("Europe/Berlin"))
    assert (local.hour, local.minute) == (hour, 0)
    if often == "weekly":
        assert f"{local:%a}".lower() == weekday
    if often == "monthly":
        assert local.day == 1


@given(st.integers(1, 60 * 24 * 400))
def test_a_length_is_read_back_to_the_minute(minutes: int) -> None:
    assert parse_span(length_text(timedelta(minutes=minutes))) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("length", "often"), [(1, "daily"), (2, "daily"), (7, "weekly"), (14, "weekly"), (30, "monthly")]
)
def test_a_report_comes_as_often_as_its_time_is_long(length: int, often: str) -> None:
    assert often_for(timedelta(days=length)) == often


def test_the_page_offers_every_kind_there_is() -> None:
    assert tuple(KINDS) == REPORT_KINDS
