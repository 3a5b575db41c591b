"""Where this worker's coming micro-batches are read: in the loop itself, or ahead by torch's data loader.

The loader's processes are started once and live through all resizes. They are asked for this worker's pieces
across steps; a resize changes what comes next, and then what is under way is used if it is still wanted and
dropped if not, by its key: (step, first sample, last sample). So a resize waits at most for what is being
read at that moment.

    aim(step, pieces_of) ─► upcoming ─► the loader's processes ─► flying ─► stash ─► fetch(piece)
"""

import contextlib
import ctypes
import functools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from fallow.data.dataset import Reader, StreamReader
from fallow.data.sampler import Piece

Key = tuple[int, ...]
PiecesOf = Callable[[int], Sequence[Piece]]
"""From a step to this worker's pieces of it, in the order in which they are computed."""

GPU_DEVICES = "/dev/nvidia"
"""How the driver's device files begin: nvidia0, nvidiactl, nvidia-uvm."""
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """How samples are read: by how many processes, each how many micro-batches ahead, into pinned memory."""

    workers: int = 0
    prefetch: int = 2
    pin_memory: bool = False
    worker_init: Callable[[int], None] | None = None
    context: Any = None
    timeout_s: float = 0.0


class Supply(Protocol):
    """Gives this worker its micro-batches."""

    def aim(self, cut: object, step: int, until: int, pieces_of: PiecesOf) -> None:
        """Steps from ``step`` up to ``until`` go as ``pieces_of`` says, as long as ``cut`` is equal."""
        ...

    def fetch(self, piece: Piece) -> Any:
        """The micro-batch of ``piece``; blocks until it is there."""
        ...

    def close(self) -> None:
        """End whatever reads ahead; safe to call twice."""
        ...


class Direct:
    """Reads in the training loop, when asked."""

    def __init__(self, reader: Reader):
        self._reader = reader

    def aim(self, cut: object, step: int, until: int, pieces_of: PiecesOf) -> None:
        """Nothing is read ahead."""

    def fetch(self, piece: Piece) -> Any:
        """Read it now."""
        return self._reader.read(piece)

    def close(self) -> None:
        """Nothing to end."""


class Ahead:
    """Reads ahead in torch's loader, whose processes are forked here and now.

    ``generator`` seeds the processes where nothing keys their randomness; ``None`` draws from the global one.
    """

    def __init__(self, reader: Reader, loading: Loading, generator: torch.Generator | None):
        self._wanted: PiecesOf = lambda step: ()
        self._cut: object = None
        self._step = -1
        self._upcoming: Iterator[Piece] = iter(())
        self._flying: set[Key] = set()
        self._stash: dict[Key, Any] = {}
        self._most_idle = 2 * max(1, loading.workers * loading.prefetch)
        several = loading.workers > 0
        begin = functools.partial(_begin_process, loading.worker_init, _forks(loading.context))
        loader = DataLoader(
            _ByPiece(reader),
            batch_size=None,
            sampler=_Asking(self._next),
            collate_fn=_as_it_is,
            num_workers=loading.workers,
            prefetch_factor=loading.prefetch if several else None,
            pin_memory=loading.pin_memory,
            worker_init_fn=begin if several else None,
            multiprocessing_context=loading.context if several else None,
            timeout=loading.timeout_s,
            generator=generator,
        )
        self._results: Iterator[tuple[Key | None, Any]] | None = iter(loader)

    def aim(self, cut: object, step: int, until: int, pieces_of: PiecesOf) -> None:
        """Keep to the course if this is the next step of the same cut; else ask anew for what is missing."""
        goes_on = cut == self._cut and step == self._step + 1
        self._cut, self._step, self._wanted = cut, step, pieces_of
        if not goes_on:
            self._stash = {key: value for key, value in self._stash.items() if self._is_useful(key)}
            self._upcoming = (piece for later in range(step, until) for piece in pieces_of(later))

    def fetch(self, piece: Piece) -> Any:
        """The micro-batch of ``piece``, which ``aim`` announced; raises what reading it raised."""
        assert self._results is not None, "closed"
        key, idle = _key(piece), 0
        while key not in self._stash:
            arrival, value = next(self._results)
            if arrival is not None:
                arrived = tuple(arrival)  # pinning makes a list of it
                self._flying.discard(arrived)
                if arrived == key or self._is_useful(arrived):
                    self._stash[arrived] = value
            idle = 0 if key in self._flying else idle + 1
            assert idle <= self._most_idle, f"{piece} was never asked for"
        return self._stash.pop(key)

    def close(self) -> None:
        """The loader ends its processes when its iterator is dropped."""
        self._results = None

    def _next(self) -> Piece | None:
        for piece in self._upcoming:
            key = _key(piece)
            if key not in self._flying and key not in self._stash:
                self._flying.add(key)
                return piece
        return None

    def _is_useful(self, key: Key) -> bool:
        return key[0] >= self._step and any(_key(piece) == key for piece in self._wanted(key[0]))


class _Asking:
    """A sampler that never ends: what to read is asked for when a loader process is free to read it."""

    def __init__(self, ask: Callable[[], Piece | None]):
        self._ask = ask

    def __iter__(self) -> Iterator[Piece | None]:
        while True:
            yield self._ask()

    def __len__(self) -> int:
        return sys.maxsize


class _ByPiece:
    """A reader dressed as the data set that torch's loader expects; ``None`` asks for nothing."""

    def __init__(self, reader: Reader):
        self.reader = reader

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, piece: Piece | None) -> tuple[Key | None, Any]:
        return (None, None) if piece is None else (_key(piece), self.reader.read(piece))


def _key(piece: Piece) -> Key:
    return piece.step, piece.micro.index, piece.micro.start, piece.micro.stop


def _as_it_is(value: Any) -> Any:
    return value


def _begin_process(worker_init: Callable[[int], None] | None, forked: bool, worker: int) -> None:
    """First thing in a loader process: die with the parent, show the user's own data set to their code."""
    die_with_parent()
    if forked:
        _let_go_of_gpus()
    inside = torch.utils.data.get_worker_info()
    reader = inside.dataset.reader
    object.__setattr__(inside, "dataset", reader.source)  # WorkerInfo is frozen
    if worker_init is not None:
        worker_init(worker)
    if isinstance(reader, StreamReader):
        _hide_the_process()


def _forks(context: Any) -> bool:
    """Whether they are forks; ``context`` as torch's loader takes it: a method, its context, none."""
    fork_context = (
        multiprocessing.get_context(context) if context is None or isinstance(context, str) else context
    )
    return bool(fork_context.get_start_method() == "fork")


def _let_go_of_gpus() -> None:
    """Close what a fork inherited of the GPUs, where CUDA cannot be used anyway.

    While it is open here, the driver keeps the memory of a worker that died (Megatron-Bridge issue 5984), and
    a process checkpoint sees a child with the GPU open.
    """
    try:
        links = list(Path("/proc/self/fd").iterdir())
    except OSError:
        return  # no Linux: nothing is known to be inherited
    for link in links:
        with contextlib.suppress(OSError):  # the one that listed them is gone
            if str(link.readlink()).startswith(GPU_DEVICES):
                os.close(int(link.name))


def _hide_the_process() -> None:
    """Many streams share themselves out over the loader's processes; ours are told which samples to read."""
    torch.utils.data._utils.worker._worker_info = None


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies (Linux; elsewhere torch looks every 5 s)."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # asks the training to save, not us
    signal.signal(signal.SIGTERM, _outlive_one)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _outlive_one(number: int, frame: object) -> None:
    """The first SIGTERM asks this process's worker to leave, for which we read until it has left."""
    signal.signal(number, signal.SIG_DFL)
