"""A job that was paused for idling: interactive ones wait for a touch, batch jobs for their cooldown."""

from dataclasses import replace

from advisor.jobs import lifecycle
from advisor.jobs.model import (
    Elasticity,
    JobRecord,
    JobState,
    Launcher,
    PauseCommand,
    Report,
    StartCommand,
    Submission,
)
from advisor.jobs.with_snapshot import Look, joined
from advisor.state.model import ClusterState, Gpu, Phase, Use
from analytics.vocabulary.jobs import is_submitted
from collector.model import GpuUuid, JobId, JobKind, NodeName

NODE, GPU, JOB = NodeName("n"), GpuUuid("g"), JobId("fallow:1")
LAUNCHER = Launcher(node=NODE, pid=7, started_ms=1)


def report(at_ms: int, **changes: object) -> Report:
    return replace(Report(at_ms=at_ms, launcher=LAUNCHER, state=JobState.RUNNING), **changes)  # type: ignore[arg-type]


def running(kind: JobKind = JobKind.INTERACTIVE) -> JobRecord:
    wanted = Submission(
        command=("jupyter",),
        user="ann",
        project="lab",
        kind=kind,
        mobility=Elasticity.ELASTIC,
        preemptible=True,
    )
    entry = lifecycle.with_command(
        lifecycle.submitted(JOB, wanted, 0), StartCommand(number=1, gpus=(GPU,)), 10
    )
    return lifecycle.with_report(entry, report(20, acknowledged=1), 20)


def suspended(entry: JobRecord, *, for_idling: bool, attached: bool | None = False) -> JobRecord:
    entry = lifecycle.with_command(
        entry, PauseCommand(number=2, reason="idle for 1 h", for_idling=for_idling), 30
    )
    return lifecycle.with_report(
        entry, report(40, acknowledged=2, state=JobState.PAUSED, attached=attached), 40
    )


def seen(entry: JobRecord) -> tuple[Phase, bool, Use]:
    live = ClusterState(as_of_ms=50, gpus={GPU: Gpu(uuid=GPU, node=NODE)})
    look = Look(
        now_ms=50, newest_ms={GPU: 50}, stale_ms=30_000, here=frozenset({NODE}), by_launcher=is_submitted
    )
    job = joined(live, [entry], look).jobs[JOB]
    return job.phase, job.held, job.use


def test_an_interactive_job_paused_for_idling_is_held_until_it_is_touched() -> None:
    paused = suspended(running(), for_idling=True)
    assert seen(paused) == (Phase.PAUSED, True, Use.IDLE)
    still = lifecycle.with_report(
        paused, report(60, acknowledged=2, state=JobState.PAUSED, attached=False), 60
    )
    assert seen(still)[1] is True
    touched = lifecycle.with_report(
        paused, report(60, acknowledged=2, state=JobState.PAUSED, attached=True), 60
    )
    assert seen(touched) == (Phase.PAUSED, False, Use.UNKNOWN)
    assert touched.acted_ms is None


def test_a_touch_before_the_pause_is_no_touch_after_it() -> None:
    paused = suspended(running(), for_idling=True, attached=True)
    assert seen(paused)[1] is True


def test_a_batch_job_paused_for_idling_rests_and_is_not_held() -> None:
    paused = suspended(running(JobKind.BATCH), for_idling=True)
    assert seen(paused) == (Phase.PAUSED, False, Use.IDLE)
    assert paused.acted_ms == 40


def test_who_was_paused_for_another_job_is_not_held_for_idling() -> None:
    assert seen(suspended(running(), for_idling=False)) == (Phase.PAUSED, False, Use.UNKNOWN)


def test_its_owner_lets_it_go_on_without_touching_it() -> None:
    resumed = lifecycle.let_go(suspended(running(), for_idling=True))
    assert seen(resumed) == (Phase.PAUSED, False, Use.UNKNOWN)
