"""Numbers, times and amounts read the same everywhere; what was not measured is never a zero."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from collector.sources.nvml import process_list
from service import wording

T, G = wording.THIN, wording.GAP


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(0.0, "0"), (0.004, "0.4"), (0.0949, "9.5"), (0.0996, "10"), (0.374, "37"), (1.0, "100"), (1, "100")],
)
def test_percent_has_the_digits_that_mean_something(ratio, shown) -> None:
    assert wording.percent(ratio) == f"{shown}{T}%"


@pytest.mark.parametrize(
    "write",
    [
        wording.percent,
        wording.hours,
        wording.amount,
        wording.count,
        wording.gibibytes,
        wording.watts,
        wording.span,
    ],
)
@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_not_measured_is_a_dash(write, nothing) -> None:
    assert write(nothing) == wording.DASH


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.034, "0.03"), (1.26, "1.3"), (99.96, "100"), (1234567.8, f"1{T}234{T}568")],
)
def test_amounts_keep_two_or_three_figures(value, shown) -> None:
    assert wording.amount(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, f"0{G}s"), (8, f"8{G}s"), (720, f"12{G}min"), (90_061, f"1{G}d 1{G}h"), (3_600, f"1{G}h")],
)
def test_lengths_of_time_show_their_two_largest_units(seconds, shown) -> None:
    assert wording.span(seconds) == shown


@pytest.mark.parametrize(("number", "shown"), [(0, "0 people"), (1, "1 person"), (1200, f"1{T}200 people")])
def test_one_is_no_several(number, shown) -> None:
    assert wording.many(number, "person", "people") == shown


def test_money_names_its_currency_and_a_missing_price_is_no_zero() -> None:
    assert wording.money(1234.5, "EUR") == f"1{T}234{G}EUR"
    assert wording.money(2.5, "USD") == f"2.50{G}USD"
    assert wording.money(None, "EUR") == wording.DASH


def test_power_turns_to_kilowatts_for_a_cluster() -> None:
    assert wording.watts(412) == f"412{G}W"
    assert wording.watts(12_300) == f"12.3{G}kW"


def test_moments_are_shown_in_the_zone_asked_for() -> None:
    at = datetime.fromisoformat("2026-07-01T09:30")
    assert wording.moment(at) == "1 Jul 09:30"
    assert wording.moment(at, ZoneInfo("Asia/Kolkata")) == "1 Jul 15:00"


def test_a_gpu_without_an_index_is_named_by_its_uuid() -> None:
    assert wording.short_gpu("n1", "3", "GPU-abc") == f"n1 · GPU{G}3"
    assert wording.short_gpu("n1", "0/1g.10gb#7", "MIG-abc") == f"n1 · GPU{G}0/1g.10gb#7"
    assert wording.short_gpu("n1", None, "MIG-0123456789abc") == "n1 · MIG-01234567"


@pytest.mark.parametrize(
    "at", ["2026-02-30 12:00", "2026-13-01 00:00", "0001-01-01 00:00", "0000-00-00 99:99"]
)
def test_a_job_named_after_a_time_that_never_was_keeps_its_name(at) -> None:
    said = f"ana (job eval {at} UTC) has held GPU 3 of n."
    assert wording.localized(said, ZoneInfo("America/New_York")) == said


def test_stored_sentences_are_told_in_the_screen_s_zone() -> None:
    stored = "ana has held GPU 3 of n since 2026-11-20 20:05 UTC, and rests."
    assert (
        wording.localized(stored, ZoneInfo("Asia/Kolkata"))
        == "ana has held GPU 3 of n since 21 Nov 01:35, and rests."
    )
    assert wording.localized(stored, UTC) == "ana has held GPU 3 of n since 20 Nov 20:05, and rests."


def test_what_was_odd_about_processes_is_said_in_words() -> None:
    (mps,) = wording.doubts(process_list.USES_BY_SERVER)
    assert "multi-process service" in mps
    both = wording.doubts(f"ring-partial,{process_list.USES_OF_STRANGERS},{process_list.SCALED}")
    assert len(both) == 2 and "in a container" in both[0], "readers need no word for the ring"
    assert wording.doubts(None) == wording.doubts(float("nan")) == ()
