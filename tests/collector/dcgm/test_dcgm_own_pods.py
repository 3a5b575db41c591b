"""Behind one Prometheus each target is set up in its own way: what one says of a pod is said of no other."""

from collections.abc import Mapping

import pytest

from collector.dcgm.endpoint import Endpoint, heard
from collector.dcgm.own_pods import UP, exporters, holders
from collector.dcgm.readout import read_out
from collector.dcgm.text import Row, parse
from collector.dcgm.vocabulary import is_known
from collector.model import GpuUuid

Labels = Mapping[str, str]


def row(uuid: str, instance: str, **labels: str) -> Labels:
    return {"UUID": uuid, "instance": instance, "job": "gpus"} | labels


def pod(name: str, namespace: str = "lab", container: str = "main") -> Labels:
    return {"pod": name, "namespace": namespace, "container": container}


def exported(name: str, own: str = "gpu-metrics-x7k2p") -> Labels:
    return pod(own, "ops", "exporter") | {"exported_pod": name, "exported_namespace": "lab"}


def jobs(*rows: Labels, up: tuple[Labels, ...] = (), several_clusters: bool = False) -> list[list[str]]:
    found = holders(rows, exporters(up, ()), several_clusters=several_clusters)
    return [[claim.holder.job for claim in named or ()] for named in found]


OWN = pod("gpu-metrics-x7k2p", "ops", "exporter")
TARGET = {"job": "gpus", "instance": "b"}


def test_one_target_whose_labels_are_renamed_takes_no_holder_from_another() -> None:
    found = jobs(
        row("A", "a", **pod("train-0")),
        row("B", "b", **exported("train-1")),
        row("C", "b", **OWN),
        row("D", "a", **pod("train-2")),
    )
    assert found == [["pod:lab/train-0"], ["pod:lab/train-1"], [], ["pod:lab/train-2"]]


def test_labels_honoured_for_half_a_month_name_the_same_job_in_both_halves() -> None:
    before, after = row("A", "a", **pod("w1")), row("A", "a", **exported("w1"))
    assert jobs(before, after) == [["pod:lab/w1"], ["pod:lab/w1"]]


def test_an_exporter_known_on_one_node_is_known_on_the_next() -> None:
    """A DaemonSet's pods differ in five characters: on a node that is all free no workload stands beside."""
    free = row("C", "c", **pod("gpu-metrics-7z2bd", "ops", "exporter"))
    same_name_elsewhere = row("D", "d", **pod("gpu-metrics-7z2bd", "lab", "torch"))
    found = jobs(row("B", "b", **exported("train-1")), free, same_name_elsewhere)
    assert found == [["pod:lab/train-1"], [], ["pod:lab/gpu-metrics-7z2bd"]]


@pytest.mark.parametrize(
    "own",
    [
        pod("gpu-metrics-7z2bd", "monitoring", "exporter") | {"job": "monitoring/gpu-metrics"},
        {"pod": "gpu-metrics-7z2bd", "namespace": "monitoring", "job": "kubernetes-pods"},
    ],
    ids=["the operator's PodMonitor", "pods by annotation, with no container"],
)
def test_an_exporter_beside_one_busy_gpu_holds_no_other(own: Labels) -> None:
    busy = row("A", "a", **{**pod("train-y"), "job": own["job"]})
    assert jobs(busy, row("B", "a", **own)) == [["pod:lab/train-y"], []]


def test_up_tells_the_pod_of_a_target_whatever_it_is_called() -> None:
    up = TARGET | pod("board-watch-0", "ops", "agent")
    free = row("A", "b", **pod("board-watch-0", "ops", "agent"))
    busy = row("B", "b", **pod("gpu-metrics-7z2bd", "ops", "agent"))
    assert jobs(free, busy) == [["pod:ops/board-watch-0"], ["pod:ops/gpu-metrics-7z2bd"]]
    assert jobs(free, busy, up=(up,)) == [[], ["pod:ops/gpu-metrics-7z2bd"]]


def test_where_up_names_no_pod_every_pod_is_a_workload() -> None:
    """A static target: a pod on all GPUs, with no container and a generated name, is the exporter's word."""
    rows = [row(uuid, "b", pod="train-x7k2p", namespace="lab") for uuid in "AB"]
    assert jobs(*rows) == [[], []]
    assert jobs(*rows, up=(TARGET,)) == [["pod:lab/train-x7k2p"]] * 2


@pytest.mark.parametrize("name", ["cluster", "k8s_cluster_name"])
def test_jobs_of_one_name_in_two_clusters_are_two(name: str) -> None:
    rows = [row(c, c, **{name: c}, hpc_job="42", **pod("train-0")) for c in ("a", "b")]
    assert jobs(*rows, several_clusters=True) == [
        ["pod:lab/train-0@a", "slurm:42@a"],
        ["pod:lab/train-0@b", "slurm:42@b"],
    ]
    assert jobs(rows[0]) == [["pod:lab/train-0", "slurm:42"]]
    # job@1772438400 is how a run of a reused name is called
    (numbered,) = jobs(row("A", "a", cluster="7", hpc_job="42"), several_clusters=True)
    assert numbered == ["slurm:42@cluster-7"]


def test_what_people_call_a_job_says_its_cluster_where_there_are_several() -> None:
    """A sentence says the name alone: "train-0 has done nothing" would be said of the one that works too."""
    rows = [row(c, c, cluster=c, **pod("train-0")) for c in ("a", "b")]

    def names(*rows: Labels, several_clusters: bool) -> list[str | None]:
        found = holders(rows, exporters((), ()), several_clusters=several_clusters)
        return [claim.holder.name for named in found for claim in named or ()]

    assert names(*rows, several_clusters=True) == ["train-0@a", "train-0@b"]
    assert names(rows[0], several_clusters=False) == ["train-0"]


def test_an_exporter_of_one_cluster_is_none_of_another() -> None:
    known = row("A", "a", cluster="a", **exported("train-0"))
    other = row("B", "b", cluster="b", **OWN)
    assert jobs(known, other)[1] == ["pod:ops/gpu-metrics-x7k2p"]


def _line(name: str, value: float, labels: Labels) -> str:
    inside = ",".join(f'{key}="{said}"' for key, said in labels.items())
    return f"{name}{{{inside}}} {value}\n"


def test_a_federated_page_of_two_clusters_and_both_kinds_of_labels() -> None:
    blocks = (
        row("GPU-a", "fa:9400", cluster="a", **pod("live-a")),
        row("GPU-b", "fb:9400", cluster="b", **exported("live-b")),
        row("GPU-c", "fa:9400", cluster="a", **pod("live-c")),
        row("GPU-d", "fd:9400", cluster="b", **pod("watch-0", "ops", "agent")),
    )
    up = _line(UP, 1, {"job": "gpus", "instance": "fd:9400", "cluster": "b"} | pod("watch-0", "ops", "agent"))
    text = up + "".join(_line("DCGM_FI_DEV_GPU_UTIL", 50, labels) for labels in blocks)
    rows: tuple[Row, ...] = parse(text, lambda name: is_known(name) or name == UP)
    allocations = read_out(rows, fallback_node="n", at_ms=1, width_ms=1).allocations
    assert allocations is not None
    assert {each.uuid: each.holder.job for each in allocations} == {
        GpuUuid("GPU-a"): "pod:lab/live-a@a",
        GpuUuid("GPU-b"): "pod:lab/live-b@b",
        GpuUuid("GPU-c"): "pod:lab/live-c@a",
    }


def test_gpus_without_a_uuid_beside_others_are_a_gap_of_their_node_that_says_why() -> None:
    rows = (
        {"UUID": "GPU-a", "Hostname": "fa", "gpu": "0"},
        *({"Hostname": "omi", "gpu": str(i)} for i in (0, 1)),
        {"nvswitch": "3", "Hostname": "sw"},
    )
    page = "".join(_line("DCGM_FI_DEV_GPU_TEMP", 40, labels) for labels in rows)
    endpoint = Endpoint(url="http://prom:9090/federate", fallback_node="prom", interval_ms=30_000)
    _, news = heard(endpoint, page.encode(), 1_790_000_000_000)
    (gap,) = news.gaps
    assert (gap.node, gap.uuid, gap.to_ms - gap.from_ms) == ("omi", None, 30_000)
    assert "tells of 2 GPUs of omi without the label UUID" in gap.reason


def test_two_versions_of_exporters_on_one_page_have_each_its_own_unit() -> None:
    """4.9.0's new name bears a ratio beside bytes, and a percentage beside the old names."""
    old = {"UUID": "GPU-a", "instance": "a", "job": "gpus", "gpu": "0"}
    new = old | {"UUID": "GPU-b", "instance": "b"}
    page = (
        _line("DCGM_FI_DEV_GPU_UTIL_RATIO", 64, old)
        + _line("DCGM_FI_DEV_MEM_COPY_UTIL", 5, old)
        + _line("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.6, new)
        + _line("DCGM_FI_DEV_FB_USED_BYTES", 5e9, new)
    )
    found = read_out(parse(page, is_known), fallback_node="n", at_ms=1, width_ms=1)
    used = {sample.uuid: sample.gpu_utilization_ratio for sample in found.samples}
    assert used == pytest.approx({GpuUuid("GPU-a"): 0.64, GpuUuid("GPU-b"): 0.6})
