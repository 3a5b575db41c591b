"""Whoever holds more memory than its share is told, then paused; a neighbour never is."""

from dataclasses import replace

import pytest

from advisor.actions import Notify, Pause
from advisor.jobs.gpu_sharing import CONTEXT_BYTES
from advisor.jobs.memory_watchdog import (
    FORGET_MS,
    MEND_MS,
    URGENT_MS,
    Draw,
    Noted,
    draws,
    holdings,
    remembered,
    watch,
)
from advisor.jobs.model import Elasticity, JobRecord, JobState, Sharing, Submission
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Placement, ProjectName
from collector.model import GpuUuid, JobId, NodeName, ProcessKey, ProcessSample

GIB = 1024**3
GPU = GpuUuid("GPU-a")
HOG, CALM, RIGID = JobId("fallow:1"), JobId("fallow:2"), JobId("fallow:3")


def entry(job: JobId, share: float = 0.5, **changes: object) -> JobRecord:
    wanted = Submission(
        command=("train",),
        user="ann",
        project=ProjectName("vision"),
        share=share,
        mobility=Elasticity.CHECKPOINTS,
    )
    wanted = replace(wanted, **changes)  # type: ignore[arg-type]
    return JobRecord(
        id=job,
        submission=wanted,
        state=JobState.RUNNING,
        gpus=(GPU,),
        share=share,
        sharing=Sharing.WHOLE if share == 1 else Sharing.TIME_SLICED,
    )


def state(held: dict[JobId, int | None], total: int | None = 82 * GIB, **of_hog: object) -> ClusterState:
    jobs = {id: Job(id=id, project=ProjectName("vision"), memory_held_bytes=b) for id, b in held.items()}
    if HOG in jobs:
        jobs[HOG] = replace(jobs[HOG], **of_hog)  # type: ignore[arg-type]
    return ClusterState(
        as_of_ms=0,
        gpus={GPU: Gpu(uuid=GPU, node=NodeName("here"), memory_bytes=total)},
        jobs=jobs,
        placements={id: Placement(gpus=(GPU,), share=0.5) for id in held},
    )


def judged(seen: ClusterState, entries: list[JobRecord]) -> tuple[Draw, ...]:
    held = {id: {GPU: job.memory_held_bytes} for id, job in seen.jobs.items() if job.memory_held_bytes}
    return draws(seen, entries, held)


def test_a_share_of_memory_is_compared_to_what_was_measured() -> None:
    found = judged(state({HOG: 50 * GIB, CALM: 10 * GIB}), [entry(HOG), entry(CALM)])
    assert [(draw.job, draw.held_bytes, draw.allowed_bytes) for draw in found] == [
        (HOG, 50 * GIB, 40 * GIB + CONTEXT_BYTES),
        (CALM, 10 * GIB, 40 * GIB + CONTEXT_BYTES),
    ]
    assert [draw.beside for draw in found] == [(CALM,), (HOG,)]


def test_a_neighbour_is_harmed_when_what_is_left_does_not_cover_its_promise() -> None:
    (hog, calm) = judged(state({HOG: 60 * GIB, CALM: 10 * GIB}), [entry(HOG), entry(CALM)])
    assert hog.harms == (CALM,), "82 - 70 = 12 GiB are left, and 30 are promised"
    assert calm.harms == ()
    (hog, _) = judged(state({HOG: 41 * GIB, CALM: 10 * GIB}), [entry(HOG), entry(CALM)])
    assert hog.harms == ()
    (hog, _) = judged(state({HOG: 45 * GIB, CALM: 40 * GIB}, total=82 * GIB), [entry(HOG), entry(CALM)])
    assert hog.harms == (), "the neighbour holds all that it was promised already"


def test_what_a_job_holds_is_what_its_processes_hold_and_a_missing_figure_is_no_zero() -> None:
    def sample(pid: int, held: int | None, gpu: GpuUuid = GPU) -> ProcessSample:
        key = ProcessKey(node=NodeName("here"), pid=pid, started_ms=1)
        return ProcessSample(uuid=gpu, key=key, at_ms=2, width_ms=1, memory_used_bytes=held)

    other = GpuUuid("GPU-b")
    samples = [sample(1, 5), sample(2, 7), sample(2, 9, other), sample(3, 4), sample(4, None), sample(5, 99)]
    owners = {samples[n].key: job for n, job in ((0, HOG), (1, HOG), (3, CALM), (4, CALM))}
    assert holdings(samples, owners) == {HOG: {GPU: 12, other: 9}}


@pytest.mark.parametrize(
    ("seen", "entries"),
    [
        (state({HOG: None}), [entry(HOG)]),
        (state({HOG: 80 * GIB}, total=None), [entry(HOG)]),
        (state({HOG: 80 * GIB}), [entry(HOG, share=1.0)]),
        (state({HOG: 80 * GIB}), [replace(entry(HOG), state=JobState.STARTING)]),
        (state({HOG: 80 * GIB}), [replace(entry(HOG), sharing=Sharing.MIG)]),
        (state({}), [entry(HOG)]),
    ],
)
def test_what_is_not_measured_or_not_shared_is_not_judged(
    seen: ClusterState, entries: list[JobRecord]
) -> None:
    assert judged(seen, entries) == ()


@pytest.mark.parametrize(
    ("entered", "seen", "may"),
    [
        (entry(HOG), state({HOG: GIB}), True),
        (entry(HOG, mobility=Elasticity.ELASTIC), state({HOG: GIB}), True),
        (entry(HOG, mobility=Elasticity.RIGID), state({HOG: GIB}), False),
        (entry(HOG, opted_out=frozenset({ActionClass.CAP_MEMORY})), state({HOG: GIB}), False),
        (entry(HOG), state({HOG: GIB}, protected=True), False),
    ],
)
def test_only_what_loses_nothing_and_nobody_forbids_may_be_paused(
    entered: JobRecord, seen: ClusterState, may: bool
) -> None:
    assert judged(seen, [entered])[0].may_pause is may


def draw(held: float, *, may_pause: bool = True, harms: tuple[JobId, ...] = ()) -> Draw:
    return Draw(
        job=HOG,
        held_bytes=int(held * GIB),
        allowed_bytes=40 * GIB,
        may_pause=may_pause,
        beside=(CALM,),
        harms=harms,
    )


def test_told_at_once_then_given_time_then_paused() -> None:
    first = watch([draw(50)], {}, 0)
    assert [type(step) for step in first.steps] == [Notify]
    assert "holds 50 GiB of GPU memory, and its share is 40 GiB" in first.steps[0].message  # type: ignore[union-attr]
    waiting = watch([draw(50)], first.noted, MEND_MS - 1)
    assert waiting.steps == ()
    (pause,) = watch([draw(50)], waiting.noted, MEND_MS).steps
    assert pause == Pause(job=HOG, action=ActionClass.CAP_MEMORY, reason=pause.reason)


def test_a_neighbour_in_want_shortens_the_time_and_is_named() -> None:
    first = watch([draw(60, harms=(CALM,))], {}, 0)
    assert "fallow:2 may not get what was promised" in first.steps[0].reason
    (pause,) = watch([draw(60, harms=(CALM,))], first.noted, URGENT_MS).steps
    assert isinstance(pause, Pause)
    assert pause.job == HOG, "never the neighbour"


def test_who_gives_memory_back_in_time_is_left_alone() -> None:
    first = watch([draw(50)], {}, 0)
    assert watch([draw(40)], first.noted, MEND_MS).steps == ()
    assert watch([draw(40.5)], first.noted, MEND_MS).steps == (), "rounding is no overdraft"


def test_who_does_it_again_soon_was_told_already_and_later_is_told_anew() -> None:
    first = watch([draw(50)], {}, 0)
    mended = watch([draw(30)], first.noted, MEND_MS)
    (again,) = watch([draw(50)], mended.noted, MEND_MS + 1).steps
    assert isinstance(again, Pause)
    (anew,) = watch([draw(50)], mended.noted, FORGET_MS).steps
    assert isinstance(anew, Notify)


def test_what_cannot_be_paused_is_told_twice_and_then_left() -> None:
    noted: dict[JobId, Noted] = dict(watch([draw(50, may_pause=False)], {}, 0).noted)
    said: list[Notify | Pause] = []
    for now_ms in range(MEND_MS, 4 * MEND_MS, 10_000):
        looked = watch([draw(50, may_pause=False)], noted, now_ms)
        said += looked.steps
        noted = dict(looked.noted)
    assert [type(step) for step in said] == [Notify]
    assert "It cannot be paused without loss, so it is not" in said[0].message  # type: ignore[union-attr]


def test_who_is_alone_on_its_device_is_told_once_and_left() -> None:
    alone = replace(draw(70), beside=())
    first = watch([alone], {}, 0)
    assert [type(step) for step in first.steps] == [Notify]
    assert "paused" not in first.steps[0].message  # type: ignore[union-attr]
    later = watch([alone], first.noted, MEND_MS)
    assert later.steps == ()
    assert isinstance(watch([draw(70)], later.noted, MEND_MS + 1).steps[0], Pause), "once somebody came"


def test_who_was_paused_for_its_memory_is_expected_to_need_as_much_again() -> None:
    first = watch([draw(50)], {}, 0)
    paused = watch([], watch([draw(60)], first.noted, MEND_MS).noted, 10 * FORGET_MS, paused={HOG})
    away = replace(state({HOG: None, CALM: GIB}), placements={})
    assert remembered(away, paused.noted).jobs[HOG].memory_bytes == 60 * GIB
    assert remembered(away, paused.noted).jobs[CALM].memory_bytes is None
    running = state({HOG: 10 * GIB})
    assert remembered(running, paused.noted) is running


def test_an_ended_job_is_forgotten() -> None:
    first = watch([draw(50)], {}, 0)
    assert watch([], first.noted, FORGET_MS).noted == {}
