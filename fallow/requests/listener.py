"""For jobs that are not elastic: lets whoever launched a process ask it to give cached memory back.

    import fallow
    fallow.listen()

Without a launcher (FALLOW_JOB_SOCKET unset) nothing is opened and no thread started. Requests are those words
of ``controller.requests`` that make sense for one process: ``release-caches`` and ``status``.

Memory is given back where the optimizer's step ends. A process that comes to no such place in ``BOUNDARY_S``
(inference, an idle notebook) does it on the listening thread: PyTorch's allocator takes a lock, so that is
safe at any time but one, while a CUDA graph is being captured; a process that uses graphs is left alone then.

What a worker does between two steps because somebody wished it: save, or give cached memory back.

A wish needs no agreement: whoever hears it grants it at its own next step boundary and says what came of it.
"""

import atexit
import gc
import json
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from fallow import protocol
from fallow.control_server import Answer, ControlSocket, Waiting
from fallow.errors import StateError
from fallow.idle_gaps import gate
from fallow.process_group.rendezvous import ControllerLost, Rendezvous
from fallow.requests.memory import JobMemory, keep_to_share


class PendingRequests:
    """Grants what the controller wishes of this worker; without a ``channel`` nobody wishes anything."""

    def __init__(self, channel: Rendezvous | None, device: torch.device, save: Callable[[], int]):
        self._channel, self._memory, self._save = channel, JobMemory(device), save

    def grant(self, rank: int) -> None:
        """Do what was wished since the last step, and say so; only rank 0 saves."""
        if self._channel is None:
            return
        for number, wish in self._channel.wishes():
            if wish == protocol.RELEASE_CACHES:
                self._answer(number, released(self._memory))
            elif wish == protocol.SAVE and rank == 0:
                self._answer(number, self._saved())

    def _saved(self) -> dict[str, Any]:
        try:
            return {"bytes": self._save()}
        except (OSError, StateError) as failure:
            return {"error": f"the training could not be saved, and goes on: {failure}"}

    def _answer(self, number: int, answer: dict[str, Any]) -> None:
        assert self._channel is not None
        try:
            self._channel.announce(protocol.granted_key(number, self._channel.member), json.dumps(answer))
        except ControllerLost:
            return  # the seat notices at this same boundary


def released(memory: JobMemory) -> dict[str, int | None]:
    """Give cached memory back; what was held before and after. Without a GPU none was held there: 0 freed."""
    freed = memory.release()
    return {
        "before_bytes": freed.before.reserved_bytes,
        "after_bytes": freed.after.reserved_bytes,
        "freed_bytes": freed.freed_bytes or 0,
    }


LOG = logging.getLogger("fallow")

ENV_SOCKET = "FALLOW_JOB_SOCKET"
"""Where this process is to listen; its launcher chose the path."""
BOUNDARY_S = 3.0
"""How long the end of an optimizer's step is waited for."""
# How late a request is seen while its asker waits for it.
LOOK_S = 0.05


def listen(environment: Mapping[str, str] = os.environ) -> bool:
    """Keep to the share of memory that the launcher gave, and hear its requests from now on.

    A job that was started in another one's idle gaps computes only in those from now on.

    True when this process listens: there is a launcher, and no other process of the job has the socket. What
    goes wrong with the socket is logged; it is no reason to end a job. Call it once, on the main thread.
    """
    keep_to_share(environment)
    gate.install(environment)
    path = environment.get(ENV_SOCKET)
    if not path:
        return False
    try:
        control = ControlSocket(Path(path))
    except FileExistsError:
        return False  # a parent listens: this is a worker of its data loader, say
    except OSError as error:
        LOG.warning("cannot listen at %s: %s; memory cannot be asked back", path, error)
        return False
    control.answers = _Process().answer
    threading.Thread(target=_serve, args=(control,), name="fallow-listening", daemon=True).start()
    atexit.register(_close, control, os.getpid())
    return True


class _Process:
    """This process, as far as it can be asked for anything."""

    def __init__(self) -> None:
        self._wanted = False
        self._steps = 0
        self._done: Answer | None = None
        self._lock = threading.Lock()
        register_optimizer_step_post_hook(self._at_boundary)

    def answer(self, words: Sequence[str]) -> Answer | Waiting:
        match words:
            case ["release-caches"]:
                return self._release()
            case ["status"]:
                used = JobMemory(_device()).measure()
                return {
                    "pid": os.getpid(),
                    "step": self._steps or None,
                    "held": used.reserved_bytes,
                    "needed": used.peak_needed_bytes,
                }
            case _:
                return {"error": f"unknown request {' '.join(words)!r}: release-caches or status"}

    def _release(self) -> Answer | Waiting:
        if not torch.cuda.is_initialized():
            return released(JobMemory(torch.device("cpu")))
        until_s = time.monotonic() + BOUNDARY_S
        with self._lock:
            self._wanted, self._done = True, None

        def came() -> Answer | None:
            with self._lock:
                if self._done is None and time.monotonic() > until_s:
                    self._wanted = False
                    self._done = _released_between()
                return self._done

        return came

    def _at_boundary(self, optimizer: Any, given: Any, named: Any) -> None:
        """After every optimizer's step. What is compiled or captured is no place to free memory."""
        if torch.compiler.is_compiling():
            return
        self._steps += 1
        if not self._wanted or torch.cuda.is_current_stream_capturing():
            return
        with self._lock:
            if self._wanted:
                self._wanted, self._done = False, released(JobMemory(_device()))


def _serve(control: ControlSocket) -> None:
    while True:
        patience_s = LOOK_S if control.is_waited_for else None
        try:
            select.select([control], [], [], patience_s)
            control.poll()
        except (OSError, ValueError):
            return  # closed: the process ends


def _released_between() -> Answer:
    if any(isinstance(thing, torch.cuda.CUDAGraph) for thing in gc.get_objects()):
        return {"error": f"this process uses CUDA graphs, and no optimizer's step ended in {BOUNDARY_S:g} s"}
    return released(JobMemory(_device()))


def _device() -> torch.device:
    """The GPU on which this process holds most; the current one is each thread's own, and 0 in a new one."""
    if not torch.cuda.is_initialized():
        return torch.device("cpu")
    return torch.device("cuda", max(range(torch.cuda.device_count()), key=torch.cuda.memory_reserved))


def _close(control: ControlSocket, pid: int) -> None:
    """A fork that ends leaves its parent's socket alone."""
    if os.getpid() == pid:
        control.close()
