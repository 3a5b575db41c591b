"""The parent process of all workers of one machine: imports once, forks on request, guards what it forked.

    python -m fallow.workers.fork_server REQUESTS NEWS warm|cold [MODULE ...]    (started by ``Nursery``)

It must stay single-threaded and must never touch a GPU or compute: what it has started, a fork would break.
Each death is told with the exception that caused it, so that the reason reaches the person at the terminal.
"""

import ctypes
import importlib
import json
import os
import random
import runpy
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fallow import protocol
from fallow.secret import left_open, to_inherit
from fallow.workers import frameworks

PR_SET_PDEATHSIG = 1
GRACE_S = 300.0
"""How long workers may go on after the controller died: each ends itself at its next step boundary."""
SAFE_TO_FORK = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""Asking for GPUs through NVML leaves CUDA untouched; once initialized it cannot be forked."""
# One line of a message; what is longer is cut.
REASON_CHARACTERS = 500


def main() -> None:
    """Import, then fork on request until the requests end; then wait for the children, and end them."""
    requests, news, warmth, *modules = sys.argv[1:]
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # it is for the workers, who are to live until they have left
    warm = warmth == "warm"
    if warm:
        _import(("torch", "torch._dynamo", "fallow.trainer", *modules))
    ForkServer(int(requests), int(news), warm).run()


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies (Linux; elsewhere nothing happens)."""
    _on_parent_death(signal.SIGKILL)


def survive_parent() -> None:
    """Take ``die_with_parent`` back."""
    _on_parent_death(0)


class ForkServer:
    """The loop of the parent: requests in, births and deaths out."""

    def __init__(self, requests: int, news: int, warm: bool):
        self._requests, self._news, self._warm = requests, news, warm
        self._children: dict[int, tuple[int, int]] = {}  # pid: (number, the pipe its reason comes through)
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        # Only a signal with a handler of Python's wakes the descriptor, and that one has to be non-blocking.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until the controller closes the requests or dies; leaves no child behind."""
        unread = b""
        while True:
            readable, _, _ = select.select([self._requests, self._woken], [], [], 1.0)
            if self._woken in readable:
                os.read(self._woken, 4096)
            if self._requests in readable:
                read = os.read(self._requests, 65536)
                if not read:
                    break
                *lines, unread = (unread + read).split(b"\n")
                for line in lines:
                    self._bear(json.loads(line))
            self._bury()
        self._see_off()

    def _bear(self, request: dict[str, Any]) -> None:
        reason, tell_reason = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            # Open in a worker, they would outlive this process, and nobody would see that it has ended.
            for inherited in (self._requests, self._news, self._woken, self._wake, reason):
                os.close(inherited)
            (_live if self._warm else _become)(request, tell_reason)
        os.close(tell_reason)
        self._children[pid] = (request["number"], reason)
        self._tell({"number": request["number"], "pid": pid})

    def _bury(self) -> None:
        for pid in list(self._children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                number, reason = self._children.pop(pid)
                os.set_blocking(reason, False)
                text = _read(reason)
                self._tell({"number": number, "code": os.waitstatus_to_exitcode(status), "reason": text})

    def _tell(self, news: dict[str, Any]) -> None:
        try:
            os.write(self._news, (json.dumps(news) + "\n").encode())
        except BrokenPipeError:
            return  # the controller is dead; ``run`` sees it next

    def _see_off(self) -> None:
        deadline = time.monotonic() + GRACE_S
        while self._children and time.monotonic() < deadline:
            select.select([self._woken], [], [], 0.2)
            self._bury()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)


def _live(request: dict[str, Any], tell_reason: int) -> None:
    """Become the worker in this very process; never returns."""
    code = 1
    try:
        _settle(request)
        words = list(request["words"])
        if words[0] == "-m":
            sys.argv = words[1:]
            # As ``python -m`` and ``python FILE`` begin the path.
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(words[0]).resolve().parent))
            runpy.run_path(words[0], run_name="__main__")
        code = 0
        _say(tell_reason, frameworks.hint(sys.modules) or "")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
            _say(tell_reason, end.code)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        code = protocol.MISTAKE if _is_mistake(error) else 1
        _say(tell_reason, f"{type(error).__name__}: {error}")
    finally:
        _leave(code)


def _is_mistake(error: BaseException) -> bool:
    """Whether the script asked for something that cannot be; nothing is imported to find out."""
    kinds = [("fallow.errors", "Mistake"), ("fallow.data.batch_plan", "BatchError")]
    return any(isinstance(error, getattr(sys.modules.get(module), name, ())) for module, name in kinds)


def _leave(code: int) -> None:
    """End as an interpreter would, exit handlers included."""
    try:
        import atexit
        import threading

        threading._shutdown()  # type: ignore[attr-defined]  # joins the threads that are no daemons
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _settle(request: dict[str, Any]) -> None:
    """Make the forked process one of its own: lifetime, streams, environment, secret, random numbers."""
    _equip(request)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # Forked from one parent, all workers would draw the same numbers.
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _become(request: dict[str, Any], tell_reason: int) -> None:
    """Become the worker as a fresh interpreter; never returns."""
    _equip(request)
    for descriptor in to_inherit(os.environ):
        os.set_inheritable(descriptor, True)
    os.execv(sys.executable, [sys.executable, *request["words"]])


def _equip(request: dict[str, Any]) -> None:
    """Give a forked process what is its own, whether it goes on as it is or as a fresh interpreter."""
    die_with_parent()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(request["environment"])
    if "secret" in request:
        os.environ[protocol.ENV_SECRET] = str(left_open(bytes.fromhex(request["secret"])))


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            sys.stderr.write(f"fallow: cannot preload {module}: {error}; workers will import it\n")


def _say(pipe: int, reason: str) -> None:
    os.write(pipe, reason.strip()[:REASON_CHARACTERS].encode(errors="replace"))


def _read(pipe: int) -> str | None:
    try:
        return os.read(pipe, 4 * REASON_CHARACTERS).decode(errors="replace") or None
    except BlockingIOError:
        return None
    finally:
        os.close(pipe)


def _on_parent_death(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


if __name__ == "__main__":
    main()
