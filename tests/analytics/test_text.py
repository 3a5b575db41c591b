"""How values read, written out by hand; whatever door they come through."""

import math
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from analytics import text

GIB = 1024**3
DASH = "\u2013"


@pytest.mark.parametrize(
    ("seconds", "sentence", "cell"),
    [
        (None, DASH, DASH),
        (math.nan, DASH, DASH),
        (-3, "0 s", "0 s"),
        (0.4, "0 s", "0 s"),
        (45, "45 s", "45 s"),
        (59.9, "59 s", "59 s"),
        (60, "1 min", "1 min"),
        (125, "2 min", "2 min"),
        (3_599, "59 min", "59 min"),
        (3_600, "1 h", "60 min"),
        (5_400, "1 h 30 min", "90 min"),
        (11_400, "3 h 10 min", "3 h"),
        (86_399, "23 h 59 min", "23 h"),
        (86_400, "1 d", "24 h"),
        (100_000, "1 d 3 h", "27 h"),
        (260_000, "3 d", "3 d"),
        (270_000, "3 d 3 h", "3 d"),
    ],
)
def test_a_length_of_time(seconds: float | None, sentence: str, cell: str) -> None:
    assert (text.length(seconds), text.length_cell(seconds)) == (sentence, cell)


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (None, DASH),
        (math.nan, DASH),
        (0, "0%"),
        (0.0004, "<0.1%"),
        (0.004, "0.4%"),
        (0.032, "3.2%"),
        (0.0994, "9.9%"),
        (0.0996, "10%"),
        (0.145, "14%"),
        (0.43, "43%"),
        (1.0, "100%"),
        (-0.17, "-17%"),
    ],
)
def test_a_part(ratio: float | None, shown: str) -> None:
    assert text.percent(ratio) == shown


def test_a_change_has_its_sign() -> None:
    assert (text.percent(0.2, signed=True), text.percent(-0.17, signed=True)) == ("+20%", "-17%")


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(None, DASH), (0.9496, "94.9%"), (0.95, "95%"), (0.9999, "99.9%"), (1.0, "100%"), (0.29, "29%")],
)
def test_what_was_measured_never_reads_as_a_limit_it_is_under(ratio: float | None, shown: str) -> None:
    assert text.coverage(ratio) == shown


@pytest.mark.parametrize(
    ("value", "bare", "unit"),
    [
        (None, DASH, DASH),
        (0, "0.0", "0.0 GPU-hours"),
        (0.04, "<0.1", "<0.1 GPU-hours"),
        (-0.04, "-0.0", "-0.0 GPU-hours"),
        (3.21, "3.2", "3.2 GPU-hours"),
        (285.06, "285.1", "285.1 GPU-hours"),
        (999.96, "1,000", "1,000 GPU-hours"),
        (1234.5, "1,234", "1,234 GPU-hours"),
    ],
)
def test_gpu_hours(value: float | None, bare: str, unit: str) -> None:
    assert (text.hours(value), text.gpu_hours(value)) == (bare, unit)


def test_energy() -> None:
    assert [text.energy(value) for value in (None, 0, 12.34, 12_345.6)] == [
        DASH,
        "0.0 kWh",
        "12.3 kWh",
        "12,346 kWh",
    ]


@pytest.mark.parametrize(
    ("value", "currency", "shown"),
    [
        (None, "EUR", DASH),
        (3.0, None, DASH),
        (0, "EUR", "0.00 EUR"),
        (12.5, "EUR", "12.50 EUR"),
        (99.999, "EUR", "100 EUR"),
        (1234.5, "USD", "1,234 USD"),
    ],
)
def test_money(value: float | None, currency: str | None, shown: str) -> None:
    assert text.money(value, currency) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, DASH),
        (0, "0"),
        (2, "2"),
        (2.0, "2"),
        (0.333, "0.33"),
        (1.5, "1.5"),
        (1250, "1,250"),
        (1_234_567, "1,234,567"),
    ],
)
def test_a_number_of_things(value: float | None, shown: str) -> None:
    assert text.count(value) == shown


def test_so_many_of_something() -> None:
    assert [text.many(number, "job") for number in (0, 1, 2, 1250)] == [
        "0 jobs",
        "1 job",
        "2 jobs",
        "1,250 jobs",
    ]
    assert text.many(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, DASH), (0, "0"), (5.02, "5"), (0.33, "0.33"), (5.3, "5.3"), (31.97, "32"), (120.4, "120")],
)
def test_a_mean_of_gpus(value: float | None, shown: str) -> None:
    assert text.gpus(value) == shown
    assert text.some_gpus(value) == f"{shown} GPUs" and text.gpus_were(value) == f"{shown} were"


def test_one_gpu_is_no_plural() -> None:
    assert (text.some_gpus(1.02), text.gpus_were(0.97)) == ("1 GPU", "1 was")
    assert (text.some_gpus(0.9), text.gpus_were(1.1)) == ("0.90 GPUs", "1.1 were")


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, DASH),
        (0, "0 KiB"),
        (800, "<1 KiB"),
        (3_000, "3 KiB"),
        (64 * 1024**2, "64 MiB"),
        (GIB // 2, "512 MiB"),
        (GIB, "1 GiB"),
        (12.5 * GIB, "12.5 GiB"),
        (80 * GIB, "80 GiB"),
        (139.8 * GIB, "139.8 GiB"),
        (5000 * GIB, "5,000 GiB"),
    ],
)
def test_bytes(count: float | None, shown: str) -> None:
    assert text.size(count) == shown


def test_memory_of_all_there_is_fits_a_cell() -> None:
    assert text.memory(None, 80 * GIB) == DASH
    assert text.memory(GIB // 2, 80 * GIB) == "0.5/80 GiB"
    assert text.memory(34 * GIB, 80 * GIB) == "34/80 GiB"
    assert text.memory(34 * GIB, None) == "34 GiB"


def test_power() -> None:
    assert [text.watts(value) for value in (None, 76.4, 999, 4_012)] == [DASH, "76 W", "999 W", "4.0 kW"]


@pytest.mark.parametrize("nothing", [None, math.nan, pd.NaT, pd.NA])
def test_what_was_not_measured_is_never_nought(nothing: object) -> None:
    assert text.missing(nothing)
    written = (
        text.percent,
        text.hours,
        text.count,
        text.size,
        text.length,
        text.length_cell,
        text.watts,
        text.gpus,
    )
    assert {write(nothing) for write in written} == {text.NOTHING}  # type: ignore[operator]


def test_a_point_of_time_in_a_sentence_is_utc_and_moves_to_the_readers_zone() -> None:
    at = text.clock(1_793_188_800_000)
    assert at == "2026-10-28 12:00 UTC"

    def an_hour_on(when: datetime) -> str:
        return f"{when.astimezone(UTC) + timedelta(hours=1):%H:%M}"

    assert text.localized(f"idle since {at}", an_hour_on) == "idle since 13:00"
    assert text.localized("job 2026-13-45 99:99 UTC", an_hour_on) == "job 2026-13-45 99:99 UTC"
