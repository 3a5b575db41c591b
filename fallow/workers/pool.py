"""Workers that start at once, and are never orphans: forked from a parent that has already imported torch.

Importing torch takes seconds, forking a process that has done so takes milliseconds. The parent is a process
of its own that never touches a GPU and never computes: neither CUDA nor thread pools survive a fork.
It is also the workers' guard: when the controller dies it gives them ``GRACE_S`` to save and go, then ends
them. When the nursery itself dies its children go on; the controller inherits them (Linux subreaper).
It speaks JSON lines over pipes that nobody else holds: a request names the script, the environment and the
job's secret, answers tell births and deaths. What happens inside the parent is in ``fork_server``.

How a controller sees the worker processes it asked for: start one, ask after it, end it.

``Nursery`` is the way that people use; ``command`` starts plain processes, and tests bring their own.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fallow import protocol
from fallow.secret import inherited, to_inherit
from fallow.workers import fork_server
from fallow.workers.interfaces import socket_variables
from fallow.workers.leave_signal import AGAIN_S

PR_SET_CHILD_SUBREAPER = 36
KILLED_S = 5.0
"""A killed process is gone at once, but where the kernel waits for a device or for storage."""
INHERITED_POLL_S = 0.05
"""Nobody tells of the end of a child whose parent is dead: it is asked after."""


class WorkerPool:
    """A warm parent and its children, seen from the controller; ``close`` ends all of them.

    ``words`` is the training: a script or ``-m module``, and its arguments. A nursery that is not ``warm``
    imports nothing and starts each worker as a fresh interpreter. ``preload`` names further modules that a
    warm one imports. ``on_news`` is called from a thread whenever a child is born or has ended.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        warm: bool = True,
        preload: Sequence[str] = (),
        on_news: Callable[[], None] = lambda: None,
    ):
        self._words = list(words)
        self._start = (environment or {}, warm, tuple(preload))
        self._on_news = on_news
        self._changed = threading.Condition()
        self._pids: dict[int, int] = {}
        self._parents: dict[int, subprocess.Popen[bytes]] = {}
        self._unborn: dict[int, int] = {}  # what to send to whom as soon as it is born
        self._codes: dict[int, int] = {}
        self._reasons: dict[int, str] = {}
        self._asked = 0
        self._closed = False
        inherit_orphans()
        self._open()

    def spawn(self, variables: Mapping[str, str]) -> "Child":
        """Start one worker with ``variables`` added to the parent's environment. Never blocks."""
        if self._parent.poll() is not None and not self._closed:
            self._open()
        number, self._asked = self._asked, self._asked + 1
        self._parents[number] = self._parent
        interface = socket_variables(variables.get(protocol.ENV_HOST, ""), {**os.environ, **variables})
        request = {"number": number, "words": self._words, "environment": {**variables, **interface}}
        if protocol.ENV_SECRET in variables:
            request["secret"] = inherited(variables).key.hex()
        try:
            os.write(self._requests, (json.dumps(request) + "\n").encode())
        except BrokenPipeError:
            self._end(number, -signal.SIGKILL, "its parent died before it was born")
        return Child(self, number)

    @property
    def parent_pid(self) -> int:
        """The process id of the warm parent."""
        return self._parent.pid

    def close(self) -> None:
        """End all children and the parent."""
        self._closed = True
        for number in list(self._pids):
            Child(self, number).kill()
        self._parent.kill()
        self._parent.wait()
        os.close(self._requests)
        for number in list(self._pids):
            self.code(number)

    def pid(self, number: int) -> int | None:
        """The process id of child ``number``, once it is born."""
        return self._pids.get(number)

    def signal(self, number: int, which: int) -> None:
        """Send a signal to child ``number``; to one that is asked for and not yet born, when it is."""
        with self._changed:
            pid = self._pids.get(number)
            if pid is None:
                self._unborn[number] = which
        if pid is not None and self.code(number) is None:
            _send(pid, which)

    def reason(self, number: int) -> str | None:
        """The exception that ended child ``number``, as one line; ``None`` when there was none."""
        return self._reasons.get(number)

    def code(self, number: int) -> int | None:
        """How child ``number`` ended, negative for a signal; ``None`` while it runs."""
        code = self._codes.get(number)
        if code is not None or self._parents[number].poll() is None:
            return code
        pid = self._pids.get(number)
        if pid is None:
            return -signal.SIGKILL  # the parent died before it could fork
        return self._inherited(number, pid)

    def wait(self, number: int, timeout: float | None) -> int:
        """Block until child ``number`` has ended. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                code = self.code(number)
                if code is not None:
                    return code
                if deadline is not None and time.monotonic() >= deadline:
                    raise subprocess.TimeoutExpired(self._words, timeout or 0)
                self._changed.wait(INHERITED_POLL_S)

    def _open(self) -> None:
        environment, warm, preload = self._start
        quiet = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # a wait in slices logs a warning a slice
        read_requests, self._requests = os.pipe()
        news, write_news = os.pipe()
        words = [str(read_requests), str(write_news), "warm" if warm else "cold", *preload]
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "fallow.workers.fork_server", *words],
            env={**os.environ, **quiet, **fork_server.SAFE_TO_FORK, **environment},
            pass_fds=(read_requests, write_news),
            start_new_session=True,  # a Ctrl-C in the terminal is for the controller alone
        )
        os.close(read_requests)
        os.close(write_news)
        threading.Thread(
            target=self._listen, args=(news, self._parent), name="fallow-nursery", daemon=True
        ).start()

    def _listen(self, news: int, parent: "subprocess.Popen[bytes]") -> None:
        with os.fdopen(news, "rb") as lines:
            for line in lines:
                event = json.loads(line)
                if "pid" in event:
                    self._born(event["number"], event["pid"])
                else:
                    self._end(event["number"], event["code"], event.get("reason"))
                self._tell()
        parent.wait()
        self._tell()

    def _born(self, number: int, pid: int) -> None:
        with self._changed:
            self._pids[number] = pid
            waiting = self._unborn.pop(number, None)
        if waiting is not None:
            _send(pid, waiting)

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
        self._on_news()

    def _end(self, number: int, code: int, reason: str | None) -> None:
        self._codes[number] = code
        if reason:
            self._reasons[number] = reason

    def _inherited(self, number: int, pid: int) -> int | None:
        """The end of a child whose parent is dead: ours to wait for, where the kernel gave it to us."""
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            if _runs(pid):
                return None
            self._end(number, -signal.SIGKILL, "its end was not seen: the parent of all workers had died")
            return self._codes[number]
        if done:
            self._end(number, os.waitstatus_to_exitcode(status), None)
        return self._codes.get(number)


class Child:
    """One worker of a nursery; has the part of ``subprocess.Popen`` that a controller needs."""

    def __init__(self, nursery: WorkerPool, number: int):
        self._nursery, self._number = nursery, number

    @property
    def pid(self) -> int | None:
        """Its process id, once it is born."""
        return self._nursery.pid(self._number)

    @property
    def reason(self) -> str | None:
        """The exception that ended it, as one line; ``None`` when there was none."""
        return self._nursery.reason(self._number)

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs."""
        return self._nursery.code(self._number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._nursery.signal(self._number, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._nursery.signal(self._number, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended. Raises subprocess.TimeoutExpired."""
        return self._nursery.wait(self._number, timeout)


def inherit_orphans() -> None:
    """Let this process inherit what its children leave behind when they die (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def _send(pid: int, which: int) -> None:
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        return


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Handle(Protocol):
    """A worker that was started: the part of ``subprocess.Popen`` that is needed.

    One that has a ``reason`` besides can say which exception ended it.
    """

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended. Raises subprocess.TimeoutExpired."""
        ...


Spawn = Callable[[Mapping[str, str]], Handle]
"""Starts one worker with these variables added to its environment, and with the job's secret to inherit."""


def command(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Spawn:
    """Workers that run ``python WORDS`` as processes of their own."""

    def spawn(variables: Mapping[str, str]) -> Handle:
        quiet = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # a wait in slices logs a warning a slice
        return subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, **quiet, **(environment or {}), **variables},
            pass_fds=to_inherit(variables),
        )

    return spawn


def as_torchrun(host: str, port: int, rank: int, world_size: int) -> dict[str, str]:
    """The variables that torchrun sets, as they stand when the worker starts; a resize doesn't reach them."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "fallow",
    }


def reason(worker: Handle) -> str | None:
    """The exception that ended a worker, as one line, where its handle knows."""
    text = getattr(worker, "reason", None)
    return text if isinstance(text, str) else None


def stop(
    workers: Sequence[Handle], patience_s: float = 5.0, *, tell: Callable[[str], None] = lambda line: None
) -> None:
    """End all: asked first, killed when they don't go within ``patience_s``. Blocks until all have ended, but
    for those that the kernel does not let go, as one that waits for storage which is away: ``tell`` says so.

    Asked twice, since a worker takes the first SIGTERM as a wish to leave, for which nobody is left to care.
    """
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + patience_s
    again = time.monotonic() + min(patience_s, AGAIN_S * 1.1)
    while time.monotonic() < again and any(worker.poll() is None for worker in workers):
        time.sleep(INHERITED_POLL_S)
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
    left = sum(not _ends(worker) for worker in workers)
    if left:
        tell(f"{left} of {len(workers)} workers can't be ended: the kernel waits for storage or a device")


def _ends(worker: Handle) -> bool:
    try:
        worker.wait(KILLED_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def threads(environment: Mapping[str, str], maximum: int) -> dict[str, str]:
    """One compute thread a worker, as torchrun sets it, unless the user chose: many share the machine."""
    return {} if "OMP_NUM_THREADS" in environment or maximum == 1 else {"OMP_NUM_THREADS": "1"}
