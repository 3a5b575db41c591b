"""Telling and pausing who holds too much, with a real register, journal and engine, and launchers' word."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.cycle import Cycle
from advisor.decide import decide
from advisor.engines.launched import LocalEngine, Patience
from advisor.jobs.gpu_sharing import Device, Mps, Terms, terms
from advisor.jobs.job_store import Register, open_register
from advisor.jobs.memory_watchdog import MEND_MS
from advisor.jobs.model import Command, JobRecord, JobState
from advisor.journal.journal import StoreJournal
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Placement
from collector.model import GpuUuid, JobId, NodeName, ProcessKey, ProcessSample
from collector.snapshot import Snapshot
from collector.store.database import Store
from service.control.memory_watchdog import MemoryWatchdog
from tests.advisor.jobs.job_store_world import GPUS, NODE, HandClock, acknowledge, submission, word
from tests.stores import open_store

GIB = 1024**3
AUTO = Limits(modes={ActionClass.CAP_MEMORY: Mode.AUTO})


class Patient(HandClock):
    """A calendar that is moved by hand, and a stopwatch that runs."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class Rig:
    """Two jobs on one GPU, one of which holds 50 GiB of its 20; launchers answer if ``there``."""

    def __init__(self, store: Store, limits: Limits, there: bool = True) -> None:
        self.clock, self.limits, self.there = Patient(), limits, there
        self.register: Register = open_register(store, self.clock)
        # An answer ends the wait for it, however slow the machine is: only who never answers is waited out.
        patience = Patience(answer_s=60.0 if there else 0.2, reshape_s=0.2)
        self.engine = LocalEngine(self.register, self.clock, self.agree, patience)
        self.journal = StoreJournal(store, self.clock)
        self.hog, self.calm = self.started("hog"), self.started("calm")
        self.held = {self.hog: 50 * GIB, self.calm: 10 * GIB}
        self.halt: str | None = None
        self.watching = MemoryWatchdog(
            self.register,
            self.engine,
            self.journal,
            self.clock,
            limits,
            snapshot=self.snapshot,
            halted=lambda: self.halt,
        )
        self.register.listen(self.heard)

    def agree(self, entry: JobRecord, gpus: tuple[GpuUuid, ...], share: float) -> Terms:
        return terms(entry.submission, share, [Device(uuid=gpus[0], memory_bytes=82 * GIB)], (), Mps())

    def started(self, name: str) -> JobId:
        from advisor.actions import Start

        wanted = submission(name=name, nonce=name, share=0.5, max_gpus=1, memory_bytes=20 * GIB, grace_s=0.1)
        entry, _ = self.register.submit(wanted)
        self.register.report(entry.id, word(JobState.PENDING))
        step = Start(job=entry.id, gpus=GPUS[:1], share=0.5)
        number = self.journal.intends(self.clock.now_ms(), step)
        self.engine.give(step, number)
        acknowledge(self.register, self.register.entry(entry.id), gpus=GPUS[:1])
        return entry.id

    def heard(self, before: JobRecord | None, after: JobRecord) -> None:
        directive: Command | None = after.directive
        if self.there and directive is not None and after.acknowledged < directive.number:
            threading.Thread(target=acknowledge, args=(self.register, after)).start()

    def snapshot(self) -> Snapshot:
        keys = {id: ProcessKey(node=NODE, pid=n, started_ms=1) for n, id in enumerate(self.held)}
        samples = tuple(
            ProcessSample(uuid=GPUS[0], key=keys[id], at_ms=1, width_ms=1, memory_used_bytes=held)
            for id, held in self.held.items()
        )
        return Snapshot(process_samples=samples, owners=tuple((key, id) for id, key in keys.items()))

    def look(self, halt: str | None = None) -> None:
        """A cycle goes by."""
        entries = self.register.entries()
        on = [id for id in self.held if entries[id].gpus]
        jobs = {id: Job(id=id, project=entries[id].submission.project, memory_bytes=20 * GIB) for id in on}
        state = ClusterState(
            as_of_ms=self.clock.now_ms(),
            gpus={GPUS[0]: Gpu(uuid=GPUS[0], node=NodeName("here"), memory_bytes=82 * GIB)},
            jobs=jobs,
            placements={id: Placement(gpus=GPUS[:1], share=0.5) for id in on},
        )
        plan = decide(state, self.limits)
        ruling = approve(plan, state, self.limits)
        self.watching.after(Cycle(state=state, plan=plan, ruling=ruling, outcomes=(), halt=halt))

    def done(self) -> list[tuple[str, str]]:
        deeds = [deed for deed in self.journal.deeds(0, job=self.hog) if deed.verb != "start"]
        return sorted((deed.verb, "open" if deed.result is None else deed.result.value) for deed in deeds)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "fallow.duckdb")
    yield opened
    opened.close()


def test_it_is_told_and_then_paused_and_its_neighbour_is_not_touched(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.look()
    assert rig.done() == [("notify", "done")]
    rig.clock.pass_s(MEND_MS / 1000)
    rig.look()
    assert rig.done() == [("notify", "done"), ("pause", "done")]
    assert rig.register.entry(rig.hog).state is JobState.PAUSED
    assert rig.register.entry(rig.calm).state is JobState.RUNNING
    assert rig.register.entry(rig.calm).acknowledged == 2, "its start, and nothing since"


@pytest.mark.parametrize(
    ("mode", "done"), [(Mode.OFF, []), (Mode.ADVISE, ["notify"]), (Mode.ASK, ["notify"])]
)
def test_modes_are_kept(mode: Mode, done: list[str], store: Store) -> None:
    rig = Rig(store, Limits(modes={ActionClass.CAP_MEMORY: mode}))
    for _ in range(3):
        rig.look()
        rig.clock.pass_s(MEND_MS / 1000)
    assert [verb for verb, _ in rig.done()] == done


def test_nothing_is_done_while_acting_is_stopped(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.look(halt="somebody stopped acting")
    assert rig.done() == []


def test_the_switch_is_asked_before_each_step_and_what_was_due_follows_its_release(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.halt = "thrown while the cycle went on"
    rig.look()
    assert rig.done() == [], "nobody was told, so the time to mend it has not begun"
    rig.halt = None
    rig.look()
    rig.clock.pass_s(MEND_MS / 1000)
    rig.halt = "thrown again"
    rig.look()
    assert rig.done() == [("notify", "done")]
    rig.halt = None
    rig.look()
    assert rig.done() == [("notify", "done"), ("pause", "done")]


def test_whoever_was_not_reached_was_not_told_and_is_not_paused(store: Store) -> None:
    rig = Rig(store, AUTO, there=False)
    rig.look()
    rig.clock.pass_s(MEND_MS / 1000)
    rig.look()
    assert all(verb == "notify" and outcome != "done" for verb, outcome in rig.done())
    assert rig.register.entry(rig.hog).state is JobState.RUNNING


def test_who_was_paused_waits_for_room_for_as_much_as_it_held(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.look()
    rig.clock.pass_s(MEND_MS / 1000)
    rig.look()
    waiting = Job(id=rig.hog, project=rig.register.entry(rig.hog).submission.project, memory_bytes=20 * GIB)
    state = ClusterState(as_of_ms=rig.clock.now_ms(), jobs={rig.hog: waiting})
    assert rig.watching.remember(state).jobs[rig.hog].memory_bytes == 50 * GIB
    assert replace(state, jobs={}) == rig.watching.remember(replace(state, jobs={}))
