"""The tick loop: what one slow, failing or late part costs, and what it does not."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collector.attribution import Attribution, effective
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
    Unavailable,
)
from collector.reading import Reading, Tick
from collector.scrape_loop import Hurried, Loop, LoopDependencies, Timing

START_MS = 1_800_000_000_000
QUICK = Timing(tick_ms=10_000, source_timeout_ms=50, inventory_every_ms=30_000, remember_ms=60_000)
PATIENT = Timing(tick_ms=10_000, source_timeout_ms=5_000, inventory_every_ms=30_000, remember_ms=60_000)


@dataclass
class HandClock:
    """Time that moves only when told."""

    at_ms: int = START_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms

    def sleep(self, seconds: float) -> None:
        self.at_ms += round(seconds * 1000)


@dataclass
class Scripted:
    """A source that answers by a function, and counts how often it was asked."""

    name: str
    answer: Callable[[int], Reading | Unavailable]
    asked_ms: list[int] = field(default_factory=list)
    closed: int = 0

    def read(self, now_ms: int) -> Reading | Unavailable:
        self.asked_ms.append(now_ms)
        return self.answer(now_ms)

    def close(self) -> None:
        self.closed += 1


def gpu(uuid: str) -> Gpu:
    return Gpu(uuid=GpuUuid(uuid), node=NodeName("n1"), index=0)


def reading(name: str, now_ms: int, **more: object) -> Reading:
    sample = GpuSample(uuid=GpuUuid(f"GPU-{name}"), at_ms=now_ms, width_ms=10_000)
    return Reading(source=name, at_ms=now_ms, gpus=(gpu(f"GPU-{name}"),), samples=(sample,), **more)  # type: ignore[arg-type]


def steady(name: str) -> Scripted:
    return Scripted(name, lambda now_ms: reading(name, now_ms))


def given(job: str) -> Allocation:
    return Allocation(uuid=GpuUuid("GPU-a"), holder=Holder(job=JobId(job)), source=ClaimSource.SLURM)


def nobody_looked(readings: Sequence[Reading], now_ms: int) -> Attribution | None:
    return None


def make(
    *sources: Scripted,
    inventories: Sequence[Scripted] = (),
    sink: Callable[[Tick], None] = lambda tick: None,
    timing: Timing = PATIENT,
) -> tuple[Loop, HandClock]:
    clock = HandClock()
    ports = LoopDependencies(sources=sources, inventories=inventories, attribute=effective, sink=sink)
    return Loop(ports, clock=clock, timing=timing), clock


def test_one_tick_brings_all_sources_to_the_sink_once() -> None:
    got: list[Tick] = []
    loop, _ = make(steady("a"), steady("b"), sink=got.append)
    tick = loop.tick_once()
    assert got == [tick]
    assert [outcome.source for outcome in tick.outcomes] == ["a", "b"]
    assert (tick.at_ms, tick.width_ms, tick.gaps) == (START_MS, 10_000, ())


def test_slow_source_costs_only_itself_and_its_late_answer_comes_with_a_later_tick() -> None:
    let_go = threading.Event()
    answered = threading.Event()

    def slow(now_ms: int) -> Reading:
        let_go.wait()
        answered.set()
        return reading("slow", now_ms)

    source = Scripted("slow", slow)
    loop, clock = make(steady("a"), source, timing=QUICK)
    first = loop.tick_once()
    assert [type(outcome) for outcome in first.outcomes] == [Reading, Unavailable]
    clock.sleep(10)
    second = loop.tick_once()
    assert isinstance(second.outcomes[1], Unavailable)
    assert source.asked_ms == [START_MS], "a source that still reads is not asked again"
    assert second.outcomes[1].reason == first.outcomes[1].reason, "the same words, so that one gap grows"  # type: ignore[union-attr]
    let_go.set()
    answered.wait()
    for thread in threading.enumerate():
        if thread.name == "read-slow":
            thread.join()
    clock.sleep(10)
    third = loop.tick_once()
    late = [o for o in third.outcomes if isinstance(o, Reading) and o.source == "slow"]
    assert [o.at_ms for o in late] == [START_MS, START_MS + 20_000], (
        "the late reading is kept, and a new one made"
    )


def test_faulty_source_is_unavailable_and_the_others_go_on() -> None:
    def broken(now_ms: int) -> Reading:
        raise ZeroDivisionError("bug")

    loop, _ = make(Scripted("broken", broken), steady("a"))
    broken_outcome, fine = loop.tick_once().outcomes
    assert isinstance(broken_outcome, Unavailable)
    assert "ZeroDivisionError" in broken_outcome.reason
    assert isinstance(fine, Reading)


@pytest.mark.parametrize("ends", [False, True])
def test_what_is_cut_short_by_the_end_is_no_fault(ends: bool, caplog: pytest.LogCaptureFixture) -> None:
    def cut(now_ms: int) -> Reading:
        raise RuntimeError("interrupted")

    loop, _ = make(Scripted("a", cut))
    if ends:
        loop.hurry()
    with contextlib.suppress(Hurried):
        loop.tick_once()
    time.sleep(0.2)
    assert ("source failed" in caplog.text) is not ends


def test_failing_sink_raises_and_the_next_tick_tells_one_hole_a_source() -> None:
    room = False
    kept: list[Tick] = []

    def full_disk(tick: Tick) -> None:
        if not room:
            raise OSError("no space left")
        kept.append(tick)

    loop, clock = make(steady("a"), steady("b"), sink=full_disk)
    for _ in range(3):
        with pytest.raises(OSError, match="no space left"):
            loop.tick_once()
        clock.sleep(10)
    room = True
    loop.tick_once()
    assert [(gap.source, gap.from_ms, gap.to_ms) for gap in kept[0].gaps] == [
        ("a", START_MS - 10_000, START_MS + 20_000),
        ("b", START_MS - 10_000, START_MS + 20_000),
    ]
    assert "no space left" in kept[0].gaps[0].reason
    clock.sleep(10)
    assert loop.tick_once().gaps == (), "a hole is told once"


@pytest.mark.parametrize(("wait_s", "holes"), [(10, 0), (14, 0), (35, 1)])
def test_tick_that_comes_late_leaves_a_gap(wait_s: int, holes: int) -> None:
    loop, clock = make(steady("a"))
    loop.tick_once()
    clock.sleep(wait_s)
    gaps = loop.tick_once().gaps
    assert len(gaps) == holes
    if holes:
        assert (gaps[0].source, gaps[0].from_ms, gaps[0].to_ms) == ("loop", START_MS, START_MS + 25_000)
        assert "25.0 s late" in gaps[0].reason


def test_inventory_is_asked_more_seldom_and_its_word_holds_between() -> None:
    slurm = Scripted("slurm", lambda now: Reading(source="slurm", at_ms=now, allocations=(given("slurm:1"),)))
    loop, clock = make(steady("a"), inventories=[slurm])
    held = []
    for _ in range(6):
        held.append([allocation.holder.job for allocation in loop.tick_once().allocations or ()])
        clock.sleep(10)
    assert slurm.asked_ms == [START_MS, START_MS + 30_000]
    assert held == [["slurm:1"]] * 6


def test_a_clock_that_was_set_back_blinds_no_source() -> None:
    """An hour back: nobody waits for the hour to come again, and what was known before ages from now on."""
    source, slurm = steady("a"), Scripted("slurm", _given_before)
    loop, clock = make(source, inventories=[slurm])
    clock.sleep(3600)
    loop.tick_once()
    clock.sleep(-3600)
    held = []
    for _ in range(9):
        tick = loop.tick_once()
        assert [each.at_ms for each in tick.outcomes if each.source == "a"] == [clock.at_ms]
        held.append(tick.allocations)
        clock.sleep(10)
    assert slurm.asked_ms == [START_MS + 3_600_000, START_MS, START_MS + 30_000, START_MS + 60_000]
    assert [each is not None for each in held] == [True] * 7 + [False] * 2


def _given_before(now_ms: int) -> Reading | Unavailable:
    if now_ms >= START_MS + 3_600_000:
        return Reading(source="slurm", at_ms=now_ms, allocations=(given("slurm:1"),))
    return Unavailable(source="slurm", at_ms=now_ms, reason="slurmctld is down")


def test_sources_and_inventories_are_asked_on_when_the_clock_was_set_back() -> None:
    slurm = Scripted(
        "slurm", lambda now: Reading(source="slurm", at_ms=now, allocations=(given(f"j:{now}"),))
    )
    live = steady("a")
    loop, clock = make(live, inventories=[slurm])
    loop.tick_once()
    clock.at_ms -= 3_600_000
    tick = loop.tick_once()
    assert [each.at_ms for each in tick.outcomes] == [clock.at_ms] * 2
    assert [each.holder.job for each in tick.allocations or ()] == [f"j:{clock.at_ms}"]


def test_word_of_a_silent_inventory_holds_for_a_while_and_then_is_forgotten() -> None:
    def once(now_ms: int) -> Reading | Unavailable:
        if now_ms == START_MS:
            return Reading(source="slurm", at_ms=now_ms, allocations=(given("slurm:1"),))
        return Unavailable(source="slurm", at_ms=now_ms, reason="slurmctld is down")

    loop, clock = make(steady("a"), inventories=[Scripted("slurm", once)])
    held = []
    for _ in range(9):
        held.append(loop.tick_once().allocations)
        clock.sleep(10)
    assert all(each and each[0].holder.job == "slurm:1" for each in held[:7])
    assert held[7:] == [None, None], "nobody knows any more: not the same as nobody holds it"


def test_allocations_stay_open_when_nobody_looked() -> None:
    loop, _ = make(steady("a"))
    assert loop.tick_once().allocations is None


def test_snapshot_shows_the_newest_sample_of_each_gpu_even_when_the_sink_fails() -> None:
    def broken(tick: Tick) -> None:
        raise OSError("full")

    loop, _ = make(steady("a"), sink=broken)
    with pytest.raises(OSError, match="full"):
        loop.tick_once()
    assert [sample.uuid for sample in loop.snapshot.samples] == ["GPU-a"]


def test_close_closes_every_source_but_one_that_is_stuck() -> None:
    stuck_forever = threading.Event()
    stuck = Scripted(
        "stuck", lambda now: reading("stuck", now) if stuck_forever.wait(30) else reading("x", now)
    )
    fine = steady("a")
    loop, _ = make(fine, stuck, timing=QUICK)
    loop.tick_once()
    loop.close()
    stuck_forever.set()
    assert (fine.closed, stuck.closed) == (1, 0)


@pytest.mark.slow
def test_simulated_cluster_through_the_loop_into_the_store(tmp_path: Path) -> None:
    from collector.sources.simulated.cluster import SimulatedCluster
    from collector.store.database import open_store

    cluster = SimulatedCluster(seed=3, nodes=1, gpus_per_node=4)
    clock = HandClock(at_ms=START_MS)
    with open_store(tmp_path / "fallow.duckdb") as store:
        ports = LoopDependencies(sources=(cluster.source(),), attribute=effective, sink=store.write_tick)
        loop = Loop(ports, clock=clock, timing=PATIENT)
        for _ in range(30):
            loop.tick_once()
            clock.sleep(10)
        with store.reader() as connection:
            samples = connection.execute("SELECT count(*), count(DISTINCT gpu_id) FROM samples").fetchone()
            held = connection.execute(
                "SELECT uuid, job FROM allocations JOIN gpus USING (gpu_id) JOIN holders USING (holder_id) "
                "WHERE to_ts IS NULL"
            ).fetchall()
    last_ms = clock.now_ms() - 10_000
    reading_now = cluster.source().read(last_ms)
    assert isinstance(reading_now, Reading)
    assert samples == (120, 4)
    assert sorted(held) == sorted((a.uuid, a.holder.job) for a in reading_now.allocations or ())
