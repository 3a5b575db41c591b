"""Real captures, served over HTTP: the right GPU, unit and holder for each, written down file by file."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collector.dcgm.source import DcgmSettings, dcgm_source
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    Holder,
    JobId,
)
from collector.reading import Reading
from tests.collector.dcgm.loopback import serving, text

NOW_MS = 1_790_000_000_000
MIB = 1 << 20
A100_4 = "GPU-473571f2-fb37-ef7e-50fe-9885b74a23cd"
A100_1 = "GPU-7099682b-a20d-2bcc-74ab-b9060454d81e"
H100_MIG = "GPU-58e8f5ea-13cc-013a-d88f-2bcf5ae8bc77"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a capture says, read by eye; what ``samples`` does not name must be unmeasured."""

    nodes: frozenset[str]
    models: frozenset[str]
    driver: str | None
    samples: dict[str, dict[str, object]]
    holders: tuple[Allocation, ...] | None = None
    gpus: dict[str, dict[str, object]] = field(default_factory=dict)


def pod(uuid: str, namespace: str, name: str) -> Allocation:
    holder = Holder(job=JobId(f"pod:{namespace}/{name}"), project=namespace, name=name)
    return Allocation(uuid=uuid, holder=holder, source=ClaimSource.KUBERNETES)  # type: ignore[arg-type]


def graphics(value: float, **others: object) -> dict[str, object]:
    rung = {"rung": Basis.GRAPHICS_ACTIVE, "utilization_ratio": value, "graphics_active_ratio": value}
    return {**rung, **others}


def gpu_only(value: float, **others: object) -> dict[str, object]:
    rung = {"rung": Basis.GPU_UTILIZATION, "utilization_ratio": value, "gpu_utilization_ratio": value}
    return {**rung, **others}


def memory(used: int, free: int, reserved: int | None = None) -> dict[str, object]:
    found: dict[str, object] = {
        "memory_used_bytes": used * MIB,
        "memory_total_bytes": (used + free + (reserved or 0)) * MIB,
    }
    return found if reserved is None else {**found, "memory_reserved_bytes": reserved * MIB}


def h100(index: int) -> str:
    return (
        "GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005",
        "GPU-bc5610b9-79c8-fedd-8899-07539c7f868a",
        "GPU-fbc2c554-4d37-8938-0032-f923bad0f716",
        "GPU-a65a773d-52bb-bcc1-a8ee-f78c3faa2e2d",
        "GPU-82e45d1b-1618-559f-144c-eab51545030b",
        "GPU-39e28159-8c62-ee71-64db-b748edd61e15",
        "GPU-e64d69ca-b4b3-59b2-e78c-94f26c4db365",
        "GPU-04d228d3-3b5a-3534-f5cf-969706647d56",
    )[index]


H100_CELSIUS = (30, 29, 26, 29, 28, 26, 28, 26)
H100_MILLIWATTS = (113611, 68347, 65709, 67316, 68717, 65742, 67328, 66997)
CAPTURES = {
    "h100_8gpu_k8s_pods_evidence.prom": Expected(
        nodes=frozenset({"gpu-node-1"}),
        models=frozenset({"NVIDIA H100 80GB HBM3"}),
        driver="580.105.08",
        samples={
            h100(i): gpu_only(
                0.0,
                temperature_c=H100_CELSIUS[i],
                power_mw=H100_MILLIWATTS[i],
                **({"memory_controller_ratio": 0.0} if i < 6 else {}),
            )
            for i in range(8)
        },
        gpus={h100(i): {"index": i, "share_of_device": 1.0} for i in range(8)},
        holders=(pod(h100(0), "dynamo-workload", "vllm-agg-0-vllmdecodeworker-s65j5"),),
    ),
    "rtx4000ada_k8s_pods_profiling.prom": Expected(
        nodes=frozenset({"lke529760-766837-0a634ab30000"}),
        models=frozenset({"NVIDIA RTX 4000 Ada Generation"}),
        driver="580.95.05",
        samples={
            "GPU-a8394b51-c086-568a-9f1a-c1e1c934c44c": graphics(
                0.004656,
                gpu_utilization_ratio=0.0,
                memory_controller_ratio=0.0,
                encoder_ratio=0.0,
                decoder_ratio=0.0,
                tensor_active_ratio=0.0,
                dram_active_ratio=0.003074,
                power_mw=40979,
                energy_mj=455497156,
                temperature_c=48,
                sm_clock_mhz=2310,
                memory_clock_mhz=9001,
                xid=0,
                **memory(1, 20015, 457),
            )
        },
        holders=(pod("GPU-a8394b51-c086-568a-9f1a-c1e1c934c44c", "default", "cuda-75454ffb9f-8ljq7"),),
    ),
    "l4_aws_no_pods_dcgm580.prom": Expected(
        nodes=frozenset({"i-030791dc5a37cd257"}),
        models=frozenset({"NVIDIA L4"}),
        driver="580.105.08",
        samples={
            "GPU-c2f76b33-7953-256e-8f33-1343419b1a1c": graphics(
                0.0,
                gpu_utilization_ratio=0.0,
                memory_controller_ratio=0.0,
                encoder_ratio=0.0,
                decoder_ratio=0.0,
                tensor_active_ratio=0.0,
                dram_active_ratio=0.0,
                power_mw=16365,
                energy_mj=4742776,
                temperature_c=31,
                sm_clock_mhz=210,
                memory_clock_mhz=405,
                **memory(0, 22563, 470),
            )
        },
    ),
    "t4_bare_metal_no_help.prom": Expected(
        nodes=frozenset({"cp-bm14r7"}),
        models=frozenset({"Tesla T4"}),
        driver="590.48.01",
        samples={
            "GPU-6d5c0ac5-74d7-3130-46f1-e93ed57f469a": graphics(
                0.156205,
                gpu_utilization_ratio=0.91,
                memory_controller_ratio=0.73,
                encoder_ratio=0.0,
                decoder_ratio=0.0,
                tensor_active_ratio=0.005822,
                dram_active_ratio=0.092781,
                power_mw=68244,
                energy_mj=15152422938,
                temperature_c=74,
                sm_clock_mhz=660,
                memory_clock_mhz=5000,
                **memory(5120, 9791, 447),
            )
        },
    ),
    "vgpu_grid_a100_10c.prom": Expected(
        nodes=frozenset({"conformance-test-np1-qcqc8-bpdtl-wv2gs"}),
        models=frozenset({"GRID A100-10C"}),
        driver="580.126.09",
        samples={
            "GPU-44d2411e-1604-478f-aa96-5a3c00000000": gpu_only(
                0.0,
                memory_controller_ratio=0.0,
                encoder_ratio=0.0,
                decoder_ratio=0.0,
                sm_clock_mhz=1410,
                memory_clock_mhz=1215,
                **memory(0, 9323, 916),
            )
        },
    ),
    "a100_mig_enabled_empty.prom": Expected(
        nodes=frozenset({"nvidia-dcgm-exporter-wwvv9"}),
        models=frozenset({"NVIDIA A100-SXM4-40GB"}),
        driver="520.56.06",
        samples={
            A100_1: graphics(
                0.000033,
                tensor_active_ratio=0.0,
                dram_active_ratio=0.000005,
                power_mw=75960,
                energy_mj=8981778,
                temperature_c=32,
                sm_clock_mhz=1410,
                memory_clock_mhz=1215,
                xid=0,
            )
        },
        holders=(),
    ),
    "a100_mig_active_1g5gb.prom": Expected(
        nodes=frozenset({"nvidia-dcgm-exporter-km55s"}),
        models=frozenset({"NVIDIA A100-SXM4-40GB"}),
        driver="520.56.06",
        samples={
            A100_1: {
                "power_mw": 115294,
                "energy_mj": 27151028,
                "temperature_c": 37,
                "sm_clock_mhz": 1410,
                "memory_clock_mhz": 1215,
                "xid": 0,
            },
            f"MIG-{A100_1}/9": graphics(
                0.999892, tensor_active_ratio=0.000118, dram_active_ratio=0.622646, **memory(4384, 480)
            ),
        },
        gpus={
            A100_1: {"share_of_device": pytest.approx(6 / 7), "parent_uuid": None, "mig_profile": None},
            f"MIG-{A100_1}/9": {
                "share_of_device": pytest.approx(1 / 7),
                "parent_uuid": A100_1,
                "mig_profile": "1g.5gb",
            },
        },
        holders=(),
    ),
    "a100_mig_4_active.prom": Expected(
        nodes=frozenset({"nvidia-dcgm-exporter-tl46n"}),
        models=frozenset({"NVIDIA A100-SXM4-40GB"}),
        driver="520.56.06",
        samples={
            A100_4: {
                "power_mw": 112252,
                "energy_mj": 6890956,
                "temperature_c": 35,
                "sm_clock_mhz": 1410,
                "memory_clock_mhz": 1215,
                "xid": 0,
            },
            f"MIG-{A100_4}/7": graphics(
                0.0, tensor_active_ratio=0.0, dram_active_ratio=0.0, **memory(6, 4857)
            ),
            f"MIG-{A100_4}/8": graphics(
                0.408493, tensor_active_ratio=0.000048, dram_active_ratio=0.250816, **memory(4384, 480)
            ),
            f"MIG-{A100_4}/9": graphics(
                0.0, tensor_active_ratio=0.0, dram_active_ratio=0.0, **memory(6, 4857)
            ),
            f"MIG-{A100_4}/5": graphics(
                0.0, tensor_active_ratio=0.0, dram_active_ratio=0.0, **memory(13, 9843)
            ),
        },
        gpus={
            A100_4: {"share_of_device": pytest.approx(2 / 7)},
            f"MIG-{A100_4}/7": {"share_of_device": pytest.approx(1 / 7)},
            f"MIG-{A100_4}/8": {"share_of_device": pytest.approx(1 / 7)},
            f"MIG-{A100_4}/9": {"share_of_device": pytest.approx(1 / 7)},
            f"MIG-{A100_4}/5": {"share_of_device": pytest.approx(2 / 7), "mig_profile": "2g.10gb"},
        },
        holders=(),
    ),
    "a100_mig_disabled_idle.prom": Expected(
        nodes=frozenset({"nvidia-dcgm-exporter-drqwq"}),
        models=frozenset({"NVIDIA A100-SXM4-40GB"}),
        driver="520.56.06",
        samples={
            A100_1: graphics(
                0.0,
                gpu_utilization_ratio=0.0,
                memory_controller_ratio=0.0,
                encoder_ratio=0.0,
                decoder_ratio=0.0,
                tensor_active_ratio=0.0,
                dram_active_ratio=0.0,
                power_mw=45999,
                energy_mj=424405577,
                temperature_c=29,
                sm_clock_mhz=210,
                memory_clock_mhz=1215,
                xid=0,
                **memory(0, 40384),
            )
        },
        gpus={A100_1: {"share_of_device": 1.0}},
        holders=(),
    ),
    "issue_h100_mig_1g10gb_partial_pods.prom": Expected(
        nodes=frozenset({"gsrh100-074"}),
        models=frozenset({"NVIDIA H100 80GB HBM3"}),
        driver="535.129.03",
        samples={
            H100_MIG: {},
            f"MIG-{H100_MIG}/7": graphics(0.0),
            f"MIG-{H100_MIG}/8": graphics(0.0),
            f"MIG-{H100_MIG}/9": graphics(0.0),
        },
        gpus={
            H100_MIG: {"share_of_device": pytest.approx(4 / 7)},
            f"MIG-{H100_MIG}/8": {"share_of_device": pytest.approx(1 / 7), "mig_profile": "1g.10gb"},
        },
        holders=(
            pod(
                f"MIG-{H100_MIG}/7",
                "model-playground-stg",
                "text-embedding-predictor-00008-deployment-57946f6c67-vdtjl",
            ),
            pod(
                f"MIG-{H100_MIG}/9",
                "model-playground-stg",
                "tts-predictor-00011-deployment-5554f75554-8j8pl",
            ),
        ),
    ),
    "issue_t4_k8s_sm_active.prom": Expected(
        nodes=frozenset({"gke-test-dcgm-default-pool-fed1e979-tt7p"}),
        models=frozenset({"Tesla T4"}),
        driver=None,
        samples={
            uuid: {"rung": Basis.SM_ACTIVE, "utilization_ratio": 0.0, "sm_active_ratio": 0.0}
            for uuid in (
                "GPU-84412445-5790-0b3f-f714-da8aa3b2c0b0",
                "GPU-4812b59b-1f1a-430f-d8a4-69d2ee8c18bb",
            )
        },
        holders=(pod("GPU-84412445-5790-0b3f-f714-da8aa3b2c0b0", "default", "triton-84d57987c9-kks4k"),),
    ),
}


def collect(body: str) -> Reading:
    with serving(lambda path, headers: text(body)) as url:
        source = dcgm_source(DcgmSettings(urls=(url,)))
        try:
            reading = source.read(NOW_MS)
        finally:
            source.close()
    assert isinstance(reading, Reading), reading
    return reading


def test_every_shared_capture_has_its_expectation(shared: Path) -> None:
    assert {path.name for path in (shared / "dcgm").glob("*.prom")} == set(CAPTURES)


@pytest.mark.parametrize("capture", CAPTURES)
def test_capture_gives_the_right_gpu_unit_and_holder(shared: Path, capture: str) -> None:
    expected = CAPTURES[capture]
    reading = collect((shared / "dcgm" / capture).read_text())

    for uuid, values in expected.samples.items():
        blank = GpuSample(uuid=uuid, at_ms=NOW_MS, width_ms=30_000)  # type: ignore[arg-type]
        (found,) = (sample for sample in reading.samples if sample.uuid == uuid)
        for name in GpuSample.__slots__:
            want = values.get(name, getattr(blank, name))
            exact = pytest.approx(want, rel=1e-12, abs=0) if isinstance(want, float) else want
            assert getattr(found, name) == exact, (uuid, name)
    assert {sample.uuid for sample in reading.samples} == set(expected.samples)

    assert {gpu.uuid for gpu in reading.gpus} == set(expected.samples)
    assert {gpu.node for gpu in reading.gpus} == expected.nodes
    assert {gpu.model for gpu in reading.gpus} == expected.models
    assert {gpu.driver_version for gpu in reading.gpus} == {expected.driver}
    for gpu in reading.gpus:
        _holds(gpu, expected.gpus.get(gpu.uuid, {}))
    assert reading.allocations == expected.holders
    assert reading.gaps == () and reading.events == ()


@pytest.mark.parametrize("capture", CAPTURES)
def test_shares_of_a_board_add_up_to_the_board(shared: Path, capture: str) -> None:
    reading = collect((shared / "dcgm" / capture).read_text())
    boards: dict[str, float] = {}
    for gpu in reading.gpus:
        board = gpu.parent_uuid or gpu.uuid
        boards[board] = boards.get(board, 0.0) + gpu.share_of_device
    assert all(total == pytest.approx(1.0) for total in boards.values())


def _holds(gpu: Gpu, values: dict[str, object]) -> None:
    assert {name: getattr(gpu, name) for name in values} == values
