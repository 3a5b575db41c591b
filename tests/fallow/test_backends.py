"""What carries the sums of a world: NCCL where each worker has a GPU of its own, copies on the host else."""

import socket
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.controller.membership import Limits  # noqa: E402
from fallow.errors import Mistake  # noqa: E402
from fallow.process_group import group as groups  # noqa: E402
from fallow.process_group import static  # noqa: E402
from fallow.process_group.collectives import Alone, Group, GroupBroken  # noqa: E402
from fallow.process_group.staged_group import StagedGroup  # noqa: E402
from tests.fallow.gpus import a_gpu  # noqa: E402
from tests.fallow.ranks import side_by_side  # noqa: E402

pytestmark = pytest.mark.quick


def connected(devices: list[str]) -> list[Group | BaseException]:
    """Each rank's end of a group whose ranks were given these devices, or what it raised."""
    store = torch.distributed.HashStore()
    world = len(devices)
    return side_by_side(
        world, lambda rank: groups.connect(store, rank, world, torch.device(devices[rank]), "127.0.0.1")
    )


def name_gpus(monkeypatch: pytest.MonkeyPatch, *uuids: str) -> None:
    """Let torch tell of GPUs that aren't there."""
    buses = {uuid: bus for bus, uuid in enumerate(uuids, 1)}
    gpus = [a_gpu(buses[uuid], uuid) for uuid in uuids]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpus[device.index or 0])


def sums(ends: list[Group | BaseException]) -> list[list[float]]:
    rows = [torch.tensor([1.0, rank]) for rank in range(len(ends))]
    works = [end.start_all_reduce(row) for end, row in zip(ends, rows, strict=True)]
    for work in works:
        work.wait()
    return [row.tolist() for row in rows]


def end(ends: list[Group | BaseException]) -> None:
    for each in ends:
        each.abort()


def test_two_workers_on_one_gpu_meet_over_copies_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    name_gpus(monkeypatch, "GPU-a")
    ends = connected(["cuda:0", "cuda:0"])
    assert [type(each) for each in ends] == [StagedGroup] * 2, ends
    assert sums(ends) == [[2.0, 1.0]] * 2
    end(ends)


def test_one_gpu_under_two_numbers_is_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    name_gpus(monkeypatch, "GPU-a", "GPU-a")
    ends = connected(["cuda:0", "cuda:1"])
    assert [type(each) for each in ends] == [StagedGroup] * 2, ends
    end(ends)


def test_two_instances_of_one_gpu_are_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under MIG each has a UUID of its own; NCCL goes by the place on the bus (NCCL issue 1716)."""
    gpus = [a_gpu(7, "MIG-a"), a_gpu(7, "MIG-b")]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpus[device.index])
    ends = connected(["cuda:0", "cuda:1"])
    assert [type(each) for each in ends] == [StagedGroup] * 2, ends
    end(ends)


def test_gpus_at_one_place_of_two_machines_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [a_gpu(7, "GPU-a"), a_gpu(7, "GPU-b")]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpus[device.index])
    monkeypatch.setattr(groups, "_machine", lambda: threading.current_thread().name)
    monkeypatch.setitem(groups.OWN_SUMS, "cuda", lambda *asked, **times: Alone())
    assert [type(each) for each in connected(["cuda:0", "cuda:1"])] == [Alone] * 2


def test_gloo_is_taken_for_gpus_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    name_gpus(monkeypatch, "GPU-a", "GPU-b")
    monkeypatch.setenv(groups.ENV_BACKEND, "gloo")
    ends = connected(["cuda:0", "cuda:1"])
    assert [type(each) for each in ends] == [StagedGroup] * 2, ends
    end(ends)


def test_two_workers_on_one_gpu_go_over_nccl_where_all_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL 2.30 lets two ranks share a GPU where NCCL_MULTI_RANK_GPU_ENABLE=1; others refuse."""
    name_gpus(monkeypatch, "GPU-a")
    monkeypatch.setenv(groups.ENV_BACKEND, "nccl")
    monkeypatch.setitem(groups.OWN_SUMS, "cuda", lambda *asked, **times: Alone())
    assert [type(each) for each in connected(["cuda:0", "cuda:0"])] == [Alone] * 2


def test_who_leaves_a_staged_group_frees_those_who_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    name_gpus(monkeypatch, "GPU-a")
    first, second = connected(["cuda:0", "cuda:0"])
    work = first.start_all_reduce(torch.ones(2))
    second.abort()
    with pytest.raises(GroupBroken):
        work.wait()
    end([first])


def test_a_backend_that_is_not_known_is_named_before_anybody_waits() -> None:
    with pytest.raises(Mistake, match="FALLOW_BACKEND='mpi': set it to gloo or nccl"):
        fallow.connect(environment={groups.ENV_BACKEND: "mpi"})


@pytest.mark.parametrize("told", ["2m", "0", "-1", "nan", "inf", "", "1e9"])
def test_a_time_that_is_none_is_named_before_anybody_waits(told: str) -> None:
    """Read where the group is built, it would end the thread that connects, and the others would wait."""
    with pytest.raises(Mistake, match=f"FALLOW_STEP_TIMEOUT_S={told!r}: set it to how many seconds"):
        fallow.connect(environment={groups.ENV_STEP_TIMEOUT: told})


@pytest.mark.parametrize("told", ["0.5", "120", "2592000"])
def test_any_time_up_to_thirty_days_is_taken(told: str) -> None:
    fallow.connect(environment={groups.ENV_STEP_TIMEOUT: told})


def test_nccl_has_longer_to_connect_than_gloo_and_the_controller_waits_for_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """10 s were too few: NCCL loads its libraries and looks at the machine's links in the first sum."""
    limits_s: list[float] = []

    def own_sums(*asked: object, connect_timeout_s: float, timeout_s: float) -> Group:
        limits_s.append(connect_timeout_s)
        return Alone()

    name_gpus(monkeypatch, "GPU-a", "GPU-b")
    monkeypatch.setitem(groups.OWN_SUMS, "cuda", own_sums)
    connected(["cuda:0", "cuda:1"])
    assert limits_s == [60.0, 60.0]
    assert Limits().connect_ms > 60_000


def test_under_torchrun_nccl_has_as_long_as_workers_have_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A miss ends the training there; torch's own limit for a group over NCCL is ten minutes, too."""
    limits_s: list[float] = []
    both = threading.Barrier(2)  # the store that both meet in ends with the first

    def own_sums(*asked: object, connect_timeout_s: float, timeout_s: float) -> Group:
        limits_s.append(connect_timeout_s)
        both.wait(60)
        return Alone()

    name_gpus(monkeypatch, "GPU-a", "GPU-b")
    monkeypatch.setitem(groups.OWN_SUMS, "cuda", own_sums)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    launched = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    def run(rank: int) -> object:
        return static.from_environment({**launched, "RANK": str(rank)}, torch.device("cuda", rank))

    assert [type(each) for each in side_by_side(2, run)] == [Alone] * 2
    assert limits_s == [600.0, 600.0]
