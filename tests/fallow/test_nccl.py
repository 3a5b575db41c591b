"""Groups over NCCL, by a stand-in that fails as NCCL does: nothing that an abort left is taken for a sum."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.gradients.deterministic import Tree  # noqa: E402
from fallow.gradients.overlapped import Plain  # noqa: E402
from fallow.process_group import group as groups  # noqa: E402
from fallow.process_group import nccl_group  # noqa: E402
from fallow.process_group.collectives import Alone, GroupBroken  # noqa: E402
from fallow.process_group.membership_client import Proof  # noqa: E402
from fallow.process_group.nccl_group import NcclGroup  # noqa: E402
from tests.fallow.crew import Outcome, run, training  # noqa: E402
from tests.fallow.nccl_stand_in import StandIn  # noqa: E402
from tests.fallow.ranks import side_by_side  # noqa: E402

CPU = torch.device("cpu")


class Passed:
    """A mark that the device has come past."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...


class NeverPassed(Passed):
    def query(self) -> bool:
        return False


def grouped(
    kind: Callable[..., Any] = StandIn, *, timeout_s: float = 30.0, mark: Any = Passed
) -> list[NcclGroup]:
    store = torch.distributed.HashStore()
    backends = [kind(store, rank, 2) for rank in range(2)]
    side_by_side(2, lambda rank: backends[rank].allreduce([torch.ones(1)]).wait())  # as ``connect`` does
    return [NcclGroup(backend, store, timeout_s, mark) for backend in backends]


@pytest.fixture
def ends() -> Iterator[list[NcclGroup]]:
    two = grouped()
    yield two
    for each in two:
        each.abort()


@pytest.mark.quick
def test_what_an_abort_left_in_the_buffer_is_not_believed(ends: list[NcclGroup]) -> None:
    row = torch.ones(3)
    work = ends[0].start_all_reduce(row)
    ends[0].abort()
    work.wait()  # as NCCL's: it ends well
    assert row.tolist() == [7.0] * 3
    with pytest.raises(GroupBroken, match="was aborted"):
        ends[0].settle()


@pytest.mark.quick
def test_a_sum_that_all_came_to_is_believed(ends: list[NcclGroup]) -> None:
    rows = [torch.ones(3), torch.ones(3)]
    works = [end.start_all_reduce(row) for end, row in zip(ends, rows, strict=True)]
    for end, work in zip(ends, works, strict=True):
        work.wait()
        end.settle()
    assert [row.tolist() for row in rows] == [[2.0] * 3] * 2


@pytest.mark.quick
@pytest.mark.parametrize("reducer", [Plain, Tree])
@pytest.mark.parametrize("value", [7.0, float("nan"), 1.0, 0.0])
def test_a_step_whose_sum_is_garbage_is_broken_and_changes_nothing(reducer: Any, value: float) -> None:
    """Even where nobody here knows of an abort: a peer's, say."""

    class Poisoned(Alone):
        """Two workers, whose exchanges end at once with ``value`` everywhere."""

        world_size = 2

        def start_all_reduce(self, buffer: torch.Tensor) -> Any:
            buffer.fill_(value)
            return Alone().start_all_reduce(buffer)

        def start_exchange(self, sends: Any, receives: Any) -> Any:
            for tensor, _ in receives:
                tensor.fill_(value)
            return Alone().start_exchange((), ())

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    made = reducer(model, Poisoned(), 2)
    made.begin()
    made.begin_micro_batch(True)
    loss = model(torch.randn(8, 4)).sum()
    loss.backward()
    made.end_micro_batch(0, 0.5, loss.detach(), None)
    with pytest.raises(GroupBroken, match="not whole"):
        made.finish([(0, 1), (1, 2)], [0.0, 0.0], 5)
    made._flat.buffers.rewind()  # as the trainer does
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), name


@pytest.mark.quick
def test_a_proof_that_was_aborted_proves_nothing(ends: list[NcclGroup]) -> None:
    class Lucky(StandIn):
        """Garbage can be just what was hoped for: what another proof left there."""

        garbage = staticmethod(lambda buffer: buffer.mul_(2))

    first, _ = grouped(Lucky)
    proof = Proof(first, 3, CPU)
    first.abort()
    with pytest.raises(GroupBroken):
        proof.check()


@pytest.mark.quick
def test_a_peer_that_never_comes_is_waited_for_no_longer_than_the_timeout() -> None:
    first, second = grouped(timeout_s=0.6)
    row = torch.ones(3)
    first.start_all_reduce(row).wait()  # the guard frees it; else this test times out
    with pytest.raises(GroupBroken, match=r"not over within 0\.6 s"):
        first.settle()
    second.abort()


@pytest.mark.quick
def test_a_device_that_does_not_come_past_a_sum_is_noticed_as_well() -> None:
    """With NCCL ``wait`` returns at once, and the host stands where it reads the number."""
    first, second = grouped(timeout_s=0.6, mark=NeverPassed)
    rows = [torch.ones(3), torch.ones(3)]
    works = [end.start_all_reduce(row) for end, row in zip((first, second), rows, strict=True)]
    for work in works:
        work.wait()
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        try:
            first.start_send(torch.ones(1), 1)
        except GroupBroken as broken:
            assert "not over within" in str(broken)
            break
        time.sleep(0.05)
    else:
        pytest.fail("the group was never aborted")
    second.abort()


@pytest.mark.quick
def test_an_abort_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(StandIn):
        abort_hangs = True

    monkeypatch.setattr(nccl_group, "ABORT_S", 0.1)
    first, second = grouped(Hanging)
    first.abort()
    with pytest.raises(GroupBroken):
        first.start_all_reduce(torch.ones(1))
    second.abort()


@pytest.mark.quick
def test_torchs_watchdog_is_off_for_our_groups_and_stays_as_it_was_for_the_scripts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")  # as torchrun does
    monkeypatch.delenv("TORCH_NCCL_ENABLE_MONITORING", raising=False)
    seen: list[dict[str, str | None]] = []

    def make(store: Any, rank: int, world_size: int) -> StandIn:
        seen.append({name: os.environ.get(name) for name in nccl_group.SETTINGS})
        return StandIn(store, rank, world_size)

    for each in connected(make):
        assert isinstance(each, NcclGroup), each
        each.abort()
    assert seen == [nccl_group.SETTINGS] * 2
    assert os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "1"
    assert "TORCH_NCCL_ENABLE_MONITORING" not in os.environ


def connected(make: Any, connect_timeout_s: float = 10.0) -> list[Any]:
    """Two ranks that connect in threads; what each got or raised."""
    store = torch.distributed.HashStore()
    times = {"timeout_s": 30.0, "connect_timeout_s": connect_timeout_s}
    return side_by_side(2, lambda rank: nccl_group.connect(store, rank, 2, CPU, make=make, **times))


@pytest.mark.quick
def test_a_group_has_summed_before_it_counts_as_connected() -> None:
    class Half(StandIn):
        """Rank 1 makes its end, and never comes to a sum."""

        def __init__(self, store: Any, rank: int, world_size: int):
            super().__init__(store, rank, world_size)
            self.connects = rank == 0

    for each in connected(Half, connect_timeout_s=0.3):
        assert isinstance(each, GroupBroken), each
        assert "nothing was summed within 0.3 s" in str(each)


class Faltering(StandIn):
    """As NCCL when a peer dies in a step: no word of it, and after the abort its own part for the sum."""

    garbage = staticmethod(lambda buffer: None)
    lingers_s = 0.05


def test_a_worker_that_dies_amid_a_sum_never_has_garbage_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole training over the stand-in: grows, loses a worker without a word, and learns the same."""

    def over_stand_in(*where: Any, **times: Any) -> Any:
        return nccl_group.connect(*where, make=Faltering, **times)

    monkeypatch.setitem(groups.OWN_SUMS, "cpu", over_stand_in)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=uuid.uuid4())
    )
    steps, born = 40, []

    def train(environment: Any, outcome: Outcome) -> None:
        born.append(outcome)
        dies = len(born) == 2

        def falter() -> None:
            time.sleep(0.01)
            if dies and outcome.steps[-1].world_size > 1 and len(outcome.steps) > 3:
                raise RuntimeError("this worker dies, and says goodbye to nobody")

        training(steps, each_step=falter)(environment, outcome)

    done = run(train, 1, {4: 3})
    assert done.exit_code == 0, done.journal
    assert any("dies" in str(outcome.error) for outcome in done.outcomes), done.journal
    reference = Outcome()
    training(steps)({}, reference)
    assert reference.parameters is not None
    assert done.finished
    for outcome in done.finished:
        for name, value in reference.parameters.items():
            assert torch.allclose(outcome.parameters[name], value, rtol=0, atol=1e-12), name
