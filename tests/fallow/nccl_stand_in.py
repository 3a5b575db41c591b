"""Stands in for torch's ProcessGroupNCCL: sums among threads, and fails as NCCL is told to fail.

``wait`` never raises. It returns when all ranks have come to the sum, or once the group was aborted, and then
there is garbage in the buffer. Nobody is told when a peer dies. Messages are matched in their order.
"""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

GARBAGE = 7.0


@dataclass
class _Sum:
    """One sum, as far as ranks have come to it."""

    given: dict[int, torch.Tensor] = field(default_factory=dict)
    whole: threading.Event = field(default_factory=threading.Event)


class Fabric:
    """What connects the ranks of one group."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sums: dict[int, _Sum] = {}
        self.messages: dict[tuple[int, int], queue.SimpleQueue[torch.Tensor]] = {}

    def between(self, source: int, to: int) -> "queue.SimpleQueue[torch.Tensor]":
        with self.lock:
            return self.messages.setdefault((source, to), queue.SimpleQueue())


fabrics: dict[int, Fabric] = {}
"""By the store in which the ranks met."""


class Work:
    """``finish`` is polled until it is true or the group was aborted; then ``spoil`` leaves garbage."""

    def __init__(self, group: "StandIn", finish: Callable[[], bool], spoil: Callable[[], None]):
        self._group, self._finish, self._spoil = group, finish, spoil
        self._over = False

    def wait(self) -> bool:
        while not self._over:
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

    def __init__(self, store: torch.distributed.Store, rank: int, world_size: int):
        self._rank, self._size = rank, world_size
        self._fabric = fabrics.setdefault(self._number(store, rank), Fabric())
        self._count = itertools.count()
        self._collected: list[Work] | None = None
        self.aborted = threading.Event()

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def allreduce(self, tensors: Sequence[torch.Tensor]) -> Work:
        (buffer,) = tensors
        with self._fabric.lock:
            begun = self._fabric.sums.setdefault(next(self._count), _Sum())
            if self.connects:
                begun.given[self._rank] = buffer.clone()
            if len(begun.given) == self._size:
                begun.whole.set()

        def finish() -> bool:
            if begun.whole.is_set():
                buffer.copy_(sum(begun.given[rank] for rank in range(self._size)))
            return begun.whole.is_set()

        return Work(self, finish, lambda: self.garbage(buffer))

    def send(self, tensors: Sequence[torch.Tensor], to: int, tag: int) -> Work:
        self._fabric.between(self._rank, to).put(tensors[0].clone())
        return self._noted(Work(self, lambda: True, lambda: None))

    def recv(self, tensors: Sequence[torch.Tensor], source: int, tag: int) -> Work:
        (tensor,), waiting = tensors, self._fabric.between(source, self._rank)

        def finish() -> bool:
            try:
                tensor.copy_(waiting.get_nowait())
            except queue.Empty:
                return False
            return True

        return self._noted(Work(self, finish, lambda: self.garbage(tensor)))

    def _start_coalescing(self) -> None:
        self._collected = []

    def _end_coalescing(self) -> Work:
        works, self._collected = self._collected or [], None

        def finish() -> bool:
            while works and works[0]._finish():
                works.pop(0)
            return not works

        return Work(self, finish, lambda: [work._spoil() for work in works])  # type: ignore[arg-type]

    def abort(self) -> None:
        self.aborted.set()
        if self.abort_hangs:
            threading.Event().wait()

    def _noted(self, work: Work) -> Work:
        if self._collected is not None:
            self._collected.append(work)
        return work

    @staticmethod
    def _number(store: torch.distributed.Store, rank: int) -> int:
        """A number that the ranks who met in ``store`` share, and no others."""
        if rank == 0:
            store.set("nccl-id", str(next(_numbers)))
        return int(bytes(store.get("nccl-id")))


_numbers = itertools.count(1)
