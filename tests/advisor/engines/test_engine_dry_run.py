from advisor.actions import Pause, Start
from advisor.engines.dry_run import DryRun
from advisor.outcomes import Done, Stale
from advisor.state.model import ClusterState, Gpu, Job, Phase, ProjectName
from collector.model import GpuUuid, JobId, NodeName

GPUS = (GpuUuid("GPU-0"), GpuUuid("GPU-1"))


def state() -> ClusterState:
    job = Job(id=JobId("one"), project=ProjectName("lab"), min_gpus=2, max_gpus=2)
    return ClusterState(
        as_of_ms=0,
        gpus={uuid: Gpu(uuid=uuid, node=NodeName("n0")) for uuid in GPUS},
        jobs={job.id: job},
    )


def test_a_step_that_could_be_taken_is_done_and_the_state_given_stays_as_it_was() -> None:
    given = state()
    engine = DryRun(given)
    assert isinstance(engine.do(Start(job=JobId("one"), gpus=GPUS)), Done)
    assert engine.would_be().placements[JobId("one")].gpus == GPUS
    assert not given.placements
    assert given.jobs[JobId("one")].phase is Phase.PENDING


def test_steps_build_on_each_other_and_an_impossible_one_says_why() -> None:
    engine = DryRun(state())
    early = engine.do(Pause(job=JobId("one")))
    assert isinstance(early, Stale)
    assert "must be running" in early.found
    engine.do(Start(job=JobId("one"), gpus=GPUS))
    assert isinstance(engine.do(Pause(job=JobId("one"))), Done)
    assert engine.would_be().jobs[JobId("one")].phase is Phase.PAUSED
