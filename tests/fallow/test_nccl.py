"""Groups over NCCL, by a stand-in that fails as NCCL does: nothing that an abort left is taken for a sum."""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.gradients.deterministic import Tree  # noqa: E402
from fallow.gradients.overlapped import Plain  # noqa: E402
from fallow.process_group import address_store, nccl_group  # noqa: E402
from fallow.process_group import group as groups  # noqa: E402
from fallow.process_group.collectives import Alone, GroupBroken  # noqa: E402
from fallow.process_group.membership_client import Proof  # noqa: E402
from fallow.process_group.nccl_group import NcclGroup  # noqa: E402
from tests.fallow.crew import Outcome, run, training, until_resized  # noqa: E402
from tests.fallow.gpus import a_gpu  # noqa: E402
from tests.fallow.nccl_stand_in import Options, StandIn  # noqa: E402
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


class Capturing:
    """A device while the training's thread captures a graph: a look from any other one ruins that."""

    def __init__(self) -> None:
        self.looks: list[str] = []
        self.refuses = 0
        self.come = True

    def query(self) -> bool:
        self.looks.append(threading.current_thread().name)
        if threading.current_thread() is not threading.main_thread() and self.refuses > 0:
            self.refuses -= 1
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        return self.come

    def synchronize(self) -> None:
        self.looks.append("synchronize")


def summed(group: NcclGroup) -> None:
    group.start_all_reduce(torch.ones(1)).wait()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[NcclGroup, Capturing]]]:
    """A group of one rank that is looked after often, and its device."""
    monkeypatch.setattr(nccl_group, "LOOK_S", 0.01)
    made: list[NcclGroup] = []

    def make(timeout_s: float) -> tuple[NcclGroup, Capturing]:
        store, device = torch.distributed.HashStore(), Capturing()
        made.append(NcclGroup(StandIn(store, 0, 1), store, timeout_s, lambda: device))
        return made[-1], device

    yield make
    for each in made:
        each.abort()


@pytest.mark.quick
def test_nobody_looks_at_a_device_whose_exchanges_are_settled(alone: Any) -> None:
    """A graph that is captured after a step is left in peace, however long that takes."""
    group, device = alone(0.05)
    summed(group)
    group.settle()
    before = len(device.looks)
    time.sleep(0.15)
    assert device.looks[before:] == []
    summed(group)


@pytest.mark.quick
def test_nobody_looks_at_a_device_before_something_is_late(alone: Any) -> None:
    """What a script does after a step's last exchange, a graph, say, may come before the next ``settle``."""
    group, device = alone(30.0)
    summed(group)
    time.sleep(0.1)
    assert device.looks == []


@pytest.mark.quick
def test_a_look_that_the_device_refuses_says_nothing(alone: Any) -> None:
    """Neither that the exchange is over, which then would never be late, nor that it is late."""
    group, device = alone(0.05)
    device.refuses = 5
    summed(group)
    until_s = time.monotonic() + 20
    while device.refuses and time.monotonic() < until_s:
        time.sleep(0.01)
    assert device.refuses == 0
    summed(group)  # not aborted
    device.come = False
    while time.monotonic() < until_s:
        try:
            summed(group)
        except GroupBroken as broken:
            assert "not over within" in str(broken)
            return
        time.sleep(0.01)
    pytest.fail("an exchange that never came was forgotten")


@pytest.mark.quick
def test_the_thread_that_looks_may_do_so_amid_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 is CU_STREAM_CAPTURE_MODE_RELAXED in cuda.h; it is each thread's own, so this thread must set it."""
    modes: list[tuple[str, int]] = []

    def exchange(mode: Any) -> int:
        modes.append((threading.current_thread().name, mode._obj.value))
        return 0

    loaded: list[str] = []

    def load(name: str) -> Any:
        loaded.append(name)
        return SimpleNamespace(cuThreadExchangeStreamCaptureMode=exchange)

    monkeypatch.setattr(nccl_group.ctypes, "CDLL", load)
    store = torch.distributed.HashStore()
    group = NcclGroup(StandIn(store, 0, 1), store, 30.0, Passed)
    until_s = time.monotonic() + 20
    while not modes and time.monotonic() < until_s:
        time.sleep(0.01)
    group.abort()
    assert (loaded, modes) == (["libcuda.so.1"], [("fallow-nccl", 2)])


@pytest.mark.quick
def test_to_settle_is_to_wait_for_the_device() -> None:
    """Where the host has read a number of the last sum but one, the last is not over yet."""
    store, device = torch.distributed.HashStore(), Capturing()
    group = NcclGroup(StandIn(store, 0, 1), store, 30.0, lambda: device)
    device.come = False
    summed(group)
    device.looks.clear()
    group.settle()
    assert device.looks == [threading.current_thread().name, "synchronize"]
    group.abort()


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
    for name in ("ENABLE_MONITORING", "RANKS_PER_ROOT"):
        monkeypatch.delenv(f"TORCH_NCCL_{name}", raising=False)
    seen: list[dict[str, str | None]] = []

    def make(store: Any, rank: int, world_size: int) -> StandIn:
        seen.append({name: value for name, value in os.environ.items() if name.startswith("TORCH_NCCL_")})
        return StandIn(store, rank, world_size)

    for each in connected(make):
        assert isinstance(each, NcclGroup), each
        each.abort()
    # By their names in ProcessGroupNCCL.hpp: what ends the process, or a communicator, without our doing.
    off = {f"TORCH_NCCL_{name}": "0" for name in ("ASYNC_ERROR_HANDLING", "ENABLE_MONITORING")}
    off |= {f"TORCH_NCCL_{name}": "0" for name in ("RETHROW_CUDA_ERRORS", "BLOCKING_WAIT")}
    off |= {f"TORCH_NCCL_{name}": "0" for name in ("PROPAGATE_ERROR", "DUMP_ON_TIMEOUT")}
    assert seen == [off] * 2
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


@pytest.fixture
def torchs(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    """Torch's own class, stood in for: the options that are made for it count."""

    class ProcessGroupNCCL(StandIn):
        Options = Options

    monkeypatch.setattr(torch.distributed, "ProcessGroupNCCL", ProcessGroupNCCL, raising=False)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    return ProcessGroupNCCL


@pytest.mark.quick
@pytest.mark.parametrize("variable", ["1", "0", None])
def test_the_first_sum_waits_for_the_communicator_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, torchs: type[StandIn], variable: str | None
) -> None:
    """Torch looks at the variable in the first sum, and only where the options leave it open."""
    if variable is not None:
        monkeypatch.setenv("TORCH_NCCL_USE_COMM_NONBLOCKING", variable)
    ends = connected(None)
    for each in ends:
        assert isinstance(each, NcclGroup), each
        assert isinstance(each._group, torchs)
        each.abort()
    assert os.environ.get("TORCH_NCCL_USE_COMM_NONBLOCKING") == variable


@pytest.mark.quick
def test_a_torch_without_nccl_is_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    for each in connected(None):
        assert isinstance(each, GroupBroken), each
        assert "built without NCCL" in str(each)
        assert "FALLOW_BACKEND=gloo" in str(each)


@pytest.mark.quick
def test_whatever_the_first_sum_raises_is_told() -> None:
    class Odd(StandIn):
        def allreduce(self, tensors: Any) -> Any:
            raise TypeError("unsupported device")

    for each in connected(Odd):
        assert isinstance(each, GroupBroken), each
        assert "did not come about: TypeError: unsupported device" in str(each)


@pytest.mark.quick
def test_torch_is_told_a_time_that_never_comes(torchs: type[StandIn]) -> None:
    ends = connected(None)
    assert [each._group.options._timeout for each in ends] == [timedelta(days=30)] * 2
    for each in ends:
        each.abort()


@pytest.mark.quick
def test_connecting_leaves_the_stream_of_the_training_alone() -> None:
    """What the training queued would have to end first, and what it queues next would wait for the peers."""
    streams: list[Any] = []

    class Looking(StandIn):
        def allreduce(self, tensors: Any) -> Any:
            streams.append(torch.cpu.current_stream())
            return super().allreduce(tensors)

    store = torch.distributed.HashStore()
    times = {"timeout_s": 30.0, "connect_timeout_s": 10.0}
    nccl_group.connect(store, 0, 1, CPU, make=Looking, **times).abort()
    assert len(streams) == 1
    assert streams[0] is not torch.cpu.current_stream()


class Faltering(StandIn):
    """As NCCL when a peer dies in a step: no word of it, and after the abort its own part for the sum."""

    garbage = staticmethod(lambda buffer: None)
    lingers_s = 0.05


def test_a_worker_that_dies_amid_a_sum_never_has_garbage_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole training over the stand-in: grows, loses a worker without a word, and learns the same."""

    buses = itertools.count(1)

    def over_stand_in(*where: Any, **times: Any) -> Any:
        return nccl_group.connect(*where, make=Faltering, **times)

    monkeypatch.setitem(groups.OWN_SUMS, "cpu", over_stand_in)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: a_gpu(next(buses)))
    monkeypatch.setenv(address_store.RANKS_PER_ID, "128")
    steps, born, grows = 40, list[Outcome](), {4: 3}

    def train(environment: Any, outcome: Outcome) -> None:
        born.append(outcome)
        dies = len(born) == 2

        def falter() -> None:
            if dies and outcome.steps[-1].world_size > 1 and len(outcome.steps) > 3:
                raise RuntimeError("this worker dies, and says goodbye to nobody")

        training(steps, each_step=falter, after_step=until_resized(grows))(environment, outcome)

    done = run(train, 1, grows)
    assert done.exit_code == 0, done.journal
    assert any("dies" in str(outcome.error) for outcome in done.outcomes), done.journal
    reference = Outcome()
    training(steps)({}, reference)
    assert reference.parameters is not None
    assert done.finished
    for outcome in done.finished:
        for name, value in reference.parameters.items():
            assert torch.allclose(outcome.parameters[name], value, rtol=0, atol=1e-12), name


def test_a_worker_that_cannot_connect_says_why_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its thread ends without a word, and the controller waits for its limit and blames the time."""

    refused = threading.Semaphore(0)

    def refuse(*where: Any, **times: Any) -> Any:
        refused.release()
        raise TypeError("an odd version of torch")

    buses = itertools.count(1)
    monkeypatch.setitem(groups.OWN_SUMS, "cpu", refuse)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: a_gpu(next(buses)))
    monkeypatch.setenv(address_store.RANKS_PER_ID, "128")

    def rest(trainer: Any) -> None:
        """Until a third is refused: the first two were one attempt, and it has been given up by then."""
        if trainer.next_step == 6:
            for _ in range(3):
                refused.acquire()

    done = run(training(30, after_step=rest), 1, {4: 2})
    assert done.exit_code == 0, done.journal
    assert any(
        "could not connect: failed: TypeError: an odd version of torch" in line for line in done.journal
    )
