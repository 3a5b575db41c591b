"""A process group of torch.distributed as a group of workers; as it is, it is gloo's, for tensors on CPUs."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist

from fallow.process_group.collectives import GroupBroken, Work
from fallow.process_group.connections import Connections


class Started:
    """Work of torch.distributed; keeps the tensors alive that it reads or fills."""

    def __init__(self, works: Sequence[dist.Work], *tensors: torch.Tensor):
        self._works = works
        self._tensors = tensors

    def wait(self) -> None:
        """Block until all is over."""
        with breaking():
            for work in self._works:
                work.wait()


class TorchGroup:
    """A process group of torch.distributed, gloo for CPUs and NCCL for GPUs.

    ``store`` is where its workers met: the group holds on to it, and it may be written in Python.
    ``connections`` are gloo's, where they are known: an ``abort`` then ends every wait that is under way.
    """

    def __init__(
        self, process_group: dist.Backend, store: dist.Store, connections: Connections | None = None
    ):
        self._group: dist.Backend | None = process_group
        self._store = store
        self._connections = connections
        self._pid = os.getpid()
        self.rank = process_group.rank()
        self.world_size = process_group.size()

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        """Sum each flat buffer over all workers, in place; the buffers travel concurrently."""
        for work in [self.start_all_reduce(buffer) for buffer in buffers]:
            work.wait()

    def all_to_all(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> None:
        """Give rank ``r`` the next ``send[r]`` elements, take ``receive[r]`` from it; flat tensors."""
        with breaking():
            self._alive().alltoall_base(incoming, outgoing, list(receive), list(send)).wait()

    def all_gather(self, full: torch.Tensor, part: torch.Tensor) -> None:
        """Fill ``full`` with every rank's equally long ``part``, in rank order; flat tensors."""
        with breaking():
            self._alive()._allgather_base(full, part).wait()

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Hand a contiguous tensor to rank ``to``."""
        self.start_send(tensor, to).wait()

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Fill a contiguous tensor from rank ``source``."""
        self.start_receive(tensor, source).wait()

    def start_all_reduce(self, buffer: torch.Tensor) -> Work:
        """Begin to sum one flat buffer over all workers, in place."""
        with breaking():
            return Started([self._alive().allreduce([buffer])], buffer)

    def start_send(self, tensor: torch.Tensor, to: int) -> Work:
        """Begin to hand a contiguous tensor to rank ``to``."""
        with breaking():
            return Started([self._alive().send([tensor], to, 0)], tensor)

    def start_receive(self, tensor: torch.Tensor, source: int) -> Work:
        """Begin to fill a contiguous tensor from rank ``source``."""
        with breaking():
            return Started([self._alive().recv([tensor], source, 0)], tensor)

    def start_exchange(
        self, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]]
    ) -> Work:
        """Begin to send tensors and to fill others; NCCL takes all as one, lest they wait in a ring."""
        tensors = [tensor for tensor, _ in (*sends, *receives)]
        with breaking():
            group = self._alive()
            if not group.supports_coalescing or not tensors:
                return Started(_begun(group, sends, receives), *tensors)
            group._start_coalescing()
            try:
                _begun(group, sends, receives)
            finally:
                # Else every later call of this thread into NCCL, in whatever group, is put off for ever.
                work = group._end_coalescing()
            return Started([work], *tensors)

    def settle(self) -> None:
        """Nothing: what gloo's ``wait`` returned from is whole, even if the group was aborted since."""

    def abort(self) -> None:
        """Drop all connections."""
        if self._group is not None:
            group, self._group = self._group, None
            if self._connections is not None and os.getpid() == self._pid:
                self._connections.shut()
            group.abort()

    def retire(self) -> None:
        """Gloo's end takes 20 ms, for which nobody need wait; NCCL frees a GPU's memory before it is used."""
        if isinstance(self._group, dist.ProcessGroupGloo):
            groups, self._group = [self._group], None
            threading.Thread(target=_end_last, args=(groups,), name="fallow-retire").start()
        else:
            self.abort()

    def leave(self) -> None:
        """``abort`` in the process that connected; a fork shares the connections, and leaves them be."""
        if os.getpid() == self._pid:
            self.abort()

    def _alive(self) -> dist.Backend:
        if self._group is None:
            raise self._broken()
        return self._group

    def _broken(self) -> GroupBroken:
        return GroupBroken("this group was aborted")


def _begun(
    group: dist.Backend,
    sends: Sequence[tuple[torch.Tensor, int]],
    receives: Sequence[tuple[torch.Tensor, int]],
) -> list[dist.Work]:
    """The exchanges, begun one by one; a batch of NCCL's gives nothing to wait for until its end."""
    works = [group.send([tensor], to, 0) for tensor, to in sends]
    return works + [group.recv([tensor], source, 0) for tensor, source in receives]


def _end_last(groups: list[dist.Backend]) -> None:
    """Abort the group and let go of it: whoever does that waits for its threads."""
    groups.pop().abort()


@contextmanager
def breaking() -> Iterator[None]:
    """What torch raises when a peer is gone or late is GroupBroken."""
    try:
        yield
    except RuntimeError as error:
        raise GroupBroken(str(error)) from error
