"""kill -9 at any moment loses at most the tick in flight, and the next start says what is missing."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.store.database import Store, open_store
from collector.store.gaps import NOT_RUNNING
from tests.collector.store.crash_driver import SCENARIOS, full_tick, prepare
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path

pytestmark = pytest.mark.slow

TABLES = (
    "SELECT * FROM samples_all ORDER BY ts, gpu_id",
    "SELECT * FROM latest ORDER BY gpu_id",
    "SELECT * FROM rollup_1m ORDER BY ALL",
    "SELECT * FROM rollup_1h ORDER BY ALL",
    "SELECT * FROM worked_minutes ORDER BY ALL",
    "SELECT * FROM rollup_1d ORDER BY ALL",
    "SELECT * FROM allocations ORDER BY ALL",
    "SELECT * FROM gpus ORDER BY gpu_id",
    "SELECT * FROM holders ORDER BY ALL",
    "SELECT * FROM processes ORDER BY ALL",
    "SELECT * FROM process_samples ORDER BY ALL",
    "SELECT * FROM ticks ORDER BY ALL",
    "SELECT * FROM gaps ORDER BY ALL",
    "SELECT * FROM watermarks ORDER BY ALL",
    "SELECT day, samples FROM sealed ORDER BY ALL",
)


class Driver:
    """The program that forks children to be killed."""

    def __init__(self) -> None:
        root = Path(__file__).parents[3]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.collector.store.crash_driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )

    def start(self, folder: Path, scenario: str, point: int) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{folder} {scenario} {point}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> tuple[int, str]:
        assert self._process.stdout
        status, passed = self._process.stdout.readline().split()
        return int(status), passed

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=30)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    started = Driver()
    yield started
    started.close()


def contents(folder: Path) -> list[list[tuple[object, ...]]]:
    with open_store(at_path(folder)) as store:
        assert store.remarks == ()
        return [ask(store, table) for table in TABLES]


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_killed_at_every_point_leaves_all_or_nothing(driver: Driver, tmp_path: Path, scenario: str) -> None:
    base, done = tmp_path / "base", tmp_path / "done"
    base.mkdir()
    prepare(base, scenario)
    shutil.copytree(base, done)
    driver.start(done, scenario, 0)
    status, passed = driver.end()
    assert status == 0 and int(passed) > 1
    before, after = contents(base), contents(done)
    seen = set()
    for point in _points(int(passed)):
        folder = tmp_path / f"killed-{point}"
        shutil.copytree(base, folder)
        driver.start(folder, scenario, point)
        status, _ = driver.end()
        assert os.WTERMSIG(status) == signal.SIGKILL
        found = contents(folder)
        assert found in (before, after) or _is_part_way(scenario, found, before, after), f"point {point}"
        seen.add(found == after)
        shutil.rmtree(folder)
    assert False in seen or before == after


def test_the_next_tick_makes_up_for_a_minute_that_was_not_rolled_up(driver: Driver, tmp_path: Path) -> None:
    base, done = tmp_path / "base", tmp_path / "done"
    base.mkdir()
    prepare(base, "tick")
    shutil.copytree(base, done)
    driver.start(done, "tick", 0)
    _, passed = driver.end()
    _tick_again(done, 13)
    made_up = 0
    for point in range(_first_committed(driver, base, int(passed)), int(passed) + 1):
        folder = _killed(driver, base, point)
        assert _stored(folder, "ticks") == 12
        made_up += _stored(folder, "rollup_1m") == 0
        _tick_again(folder, 13)
        assert contents(folder) == contents(done), f"point {point}"
        shutil.rmtree(folder)
    assert made_up > 1


def _first_committed(driver: Driver, base: Path, points: int) -> int:
    """The first point at which a kill leaves the twelfth tick in the store; before it there is none."""

    def committed(point: int) -> bool:
        folder = _killed(driver, base, point)
        try:
            return _stored(folder, "ticks") == 12
        finally:
            shutil.rmtree(folder)

    return 1 + bisect_left(range(1, points + 1), True, key=committed)


def _killed(driver: Driver, base: Path, point: int) -> Path:
    """A copy of ``base`` as a kill at that point of a tick leaves it."""
    folder = base.with_name(f"killed-{point}")
    shutil.copytree(base, folder)
    driver.start(folder, "tick", point)
    status, _ = driver.end()
    assert os.WTERMSIG(status) == signal.SIGKILL
    return folder


def _stored(folder: Path, table: str) -> int:
    with open_store(at_path(folder)) as store:
        return int(str(ask(store, f"SELECT count(*) FROM {table}")[0][0]))


def test_killed_at_every_point_of_the_first_opening_can_be_opened(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    driver.start(tmp_path / "whole", "open", 0)
    status, passed = driver.end()
    assert status == 0
    for point in _points(int(passed)):
        folder = tmp_path / f"killed-{point}"
        folder.mkdir()
        driver.start(folder, "open", point)
        status, _ = driver.end()
        assert os.WTERMSIG(status) == signal.SIGKILL
        with open_store(at_path(folder)) as store:
            store.write_tick(full_tick(1))
            assert ask(store, "SELECT count(*) FROM samples") == [(2,)]


def test_killed_at_random_moments_keeps_every_committed_tick(driver: Driver, tmp_path: Path) -> None:
    moments = random.Random(5)
    ticks: list[int] = []
    for _ in range(8):
        child = driver.start(tmp_path, "endless", 0)
        _wait_for(tmp_path, len(ticks) + moments.randint(1, 9))
        time.sleep(moments.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        status, _ = driver.end()
        assert os.WTERMSIG(status) == signal.SIGKILL
        told = _committed(tmp_path)
        with open_store(at_path(tmp_path)) as store:
            ticks = [
                n for (n,) in ask(store, "SELECT (epoch_ms(ts) - ?) // ? FROM ticks ORDER BY 1", T0, TICK_MS)
            ]
            assert ticks == list(range(1, len(ticks) + 1))
            assert told <= len(ticks) <= told + 1
            _assert_whole(store, len(ticks))
        (tmp_path / "committed").write_text(f"{len(ticks)}\n")
    assert len(ticks) >= 8


def test_the_next_start_says_what_gap_there_is(driver: Driver, tmp_path: Path) -> None:
    prepare(tmp_path, "tick")
    driver.start(tmp_path, "tick", 3)
    driver.end()
    with open_store(at_path(tmp_path)) as store:
        back_at = T0 + 100 * TICK_MS
        (gap,) = store.gap_since_last_tick(back_at, TICK_MS)
        assert (gap.source, gap.from_ms, gap.to_ms) == ("test", T0 + 11 * TICK_MS, T0 + 99 * TICK_MS)
        assert gap.reason == NOT_RUNNING
        store.write_tick(full_tick(100))
        told = ask(store, "SELECT source, epoch_ms(from_ts), epoch_ms(to_ts), reason FROM gaps")
        assert told == [(gap.source, gap.from_ms, gap.to_ms, gap.reason)]
        assert store.gap_since_last_tick(back_at + TICK_MS, TICK_MS) == ()


def test_after_a_short_stop_the_same_holder_goes_on(driver: Driver, tmp_path: Path) -> None:
    prepare(tmp_path, "tick")
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(full_tick(20))
        open_ones = "SELECT holder_id, epoch_ms(from_ts) FROM allocations WHERE to_ts IS NULL AND gpu_id = 1"
        assert ask(store, open_ones) == [(3, T0 + 6 * TICK_MS)]


def test_after_a_long_stop_allocations_end_at_the_last_tick_before_it(tmp_path: Path) -> None:
    prepare(tmp_path, "tick")
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(full_tick(500))
        spans = ask(
            store,
            "SELECT (epoch_ms(from_ts) - ?) // 10000, (epoch_ms(to_ts) - ?) // 10000 FROM allocations "
            "WHERE gpu_id = 1 ORDER BY 1",
            T0,
            T0,
        )
        assert spans == [(0, 6), (6, 11), (499, None)]


def _tick_again(folder: Path, n: int) -> None:
    with open_store(at_path(folder)) as store:
        store.write_tick(full_tick(n))


def _points(count: int) -> list[int]:
    """Where there are many points, some spread over all of them and the last ones, where the commit is."""
    if count <= 9:
        return list(range(1, count + 1))
    return sorted({1 + round(n * (count - 1) / 5) for n in range(6)} | set(range(count - 3, count + 1)))


def _is_part_way(scenario: str, found: list[object], before: list[object], after: list[object]) -> bool:
    """Sealing commits day by day: all but the list of sealed days is the same before and after.

    A tick commits before the minute that it completes: roll-ups, watermarks and what the minute taught about
    idle power (in gpus) are still as before.
    """
    if scenario == "tick":
        late = ("rollup_", "watermarks", "FROM gpus")
        rolled = [n for n, table in enumerate(TABLES) if any(name in table for name in late)]
        return found == [before[n] if n in rolled else whole for n, whole in enumerate(after)]
    if scenario != "seal":
        return False
    return found[:-1] == before[:-1] == after[:-1] and found[-1] == after[-1][:1]  # type: ignore[index]


def _committed(folder: Path) -> int:
    log = folder / "committed"
    lines = log.read_text().split() if log.exists() else []
    return int(lines[-1]) if lines else 0


def _wait_for(folder: Path, ticks: int) -> None:
    """Until so many ticks are told as committed: a moment in the middle of work, on any machine."""
    deadline = time.monotonic() + 60
    while _committed(folder) < ticks:
        assert time.monotonic() < deadline, f"{ticks} ticks were not committed in a minute"
        time.sleep(0.002)


def _assert_whole(store: Store, ticks: int) -> None:
    """Every tick has both samples and its process sample, and closed minutes add up."""
    assert ask(store, "SELECT count(*), count(DISTINCT (gpu_id, ts)) FROM samples") == [
        (2 * ticks, 2 * ticks)
    ]
    assert ask(store, "SELECT count(*) FROM process_samples") == [(ticks,)]
    sums = ask(
        store,
        "SELECT DISTINCT sum(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms "
        "+ good_ms + suspect_ms + unknown_ms) FROM rollup_1m GROUP BY ts, gpu_id",
    )
    assert sums in ([], [(60_000,)])
    closed = max(0, (ticks - 6) // 6)
    assert ask(store, "SELECT count(DISTINCT ts) FROM rollup_1m") in (
        [(closed,)],
        [(closed - (ticks % 6 == 0),)],
    )
