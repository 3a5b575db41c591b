"""A job number that Slurm gives twice: whose the processes of the first and of the second are."""

from collector.attribution import effective
from collector.inventory.reused_numbers import with_job_of_now
from collector.model import (
    Gpu,
    GpuUuid,
    Holder,
    JobId,
    NodeClaim,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading

N1 = NodeName("n1")
FIRST_MS, AGAIN_S = 1_795_660_000_000, 1_795_660_771
AGAIN = JobId(f"slurm:812@{AGAIN_S}")


def process(pid: int, started_ms: int, user: str) -> Process:
    key = ProcessKey(node=N1, pid=pid, started_ms=started_ms)
    return Process(key=key, user=user, slurm_job="812", environment=(("SLURM_JOB_ID", "812"),))


OLD, NEW = process(7, FIRST_MS, "ann"), process(8, (AGAIN_S + 1) * 1000, "bob")


def test_a_process_is_of_the_job_that_was_there_when_it_began() -> None:
    old, new = with_job_of_now([OLD, NEW], [AGAIN, JobId("slurm:9")])
    assert old == OLD
    assert new.slurm_job == f"812@{AGAIN_S}" and dict(new.environment)["SLURM_JOB_ID"] == f"812@{AGAIN_S}"


def test_without_a_number_used_again_nothing_changes() -> None:
    assert with_job_of_now([OLD, NEW], [JobId("slurm:812")]) == (OLD, NEW)


def test_the_second_job_s_process_is_its_own_and_the_first_s_is_nobody_s() -> None:
    uuids = (GpuUuid("GPU-0"), GpuUuid("GPU-1"))
    gpus = tuple(
        Gpu(uuid=uuid, node=N1, index=index, model="H200", memory_total_bytes=1)
        for index, uuid in enumerate(uuids)
    )
    samples = tuple(
        ProcessSample(key=each.key, uuid=uuid, at_ms=AGAIN_S * 1000, width_ms=10_000, memory_used_bytes=1)
        for each, uuid in ((NEW, uuids[0]), (OLD, uuids[0]))
    )
    claim = NodeClaim(node=N1, holder=Holder(job=AGAIN, user="bob"), index=0)
    reading = Reading(
        source="nvml", at_ms=0, gpus=gpus, processes=(OLD, NEW), process_samples=samples, claims=(claim,)
    )
    found = effective([reading], AGAIN_S * 1000)
    assert found is not None
    assert found.owners == {NEW.key: AGAIN}, "ann's process is not of bob's job, though it bears its number"
    assert [each.holder.job for each in found.allocations] == [AGAIN]
