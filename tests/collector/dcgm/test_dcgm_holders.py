"""Who a dcgm-exporter says holds a GPU, in every spelling the labels have had."""

import pytest

from collector.dcgm.labels import identity
from collector.dcgm.readout import Readout, read_out
from collector.dcgm.text import parse
from collector.dcgm.vocabulary import is_known
from collector.model import ClaimSource
from tests.collector.dcgm.dcgm_writer import BASE_UNITS, CLASSIC, Board, Dialect, Facts, exposition

BUSY = Facts(gpu_utilization_ratio=0.5, temperature_c=60)


def read(*boards: Board, dialect: Dialect = CLASSIC) -> Readout:
    return read_out(parse(exposition(boards, dialect), is_known), fallback_node="n", at_ms=1, width_ms=1)


def held(readout: Readout) -> list[tuple[str, str, str | None, float]]:
    assert readout.allocations is not None
    return [(a.uuid, a.holder.job, a.holder.project, a.share) for a in readout.allocations]


@pytest.mark.parametrize("dialect", [CLASSIC, BASE_UNITS], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "labels",
    [
        {"pod": "train-0", "namespace": "vision", "container": "main"},
        {"pod_name": "train-0", "pod_namespace": "vision", "container_name": "main"},
        {
            "exported_pod": "train-0",
            "exported_namespace": "vision",
            "pod": "gpu-metrics-x",
            "namespace": "ops",
        },
    ],
)
def test_pod_labels_name_the_holder_in_every_spelling(labels: dict[str, str], dialect: Dialect) -> None:
    readout = read(Board(uuid="GPU-a", holders=labels, facts=BUSY), dialect=dialect)
    assert held(readout) == [("GPU-a", "pod:vision/train-0", "vision", 1.0)]
    assert readout.allocations is not None
    assert readout.allocations[0].source is ClaimSource.KUBERNETES
    assert readout.allocations[0].holder.name == "train-0"


UID = "9f8b7c6d-1234-5678-90ab-cdef12345678"


@pytest.mark.parametrize(
    ("labels", "uid"),
    [
        ({"pod": "train-0", "namespace": "vision", "pod_uid": UID}, UID),
        ({"pod": "train-0", "namespace": "vision", "pod_uid": ""}, None),
        ({"pod": "train-0", "namespace": "vision", "pod_uid": "blue"}, None),
        ({"exported_pod": "train-0", "pod": "metrics-1", "pod_uid": UID}, UID),
        (
            {
                "exported_pod": "train-0",
                "pod": "m",
                "pod_uid": UID.replace("9", "8"),
                "exported_pod_uid": UID,
            },
            UID,
        ),
    ],
)
def test_the_uid_of_a_pod_is_read_where_the_exporter_gives_it(
    labels: dict[str, str], uid: str | None
) -> None:
    allocations = read(Board(uuid="GPU-a", holders=labels, facts=BUSY)).allocations
    assert allocations is not None
    assert [each.pod_uid for each in allocations] == [uid]


def test_a_pod_of_which_two_uids_are_told_has_none() -> None:
    said = [{"pod": "train-0", "namespace": "vision", "pod_uid": uid} for uid in (UID, UID.replace("9", "8"))]
    allocations = read(*(Board(uuid="GPU-a", holders=each, facts=BUSY) for each in said)).allocations
    assert allocations is not None
    assert [(each.share, each.pod_uid) for each in allocations] == [(1.0, None)]


def test_empty_pod_labels_mean_free_and_absent_ones_mean_nobody_looked() -> None:
    empty = {"pod": "", "namespace": "", "container": ""}
    assert read(Board(uuid="GPU-a", holders=empty, facts=BUSY)).allocations == ()
    assert read(Board(uuid="GPU-a", facts=BUSY)).allocations is None


def test_gpu_without_labels_beside_one_with_them_is_free() -> None:
    taken = Board(uuid="GPU-a", holders={"pod": "p", "namespace": "ns"}, facts=BUSY)
    assert held(read(taken, Board(uuid="GPU-b", index=1, facts=BUSY))) == [("GPU-a", "pod:ns/p", "ns", 1.0)]


def test_exporters_own_pod_never_holds_a_gpu() -> None:
    own = {"pod": "nvidia-dcgm-exporter-tl46n", "namespace": "gpu-operator"}
    assert read(Board(uuid="GPU-a", holders=own, facts=BUSY)).allocations == ()


def test_behind_a_prometheus_a_bare_pod_is_the_exporters() -> None:
    taken = {
        "exported_pod": "train-0",
        "exported_namespace": "vision",
        "pod": "metrics-1",
        "namespace": "ops",
    }
    free = {"pod": "metrics-1", "namespace": "ops"}
    readout = read(
        Board(uuid="GPU-a", holders=taken, facts=BUSY), Board(uuid="GPU-b", index=1, holders=free, facts=BUSY)
    )
    assert held(readout) == [("GPU-a", "pod:vision/train-0", "vision", 1.0)]


@pytest.mark.parametrize("job", ["0", "", " "])
def test_hpc_job_zero_or_empty_is_no_job(job: str) -> None:
    assert read(Board(uuid="GPU-a", holders={"hpc_job": job}, facts=BUSY)).allocations == ()


TARGET = {"instance": "10.0.0.1:9400", "job": "gpu"}
OWN = TARGET | {"namespace": "mon", "pod": "gpu-metrics-x7k2p"}
"""What a Prometheus puts on the series of an exporter whose pod has a name of its site's own."""


@pytest.mark.parametrize(
    "labels",
    [
        OWN | {"service": "gpu-metrics"},
        OWN | {"service": "gpu-metrics", "container": "main"},
        OWN | {"container": "nvidia-dcgm-exporter"},
        OWN | {"job": "gpu-metrics", "container": "main"},
        OWN,
    ],
)
def test_exporters_own_pod_behind_a_prometheus_holds_no_gpu(labels: dict[str, str]) -> None:
    boards = [Board(uuid=f"GPU-{i}", index=i, holders=labels, facts=BUSY) for i in range(4)]
    assert read(*boards).allocations == ()


def test_workloads_keep_their_gpus_where_prometheus_honours_their_labels() -> None:
    free = OWN | {"service": "gpu-metrics", "container": "main"}
    train = free | {"namespace": "vision", "pod": "train-x7k2p", "container": "torch"}
    whole = [Board(uuid=f"GPU-{i}", index=i, holders=train, facts=BUSY) for i in range(2)]
    taken = [(f"GPU-{i}", "pod:vision/train-x7k2p", "vision", 1.0) for i in range(2)]
    assert held(read(*whole)) == taken
    assert held(read(*whole, Board(uuid="GPU-f", index=2, holders=free, facts=BUSY))) == taken


def test_pods_that_differ_behind_one_instance_are_workloads() -> None:
    pods = [OWN | {"pod": f"train-x7k2{c}"} for c in "pq"]
    boards = [Board(uuid=f"GPU-{i}", index=i, holders=pod, facts=BUSY) for i, pod in enumerate(pods)]
    assert [job for _, job, *_ in held(read(*boards))] == ["pod:mon/train-x7k2p", "pod:mon/train-x7k2q"]


def test_rows_repeated_for_each_slurm_job_are_one_sample_and_two_holders() -> None:
    boards = [Board(uuid="GPU-a", holders={"hpc_job": job}, facts=BUSY) for job in ("812", "813")]
    readout = read(*boards)
    assert len(readout.samples) == 1
    assert held(readout) == [("GPU-a", "slurm:812", None, 0.5), ("GPU-a", "slurm:813", None, 0.5)]
    assert readout.allocations is not None
    assert {a.source for a in readout.allocations} == {ClaimSource.SLURM}


def test_gpu_shared_by_pods_is_split_evenly() -> None:
    boards = [
        Board(uuid="GPU-a", holders={"pod": name, "namespace": "ns", "vgpu": str(i)}, facts=BUSY)
        for i, name in enumerate(("a", "b", "c", "d"))
    ]
    assert [share for *_, share in held(read(*boards))] == [0.25] * 4


def test_label_values_with_quotes_braces_and_newlines_are_read_whole() -> None:
    odd = 'a"b}c\\d\ne, f="g"'
    readout = read(Board(uuid="GPU-a", model=odd, holders={"pod": "p", "namespace": "ns"}, facts=BUSY))
    assert readout.gpus[0].model == odd


def test_a_row_without_uuid_is_nobodys() -> None:
    rows = parse('DCGM_FI_DEV_GPU_TEMP{nvswitch="3",Hostname="n"} 40\n', is_known)
    assert read_out(rows, fallback_node="n", at_ms=1, width_ms=1).gpus == ()


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"Hostname": "node-7"}, "node-7"),
        ({"hostname": "node-7", "node": "other"}, "node-7"),
        ({"Hostname": "nvidia-dcgm-exporter-x1", "node": "node-7"}, "node-7"),
        ({"Hostname": "nvidia-dcgm-exporter-x1"}, "nvidia-dcgm-exporter-x1"),
        ({}, "10.0.0.7"),
    ],
)
def test_node_is_the_host_and_not_the_exporters_pod(labels: dict[str, str], node: str) -> None:
    who = identity({"UUID": "GPU-a", **labels}, fallback_node="10.0.0.7")
    assert who is not None and who.node == node


def test_a_label_of_five_thousand_digits_is_no_index() -> None:
    who = identity({"UUID": "GPU-1", "Hostname": "n1", "gpu": "9" * 5_000}, fallback_node="n1")
    assert who is not None and who.index is None


def test_what_single_pods_used_of_a_shared_gpu_is_not_taken_for_the_gpu_s_own() -> None:
    # NVIDIA/dcgm-exporter 4.8.2, KUBERNETES_VIRTUAL_GPUS: the board's row has no pod, each pod's has its own
    # use of time and memory; all other values are the board's, repeated for each pod.
    board = 'gpu="0",UUID="GPU-a",hostname="n1"'
    pods = [
        f'{board},pod="{pod}",namespace="lab",container="main",vgpu="{at}"' for at, pod in enumerate("xy")
    ]
    text = "".join(
        f"{name}{{{labels}}} {value}\n"
        for name, values in (
            ("DCGM_FI_DEV_GPU_UTIL", (90, 60, 20)),
            ("DCGM_FI_DEV_FB_USED", (3000, 2000, 500)),
            ("DCGM_FI_PROF_SM_ACTIVE", (None, 0.5, 0.5)),
        )
        for labels, value in zip((board, *pods), values, strict=True)
        if value is not None
    )
    found = read_out(parse(text, is_known), fallback_node="n", at_ms=1, width_ms=1)
    (sample,) = found.samples
    assert (sample.gpu_utilization_ratio, sample.memory_used_bytes) == (0.9, 3000 << 20)
    assert sample.sm_active_ratio == 0.5
    assert [(s.uuid, s.job, s.gpu_utilization_ratio, s.memory_used_bytes) for s in found.holder_samples] == [
        ("GPU-a", "pod:lab/x", 0.6, 2000 << 20),
        ("GPU-a", "pod:lab/y", 0.2, 500 << 20),
    ]
    assert held(found) == [
        ("GPU-a", "pod:lab/x", "lab", 0.5),
        ("GPU-a", "pod:lab/y", "lab", 0.5),
    ]


def test_values_repeated_for_each_pod_are_the_gpu_s_and_nobody_s_own() -> None:
    # before 4.8.2, KUBERNETES_VIRTUAL_GPUS: no row is without a pod
    rows = "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a",hostname="n1",pod="{pod}",namespace="lab"}} 90\n'
        for pod in "xy"
    )
    found = read_out(parse(rows, is_known), fallback_node="n", at_ms=1, width_ms=1)
    assert [sample.gpu_utilization_ratio for sample in found.samples] == [0.9]
    assert found.holder_samples == ()


def test_of_a_mig_instance_memory_is_told_by_pod() -> None:
    labels = 'gpu="0",UUID="GPU-a",hostname="n1",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"'
    rows = f"DCGM_FI_DEV_FB_USED{{{labels}}} 900\n" + "".join(
        f'DCGM_FI_DEV_FB_USED{{{labels},pod="{pod}",namespace="lab"}} {used}\n'
        for pod, used in (("x", 600), ("y", 300))
    )
    found = read_out(parse(rows, is_known), fallback_node="n", at_ms=1, width_ms=1)
    assert [(s.uuid, s.job, s.gpu_utilization_ratio, s.memory_used_bytes) for s in found.holder_samples] == [
        ("MIG-GPU-a/7", "pod:lab/x", None, 600 << 20),
        ("MIG-GPU-a/7", "pod:lab/y", None, 300 << 20),
    ]
    assert {s.uuid: s.memory_used_bytes for s in found.samples}["MIG-GPU-a/7"] == 900 << 20
