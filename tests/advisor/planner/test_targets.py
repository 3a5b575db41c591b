"""A step brings its job onto devices, or onto so many GPUs that a workload manager chooses."""

from dataclasses import replace

import pytest

from advisor.actions import Action, Pause, Resize, Resume, Start
from advisor.planner.targets import OnDevices, OnNodes, left_to, target_of, where
from advisor.planner.transition import StepError, replay, transition
from advisor.serialize import from_text, to_text
from advisor.state.model import Phase
from collector.model import GpuUuid, JobId, NodeName
from tests.advisor.planner.test_core_sharing import cluster

JOB = JobId("a0")
PLACES = ((None, 1),)


@pytest.mark.parametrize(
    ("step", "target", "text"),
    [
        (Start(job=JOB, gpus=(GpuUuid("g0"),)), OnDevices((GpuUuid("g0"),)), " on 1 GPU"),
        (Resize(job=JOB, gpus=(GpuUuid("g0"), GpuUuid("g1"))), OnDevices(("g0", "g1")), " on 2 GPUs"),  # type: ignore[arg-type]
        (Resume(job=JOB, gpus=()), None, ""),
        (Pause(job=JOB), None, ""),
        (
            Resume(job=JOB, gpus=(), places=((None, 4),)),
            OnNodes(((None, 4),)),
            " on 4 GPUs, which its manager chooses",
        ),
        (
            Resume(job=JOB, gpus=(), places=((NodeName("n1"), 4), (NodeName("n2"), 2))),
            OnNodes(((NodeName("n1"), 4), (NodeName("n2"), 2))),
            " on 4 of n1, 2 of n2, which its manager chooses",
        ),
    ],
)
def test_where_a_step_brings_its_job(step: Action, target: object, text: str) -> None:
    assert target_of(step) == target
    assert where(step) == text
    assert from_text(Action, to_text(step, Action)) == step, "the journal keeps it"


def test_a_manager_is_asked_for_as_many_and_fallows_own_engine_for_these() -> None:
    step = Resume(job=JOB, gpus=(GpuUuid("g0"), GpuUuid("g1")), reason="room")
    assert left_to(None, step) is step
    assert left_to("Slurm", step) == Resume(job=JOB, gpus=(), places=((None, 2),), reason="room")
    assert left_to("Slurm", Pause(job=JOB)) == Pause(job=JOB)


def test_a_step_that_was_kept_before_there_were_places_is_read() -> None:
    text = '{"is":"Resume","job":"a0","gpus":["g0"],"share":null,"reason":""}'
    assert from_text(Action, text) == Resume(job=JOB, gpus=(GpuUuid("g0"),))


def test_who_is_left_to_its_manager_takes_no_gpu_here() -> None:
    paused = replay(cluster([], {"a": 1}), (Start(job="a0", gpus=("g00",)), Pause(job="a0")))
    step = Resume(job=JOB, gpus=(), places=PLACES)
    with pytest.raises(StepError, match="no workload manager"):
        transition(paused, step)
    managed = replace(paused, jobs={**paused.jobs, "a0": replace(paused.jobs["a0"], manager="Slurm")})
    after = transition(managed, step)
    assert after.jobs["a0"].phase is Phase.PAUSED and after.jobs["a0"].held
    assert "a0" not in after.placements
    with pytest.raises(StepError, match="1 to 1 GPUs, not on 2"):
        transition(managed, replace(step, places=((None, 2),)))
