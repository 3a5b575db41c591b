"""What people type, read: lengths of time, windows, sources; and what they see, written."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from service.cli import words
from service.cli.findings import PATTERN_COLUMNS
from service.cli.screen import Column, fitted, which_fit
from service.durations import BadSpan, parse_span, window
from service.sources.specs import (
    BadSource,
    DcgmSpec,
    NvmlSpec,
    PeerSpec,
    ReplaySpec,
    SimulatedSpec,
    parse_specs,
)

NOW = datetime(2026, 11, 21, 9, 30, 42, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90m", timedelta(minutes=90)),
        ("24h", timedelta(days=1)),
        ("7d", timedelta(days=7)),
        ("1d12h", timedelta(hours=36)),
        ("1.5h", timedelta(minutes=90)),
        (" 2W ", timedelta(weeks=2)),
        ("30s", timedelta(seconds=30)),
    ],
)
def test_span_is_read(text: str, length: timedelta) -> None:
    assert parse_span(text) == length


@pytest.mark.parametrize(
    "text", ["", "h", "24", "5x", "-3h", "0h", "1h banana", "99999999999999999999d", "٣h2"]
)
def test_bad_span_is_named_with_an_example(text: str) -> None:
    with pytest.raises(BadSpan, match=r"7d|30d"):
        parse_span(text)


def test_window_is_whole_minutes_and_ends_now() -> None:
    assert window("24h", None, NOW) == (
        datetime(2026, 11, 20, 9, 30, tzinfo=UTC),
        datetime(2026, 11, 21, 9, 30, tzinfo=UTC),
    )


def test_since_counts_back_from_until() -> None:
    assert window("1h", "2026-11-20T12:00", NOW)[0] == datetime(2026, 11, 20, 11, 0, tzinfo=UTC)


def test_bare_dates_are_of_the_zone_that_times_are_printed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """An October of Berlin begins at 22:00 UTC in summer time, and ends at 23:00 UTC in winter time."""
    october = (datetime(2026, 9, 30, 22, 0, tzinfo=UTC), datetime(2026, 10, 31, 23, 0, tzinfo=UTC))
    assert window("2026-10-01", "2026-11-01", NOW, ZoneInfo("Europe/Berlin")) == october
    assert window("2026-10-01T00:00Z", None, NOW, ZoneInfo("Europe/Berlin"))[0].hour == 0
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert window("2026-10-01", "2026-11-01", NOW) == october
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("since", "until"),
    [("2026-11-22", None), ("tomorrow", None), ("1h", "noon"), ("999999d", None)],
)
def test_window_that_is_none_is_refused(since: str, until: str | None) -> None:
    with pytest.raises(BadSpan):
        window(since, until, NOW)


def test_sources_are_read_and_addresses_of_one_kind_gathered() -> None:
    texts = ("nvml", "dcgm=http://a:9400,b:9400", "dcgm=c", "fallow=https://d:9475", "nvml")
    assert parse_specs(texts) == (
        NvmlSpec(),
        DcgmSpec(urls=("http://a:9400", "b:9400", "c")),
        PeerSpec(urls=("https://d:9475",)),
    )
    assert parse_specs(("simulated",)) == (SimulatedSpec(),)
    assert isinstance(parse_specs(("replay=x/y.parquet",))[0], ReplaySpec)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("nvlm",), "did you mean nvml?"),
        (("dcgm",), "names no address"),
        (("dcgm=,",), "names no address"),
        (("dcgm=ftp://a",), "not an http address"),
        (("dcgm=http://a:99999",), "not an http address"),
        (("dcgm=http://[",), "not an http address"),
        (("replay",), "needs a file"),
        (("nvml=0",), "takes no value"),
        (("replay=x", "nvml"), "replayed alone"),
        (("",), "unknown"),
    ],
)
def test_source_that_cannot_be_understood_is_named(texts: tuple[str, ...], says: str) -> None:
    with pytest.raises(BadSource, match=says.replace("?", r"\?")):
        parse_specs(texts)


@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5, 0.999, 1.0, 1.29, -0.1])
def test_bar_is_always_as_wide_as_asked(ratio: float) -> None:
    assert len(words.bar(ratio, 10)) == 10


def test_narrow_terminal_cuts_only_what_may_give_way() -> None:
    columns = [Column(title="a"), Column(title="job", least=5), Column(title="user", least=3)]
    lines = [["12345678", "a-very-long-job-name", "somebody"]]
    assert fitted(columns, lines, 100) == [8, 20, 8]
    assert fitted(columns, lines, 30) == [8, 10, 8]
    assert fitted(columns, lines, 10) == [8, 5, 4], "a title is never cut, whatever a column may give"


def test_stored_sentences_are_told_in_the_reader_s_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        told = words.localized("ana has held GPU 3 of n since 2026-11-20 20:05 UTC, twice.")
        assert told == "ana has held GPU 3 of n since 2026-11-21 01:35, twice."
        assert words.localized("no time in it, only 20:05 UTC") == "no time in it, only 20:05 UTC"
        never = "ana (job eval 2026-02-30 12:00 UTC) rests."
        assert words.localized(never) == never
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("since", "until", "begins"),
    [
        ("7d", None, "In the last 7d"),
        ("2026-11-14", None, "Since 2026-11-14"),
        ("2026-11-14T09:30", None, "Since 2026-11-14T09:30"),
        ("2026-11-14", "2026-11-20", "2026-11-14 to 2026-11-20"),
    ],
)
def test_a_range_is_told_as_it_was_asked_for(since: str, until: str | None, begins: str) -> None:
    assert words.in_range(since, until) == begins


def test_columns_that_can_be_spared_are_left_out_only_where_the_rest_does_not_fit() -> None:
    columns = [
        Column(title="name", least=4),
        Column(title="hours"),
        Column(title="bar", spare=1),
        Column(title="other", spare=2),
    ]
    lines = [["a-long-name", "12.0", "###", "7"]]
    assert which_fit(columns, lines, 100) == [0, 1, 2, 3]
    assert which_fit(columns, lines, 23) == [0, 1, 2, 3]
    assert which_fit(columns, lines, 22) == [0, 1, 3]
    assert which_fit(columns, lines, 17) == [0, 1]
    assert which_fit(columns, lines, 5) == [0, 1], "what cannot be spared stays"


def test_no_head_of_the_patterns_is_cut_at_80_columns() -> None:
    line = [
        "a-long-user",
        "a-job-of-a-long-name",
        "gaps-between-runs",
        "99.9%",
        "100%",
        "100%",
        "1,250",
        "90 min",
        "90 min",
    ]
    kept = which_fit(PATTERN_COLUMNS, [line], 80)
    columns = [PATTERN_COLUMNS[at] for at in kept]
    widths = fitted(columns, [[line[at] for at in kept]], 80)
    assert all(len(each.title) <= size for each, size in zip(columns, widths, strict=True))
    assert {"user", "job", "works in", "active", "used then"} <= {each.title for each in columns}
