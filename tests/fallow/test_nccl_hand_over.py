"""A state handed over NCCL, by a stand-in that makes its communicators as torch's ProcessGroupNCCL does."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
dist = torch.distributed

from fallow.process_group import group as groups  # noqa: E402
from fallow.process_group import nccl_group  # noqa: E402
from fallow.process_group.address_store import Meeting  # noqa: E402
from fallow.process_group.collectives import Group, GroupBroken, Work  # noqa: E402
from fallow.process_group.state_transfer import receive_state, send_state  # noqa: E402
from fallow.secret import Secret  # noqa: E402
from tests.fallow.gpus import a_gpu  # noqa: E402
from tests.fallow.nccl_stand_in import GARBAGE, StandIn  # noqa: E402
from tests.fallow.ranks import side_by_side  # noqa: E402

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")
T = TypeVar("T")


@pytest.fixture(autouse=True)
def _as_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies on a GPU is never read from a neighbour's memory."""
    monkeypatch.setenv("FALLOW_READ_NEIGHBOURS", "0")
    monkeypatch.setenv("TORCH_NCCL_RANKS_PER_ROOT", "128")


def driven(
    monkeypatch: pytest.MonkeyPatch, world: int, work: Callable[[Group], T], make: Any = StandIn
) -> list[T | BaseException]:
    """What each rank's ``work`` gave, over NCCL's stand-in, in a group that met in the controller's store."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: a_gpu(device.index))
    monkeypatch.setitem(
        groups.OWN_SUMS,
        "cuda",
        lambda store, rank, size, device, **times: nccl_group.connect(
            store, rank, size, CPU, make=make, **times
        ),
    )
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    secret = Secret.new()

    def run(rank: int) -> T:
        client = dist.TCPStore("127.0.0.1", store.port, is_master=False)
        meeting = Meeting(client, secret, "generation/2")
        group = groups.connect(meeting, rank, world, torch.device("cuda", rank))
        try:
            return work(group)
        finally:
            group.abort()

    return side_by_side(world, run)


def state() -> dict[str, Any]:
    return {"weights": torch.arange(100_000.0), "momentum": [torch.ones(3), torch.zeros(2)], "step": 41}


def test_a_state_goes_from_one_to_the_next_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the ids that a communicator of all needs are known beyond the rank that made them."""

    def work(group: Group) -> Any:
        if group.rank == 0:
            return send_state(group, 1, state(), CPU)
        onward = 2 if group.rank == 1 else None
        return receive_state(group, group.rank - 1, None, CPU, onward)

    sent, *received = driven(monkeypatch, 3, work)
    assert sent == 4 * 100_005, sent
    for each in received:
        assert isinstance(each, dict), each
        assert each["step"] == 41
        assert torch.equal(each["weights"], torch.arange(100_000.0))
        assert [part.tolist() for part in each["momentum"]] == [[1.0] * 3, [0.0] * 2]


class Cut:
    """A group that is aborted when so many messages were begun: all that is to come of them is garbage."""

    def __init__(self, group: Group, messages: int):
        self._group, self._left = group, messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)

    def send(self, tensor: torch.Tensor, to: int) -> None:
        self.start_send(tensor, to).wait()

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        self.start_receive(tensor, source).wait()

    def start_send(self, tensor: torch.Tensor, to: int) -> Any:
        return self._counted(self._group.start_send(tensor, to))

    def start_receive(self, tensor: torch.Tensor, source: int) -> Any:
        return self._counted(self._group.start_receive(tensor, source))

    def _counted(self, work: Work) -> Work:
        self._left -= 1
        if self._left == 0:
            self._group.abort()
        return work


def a_tensor() -> dict[str, Any]:
    return {"weights": torch.ones(3)}


LENGTH_HEADER_AND_TENSOR = 3
"""The messages in which it travels."""


def test_a_state_that_was_cut_off_is_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is came, and its tensor is what an abort left: nobody takes that for a state."""
    over = threading.Event()

    def work(group: Group) -> Any:
        try:
            if group.rank == 1:
                return receive_state(Cut(group, LENGTH_HEADER_AND_TENSOR), 0, None, CPU)
            sent = send_state(group, 1, a_tensor(), CPU)
            over.wait(20)
            return sent
        finally:
            over.set()

    sent, received = driven(monkeypatch, 2, work)
    assert sent == 4 * 3, sent
    assert isinstance(received, GroupBroken), received
    assert "was aborted" in str(received)


def test_a_state_that_did_not_leave_counts_as_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends only queue: the last one ends well though the group was aborted under it."""
    over = threading.Event()

    def work(group: Group) -> Any:
        try:
            if group.rank == 0:
                return send_state(Cut(group, LENGTH_HEADER_AND_TENSOR), 1, a_tensor(), CPU)
            over.wait(20)
            return None
        finally:
            over.set()

    sent, _ = driven(monkeypatch, 2, work)
    assert isinstance(sent, GroupBroken), sent


def test_a_batch_that_broke_off_leaves_the_thread_free_for_another_group() -> None:
    """A thread's open batches are counted over all groups: with one left open, no sum would begin."""
    store = dist.HashStore()
    first = nccl_group.NcclGroup(StandIn(store, 0, 1), store, 5.0, _Passed)
    first.all_reduce([torch.ones(1)])
    first._group.aborted.set()  # as the guard's thread does, between the look and the call
    with pytest.raises(GroupBroken):
        first.start_exchange([(torch.ones(1), 0)], [])
    store = dist.HashStore()
    second = nccl_group.NcclGroup(StandIn(store, 0, 1), store, 5.0, _Passed)
    row = torch.full((1,), GARBAGE + 1)
    second.all_reduce([row])
    second.settle()
    assert row.tolist() == [GARBAGE + 1]
    for each in (first, second):
        each.abort()


class _Passed:
    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...


def test_a_world_with_several_ids_meets_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 128 ranks torch has several of them make an id; a driven group's ranks learn rank 0's alone."""
    monkeypatch.setenv("TORCH_NCCL_RANKS_PER_ROOT", "1")

    def work(group: Group) -> float:
        row = torch.ones(1)
        group.all_reduce([row])
        group.settle()
        return float(row)

    assert driven(monkeypatch, 2, work) == [2.0] * 2
