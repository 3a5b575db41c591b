"""What can be done to a job that Fallow did not launch: told, paused, resumed; how failures leave it."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import (
    Action,
    Cancel,
    HoldForJob,
    Move,
    Notify,
    Pause,
    ReleaseMemory,
    Requeue,
    Resize,
    Resume,
    SetEnvAtRestart,
    Start,
)
from advisor.engines import external
from advisor.engines.brief import Brief
from advisor.engines.cuda_checkpoint import Deed, ProcessState
from advisor.engines.cuda_checkpointer import LONGEST_S
from advisor.engines.external import (
    ENDED_MEANWHILE,
    ExternalEngine,
    ExternalEngineDependencies,
    Lease,
    NoLease,
    beyond,
)
from advisor.engines.memory_transfers import Moving
from advisor.engines.notify_owner import Notice, Told
from advisor.jobs.external_jobs import ExternalJobStore
from advisor.outcomes import Done, Failed, Interrupted, Late, Outcome, Stale, Unsupported
from advisor.state.model import ActionClass
from advisor.state.owner_replies import Telling
from advisor.tags import verb_of
from collector.model import GpuUuid, JobId, NodeName
from collector.store.database import Store
from collector.store.errors import StoreFull
from tests.advisor.engines.external_parts import (
    GIB,
    GPU,
    NODE,
    FakeCheckpointer,
    FakeDriver,
    HandClock,
    Machine,
    calm,
    job_id,
    opened,
    process,
)

RUNNING, OFF_GPU = ProcessState.RUNNING, ProcessState.CHECKPOINTED
JOB = job_id(71)
PAUSE, RESUME = Pause(job=JOB, reason="idle for 1 h"), Resume(job=JOB, gpus=(GPU,))


class Ears:
    """A way of telling that remembers, and reaches who is there."""

    def __init__(self, *, there: bool = True) -> None:
        self.notices: list[Notice] = []
        self._there = there

    def notify(self, notice: Notice) -> Told:
        self.notices.append(notice)
        return Told(reached=("ears",)) if self._there else Told(missed=("ears: nobody listens",))


class World:
    def __init__(self, store: Store, book: ExternalJobStore, clock: HandClock) -> None:
        self.book, self.clock = book, clock
        self.machine = Machine(store, clock)
        self.driver = FakeDriver(states={71: RUNNING, 72: RUNNING})
        self.checkpointer = FakeCheckpointer(driver=self.driver)
        self.ears = Ears()
        self.listed = frozenset[int]()
        self.engine = self.made(self.checkpointer)

    def made(self, checkpointer: FakeCheckpointer | None, lease: Lease | None = None) -> ExternalEngine:
        parts = ExternalEngineDependencies(
            book=self.book,
            sightings=self.machine.processes_of,
            ways=[self.ears],
            checkpointer=checkpointer,
            node=NODE,
            account_uid={"ann": 1000}.get,
            listed=lambda: self.listed,
            lease=lease or NoLease(),
        )
        return ExternalEngine(parts)

    def do(self, step: Action) -> Outcome:
        return self.engine.do(step, 5)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = HandClock()
    with opened(tmp_path, clock) as (store, book):
        made = World(store, book, clock)
        made.machine.sees([process(71)], JOB)
        yield made


def test_telling_reaches_the_owner_names_the_way_out_and_is_written_down(world: World) -> None:
    outcome = world.do(Notify(job=JOB, message="It idles."))
    assert outcome == Done(note="reached ears")
    (notice,) = world.ears.notices
    assert (notice.user, notice.uid, notice.message) == ("ann", 1000, "It idles.")
    assert f"fallow keep {JOB} --hours 4" in notice.hint
    (word,) = world.book.words()
    assert isinstance(word, Telling) and (word.job, word.reached) == (JOB, "ears")


def kinds(said: object) -> list[tuple[str, str]]:
    assert isinstance(said, tuple), said
    return [(each.kind.value, each.text) for each in said]


def test_what_would_be_done_is_told_and_nothing_is_touched(world: World) -> None:
    engine = world.engine
    assert kinds(engine.preview(Notify(job=JOB, message="It idles."))) == [
        ("message", "to ann, on 1 way of telling: It idles.")
    ]
    (memory, lease) = kinds(engine.preview(PAUSE))
    assert memory == ("memory", "CUDA checkpoint of process 71, to the machine's memory")
    assert lease[0] == "lease"
    assert (world.ears.notices, world.book.words(), world.book.checkpoints(0)) == ([], (), ())
    assert world.driver.states[71] is RUNNING
    assert isinstance(engine.preview(RESUME), Stale), "it is not paused"
    cancel = engine.preview(Cancel(job=JOB))
    assert isinstance(cancel, Unsupported) and "never ends what it did not launch" in cancel.why
    off = world.made(None).preview(PAUSE)
    assert isinstance(off, Unsupported) and "[foreign] checkpoint" in off.why

    assert isinstance(world.do(PAUSE), Done)
    assert [kind for kind, _ in kinds(engine.preview(RESUME))] == ["lease", "memory"]
    assert world.book.paused(JOB) is not None and world.driver.states[71] is OFF_GPU
    assert isinstance(engine.preview(PAUSE), Stale), "it is paused already"


def test_telling_nobody_is_written_down_as_just_that(world: World) -> None:
    world.ears._there = False
    outcome = world.do(Notify(job=JOB, message="It idles."))
    assert isinstance(outcome, Done) and "nobody was reached: ears: nobody listens" in outcome.note
    (word,) = world.book.words()
    assert isinstance(word, Telling) and word.reached is None


def test_owner_of_a_job_without_processes_is_found_by_name(world: World) -> None:
    world.clock.sleep(600)
    world.machine.sees([], JobId("slurm:9"))
    world.do(Notify(job=JobId("slurm:9"), message="It is empty."))
    assert world.ears.notices[0].uid == 1000


def test_pausing_is_off_by_default_and_touches_nothing(world: World) -> None:
    world.engine = world.made(None)
    outcome = world.do(PAUSE)
    assert isinstance(outcome, Unsupported) and "[foreign] checkpoint" in outcome.why
    assert world.book.checkpoints(0) == ()


def test_paused_job_is_off_its_gpu_and_known_so_and_comes_back(world: World) -> None:
    assert isinstance(world.do(PAUSE), Done)
    assert world.driver.states[71] is OFF_GPU
    known = world.book.paused(JOB)
    assert known is not None and known.intent == 5
    assert (known.paused.gpus, known.paused.holder.user) == ((GPU,), "ann")
    assert isinstance(world.do(RESUME), Done)
    assert world.driver.states[71] is RUNNING
    assert world.book.paused(JOB) is None
    assert [each.ended_as for each in world.book.checkpoints(0)] == ["resumed"]


def test_every_process_of_the_job_is_locked_before_the_first_is_moved(world: World) -> None:
    world.machine.sees([process(71), process(72)], JOB)
    assert isinstance(world.do(PAUSE), Done)
    assert world.driver.calls == [("lock", 71), ("lock", 72), ("checkpoint", 71), ("checkpoint", 72)]


def test_pause_is_written_down_before_the_driver_is_asked(world: World) -> None:
    class Dies(FakeDriver):
        def lock(self, pid: int, timeout_ms: int) -> None:
            raise KeyboardInterrupt

    world.checkpointer.driver = Dies(states={71: RUNNING})
    with pytest.raises(KeyboardInterrupt):
        world.do(PAUSE)
    assert world.book.paused(JOB) is not None


@pytest.mark.parametrize(
    ("refuses", "calls"),
    [
        (("lock", 71), ["lock"]),
        (("lock", 72), ["lock", "lock", "unlock"]),
        (("checkpoint", 71), ["lock", "lock", "checkpoint", "unlock", "unlock"]),
        (("checkpoint", 72), ["lock", "lock", "checkpoint", "checkpoint", "unlock", "restore", "unlock"]),
    ],
)
def test_what_fails_is_undone_and_the_job_runs_on(
    world: World, refuses: tuple[str, int], calls: list[str]
) -> None:
    world.machine.sees([process(71), process(72)], JOB)
    world.driver.refuses[refuses] = "CUDA_ERROR_NOT_SUPPORTED"
    outcome = world.do(PAUSE)
    assert isinstance(outcome, Failed)
    assert f"{refuses[0]} of process {refuses[1]}: CUDA_ERROR_NOT_SUPPORTED" in outcome.found
    assert "everything was undone and it runs" in outcome.found
    assert [call for call, _ in world.driver.calls] == calls
    assert set(world.driver.states.values()) == {RUNNING}
    assert world.book.paused(JOB) is None


def test_what_cannot_be_undone_is_said_and_stays_open_for_a_person(world: World) -> None:
    world.machine.sees([process(71), process(72)], JOB)
    world.driver.breaks = frozenset({("checkpoint", 72)})
    outcome = world.do(PAUSE)
    assert isinstance(outcome, Failed)
    assert "it was left so: process 71 running, process 72 failed" in outcome.found
    assert world.book.paused(JOB) is not None


def test_process_that_is_locked_by_somebody_else_is_left_alone(world: World) -> None:
    world.driver.states[71] = ProcessState.LOCKED
    outcome = world.do(PAUSE)
    assert isinstance(outcome, Failed) and "nothing was done: process 71 is locked" in outcome.found
    assert world.driver.calls == []
    assert world.book.paused(JOB) is None


def test_without_room_on_its_gpu_it_stays_paused_unasked_and_can_be_tried_again(world: World) -> None:
    """It held 4 GiB: a driver that is asked to restore it into less loses it (cuda-checkpoint issue 44)."""
    world.do(PAUSE)
    world.driver.calls.clear()
    for free in (None, 5 * GIB - 1):
        world.checkpointer.free[GPU] = free
        outcome = world.do(RESUME)
        assert (
            isinstance(outcome, Failed)
            and f"nothing was done: {'how much memory ' if free is None else ''}{GPU}" in outcome.found
        )
    assert world.driver.calls == [] and world.book.paused(JOB) is not None
    world.checkpointer.free[GPU] = 5 * GIB
    assert isinstance(world.do(RESUME), Done)


def test_a_pause_written_down_without_its_gpus_sizes_needs_all_of_it_on_each(world: World) -> None:
    world.do(PAUSE)
    open_one = world.book.paused(JOB)
    assert open_one is not None and open_one.paused.processes[0].held == {GPU: 4 * GIB}
    world.book.end(JOB, "resumed")
    old = replace(open_one.paused, processes=(replace(open_one.paused.processes[0], held={}),))
    world.book.begin(old, 6)
    world.checkpointer.free[GPU] = 5 * GIB - 1
    assert isinstance(world.do(RESUME), Failed)
    world.checkpointer.free[GPU] = 5 * GIB
    assert isinstance(world.do(RESUME), Done)


def test_restore_that_the_driver_refuses_may_have_lost_the_job_and_that_is_said(world: World) -> None:
    world.do(PAUSE)
    world.driver.refuses["restore", 71] = "CUDA_ERROR_OUT_OF_MEMORY"
    outcome = world.do(RESUME)
    assert isinstance(outcome, Failed) and "OUT_OF_MEMORY; process 71 checkpointed" in outcome.found
    assert "may never be restored any more" in outcome.found
    assert world.book.paused(JOB) is not None, "a person has to look at it"


def test_what_does_not_fit_back_after_a_failed_pause_is_left_off_and_named(world: World) -> None:
    world.machine.sees([process(71), process(72)], JOB)
    world.driver.refuses["checkpoint", 72] = "CUDA_ERROR_NOT_SUPPORTED"
    world.checkpointer.free[GPU] = 2 * GIB
    outcome = world.do(PAUSE)
    assert isinstance(outcome, Failed) and "process 71 stays off its GPUs" in outcome.found
    assert ("restore", 71) not in world.driver.calls
    assert world.driver.states == {71: OFF_GPU, 72: RUNNING}
    assert world.book.paused(JOB) is not None


class Kept:
    """A lease that remembers; ``refuses`` says why nothing can be kept."""

    def __init__(self) -> None:
        self.held: dict[JobId, tuple[GpuUuid, ...]] = {}
        self.refuses: str | None = None

    def reserve(self, job: JobId, uuids: Sequence[GpuUuid]) -> str | None:
        if self.refuses is None:
            self.held[job] = tuple(uuids)
        return self.refuses

    def release(self, job: JobId) -> None:
        self.held.pop(job, None)

    def descriptors(self, job: JobId) -> tuple[int, ...]:
        return (7, 8) if job in self.held else ()

    def under_way(self, job: JobId, uuids: Sequence[GpuUuid]) -> bool:
        return False


def test_its_gpus_are_kept_for_it_from_before_the_restore_until_it_runs_again(world: World) -> None:
    lease, over = Kept(), threading.Event()
    over.set()
    checkpointer = replace(world.checkpointer, slow=over)
    engine = world.made(checkpointer, lease)
    assert isinstance(engine.do(PAUSE, 5), Done)
    lease.refuses = f"{GPU} is leased to somebody else"
    assert engine.do(RESUME, 5) == Stale(found=f"it stays paused: {GPU} is leased to somebody else")
    assert ("restore", 71) not in world.driver.calls
    lease.refuses = None
    over.clear()
    moving = engine.give(RESUME, 5)
    assert isinstance(moving, Moving)
    assert isinstance(engine.wait(moving, 0.05), Late)
    assert lease.held == {JOB: (GPU,)}
    over.set()
    assert isinstance(engine.wait(moving), Done)
    assert lease.held == {}


def test_a_restore_that_outlived_its_service_keeps_its_gpus_again(world: World) -> None:
    world.do(PAUSE)
    lease = Kept()
    after_restart = world.made(world.checkpointer, lease)
    world.driver.states[71] = ProcessState.RESTORING
    assert isinstance(after_restart.settle(RESUME), Late)
    assert lease.held == {JOB: (GPU,)}
    world.driver.states[71] = RUNNING
    assert isinstance(after_restart.settle(RESUME), Done)
    assert lease.held == {}


def test_who_restores_gets_what_keeps_the_gpus_while_it_is_open(world: World) -> None:
    """So they are kept also where the service that began it ends before."""
    engine = world.made(world.checkpointer, Kept())
    engine.do(PAUSE, 5)
    engine.do(RESUME, 5)
    assert world.checkpointer.locks == (7, 8)


KILLED = Deed(ok=False, found="asking the driver ended with status -9: no word")


def test_a_restore_whose_child_was_killed_keeps_its_gpus_until_the_driver_says_how_it_ended(
    world: World,
) -> None:
    """The driver may go on restoring; a restore that meets too little memory loses the job."""
    lease = Kept()
    engine = world.made(world.checkpointer, lease)
    engine.do(PAUSE, 5)
    world.checkpointer.killed = KILLED
    world.driver.states[71] = ProcessState.RESTORING
    outcome = engine.do(RESUME, 5)
    assert isinstance(outcome, Late) and "status -9" in outcome.found
    assert "process 71 is restoring" in outcome.found
    assert lease.held == {JOB: (GPU,)}
    assert isinstance(engine.settle(RESUME), Late) and lease.held == {JOB: (GPU,)}
    world.driver.states[71] = RUNNING
    assert isinstance(engine.settle(RESUME), Done) and lease.held == {}
    assert world.book.paused(JOB) is None


def test_a_restore_whose_child_was_killed_is_not_over_while_the_driver_may_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver may call a process checkpointed until all of its memory is back."""
    now_s = 100.0
    monkeypatch.setattr(external.time, "monotonic", lambda: now_s)
    lease = Kept()
    engine = world.made(world.checkpointer, lease)
    engine.do(PAUSE, 5)
    world.checkpointer.killed = KILLED
    assert isinstance(engine.do(RESUME, 5), Late) and lease.held == {JOB: (GPU,)}
    now_s += LONGEST_S - 1
    assert isinstance(engine.settle(RESUME), Late) and lease.held == {JOB: (GPU,)}
    now_s += 2
    assert engine.settle(RESUME) == Failed(found="it is still paused") and lease.held == {}
    world.checkpointer.killed = None
    assert isinstance(engine.do(RESUME, 5), Done)


@pytest.mark.parametrize("how", ["the service looked", "somebody resumes it", "it is settled"])
def test_a_job_that_ends_after_its_restore_was_cut_off_gives_its_gpus_back(world: World, how: str) -> None:
    lease = Kept()
    engine = world.made(world.checkpointer, lease)
    engine.do(PAUSE, 5)
    world.checkpointer.killed = KILLED
    world.driver.states[71] = ProcessState.LOCKED
    assert isinstance(engine.do(RESUME, 5), Late) and lease.held == {JOB: (GPU,)}
    world.checkpointer.gone = frozenset({71})
    if how == "the service looked":
        world.book.end(JOB, "gone")
    elif how == "somebody resumes it":
        assert isinstance(engine.do(RESUME, 6), Stale) and lease.held == {}
    assert engine.settle(RESUME) == Failed(found=ENDED_MEANWHILE) and lease.held == {}


def test_a_restore_of_which_nothing_can_be_learnt_keeps_its_gpus(world: World) -> None:
    lease = Kept()
    engine = world.made(world.checkpointer, lease)
    engine.do(PAUSE, 5)
    world.checkpointer.killed = KILLED
    world.driver.refuses["look", 0] = "the driver has not finished after 20 s"
    outcome = engine.do(RESUME, 5)
    assert isinstance(outcome, Late) and "is not known" in outcome.found
    assert lease.held == {JOB: (GPU,)}


def test_a_job_that_ended_amid_its_restore_gives_its_gpus_back(world: World) -> None:
    lease = Kept()
    engine = world.made(world.checkpointer, lease)
    engine.do(PAUSE, 5)
    lease.reserve(JOB, (GPU,))
    world.checkpointer.gone = frozenset({71})
    assert isinstance(engine.settle(RESUME), Failed) and lease.held == {}
    assert [each.ended_as for each in world.book.checkpoints(0)] == ["gone"]


def test_a_pause_whose_child_was_killed_is_told_by_the_driver(world: World) -> None:
    world.checkpointer.killed = KILLED
    outcome = world.do(PAUSE)
    assert outcome == Failed(found=f"{KILLED.found}; it runs as before")
    assert world.book.paused(JOB) is None


def test_where_it_could_not_come_back_its_gpus_are_free_again(world: World) -> None:
    lease = Kept()
    engine = world.made(world.checkpointer, lease)
    engine.do(PAUSE, 5)
    world.checkpointer.free[GPU] = 0
    assert isinstance(engine.do(RESUME, 5), Failed)
    assert lease.held == {}


def test_a_loader_worker_that_the_driver_lists_is_no_mere_heir(world: World) -> None:
    world.checkpointer.looks[71] = calm(71, inherited=(99,))
    assert isinstance(world.do(PAUSE), Done), "nearly every training has loader workers"
    assert isinstance(world.do(RESUME), Done)
    world.listed = frozenset({71, 99})
    assert isinstance(world.do(PAUSE), Unsupported)


def test_paused_twice_is_stale_and_resuming_what_runs_too(world: World) -> None:
    assert isinstance(world.do(RESUME), Stale)
    world.do(PAUSE)
    assert world.do(PAUSE) == Stale(found="it is paused already")


def test_process_not_seen_for_minutes_is_not_taken_to_be_on_the_gpu(world: World) -> None:
    world.clock.sleep(301)
    outcome = world.do(PAUSE)
    assert isinstance(outcome, Stale) and "no process" in outcome.found


def test_job_that_ended_while_it_was_paused_is_forgotten(world: World) -> None:
    world.do(PAUSE)
    world.checkpointer.gone = frozenset({71})
    assert isinstance(world.do(RESUME), Stale)
    assert [each.ended_as for each in world.book.checkpoints(0)] == ["gone"]


def test_job_comes_back_only_to_the_gpus_it_left(world: World) -> None:
    world.do(PAUSE)
    outcome = world.do(replace(RESUME, gpus=(GpuUuid("GPU-b"),)))
    assert isinstance(outcome, Unsupported) and GPU in outcome.why


def test_with_checkpoints_switched_off_meanwhile_a_paused_job_waits(world: World) -> None:
    world.do(PAUSE)
    world.engine = world.made(None)
    outcome = world.do(RESUME)
    assert isinstance(outcome, Unsupported) and "waits in host memory" in outcome.why
    assert world.book.paused(JOB) is not None


@pytest.mark.parametrize(
    ("job", "changes", "says"),
    [
        (JobId("pod:a/b"), {}, "Kubernetes gave it its GPUs"),
        (JobId("ray:b8be4604/train"), {}, "Ray gave it its GPUs"),
        (JOB, {"container": "0123456789ab"}, "is in a container"),
    ],
)
def test_what_is_not_ours_to_pause_is_said(
    world: World, job: JobId, changes: dict[str, Any], says: str
) -> None:
    world.machine.sees([process(71, **changes)], job)
    outcome = world.do(Pause(job=job))
    assert isinstance(outcome, Unsupported) and says in outcome.why
    assert world.driver.calls == []


def test_job_of_another_machine_is_not_paused_from_here(world: World) -> None:
    job = job_id(71, NodeName("there"))
    world.machine.sees([process(71, NodeName("there"))], job)
    outcome = world.do(Pause(job=job))
    assert isinstance(outcome, Unsupported) and "runs on there" in outcome.why


@pytest.mark.parametrize(
    "step",
    [
        Start(job=JOB, gpus=(GPU,)),
        Resize(job=JOB, gpus=(GPU,)),
        Move(job=JOB, gpus=(GPU,)),
        Requeue(job=JOB),
        HoldForJob(job=JOB, start_ms=0, gpus=(GPU,)),
        ReleaseMemory(job=JOB, frees_bytes=1, action=ActionClass.RECLAIM),
        SetEnvAtRestart(job=JOB, settings=()),
        Cancel(job=JOB),
    ],
    ids=verb_of,
)
def test_everything_else_is_unsupported_with_the_reason_that_the_guard_has(
    world: World, step: Action
) -> None:
    outcome = world.do(step)
    assert outcome == Unsupported(why=beyond(JOB)[verb_of(step)])


@pytest.mark.parametrize(
    ("state", "step", "settled", "ended"),
    [
        (OFF_GPU, PAUSE, Done, None),
        (RUNNING, PAUSE, Failed, "failed"),
        (OFF_GPU, RESUME, Failed, None),
        (RUNNING, RESUME, Done, "resumed"),
        (ProcessState.LOCKED, PAUSE, Late, None),
        (ProcessState.FAILED, PAUSE, Late, None),
    ],
)
def test_what_nobody_saw_the_end_of_is_settled_by_asking_the_driver(
    world: World, state: ProcessState, step: Action, settled: type, ended: str | None
) -> None:
    world.do(PAUSE)
    world.driver.states[71] = state
    assert type(world.engine.settle(step)) is settled
    assert [each.ended_as for each in world.book.checkpoints(0)] == [ended]


@pytest.fixture
def slow(world: World) -> Iterator[threading.Event]:
    """Moves of memory end when the test says so."""
    world.checkpointer.slow = threading.Event()
    yield world.checkpointer.slow
    world.checkpointer.slow.set()


def test_whoever_has_more_to_do_waits_a_moment_and_finds_out_later(
    world: World, slow: threading.Event
) -> None:
    brief = Brief[Moving](world.engine, soon_s=0.05)
    outcome = brief.do(PAUSE, 5)
    assert outcome == Late(found=f"the memory of {JOB} is being moved off its GPUs")
    assert world.engine.moving() == {JOB}
    assert world.engine.settle(PAUSE) == outcome
    slow.set()
    assert isinstance(world.engine.settle(PAUSE), Done)
    assert world.engine.moving() == frozenset()
    assert world.book.paused(JOB) is not None
    assert isinstance(brief.do(RESUME), Done) and world.book.paused(JOB) is None


def test_a_late_resume_is_over_when_its_memory_is_back(world: World, slow: threading.Event) -> None:
    slow.set()
    world.do(PAUSE)
    slow.clear()
    assert isinstance(Brief[Moving](world.engine, soon_s=0.05).do(RESUME), Late)
    assert world.book.paused(JOB) is not None, "it is not back yet"
    slow.set()
    assert isinstance(world.engine.settle(RESUME), Done)
    assert world.book.paused(JOB) is None


def test_a_late_pause_that_fails_leaves_the_job_running(world: World, slow: threading.Event) -> None:
    world.driver.refuses["checkpoint", 71] = "CUDA_ERROR_NOT_SUPPORTED"
    assert isinstance(Brief[Moving](world.engine, soon_s=0.05).do(PAUSE, 5), Late)
    slow.set()
    found = world.engine.settle(PAUSE)
    assert isinstance(found, Failed) and "NOT_SUPPORTED" in found.found
    assert world.engine.moving() == frozenset() and world.book.paused(JOB) is None
    assert world.driver.states[71] is RUNNING


@pytest.mark.parametrize("step", [PAUSE, RESUME], ids=verb_of)
def test_nothing_is_begun_on_a_job_whose_memory_is_on_its_way(
    world: World, slow: threading.Event, step: Action
) -> None:
    Brief[Moving](world.engine, soon_s=0.05).do(PAUSE, 5)
    found = world.do(step)
    assert isinstance(found, Stale) and "is being moved" in found.found
    slow.set()
    assert isinstance(world.engine.settle(PAUSE), Done)
    assert [call for call, _ in world.driver.calls] == ["lock", "checkpoint"]


def test_one_job_at_a_time_leaves_its_gpus_so_that_the_room_for_the_next_is_known(
    world: World, slow: threading.Event
) -> None:
    other = job_id(72)
    brief = Brief[Moving](world.engine, soon_s=0.05)
    assert isinstance(brief.do(PAUSE, 5), Late)
    world.machine.sees([process(72)], other)
    found = brief.do(Pause(job=other, reason="idle for 1 h"))
    assert isinstance(found, Unsupported) and JOB in found.why and "one at a time" in found.why
    slow.set()
    assert isinstance(world.engine.settle(PAUSE), Done)
    assert isinstance(world.do(Pause(job=other, reason="idle for 1 h")), Done)


def test_who_only_looks_does_not_wait_behind_who_waits(world: World, slow: threading.Event) -> None:
    moving = world.engine.give(PAUSE, 5)
    assert isinstance(moving, Moving)
    heard: list[Outcome | None] = []
    waiting = threading.Thread(target=lambda: heard.append(moving.outcome(60)))
    waiting.start()
    assert isinstance(world.engine.settle(PAUSE), Late) and heard == []
    slow.set()
    waiting.join(60)
    assert [type(each) for each in heard] == [Done]


def test_who_waits_for_the_end_hears_it_and_a_service_that_stops_does_not_wait(
    world: World, slow: threading.Event
) -> None:
    threading.Timer(0.2, slow.set).start()
    assert isinstance(world.do(PAUSE), Done)
    slow.clear()
    world.engine.interrupt()
    with pytest.raises(Interrupted):
        world.do(RESUME)
    assert world.engine.moving() == {JOB}, "it goes on"


def test_an_end_that_cannot_be_written_down_is_written_down_later(
    world: World, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.set()
    world.do(PAUSE)
    slow.clear()
    Brief[Moving](world.engine, soon_s=0.05).do(RESUME)
    slow.set()
    with monkeypatch.context() as full:
        full.setattr(world.book, "end", no_room)
        with pytest.raises(StoreFull):
            world.engine.settle(RESUME)
    assert world.engine.moving() == {JOB}
    assert isinstance(world.engine.settle(RESUME), Done)
    assert world.book.paused(JOB) is None
    assert [call for call, _ in world.driver.calls].count("restore") == 1


def no_room(*_: object) -> None:
    raise StoreFull("the disk is full")
