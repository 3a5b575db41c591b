"""Groups over NCCL, which fails otherwise than gloo does, and is kept here from failing the training.

- A sum's ``wait`` only queues: the host waits where it reads a number. It never raises, and after an abort
  the sum ends as if well, with garbage in it (torchft, pull request 147). So whoever has read a number that
  hangs on a sum calls ``settle`` before believing it: nothing counts that was read after an abort had begun.
- Nobody tells of a peer on the same machine that died (NCCL issue 279), and torch's watchdog and its monitor
  end the whole process when they see a fault (PyTorch issue 110723). Both are off for these groups; a thread
  of ours looks whether the device comes past each exchange in time, and aborts the group when not. Of peers
  that died the controller tells, as it does with gloo.
- A communicator comes into being in the first sum, and a peer's death meanwhile can block for ever. So one
  number is summed before a group counts as connected, in a thread of its own that can be left behind.
- An abort itself can hang (NCCL issue 1013): it is given ABORT_S.
- Only that communicator is used: a message by itself would have torch make another of two ranks, unseen
  (docs/decisions/0134).

Written by the documentation and source of torch 2.11 to 2.13, and tried with a stand-in. On a GPU one rank
ran alone; no two have.
"""

import ctypes
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

from fallow.process_group.collectives import Group, GroupBroken, Work
from fallow.process_group.torch_group import TorchGroup

SETTINGS = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",  # the watchdog aborts nothing and ends nobody
    "TORCH_NCCL_ENABLE_MONITORING": "0",  # nobody watches the watchdog and ends the process for it
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",  # not even when CUDA itself failed: the loop is told by CUDA
    "TORCH_NCCL_BLOCKING_WAIT": "0",
    "TORCH_NCCL_PROPAGATE_ERROR": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}
"""Read by ProcessGroupNCCL when it is made; torchrun sets the first to 1 for its workers."""
NEVER = timedelta(days=30)
"""What torch is told for a timeout. Ours are the ones that count."""
ABORT_S = 3.0
"""One that works should take a second (not seen yet); the thread that shows that we live may call it."""
LOOK_S = 0.25
"""Between two looks at what is under way; a timeout is seconds at least."""
CAPTURE_MODE_RELAXED = 2
"""``CU_STREAM_CAPTURE_MODE_RELAXED`` (cuda.h): nothing is forbidden to a thread for another one's capture."""

_making = threading.Lock()  # the settings are the process's, and groups are made in threads


class Event(Protocol):
    """A mark in the device's queue, as ``torch.cuda.Event``."""

    def query(self) -> bool:
        """Whether the device has come past it."""
        ...

    def synchronize(self) -> None:
        """Block until it has."""
        ...


Marker = Callable[[], Event]
"""Puts a mark behind all that was queued so far."""


class NcclGroup(TorchGroup):
    """A communicator whose exchanges take ``timeout_s`` at most, or else are aborted."""

    def __init__(
        self,
        backend: dist.Backend,
        store: dist.Store,
        timeout_s: float,
        mark: Marker,
        *,
        device: torch.device | None = None,
    ):
        super().__init__(backend, store)
        self._timeout_s = timeout_s
        self._mark = mark
        self._lock = threading.Lock()
        self._calls: dict[int, float] = {}  # calls into NCCL that have yet to return: until when they may
        self._queued: deque[tuple[float, Event]] = deque()
        self._reason = "this group was aborted"
        threading.Thread(
            target=_guard, args=(weakref.ref(self), device), name="fallow-nccl", daemon=True
        ).start()

    def all_to_all(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> None:
        """Give rank ``r`` the next ``send[r]`` elements, take ``receive[r]`` from it; flat tensors."""
        with self.in_time():
            super().all_to_all(incoming, outgoing, receive, send)

    def all_gather(self, full: torch.Tensor, part: torch.Tensor) -> None:
        """Fill ``full`` with every rank's equally long ``part``, in rank order; flat tensors."""
        with self.in_time():
            super().all_gather(full, part)

    def start_all_reduce(self, buffer: torch.Tensor) -> Work:
        """Queue the sum of one flat buffer over all workers, in place."""
        with self._returning():
            return _Queued(self, super().start_all_reduce(buffer))

    def start_send(self, tensor: torch.Tensor, to: int) -> Work:
        """Queue a contiguous tensor for rank ``to``.

        As a batch of one, over the communicator that all connected: for a message by itself torch would first
        make another of the two alone, whose id not every store carries, by a call that no abort ends.
        """
        return self.start_exchange([(tensor, to)], ())

    def start_receive(self, tensor: torch.Tensor, source: int) -> Work:
        """Queue that a contiguous tensor be filled from rank ``source``; a batch of one as well."""
        return self.start_exchange((), [(tensor, source)])

    def start_exchange(
        self, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]]
    ) -> Work:
        """Queue all as one, lest they wait for each other in a ring."""
        with self._returning():
            return _Queued(self, super().start_exchange(sends, receives))

    def settle(self) -> None:
        """Wait until the device has come past all exchanges, and believe them if nobody aborted meanwhile."""
        with self._lock:
            last = self._queued[-1] if self._queued else None
        if last is not None:
            until_s, mark = last
            if not mark.query():
                mark.synchronize()
            with self._lock:
                while self._queued and self._queued[0][0] <= until_s:
                    self._queued.popleft()
        self._alive()

    def abort(self) -> None:
        """Drop all connections; what is read from now on counts for nothing. Blocks for ABORT_S at most."""
        with self._lock:
            backend, self._group = self._group, None
        if backend is not None:
            ending = threading.Thread(target=backend.abort, name="fallow-abort", daemon=True)
            ending.start()
            ending.join(ABORT_S)

    def check(self) -> bool:
        """Abort if something took too long. False when there is nothing left to look after."""
        now_s = time.monotonic()
        with self._lock:
            if self._group is None:
                return False
            late = any(until_s < now_s for until_s in self._calls.values())
            # Not before: ``settle`` takes off what came in time, and a look costs who captures a graph.
            while not late and self._queued and self._queued[0][0] < now_s:
                come = _has_come(self._queued[0][1])
                if come is None:
                    break  # looked at again
                late = not come
                if come:
                    self._queued.popleft()
        if late:
            self._reason = f"an exchange was not over within {self._timeout_s:g} s, and was aborted"
            self.abort()
        return True

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """What is called and queued meanwhile has ``timeout_s`` to come about."""
        with self._returning():
            yield
        self._note()

    @contextmanager
    def _returning(self) -> Iterator[None]:
        """A call into NCCL: it can block, where it connects to a peer, say."""
        key = threading.get_ident()
        with self._lock:
            self._calls[key] = time.monotonic() + self._timeout_s
        try:
            yield
        finally:
            with self._lock:
                self._calls.pop(key, None)

    def _note(self) -> None:
        mark = self._mark()
        with self._lock:
            self._queued.append((time.monotonic() + self._timeout_s, mark))

    def _broken(self) -> GroupBroken:
        return GroupBroken(self._reason)


class _Queued:
    """An exchange that was begun; ``wait`` has the device wait for it, not the host."""

    def __init__(self, group: NcclGroup, work: Work):
        self._group = group
        self._work = work

    def wait(self) -> None:
        """What is queued from now on comes after it."""
        with self._group.in_time():
            self._work.wait()


def _has_come(mark: Event) -> bool | None:
    """Whether the device has come past it; ``None`` where it doesn't say: amid the capture of a graph, or
    because it failed, which it tells the loop by itself.
    """
    try:
        return mark.query()
    except RuntimeError:
        return None


def _look_without_disturbing() -> None:
    """From now on this thread may look at the device while another one captures a CUDA graph.

    Otherwise CUDA refuses the look and ends the capture too, in torch's default mode (PyTorch issue 104487).
    Torch's watchdog has done the same since pull request 148594. Nothing happens where there is no driver.
    """
    with suppress(OSError, AttributeError):
        mode = ctypes.c_int(CAPTURE_MODE_RELAXED)
        ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def _guard(alive: "weakref.ref[NcclGroup]", device: torch.device | None) -> None:
    """Look after a group until it is aborted or nobody needs it."""
    if device is not None and device.type == "cuda":
        torch.cuda.set_device(device)  # a new thread's is the first: asked for a mark, CUDA would open it
    _look_without_disturbing()
    while (group := alive()) is not None and group.check():
        del group
        time.sleep(LOOK_S)


Make = Callable[[dist.Store, int, int], dist.Backend]


def connect(
    store: dist.Store,
    rank: int,
    world_size: int,
    device: torch.device,
    *,
    timeout_s: float,
    connect_timeout_s: float,
    make: Make | None = None,
) -> Group:
    """The group of ``world_size`` workers; blocks until they have summed a number over it.

    Raises GroupBroken when they have not within ``connect_timeout_s``. ``make`` builds a backend of torch's.
    """
    with _making, _settings(os.environ):
        backend = (make or _backend)(store, rank, world_size)
    module: Any = torch.get_device_module(device)

    def mark() -> Event:
        event: Any = module.Event()
        event.record(module.current_stream(device))
        return event  # type: ignore[no-any-return]

    group = NcclGroup(backend, store, timeout_s, mark, device=device)
    came: list[float | Exception] = []
    trying = threading.Thread(
        target=_try, args=(group, device, module, came), name="fallow-connect", daemon=True
    )
    trying.start()
    trying.join(connect_timeout_s)
    if came != [float(world_size)]:
        # Before the abort, whose own word comes to the thread as well.
        match came:
            case [float(mean)]:
                result = f"it summed {mean:g}"
            case [error]:
                result = f"{type(error).__name__}: {error}"
            case _:
                result = f"nothing was summed within {connect_timeout_s:g} s"
        group.abort()
        raise GroupBroken(f"a communicator of {world_size} did not come about: {result}")
    return group


def _try(group: NcclGroup, device: torch.device, module: Any, came: list[float | Exception]) -> None:
    """Sum one number, on a stream of its own: the training's goes on meanwhile."""
    _look_without_disturbing()
    try:
        with module.stream(module.Stream(device)):
            one = torch.ones(1, device=device)
            group.all_reduce([one])
            mean = float(one)
            group.settle()
        came.append(mean)
    except Exception as error:  # whatever torch and NCCL raise: it is told where others wait for us
        came.append(error)


def _backend(store: dist.Store, rank: int, world_size: int) -> dist.Backend:
    if not dist.is_nccl_available():
        raise GroupBroken(
            "this torch was built without NCCL, over which workers on several GPUs meet: install one that "
            "has it, or set FALLOW_BACKEND=gloo"
        )
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = NEVER
    # Said here, it counts before TORCH_NCCL_USE_COMM_NONBLOCKING: else the first sum fails for who sets that.
    options.config.blocking = 1
    return dist.ProcessGroupNCCL(store, rank, world_size, options)


@contextmanager
def _settings(environment: "os._Environ[str]") -> Iterator[None]:
    """SETTINGS meanwhile: a script's own groups keep the script's."""
    before = {name: environment.get(name) for name in SETTINGS}
    environment.update(SETTINGS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
