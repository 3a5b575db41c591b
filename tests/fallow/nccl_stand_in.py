"""Stands in for torch's ProcessGroupNCCL: sums among threads, and fails as NCCL is told to fail.

``wait`` never raises. It returns when all ranks have come to the sum, or once the group was aborted, and then
there is garbage in the buffer. Nobody is told when a peer dies. Messages are matched in their order.

A communicator comes into being in the first call that needs it (torch 2.11's ProcessGroupNCCL.cpp,
``initNCCLComm``): its id goes through the store, and the call returns when all its ranks have come, which an
abort doesn't change. A message outside a batch is sent over a communicator of the two ranks alone, with an id
of its own; within a batch over that of all. More ranks than TORCH_NCCL_RANKS_PER_ROOT have several ids. How
it connects, the options say, and where they don't, TORCH_NCCL_USE_COMM_NONBLOCKING.
"""

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

GARBAGE = 7.0
FOR_EVER_S = 25.0
"""What hangs for ever ends after that, lest a test that shows it never end."""
UNDEFINED = -(2**31)
"""NCCL_CONFIG_UNDEF_INT: what nobody has set in NCCL's configuration (nccl.h)."""


@dataclass
class Config:
    """NCCL's, as far as it is used."""

    blocking: int = UNDEFINED


@dataclass
class Options:
    """As ``ProcessGroupNCCL.Options``."""

    config: Config = field(default_factory=Config)
    _timeout: object = None


@dataclass
class _Sum:
    """One sum, as far as ranks have come to it."""

    given: dict[int, torch.Tensor] = field(default_factory=dict)
    whole: threading.Event = field(default_factory=threading.Event)


class Fabric:
    """A communicator: what connects its ranks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sums: dict[int, _Sum] = {}
        self.messages: dict[tuple[int, int], queue.SimpleQueue[torch.Tensor]] = {}
        self.here: set[int] = set()
        self.all_here = threading.Event()

    def between(self, source: int, to: int) -> "queue.SimpleQueue[torch.Tensor]":
        with self.lock:
            return self.messages.setdefault((source, to), queue.SimpleQueue())

    def arrive(self, rank: int, size: int) -> None:
        """``ncclCommInitRank``: blocks until all are here, whatever is aborted meanwhile."""
        with self.lock:
            self.here.add(rank)
            if len(self.here) == size:
                self.all_here.set()
        if not self.all_here.wait(FOR_EVER_S):
            raise RuntimeError(f"rank {rank} stood in ncclCommInitRank for ever: {self.here} came of {size}")


fabrics: dict[str, Fabric] = {}
"""By the id that its ranks found in the store."""
_ids = itertools.count(1)
_open = threading.local()
"""How many batches this thread has begun and not ended (``ncclActiveGroupCounter_``), in whatever group."""


def _open_batches() -> int:
    return getattr(_open, "count", 0)


class Work:
    """``finish`` is polled until it is true or the group was aborted; then ``spoil`` leaves garbage."""

    def __init__(self, group: "StandIn", finish: Callable[[], bool], spoil: Callable[[], None]):
        self._group, self._finish, self._spoil = group, finish, spoil
        self._over = False

    def wait(self) -> bool:
        until_s = time.monotonic() + FOR_EVER_S
        while not self._over:
            assert time.monotonic() < until_s, "nobody aborted what was never over"
            if self._finish():
                self._over = True
            elif self._group.aborted.wait(0.002):
                time.sleep(self._group.lingers_s)
                self._spoil()
                self._over = True
        return True


class StandIn:
    """One rank's end. ``garbage`` is what an aborted sum leaves; ``lingers_s`` how long after the abort."""

    garbage: Callable[[torch.Tensor], None] = staticmethod(lambda buffer: buffer.fill_(GARBAGE))
    lingers_s = 0.0
    abort_hangs = False
    connects = True
    supports_coalescing = True

    def __init__(
        self, store: torch.distributed.Store, rank: int, world_size: int, options: Options | None = None
    ):
        self._store, self._rank, self._size = store, rank, world_size
        self.options = options or Options()
        self._communicators: dict[str, Fabric] = {}
        self._count = itertools.count()
        self._collected: list[Work] | None = None
        self.aborted = threading.Event()

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def allreduce(self, tensors: Sequence[torch.Tensor]) -> Work:
        (buffer,) = tensors
        communicator, never = self._of_all(), _open_batches() > 0
        with communicator.lock:
            begun = communicator.sums.setdefault(next(self._count), _Sum())
            if not never:
                begun.given[self._rank] = buffer.clone()
            if len(begun.given) == self._size:
                begun.whole.set()

        def finish() -> bool:
            if begun.whole.is_set():
                buffer.copy_(sum(begun.given[rank] for rank in range(self._size)))
            return begun.whole.is_set()

        return Work(self, finish, lambda: self.garbage(buffer))

    def send(self, tensors: Sequence[torch.Tensor], to: int, tag: int) -> Work | None:
        self._of(to).between(self._rank, to).put(tensors[0].clone())
        return self._noted(Work(self, lambda: True, lambda: None))

    def recv(self, tensors: Sequence[torch.Tensor], source: int, tag: int) -> Work | None:
        (tensor,), waiting = tensors, self._of(source).between(source, self._rank)

        def finish() -> bool:
            try:
                tensor.copy_(waiting.get_nowait())
            except queue.Empty:
                return False
            return True

        return self._noted(Work(self, finish, lambda: self.garbage(tensor)))

    def alltoall_base(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> Work:
        communicator = self._of_all()
        for rank, part in enumerate(outgoing.split(list(send))):
            communicator.between(self._rank, rank).put(part.clone())
        missing = list(enumerate(incoming.split(list(receive))))

        def finish() -> bool:
            while missing:
                rank, part = missing[0]
                try:
                    part.copy_(communicator.between(rank, self._rank).get_nowait())
                except queue.Empty:
                    return False
                missing.pop(0)
            return True

        return Work(self, finish, lambda: self.garbage(incoming))

    def _start_coalescing(self) -> None:
        self._collected = []
        _open.count = _open_batches() + 1

    def _end_coalescing(self) -> Work | None:
        works, self._collected = self._collected or [], None
        _open.count = _open_batches() - 1
        if not works:
            return None

        def finish() -> bool:
            while works and works[0]._finish():
                works.pop(0)
            return not works

        return Work(self, finish, lambda: [work._spoil() for work in works])  # type: ignore[arg-type]

    def abort(self) -> None:
        self.aborted.set()
        if self.abort_hangs:
            threading.Event().wait()

    def _noted(self, work: Work) -> Work | None:
        if self._collected is None:
            return work
        self._collected.append(work)
        return None

    def _of(self, peer: int) -> Fabric:
        """What carries a message to or from ``peer``."""
        if self._collected is not None:
            return self._of_all()
        low, high = sorted((self._rank, peer))
        return self._communicator(f"{low}:{high}", [f"{low}:{high}"], int(self._rank == low) - 1, 2)

    def _of_all(self) -> Fabric:
        if not self.connects:
            threading.Event().wait(FOR_EVER_S)
        a_root = int(os.environ.get("TORCH_NCCL_RANKS_PER_ROOT", "128"))
        if self._size <= a_root:
            return self._communicator("all", ["0"], 0 if self._rank == 0 else -1, self._size)
        roots = -(-self._size // a_root)
        sizes = [self._size // roots + (number < self._size % roots) for number in range(roots)]
        firsts = [0, *itertools.accumulate(sizes)][:-1]
        number = firsts.index(self._rank) if self._rank in firsts else -1
        return self._communicator(
            "all", [f"UniqueNCCLID:{root}" for root in range(roots)], number, self._size
        )

    def _communicator(self, name: str, keys: Sequence[str], makes: int, size: int) -> Fabric:
        """Made once; this rank gives the id at ``keys[makes]``, where ``makes`` isn't negative."""
        if self.aborted.is_set():
            raise RuntimeError(f"NCCL communicator was aborted on rank {self._rank}.")
        if name not in self._communicators:
            if makes >= 0:
                self._store.set(keys[makes], str(next(_ids)))
            ids = [bytes(self._store.get(key)).decode() for key in keys]
            fabric = fabrics.setdefault(ids[0], Fabric())
            if self._connects_later():
                raise RuntimeError("NCCL error: operation in progress")
            fabric.arrive(self._rank, size)
            self._communicators[name] = fabric
        return self._communicators[name]

    def _connects_later(self) -> bool:
        """Whether it is non-blocking: then the first call doesn't wait for the communicator."""
        blocking = self.options.config.blocking
        if blocking != UNDEFINED:
            return blocking == 0
        return os.environ.get("TORCH_NCCL_USE_COMM_NONBLOCKING", "0") == "1"
