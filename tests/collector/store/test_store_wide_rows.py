"""Rows wider than a bin: each counts for its own width, also where use alternates in step with the bins."""

from pathlib import Path

import pytest

from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, ask, at_path, held, history, sample
from tests.stores import open_store

HOUR_MS = 3_600_000
ABOUT_MS = 15_000
"""The first and the last row may end within a bin that nothing else covers: half of one."""


def hours_of(
    folder: Path, busy: list[float], width_ms: int, *, first_ms: int = 0, apart_ms: int = 0
) -> dict[str, int]:
    """Milliseconds by state and used, of rows of one width, with ``apart_ms`` before each."""
    step_ms = width_ms + apart_ms
    rows = [
        sample(0, T0 + first_ms + (n + 1) * step_ms, level, width_ms=width_ms, process_count=1)
        for n, level in enumerate(busy)
    ]
    claim = HeldInterval(allocation=held(0, "a"), from_ms=T0 - HOUR_MS, to_ms=None)
    end_ms = T0 + first_ms + len(busy) * step_ms
    names = ("used", "measured", "held_idle", "low_saturation", "moderate", "good", "unknown")
    with open_store(at_path(folder)) as store:
        store.write_history(history([*rows, sample(0, end_ms + 30 * 60_000, 0.0)], [claim]))
        (found,) = ask(
            store,
            f"SELECT {', '.join(f'sum({name}_ms)' for name in names)} FROM rollup_1m "
            "WHERE ts >= epoch_ms(?::BIGINT) AND ts < epoch_ms(?::BIGINT)",
            T0,
            end_ms,
        )
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize("first_ms", [0, 15_000, 20_000])
@pytest.mark.parametrize("width_ms", [36_000, 40_000, 45_000, 50_000, 75_000, 100_000])
def test_rows_that_alternate_in_step_with_the_bins_count_for_their_widths(
    tmp_path: Path, width_ms: int, first_ms: int
) -> None:
    """Every other row at 100%, for five hours: 2.5 used and good, 2.5 idle. Nothing is between."""
    rows = 5 * HOUR_MS // width_ms // 2 * 2
    hours = hours_of(tmp_path, [0.0, 1.0] * (rows // 2), width_ms, first_ms=first_ms)
    half_ms = rows * width_ms // 2
    assert hours["good"] == pytest.approx(half_ms, abs=ABOUT_MS)
    assert hours["used"] == pytest.approx(half_ms, abs=ABOUT_MS)
    assert hours["held_idle"] == pytest.approx(half_ms, abs=2 * ABOUT_MS)
    assert hours["low_saturation"] == hours["moderate"] == 0


def test_ten_hours_of_rows_of_45_seconds_are_five_used(tmp_path: Path) -> None:
    hours = hours_of(tmp_path, [0.0, 1.0] * 400, 45_000)
    assert hours["used"] == hours["good"] == hours["held_idle"] == 5 * HOUR_MS


def test_one_row_in_three_is_a_third_at_its_own_level(tmp_path: Path) -> None:
    # 40 s at 30%, 80 s at 0, for four hours: the three phases of a bin come round every two minutes.
    hours = hours_of(tmp_path, [0.3, 0.0, 0.0] * 120, 40_000)
    assert hours["moderate"] == 120 * 40_000
    assert hours["used"] == pytest.approx(0.3 * 120 * 40_000, abs=120)  # a part's use is whole milliseconds
    assert hours["low_saturation"] == hours["good"] == hours["unknown"] == 0


def test_short_pauses_between_rows_are_measured_as_within_a_narrow_source(tmp_path: Path) -> None:
    # 43 s measured of each 45: no bin lacks half. Two seconds go to the row before or after; none is unknown.
    hours = hours_of(tmp_path, [0.0, 1.0] * 400, 43_000, apart_ms=2_000)
    assert hours["unknown"] == 0
    assert hours["measured"] == 10 * HOUR_MS
    assert hours["used"] == pytest.approx(5 * HOUR_MS, rel=2 / 45)


def test_a_bin_of_which_two_rows_cover_less_than_half_is_unknown(tmp_path: Path) -> None:
    # 40 s measured of each 60, from 20 s on: 10 s of each odd bin are covered, of the even ones all.
    hours = hours_of(tmp_path, [0.5] * 60, 40_000, apart_ms=20_000)
    assert hours["unknown"] == pytest.approx(HOUR_MS // 2, abs=2 * ABOUT_MS)
    assert hours["used"] == pytest.approx(HOUR_MS // 4, abs=2 * ABOUT_MS)


def test_rows_that_are_whole_bins_wide_stay_with_the_bins_whose_middle_they_cover(tmp_path: Path) -> None:
    # A row of a minute is two bins, wherever it begins: none is cut.
    hours = hours_of(tmp_path, [0.0, 0.6] * 60, 60_000, first_ms=10_000)
    assert hours["good"] == HOUR_MS
    assert hours["used"] == 0.6 * HOUR_MS
