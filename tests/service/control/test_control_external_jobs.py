"""What comes to a state of jobs that Fallow did not launch: whether somebody sits there, who is paused."""

from dataclasses import replace

import pytest

from advisor.actions import Resume
from advisor.decide import decide
from advisor.jobs.external_jobs import Checkpoint, Holder, Paused, Seen
from advisor.planner.limits import Limits, Mode
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Phase, Placement, Telemetry
from collector.model import GpuSample, GpuUuid, JobId, JobKind, NodeName, ProcessKey, ProcessSample
from collector.snapshot import Snapshot
from service.control.external_jobs import TOUCH_SLACK_MS, attended, with_paused, with_present

NODE, GPU, OTHER, JOB = NodeName("n"), GpuUuid("g0"), GpuUuid("g1"), JobId("pid:n/7@1")
NOW_MS, QUIET_MS = 10_000_000, 900_000
AUTO = Limits(modes={ActionClass.SCHEDULE: Mode.AUTO})
SEEN = Seen(node=NODE, pid=7, started_ms=1, memory_bytes=4 << 30)
OPEN = Checkpoint(
    paused=Paused(
        job=JOB,
        holder=Holder(user="ann", kind=JobKind.INTERACTIVE),
        processes=(SEEN,),
        gpus=(GPU,),
    ),
    intent=3,
    begun_ms=NOW_MS - 3_600_000,
)


@pytest.mark.parametrize(
    ("ages_ms", "sits"),
    [
        ((), None),
        ((None,), None),
        ((QUIET_MS - 1,), True),
        ((QUIET_MS,), False),
        ((QUIET_MS, 5 * QUIET_MS), False),
        ((QUIET_MS, 0), True),
        ((QUIET_MS, None), None),
        ((0, None), True),
    ],
)
def test_somebody_sits_there_nobody_does_or_nobody_knows(
    ages_ms: tuple[int | None, ...], sits: bool | None
) -> None:
    typed = [None if age is None else NOW_MS - age for age in ages_ms]
    assert attended(typed, NOW_MS, QUIET_MS) is sits


def state(**changes: object) -> ClusterState:
    gpus = {
        uuid: Gpu(uuid=uuid, node=NODE, memory_bytes=80 << 30, telemetry=Telemetry.GOOD)
        for uuid in (GPU, OTHER)
    }
    return replace(ClusterState(as_of_ms=NOW_MS, gpus=gpus), **changes)  # type: ignore[arg-type]


def seen(before: ClusterState, typed_ms: int | None) -> ClusterState:
    return with_paused(before, [OPEN], lambda processes: [typed_ms])


def test_a_paused_job_waits_held_and_is_never_resumed_untouched() -> None:
    after = seen(state(), OPEN.begun_ms - 1)
    job = after.jobs[JOB]
    assert (job.phase, job.held, job.paused_on, job.user) == (Phase.PAUSED, True, (GPU,), "ann")
    assert decide(after, AUTO).steps == ()


@pytest.mark.parametrize(("after_ms", "held"), [(TOUCH_SLACK_MS, True), (TOUCH_SLACK_MS + 1, False)])
def test_only_what_is_typed_after_the_pause_is_a_touch(after_ms: int, held: bool) -> None:
    after = seen(state(), OPEN.begun_ms + after_ms)
    assert after.jobs[JOB].held is held
    steps = decide(after, AUTO).steps
    assert [type(step) for step in steps] == ([] if held else [Resume])
    if not held:
        assert isinstance(steps[0], Resume) and steps[0].gpus == (GPU,)


def test_without_a_terminal_nobody_can_touch_it() -> None:
    assert seen(state(), None).jobs[JOB].held


def test_it_cannot_come_back_while_somebody_has_its_gpu() -> None:
    guest = Job(id=JobId("fallow:1"), project=OPEN.paused.holder.project or "p", phase=Phase.RUNNING)  # type: ignore[arg-type]
    busy = state(jobs={guest.id: guest}, placements={guest.id: Placement(gpus=(GPU,))})
    assert "is in use" in seen(busy, NOW_MS).jobs[JOB].cannot["resume"]
    assert "resume" not in seen(state(), NOW_MS).jobs[JOB].cannot


def on_gpu(uuid: GpuUuid, pid: int, started_ms: int = 1) -> ProcessSample:
    key = ProcessKey(node=NODE, pid=pid, started_ms=started_ms)
    return ProcessSample(uuid=uuid, key=key, at_ms=NOW_MS, width_ms=5_000)


def counted(count: int | None, after_ms: int) -> GpuSample:
    return GpuSample(uuid=GPU, at_ms=OPEN.begun_ms + after_ms, width_ms=5_000, process_count=count)


@pytest.mark.parametrize(
    ("look", "may_come_back"),
    [
        (Snapshot(process_samples=(on_gpu(GPU, 7),)), True),  # the newest look is from before the pause
        (Snapshot(process_samples=(on_gpu(GPU, 7), on_gpu(OTHER, 8))), True),
        (Snapshot(process_samples=(on_gpu(GPU, 7), on_gpu(GPU, 8))), False),
        (Snapshot(process_samples=(on_gpu(GPU, 8),)), False),
        (Snapshot(process_samples=(on_gpu(GPU, 7, started_ms=2),)), False),  # its number, another process
        (Snapshot(process_samples=(on_gpu(OTHER, 7),)), False),
        (Snapshot(samples=(counted(0, 1),)), True),  # the state is from before the pause
        (Snapshot(samples=(counted(0, -1),)), False),
        (Snapshot(samples=(counted(None, 1),)), False),  # in use, and nobody says by whom
        (Snapshot(samples=(counted(1, 1),)), False),
        (Snapshot(), False),
    ],
)
def test_its_own_processes_in_an_older_look_do_not_keep_it_away(look: Snapshot, may_come_back: bool) -> None:
    taken = {uuid: replace(gpu, occupied=uuid == GPU) for uuid, gpu in state().gpus.items()}
    after = with_paused(state(gpus=taken), [OPEN], lambda processes: [None], look=look)
    assert ("resume" not in after.jobs[JOB].cannot) is may_come_back


def test_what_the_measuring_still_shows_of_it_is_not_a_running_job() -> None:
    ghost = Job(id=JOB, project="p", phase=Phase.RUNNING)  # type: ignore[arg-type]
    after = seen(state(jobs={JOB: ghost}, placements={JOB: Placement(gpus=(GPU,))}), None)
    assert after.jobs[JOB].phase is Phase.PAUSED
    assert JOB not in after.placements
    assert "resume" not in after.jobs[JOB].cannot


def test_a_job_on_its_way_holds_its_gpus_though_it_is_not_seen_on_them() -> None:
    after = with_present(state(), [OPEN])
    assert after.jobs[JOB].phase is Phase.RUNNING
    assert after.placements == {JOB: Placement(gpus=(GPU,))}
    waiting = Job(id=JobId("fallow:1"), project="p", min_gpus=2, max_gpus=2)  # type: ignore[arg-type]
    queued = replace(after, jobs={**after.jobs, waiting.id: waiting})
    assert decide(replace(queued, placements={}, jobs={waiting.id: waiting}), AUTO).steps != ()
    assert decide(queued, AUTO).steps == (), "the other GPU alone is too little"


def test_what_is_seen_of_a_job_on_its_way_stands_and_who_came_meanwhile_keeps_the_gpu() -> None:
    mine = Job(id=JOB, project="p", phase=Phase.RUNNING)  # type: ignore[arg-type]
    shown = state(jobs={JOB: mine}, placements={JOB: Placement(gpus=(GPU,))})
    assert with_present(shown, [OPEN]) == shown
    guest = Job(id=JobId("fallow:1"), project="p", phase=Phase.RUNNING)  # type: ignore[arg-type]
    taken = state(jobs={guest.id: guest}, placements={guest.id: Placement(gpus=(GPU,))})
    assert with_present(taken, [OPEN]) == taken
    assert with_present(state(gpus={}), [OPEN]) == state(gpus={})


def test_a_gpu_that_is_gone_takes_its_paused_jobs_from_view() -> None:
    assert JOB not in with_paused(state(gpus={}), [OPEN], lambda processes: [None]).jobs
