"""A hold is as old as it is in the world: imported pasts, live reading after them, breaks of a service."""

from pathlib import Path

import pytest

from analytics.assess import assess
from analytics.model import FindingKind
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval
from collector.model import Allocation, GpuSample
from collector.store.database import Store
from tests.collector.store.store_parts import T0, ask, at_path, empty, held, history, sample, tick, uuid
from tests.stores import open_store

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
PAST_MS = 10 * HOUR_MS
END_MS = T0 + PAST_MS
LIVE_MS = 30_000
T = Thresholds(idle_window_s=600)
HELD = "SELECT epoch_ms(from_ts), epoch_ms(to_ts) FROM allocations ORDER BY 1"


def still(number: int, at_ms: int, width_ms: int = MINUTE_MS) -> GpuSample:
    return sample(number, at_ms, 0.0, width_ms=width_ms)


def import_past(store: Store, numbers: tuple[int, ...] = (0,), end_ms: int = END_MS) -> None:
    """Hours of GPUs whose holders have a process and never compute; rows of each end 7 s earlier."""
    rows, intervals = [], []
    for number in numbers:
        last_ms = end_ms - 7_000 * number
        rows += [still(number, at) for at in range(last_ms - PAST_MS + MINUTE_MS, last_ms + 1, MINUTE_MS)]
        claim = held(number, str(number))
        intervals.append(HeldInterval(allocation=claim, from_ms=last_ms - PAST_MS, to_ms=last_ms))
    store.write_history(history(rows, intervals, source="prometheus"))


def read_on(store: Store, from_ms: int, minutes: int, allocations: tuple[Allocation, ...]) -> int:
    """Ticks of GPU 0 in which its process does nothing; the end of the last."""
    at_ms = from_ms
    while at_ms < from_ms + minutes * MINUTE_MS:
        at_ms += LIVE_MS
        store.write_tick(tick(at_ms, [still(0, at_ms, LIVE_MS)], allocations, width_ms=LIVE_MS))
    return at_ms


@pytest.mark.parametrize("later_ms", [0, 40_000, MINUTE_MS])
def test_hold_goes_on_from_an_imported_past_into_live_reading(tmp_path: Path, later_ms: int) -> None:
    with open_store(at_path(tmp_path)) as store:
        import_past(store)
        read_on(store, END_MS + later_ms, 1, (held(0, "0"),))
        assert ask(store, HELD) == [(T0, None)]


@pytest.mark.parametrize("later_ms", [0, 40_000, MINUTE_MS])
def test_hold_that_is_read_live_goes_back_into_a_past_that_is_imported_later(
    tmp_path: Path, later_ms: int
) -> None:
    with open_store(at_path(tmp_path)) as store:
        read_on(store, END_MS + later_ms, 1, (held(0, "0"),))
        import_past(store)
        assert ask(store, HELD) == [(T0, None)]


def test_hold_does_not_go_on_over_more_than_the_sources_own_interval(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        import_past(store)
        read_on(store, END_MS + 2 * MINUTE_MS, 1, (held(0, "0"),))
        assert ask(store, HELD) == [(T0, END_MS), (END_MS + 2 * MINUTE_MS, None)]


def test_hold_that_was_seen_to_end_does_not_go_on(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        at_ms = read_on(store, T0, 2, (held(0, "0"),))
        at_ms = read_on(store, at_ms, 1, ())
        read_on(store, at_ms, 1, (held(0, "0"),))
        assert len(ask(store, HELD)) == 2


def test_imported_past_is_judged_as_of_its_newest_sample(tmp_path: Path) -> None:
    """Exporters are read at different seconds: none of their GPUs is free because another was read later."""
    with open_store(at_path(tmp_path)) as store, store.reader() as reader:
        import_past(store, (0, 1, 2))
        found = assess(reader, END_MS, T).findings
    assert {finding.uuid: finding.since_ms for finding in found} == {
        uuid(number): T0 - 7_000 * number for number in range(3)
    }
    assert [finding.wasted_gpu_hours for finding in found] == pytest.approx([9.95] * 3, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("hole_minutes", [0, 5, 12, 90])
def test_who_held_a_gpu_before_nobody_looked_is_not_starting_up_after_it(
    tmp_path: Path, hole_minutes: int
) -> None:
    with open_store(at_path(tmp_path)) as store, store.reader() as reader:
        import_past(store)
        end_ms = read_on(store, END_MS + hole_minutes * MINUTE_MS, 13, (held(0, "0"),))
        analysis = assess(reader, end_ms, T)
    assert analysis.starting == ()
    (finding,) = analysis.findings
    assert (finding.kind, finding.since_ms) == (FindingKind.HELD_IDLE, T0)
    assert finding.wasted_gpu_hours == pytest.approx(10 + 0.2, abs=0.1), "a hole is no waste"


@pytest.mark.slow
def test_who_was_seen_to_be_away_or_was_away_for_over_a_day_has_begun_anew(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store, store.reader() as reader:
        import_past(store)
        at_ms = END_MS
        for _ in range(30):
            at_ms += LIVE_MS
            store.write_tick(tick(at_ms, [empty(0, at_ms, width_ms=LIVE_MS)], width_ms=LIVE_MS))
        end_ms = read_on(store, at_ms, 13, (held(0, "0"),))
        (seen_away,) = assess(reader, end_ms, T).starting
        assert seen_away.from_ms == at_ms
    with open_store(at_path(tmp_path / "day")) as store, store.reader() as reader:
        import_past(store)
        began_ms = END_MS + 25 * HOUR_MS
        (long_away,) = assess(reader, read_on(store, began_ms, 13, (held(0, "0"),)), T).starting
        assert long_away.from_ms == began_ms
