"""What workers see: torchrun's variables, TF_CONFIG, devices, and settings that yield to the user's."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.launcher import world
from service.launcher.world import Workers

pytestmark = pytest.mark.quick

UUIDS = ("GPU-a", "GPU-b", "GPU-c")


def laid_out(workers: Workers, *devices: str) -> tuple[dict[str, str], ...]:
    ports = [5000 + at for at in range(world.ports_needed(workers, len(devices)))]
    return world.environments(workers, devices, ports, job="fallow:7", restarts=1, most_restarts=3)


def test_one_process_sees_all_devices_and_no_rank() -> None:
    assert laid_out(Workers.ONE, *UUIDS) == ({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c"},)


def test_workers_like_torchruns_see_all_devices_and_take_the_one_of_their_local_rank() -> None:
    ranks = laid_out(Workers.TORCHRUN, *UUIDS)
    assert [each["RANK"] for each in ranks] == [each["LOCAL_RANK"] for each in ranks] == ["0", "1", "2"]
    assert {each["WORLD_SIZE"] for each in ranks} == {"3"}
    assert {each["CUDA_VISIBLE_DEVICES"] for each in ranks} == {"GPU-a,GPU-b,GPU-c"}
    assert {(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in ranks} == {("127.0.0.1", "5000")}
    assert {each["TORCHELASTIC_RESTART_COUNT"] for each in ranks} == {"1"}


def test_tensorflows_workers_each_see_their_own_device_and_name_all() -> None:
    tasks = laid_out(Workers.TENSORFLOW, "GPU-a", "GPU-b")
    assert [each["CUDA_VISIBLE_DEVICES"] for each in tasks] == ["GPU-a", "GPU-b"]
    read = [json.loads(each["TF_CONFIG"]) for each in tasks]
    assert [each["task"] for each in read] == [
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
    ]
    assert {tuple(each["cluster"]["worker"]) for each in read} == {("127.0.0.1:5000", "127.0.0.1:5001")}


@given(
    st.sampled_from(Workers),
    st.lists(st.sampled_from([f"GPU-{at}" for at in range(16)]), min_size=1, unique=True),
)
def test_every_layout_uses_each_device_and_no_other(workers: Workers, devices: list[str]) -> None:
    seen = laid_out(workers, *devices)
    assert len(seen) == world.count(workers, len(devices))
    assert {each for one in seen for each in one["CUDA_VISIBLE_DEVICES"].split(",")} == set(devices)


def test_the_users_own_setting_stands_and_the_leases_devices_win() -> None:
    user = {"TF_FORCE_GPU_ALLOW_GROWTH": "false", "CUDA_VISIBLE_DEVICES": "0", "HOME": "/home/ann"}
    settings = (("TF_FORCE_GPU_ALLOW_GROWTH", "true"), ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"))
    whole = world.joined(user, settings, {"CUDA_VISIBLE_DEVICES": "GPU-a"}, threads=False)
    assert whole == {
        "TF_FORCE_GPU_ALLOW_GROWTH": "false",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "CUDA_VISIBLE_DEVICES": "GPU-a",
        "HOME": "/home/ann",
    }


def test_several_workers_compute_with_one_thread_unless_the_user_chose() -> None:
    assert world.joined({}, (), {}, threads=True)["OMP_NUM_THREADS"] == "1"
    assert world.joined({"OMP_NUM_THREADS": "4"}, (), {}, threads=True)["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in world.joined({}, (), {}, threads=False)
