"""How much of a range its sums rest on: counted by hand, and said in one sentence."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analytics.query import run
from collector.model import GpuSample
from service.summaries.measured_time import rests_on
from tests.collector.store.store_parts import T0, at_path, gpu, history, sample
from tests.stores import open_store

HOUR_MS = 3_600_000
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


def hours(number: int, start: int, end: int) -> Iterator[GpuSample]:
    """A sample each ten minutes of these hours."""
    for step in range(start * 6 + 1, end * 6 + 1):
        yield sample(number, T0 + step * HOUR_MS // 6, 0.5, width_ms=HOUR_MS // 6)


@pytest.mark.slow
def test_the_time_in_which_anything_was_measured_counts_once(tmp_path: Path) -> None:
    """GPU 0 from 0 to 4 h and from 10 to 13 h, GPU 1 from 2 to 6 h; looked at are 12: 6 h and 2 h."""
    rows = sorted(
        [*hours(0, 0, 4), *hours(1, 2, 6), *hours(0, 10, 13)], key=lambda each: (each.at_ms, each.uuid)
    )
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows))
        with store.reader() as reader:

            def measured_h(from_h: float, to_h: float, **filters: str) -> float:
                window = {"from_ts": T0 + int(from_h * HOUR_MS), "to_ts": T0 + int(to_h * HOUR_MS)}
                (row,) = run(reader, "measured_time", {**window, **filters}).to_pylist()
                return round(float(row["measured_s"]) / 3600, 3)

            assert measured_h(0, 12) == 8.0
            assert measured_h(-156, 12) == 8.0, "a week of which half a day is stored"
            assert measured_h(5, 11) == 2.0
            assert measured_h(6, 10) == 0.0
            assert measured_h(3.5, 4.25) == 0.75, "the parts of hours at its ends"
            assert measured_h(0, 12, node="n0") == 8.0 and measured_h(0, 12, node="n1") == 0.0
            assert measured_h(0, 12, model=str(gpu(0).model)) == 8.0


@pytest.mark.parametrize(
    ("measured_h", "range_h", "told"),
    [
        (24, 168, "This rests on 1 d of 7 d: 14% of the range was measured."),
        (0.5, 168, "This rests on 30 min of 7 d: 0.3% of the range was measured."),
        (159, 168, "This rests on 6 d 15 h of 7 d: 95% of the range was measured."),
        (160, 168, None),  # 95.2%
        (168, 168, None),
        (0, 168, None),  # that nothing was measured is said elsewhere
    ],
)
def test_a_range_that_was_measured_in_part_says_so(measured_h: float, range_h: int, told: str | None) -> None:
    rows = [{"measured_s": measured_h * 3600}]
    assert rests_on(rows, NOW - timedelta(hours=range_h), NOW, NOW) == told


def test_what_is_yet_to_come_is_no_part_of_the_range() -> None:
    """A day of two that are asked for, of which one is to come: all of it was measured."""
    day = timedelta(days=1)
    assert rests_on([{"measured_s": 86_400.0}], NOW - day, NOW + day, NOW) is None
    assert rests_on([{"measured_s": 86_400.0}], NOW + day, NOW + 2 * day, NOW) is None
    assert rests_on(None, NOW - day, NOW, NOW) is None, "an older service does not tell"
    naive = NOW.replace(tzinfo=None)
    assert rests_on([{"measured_s": 3_600.0}], naive - day, naive, NOW) is not None
