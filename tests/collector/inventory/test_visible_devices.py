"""What a process may see, as CUDA, the container runtime and Slurm read their variables."""

import pytest

from collector.inventory.environment import environment_claims
from collector.inventory.visible_devices import Ambiguous, Sight, Unlimited, Visible, sight
from collector.model import (
    ClaimSource,
    Gpu,
    GpuUuid,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)

NODE = NodeName("gpu1")
UUIDS = [GpuUuid(f"GPU-{i}{i}{i}abcde-0000-1111-2222-33333333333{i}") for i in range(4)]
GPUS = [Gpu(uuid=uuid, node=NODE, index=i, model="A100") for i, uuid in enumerate(UUIDS)]
MIXED = [Gpu(uuid=uuid, node=NODE, index=i, model=("A100", "T4")[i % 2]) for i, uuid in enumerate(UUIDS)]
INSTANCES = [
    Gpu(uuid=GpuUuid(f"MIG-{i}1111111-aaaa-5ef2-a935-195bd0094fbd"), node=NODE, index=0, parent_uuid=UUIDS[0])
    for i in range(2)
]


def see(in_container: bool = False, gpus: list[Gpu] = GPUS, **environment: str) -> Sight:
    return sight(environment, gpus, in_container=in_container)


def devices(*indices: int) -> Visible:
    return Visible(uuids=tuple(UUIDS[i] for i in indices))


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 3 ", [1, 3]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,1", [0]),
        ("1,9,2", [1]),
        ("9", []),
        ("1,1", []),
        ("0,x,1", [0]),
        ("2x,1", [2, 1]),
        (f"0,{UUIDS[1]}", [0]),
        (UUIDS[3], [3]),
        ("GPU-111", [1]),
        ("GPU-222,GPU-000", [2, 0]),
        ("GPU-", []),
        ("GPU-999", []),
        ("GPU-111,GPU-999,GPU-222", [1]),
        (f"{UUIDS[1]},{UUIDS[1]}", []),
        (f"{UUIDS[1]},2", [1]),
        ("gpu-111", []),
    ],
)
def test_cuda_visible_devices_are_read_as_cuda_reads_them(value: str, indices: list[int]) -> None:
    assert see(CUDA_VISIBLE_DEVICES=value) == devices(*indices)


def test_no_variable_is_no_claim() -> None:
    assert see() == Unlimited()
    assert see(NVIDIA_VISIBLE_DEVICES="0") == Unlimited()  # only a container runtime reads it


def test_mig_instances_are_named_by_uuid_or_prefix() -> None:
    gpus = [*GPUS, *INSTANCES]
    assert see(gpus=gpus, CUDA_VISIBLE_DEVICES=INSTANCES[1].uuid) == Visible(uuids=(INSTANCES[1].uuid,))
    assert see(gpus=gpus, CUDA_VISIBLE_DEVICES="MIG-0") == Visible(uuids=(INSTANCES[0].uuid,))


def test_an_index_on_a_node_in_mig_mode_is_unclear() -> None:
    assert isinstance(see(gpus=[*GPUS, *INSTANCES], CUDA_VISIBLE_DEVICES="0"), Ambiguous)


def test_indices_on_mixed_models_are_clear_in_pci_order_only() -> None:
    unclear = see(gpus=MIXED, CUDA_VISIBLE_DEVICES="1")
    assert isinstance(unclear, Ambiguous)
    assert "CUDA_DEVICE_ORDER" in unclear.reason
    assert see(gpus=MIXED, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID") == devices(1)
    assert isinstance(see(gpus=MIXED, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="FASTEST_FIRST"), Ambiguous)
    assert see(gpus=MIXED, CUDA_VISIBLE_DEVICES=UUIDS[1]) == devices(1)


def test_indices_are_unclear_when_a_gpu_is_missing_or_unnumbered() -> None:
    assert isinstance(see(gpus=[GPUS[0], GPUS[2]], CUDA_VISIBLE_DEVICES="1"), Ambiguous)
    assert isinstance(see(gpus=[Gpu(uuid=UUIDS[0], node=NODE)], CUDA_VISIBLE_DEVICES="0"), Ambiguous)


@pytest.mark.parametrize(
    ("runtime", "cuda", "expected"),
    [
        ("all", None, Unlimited()),
        ("all", "2", devices(2)),
        ("none", None, devices()),
        ("", None, devices()),
        ("2,3", None, devices(2, 3)),
        ("3,2", "0", devices(2)),
        ("2,3", "1", devices(3)),
        ("2,3", "2", devices()),
        (UUIDS[3], "0", devices(3)),
        ("GPU-111,3", None, devices(1, 3)),
    ],
)
def test_in_a_container_indices_count_the_container_s_devices(
    runtime: str, cuda: str | None, expected: Sight
) -> None:
    environment = {"NVIDIA_VISIBLE_DEVICES": runtime}
    if cuda is not None:
        environment["CUDA_VISIBLE_DEVICES"] = cuda
    assert sight(environment, GPUS, in_container=True) == expected


@pytest.mark.parametrize("runtime", [None, "void", "0:1", "7", "GPU-999", "²"])
def test_a_container_whose_devices_are_not_told_is_unclear(runtime: str | None) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "0"}
    if runtime is not None:
        environment["NVIDIA_VISIBLE_DEVICES"] = runtime
    assert isinstance(sight(environment, GPUS, in_container=True), Ambiguous)


def test_a_uuid_is_clear_in_any_container() -> None:
    assert see(in_container=True, CUDA_VISIBLE_DEVICES=UUIDS[2]) == devices(2)


@pytest.mark.parametrize(
    ("slurm", "cuda", "expected"),
    [
        ("2,3", "0,1", devices(2, 3)),
        ("2,3", "2,3", devices(2, 3)),
        ("2,3", "1", devices(3)),
        ("0,1", "0,1", devices(0, 1)),
        ("0,1", "1", devices(1)),
    ],
)
def test_in_a_slurm_job_indices_count_the_node_or_the_job(slurm: str, cuda: str, expected: Sight) -> None:
    assert see(SLURM_JOB_ID="8", SLURM_JOB_GPUS=slurm, CUDA_VISIBLE_DEVICES=cuda) == expected


def test_slurm_25_11_puts_uuids_beside_numeric_job_gpus() -> None:
    environment = {
        "SLURM_JOB_ID": "8",
        "SLURM_JOB_GPUS": "0,1",
        "CUDA_VISIBLE_DEVICES": f"{UUIDS[2]},{UUIDS[3]}",
    }
    assert sight(environment, GPUS, in_container=False) == devices(2, 3)


@pytest.mark.parametrize(
    ("slurm", "cuda"), [("1,2", "1"), ("2,3", "7"), ("gpu:2", "0"), ("²", "0"), (None, "0")]
)
def test_indices_that_two_readings_fit_are_unclear(slurm: str | None, cuda: str) -> None:
    environment = {"SLURM_JOB_ID": "8", "CUDA_VISIBLE_DEVICES": cuda}
    if slurm is not None:
        environment["SLURM_JOB_GPUS"] = slurm
    assert isinstance(sight(environment, GPUS, in_container=False), Ambiguous)


def test_a_step_s_gpus_are_nearer_than_the_job_s() -> None:
    assert see(
        SLURM_JOB_ID="8", SLURM_JOB_GPUS="0,1", SLURM_STEP_GPUS="1", CUDA_VISIBLE_DEVICES="0"
    ) == devices(1)


def process(pid: int, **fields: object) -> Process:
    environment = tuple(sorted(dict(fields.pop("environment", {})).items()))  # type: ignore[call-overload]
    key = ProcessKey(node=NODE, pid=pid, started_ms=1)
    return Process(key=key, tree=key, user="ann", environment=environment, **fields)  # type: ignore[arg-type]


def on(held: Process, index: int) -> ProcessSample:
    return ProcessSample(uuid=UUIDS[index], key=held.key, at_ms=1, width_ms=1)


def test_a_running_process_claims_what_its_environment_names_even_while_unused() -> None:
    held = process(71, environment={"CUDA_VISIBLE_DEVICES": "2,3"})
    found = environment_claims(GPUS, [held], [on(held, 2)])
    assert [claim.uuid for claim in found.allocations] == [UUIDS[2], UUIDS[3]]
    assert {claim.holder.job for claim in found.allocations} == {"pid:gpu1/71@1"}
    assert {claim.source for claim in found.allocations} == {ClaimSource.ENVIRONMENT}


def test_a_process_on_a_gpu_that_its_environment_excludes_claims_nothing() -> None:
    held = process(71, environment={"CUDA_VISIBLE_DEVICES": "2"})
    found = environment_claims(GPUS, [held], [on(held, 0)])
    assert found.allocations == ()
    assert found.unclear == ((held.key, "the process is on a GPU that its environment excludes"),)


def test_ranks_of_one_job_claim_together() -> None:
    first = process(71, environment={"CUDA_VISIBLE_DEVICES": "0,1"}, slurm_job=None)
    second = process(72, environment={"CUDA_VISIBLE_DEVICES": "0,1"})
    second = Process(key=second.key, tree=first.key, user="ann", environment=second.environment)
    found = environment_claims(GPUS, [first, second], [on(first, 0), on(second, 1)])
    assert sorted(claim.uuid for claim in found.allocations) == [UUIDS[0], UUIDS[1]]


def test_a_process_that_is_on_no_gpu_claims_nothing() -> None:
    held = process(71, environment={"CUDA_VISIBLE_DEVICES": "2,3"})
    assert environment_claims(GPUS, [held], []).allocations == ()


def test_a_process_on_an_instance_is_on_its_device() -> None:
    held = process(71, environment={"CUDA_VISIBLE_DEVICES": UUIDS[0]})
    sample = ProcessSample(uuid=INSTANCES[0].uuid, key=held.key, at_ms=1, width_ms=1)
    found = environment_claims([*GPUS, *INSTANCES], [held], [sample])
    assert [claim.uuid for claim in found.allocations] == [UUIDS[0]]


def test_a_slurm_job_known_from_its_cgroup_alone_makes_indices_unclear() -> None:
    held = process(71, environment={"CUDA_VISIBLE_DEVICES": "0"}, slurm_job="8")
    assert environment_claims(GPUS, [held], [on(held, 0)]).allocations == ()


@pytest.mark.parametrize("digits", ["9" * 7, "9" * 5_000, "0" * 16_000])
@pytest.mark.parametrize(
    "variables",
    [
        {"CUDA_VISIBLE_DEVICES": "{}"},
        {"CUDA_VISIBLE_DEVICES": "0,{}"},
        {"CUDA_VISIBLE_DEVICES": "+{}x"},
        {"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_GPUS": "{}"},
        {"CUDA_VISIBLE_DEVICES": "0", "SLURM_STEP_GPUS": "0,{}"},
        {"NVIDIA_VISIBLE_DEVICES": "{}"},
        {"NVIDIA_VISIBLE_DEVICES": "{}:0"},
    ],
)
def test_an_index_that_no_node_has_is_unclear_however_long_it_is(
    digits: str, variables: dict[str, str]
) -> None:
    named = {name: value.format(digits) for name, value in variables.items()}
    seen = see(in_container="NVIDIA_VISIBLE_DEVICES" in named, **named)
    assert isinstance(seen, Ambiguous) and len(seen.reason) < 200


def test_an_index_of_five_thousand_digits_takes_no_claim_from_anybody_else() -> None:
    eves = process(70, environment={"CUDA_VISIBLE_DEVICES": "9" * 5_000})
    anns = process(71, environment={"CUDA_VISIBLE_DEVICES": "1"})
    found = environment_claims(GPUS, [eves, anns], [on(eves, 0), on(anns, 1)])
    assert [key for key, _ in found.unclear] == [eves.key]
    assert [claim.uuid for claim in found.allocations] == [UUIDS[1]]
