"""What carries the sums of a world: NCCL where each worker has a GPU of its own, copies on the host else."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.errors import Mistake  # noqa: E402
from fallow.process_group import group as groups  # noqa: E402
from fallow.process_group.collectives import Alone, Group, GroupBroken  # noqa: E402
from fallow.process_group.staged_group import StagedGroup  # noqa: E402
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
    gpus = [SimpleNamespace(uuid=uuid) for uuid in uuids]
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
