"""Machines of one name in two clusters: whose word is of which, tick by tick. Expected values by hand."""

from dataclasses import replace

from collector.attribution import effective
from collector.clusters import JobsApart, with_nodes_apart
from collector.dcgm.readout import read_out
from collector.dcgm.text import parse
from collector.gpu_identity import reconciled
from collector.managers.model import Look
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    HolderSample,
    JobId,
    NodeClaim,
    NodeName,
    NodeState,
    OutOfService,
    Unavailable,
)
from collector.reading import Reading
from tests.service.two_clusters_world import gpus, uuid

HOUR_MS = 3_600_000


def page(*clusters: str) -> str:
    """A federated page: gpu-1 of each cluster with one GPU, held by a pod of one name."""
    return "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{uuid(each, "gpu-1", 0)}",Hostname="gpu-1",cluster="{each}",'
        'instance="e:9400",job="dcgm",exported_pod="train-0",exported_namespace="ml"} 5\n'
        for each in clusters
    )


def scrape(*clusters: str, source: str = "dcgm") -> Reading:
    rows = parse(page(*clusters), lambda name: name.startswith("DCGM"))
    told = read_out(rows, fallback_node="e", at_ms=0, width_ms=30_000)
    return Reading(source=source, at_ms=0, gpus=told.gpus, samples=told.samples, allocations=told.allocations)


def jobs(readings: tuple[Reading | Unavailable, ...]) -> list[str]:
    told = (
        each for reading in readings if isinstance(reading, Reading) for each in reading.allocations or ()
    )
    return sorted(each.holder.job for each in told)


def test_a_page_says_of_which_cluster_each_gpu_is() -> None:
    assert [(gpu.node, gpu.cluster) for gpu in scrape("a", "b").gpus] == [("gpu-1", "a"), ("gpu-1", "b")]


def test_jobs_are_told_apart_across_exporters_and_stay_so_when_one_is_silent() -> None:
    both = ["pod:ml/train-0@a", "pod:ml/train-0@b"]
    apart = JobsApart({})
    assert jobs(apart.told((scrape("a"),))) == ["pod:ml/train-0"]  # one cluster: its own names
    assert jobs(apart.told((scrape("a"), scrape("b", source="dcgm-b")))) == both
    assert jobs(apart.told((scrape("a", "b"),))) == both  # named so by the page already
    assert jobs(apart.told((scrape("a"),))) == both[:1]
    assert jobs(apart.told((replace(scrape("a"), gpus=()),))) == both[:1]  # its page is not heard now
    silent = Unavailable(source="dcgm", at_ms=0, reason="no answer")
    assert apart.told((silent,)) == (silent,)


def test_a_start_knows_the_clusters_of_before() -> None:
    assert jobs(JobsApart({uuid("b", "gpu-1", 0): "b"}).told((scrape("a"),))) == ["pod:ml/train-0@a"]
    assert jobs(JobsApart({uuid("a", "gpu-2", 0): "a"}).told((scrape("a"),))) == ["pod:ml/train-0"]


def test_what_a_machine_says_of_itself_bears_no_cluster() -> None:
    own = Reading(
        source="nvml",
        at_ms=0,
        gpus=(replace(gpus("a")[0], cluster=None),),
        allocations=(Allocation(uuid=uuid("a", "gpu-1", 0), holder=Holder(job=JobId("slurm:1"), name="x")),),
        holder_samples=(HolderSample(uuid=uuid("a", "gpu-1", 0), job=JobId("slurm:1"), at_ms=1, width_ms=1),),
    )
    apart = JobsApart({uuid("a", "gpu-1", 0): "a", uuid("b", "gpu-1", 0): "b"})
    assert apart.told((own, scrape("a")))[0] == own
    assert reconciled((scrape("a"), own), {})[1].gpus[0].cluster is None  # type: ignore[union-attr]


def labelled(*clusters: str) -> Reading:
    return Reading(source="dcgm", at_ms=0, gpus=tuple(gpu for each in clusters for gpu in gpus(each)))


def manager(cluster: str, node: str = "gpu-1") -> Reading:
    """A Slurm that gave out GPU 0 of its gpu-1, of which GPU 1 is free."""
    return Reading(
        source="slurm",
        at_ms=0,
        claims=(NodeClaim(node=NodeName(node), holder=Holder(job=JobId("slurm:7")), index=0),),
        nodes=(NodeState(node=NodeName(node)),),
        look=Look(cluster=cluster, at_ms=0, jobs=(), nodes=()),
    )


def held(*readings: Reading) -> tuple[list[GpuUuid], set[GpuUuid]]:
    """The GPUs that Slurm's job holds, and those of which nobody knows whether they are free."""
    told = effective(readings, HOUR_MS)
    assert told is not None
    unasked = {each.uuid for each in told.withheld if each.state is OutOfService.UNASKED}
    return [each.uuid for each in told.allocations], unasked


def test_a_manager_means_its_own_cluster() -> None:
    for own, meant in (("A", "a"), ("b", "b")):
        assert held(labelled("a", "b"), manager(own)) == ([uuid(meant, "gpu-1", 0)], set())


def test_a_job_of_the_manager_that_is_asked_is_one_job() -> None:
    """Labels and Slurm name job 7 of a on one GPU, which it holds whole; b's 7 is another's."""
    held_by_label = tuple(
        Allocation(
            uuid=uuid(each, "gpu-1", 0),
            holder=Holder(job=JobId("slurm:7"), name="x"),
            source=ClaimSource.SLURM,
        )
        for each in "ab"
    )
    asked = manager("A")
    claims = tuple(replace(each, source=ClaimSource.SLURM) for each in asked.claims or ())
    readings = (replace(labelled("a", "b"), allocations=held_by_label), replace(asked, claims=claims))
    apart = JobsApart({})
    for told in (apart.told(readings), apart.told(apart.told(readings))):
        found = effective([each for each in told if isinstance(each, Reading)], HOUR_MS)
        assert found is not None
        assert {(each.uuid, each.holder.job, each.share) for each in found.allocations} == {
            (uuid("a", "gpu-1", 0), "slurm:7", 1.0),
            (uuid("b", "gpu-1", 0), "slurm:7@b", 1.0),
        }
    assert jobs(apart.told((readings[0],))) == ["slurm:7", "slurm:7@b"]  # Slurm is silent for a while


def test_a_manager_of_an_unknown_cluster_says_nothing_of_either_machine() -> None:
    """Slurm's gpu-1 is one of two: no GPU of that name is held by its job, and none is known to be free."""
    both = {uuid(cluster, "gpu-1", index) for cluster in "ab" for index in range(4)}
    assert held(labelled("a", "b"), manager("slurm-main")) == ([], both)
    domain = tuple(replace(gpu, node=NodeName(f"{gpu.node}.lab")) for gpu in labelled("a", "b").gpus)
    assert held(replace(labelled(), gpus=domain), manager("slurm-main")) == ([], both)
    told = with_nodes_apart((labelled("a", "b"), manager("slurm-main")))[1].nodes or ()
    assert [each.node for each in told] == ["gpu-1@a", "gpu-1@b"]
    assert told[0].reason == "nodes of a and b are called gpu-1, and which of them slurm means is not known"


def test_with_one_cluster_in_view_names_are_plain() -> None:
    readings = (labelled("a"), manager("slurm-main"))
    assert with_nodes_apart(readings) == readings
    assert held(*readings) == ([uuid("a", "gpu-1", 0)], set())
    nobody = (replace(labelled("a"), gpus=tuple(replace(each, cluster=None) for each in gpus("a"))),)
    assert with_nodes_apart(nobody) == nobody


def test_a_claim_by_uuid_is_that_gpus() -> None:
    told = manager("slurm-main")
    by_uuid = replace(told, claims=(replace((told.claims or ())[0], index=None, uuid=uuid("b", "gpu-1", 2)),))
    assert held(labelled("a", "b"), by_uuid)[0] == [uuid("b", "gpu-1", 2)]


def test_a_gpu_without_a_cluster_beside_two_keeps_its_name() -> None:
    other = Gpu(uuid=GpuUuid("GPU-own"), node=NodeName("gpu-1"), index=0)
    own = Reading(source="nvml", at_ms=0, gpus=(other,))
    assert with_nodes_apart((labelled("a", "b"), own))[1] == own
