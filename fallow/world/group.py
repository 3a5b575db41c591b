"""The workers that compute together now: a port over torch's process groups, alone or many.

``init_process_group`` is global state, so the old group and its successor could not live side by side;
groups are built directly on a store prefix instead. No policy here: who is in a group, the plan says.
"""

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol
from weakref import WeakSet

import torch
import torch.distributed as dist

from fallow.world.meeting import Meeting, local_copy

CONNECT_TIMEOUT = timedelta(seconds=10)
ENV_STEP_TIMEOUT = "FALLOW_STEP_TIMEOUT_S"
STEP_TIMEOUT_S = 120.0
"""How long a worker waits for another in a sum, unless ENV_STEP_TIMEOUT says otherwise.

The dead are noticed at once, the frozen are ended by the controller; this is for peers that are cut off. A
worker that is merely slower than that costs a step taken again, nothing more.
"""


class GroupBroken(Exception):
    """A collective failed: a peer died, aborted or was too slow. The step in flight is not committed."""


class Work(Protocol):
    """A begun exchange; ``wait`` blocks until it is over. Raises GroupBroken when a peer is gone."""

    def wait(self) -> None:
        """Block until it is over."""
        ...


class Group(Protocol):
    """The collectives that a training step needs. All block; all raise GroupBroken when a peer is gone."""

    @property
    def rank(self) -> int:
        """This worker's place, 0-based."""
        ...

    @property
    def world_size(self) -> int:
        """How many workers compute together."""
        ...

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        """Sum each flat buffer over all workers, in place."""
        ...

    def all_to_all(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> None:
        """Give rank ``r`` the next ``send[r]`` elements, take ``receive[r]`` from it; flat tensors."""
        ...

    def all_gather(self, whole: torch.Tensor, part: torch.Tensor) -> None:
        """Fill ``whole`` with every rank's equally long ``part``, in rank order; flat tensors."""
        ...

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Hand a contiguous tensor to rank ``to``."""
        ...

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Fill a contiguous tensor from rank ``source``."""
        ...

    def start_all_reduce(self, buffer: torch.Tensor) -> "Work":
        """Begin to sum one flat buffer in place; all workers must begin their sums in the same order.

        Doesn't block. The buffer belongs to the group until the work is over.
        """
        ...

    def start_send(self, tensor: torch.Tensor, to: int) -> "Work":
        """Begin to hand a contiguous tensor to rank ``to``. Doesn't block; the tensor must not change."""
        ...

    def start_receive(self, tensor: torch.Tensor, source: int) -> "Work":
        """Begin to fill a contiguous tensor from rank ``source``. Doesn't block."""
        ...

    def start_exchange(
        self, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]]
    ) -> "Work":
        """Begin to send contiguous tensors to ranks and to fill others from ranks. Doesn't block.

        All ranks must begin their exchanges in the same order, and between two ranks tensors are matched in
        the order in which both list them.
        """
        ...

    def abort(self) -> None:
        """Drop all connections, so that peers waiting for us fail at once; safe to call twice."""
        ...

    def retire(self) -> None:
        """``abort``, when nobody waits for us here any more: it may still be under way on return."""
        ...


class Alone:
    """A world of one: every collective is the identity."""

    rank = 0
    world_size = 1

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        """Sum over one worker: nothing to do."""

    def all_to_all(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> None:
        """Everything goes to ourselves."""
        incoming.copy_(outgoing)

    def all_gather(self, whole: torch.Tensor, part: torch.Tensor) -> None:
        """Our part is the whole."""
        whole.copy_(part)

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Raises GroupBroken: there is nobody to send to."""
        raise GroupBroken(f"no rank {to} in a world of one")

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Raises GroupBroken: there is nobody to receive from."""
        raise GroupBroken(f"no rank {source} in a world of one")

    def start_all_reduce(self, buffer: torch.Tensor) -> Work:
        """Sum over one worker: over at once."""
        return Started(())

    def start_send(self, tensor: torch.Tensor, to: int) -> Work:
        """Raises GroupBroken: there is nobody to send to."""
        raise GroupBroken(f"no rank {to} in a world of one")

    def start_receive(self, tensor: torch.Tensor, source: int) -> Work:
        """Raises GroupBroken: there is nobody to receive from."""
        raise GroupBroken(f"no rank {source} in a world of one")

    def start_exchange(
        self, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]]
    ) -> Work:
        """There is nobody to exchange anything with: over at once."""
        assert not sends and not receives
        return Started(())

    def abort(self) -> None:
        """Nothing is connected."""

    def retire(self) -> None:
        """Nothing is connected."""


class Started:
    """Work of torch.distributed; keeps the tensors alive that it reads or fills."""

    def __init__(self, works: Sequence[dist.Work], *tensors: torch.Tensor):
        self._works = works
        self._tensors = tensors

    def wait(self) -> None:
        """Block until all is over."""
        with _breaking():
            for work in self._works:
                work.wait()


class TorchGroup:
    """A process group of torch.distributed, gloo for CPUs and NCCL for GPUs.

    ``store`` is where its workers met: the group holds on to it, and it may be written in Python.
    """

    def __init__(self, process_group: dist.Backend, store: dist.Store):
        self._group: dist.Backend | None = process_group
        self._store = store
        self._pid = os.getpid()
        self.rank = process_group.rank()
        self.world_size = process_group.size()

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        """Sum each flat buffer over all workers, in place; the buffers travel concurrently."""
        with _breaking():
            works = [self._alive().allreduce([buffer]) for buffer in buffers]
            for work in works:
                work.wait()

    def all_to_all(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> None:
        """Give rank ``r`` the next ``send[r]`` elements, take ``receive[r]`` from it; flat tensors."""
        with _breaking():
            self._alive().alltoall_base(incoming, outgoing, list(receive), list(send)).wait()

    def all_gather(self, whole: torch.Tensor, part: torch.Tensor) -> None:
        """Fill ``whole`` with every rank's equally long ``part``, in rank order; flat tensors."""
        with _breaking():
            self._alive()._allgather_base(whole, part).wait()

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Hand a contiguous tensor to rank ``to``."""
        with _breaking():
            self._alive().send([tensor], to, 0).wait()

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Fill a contiguous tensor from rank ``source``."""
        with _breaking():
            self._alive().recv([tensor], source, 0).wait()

    def start_all_reduce(self, buffer: torch.Tensor) -> Work:
        """Begin to sum one flat buffer over all workers, in place."""
        with _breaking():
            return Started([self._alive().allreduce([buffer])], buffer)

    def start_send(self, tensor: torch.Tensor, to: int) -> Work:
        """Begin to hand a contiguous tensor to rank ``to``."""
        with _breaking():
            return Started([self._alive().send([tensor], to, 0)], tensor)

    def start_receive(self, tensor: torch.Tensor, source: int) -> Work:
        """Begin to fill a contiguous tensor from rank ``source``."""
        with _breaking():
            return Started([self._alive().recv([tensor], source, 0)], tensor)

    def start_exchange(
        self, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]]
    ) -> Work:
        """Begin to send tensors and to fill others; NCCL takes all as one, lest they wait in a ring."""
        tensors = [tensor for tensor, _ in (*sends, *receives)]
        with _breaking():
            group = self._alive()
            together = bool(group.supports_coalescing) and bool(tensors)
            if together:
                group._start_coalescing()
            works = [group.send([tensor], to, 0) for tensor, to in sends]
            works += [group.recv([tensor], source, 0) for tensor, source in receives]
            return Started([group._end_coalescing()] if together else works, *tensors)

    def abort(self) -> None:
        """Drop all connections."""
        if self._group is not None:
            group, self._group = self._group, None
            group.abort()

    def retire(self) -> None:
        """Gloo's end takes 20 ms, for which nobody need wait; NCCL frees a GPU's memory before it is used."""
        if isinstance(self._group, dist.ProcessGroupGloo):
            held, self._group = [self._group], None
            threading.Thread(target=_end_last, args=(held,), name="fallow-retire").start()
        else:
            self.abort()

    def leave(self) -> None:
        """``abort`` in the process that connected; a fork shares the connections, and leaves them be."""
        if os.getpid() == self._pid:
            self.abort()

    def _alive(self) -> dist.Backend:
        if self._group is None:
            raise GroupBroken("this group was aborted")
        return self._group


def _end_last(held: list[dist.Backend]) -> None:
    """Abort the group and let go of it: whoever does that waits for its threads."""
    held.pop().abort()


@contextmanager
def _breaking() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise GroupBroken(str(error)) from error


def connect(
    store: dist.Store,
    rank: int,
    world_size: int,
    device: torch.device,
    host: str | None = None,
    *,
    prove: Callable[[Group], None] = lambda group: None,
) -> Group:
    """Build the group of ``world_size`` workers that meet in ``store``; blocks until all are there.

    ``host`` is the address at which the others reach this worker, for gloo; without it GLOO_SOCKET_IFNAME
    decides, else whatever the machine's name resolves to. ``prove`` finds out whether gloo has connected the
    right ones, before anything else goes over it. Raises GroupBroken when they are not there within
    CONNECT_TIMEOUT, and what ``prove`` raises.
    """
    if world_size == 1:
        return Alone()
    try:
        if device.type == "cuda":
            met = local_copy(store, rank, CONNECT_TIMEOUT) if isinstance(store, Meeting) else store
            return TorchGroup(_nccl(met, rank, world_size, device), met)
        made = _gloo(store, rank, world_size, host)
        group = TorchGroup(made, store)
        _prove(group, prove)
        made.set_timeout(_step_timeout())
        _connected.add(group)
        return group
    except RuntimeError as error:
        raise GroupBroken(f"rank {rank} of {world_size} could not connect: {error}") from error


_connected: "WeakSet[TorchGroup]" = WeakSet()


@atexit.register
def _leave() -> None:
    """End gloo's threads while Python is whole.

    One that lets go of a tensor while the interpreter is taken down waits for a lock that it never gets, is
    unwound by force, and C++ then ends the process: "terminate called without an active exception".
    """
    for group in list(_connected):
        group.leave()


def _prove(group: TorchGroup, prove: Callable[[Group], None]) -> None:
    """A group that is not of the right ones ends at once: whoever waits in it is freed."""
    try:
        prove(group)
    except BaseException:
        group.abort()
        raise


def _step_timeout() -> timedelta:
    return timedelta(seconds=float(os.environ.get(ENV_STEP_TIMEOUT, STEP_TIMEOUT_S)))


def _nccl(store: dist.Store, rank: int, world_size: int, device: torch.device) -> dist.Backend:
    """A communicator that is built now and not in the first sum, and whose init cannot block for ever.

    Non-blocking init polls with NCCL's own time limit, so that a peer that died meanwhile is an error (NCCL
    user guide, "Fault Tolerance"); ``abort`` may then be called from the thread that watches the controller.
    Written by the documentation: no machine with several GPUs has run it.
    """
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = _step_timeout()
    options.config.blocking = 0
    group = dist.ProcessGroupNCCL(store, rank, world_size, options)
    group.eager_connect_single_device(torch.device("cuda", device.index or 0))
    return group


def _gloo(store: dist.Store, rank: int, world_size: int, host: str | None) -> dist.ProcessGroupGloo:
    if host is None or "GLOO_SOCKET_IFNAME" in os.environ:
        return dist.ProcessGroupGloo(store, rank, world_size, CONNECT_TIMEOUT)
    options = dist.ProcessGroupGloo._Options()
    options._timeout = CONNECT_TIMEOUT
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
    return dist.ProcessGroupGloo(store, rank, world_size, options)
