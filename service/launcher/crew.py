"""A job's workers as its launcher sees them: started, signalled and swept away by a guard of their own.

``guard`` draws the processes. Whichever of launcher, keeper and guard are killed, one that is left ends what
lived below; only all three at once leave it to nobody, and the keeper is in no group that is signalled.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.launcher import tree

# linux/prctl.h; the standard library names no prctl.
PR_SET_CHILD_SUBREAPER = 36
GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A worker runs its command."""

    worker: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unstartable:
    """A command that cannot be run, and what the kernel said."""

    worker: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A worker's end: its exit code, or minus the signal that ended it."""

    worker: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalAnswer:
    """Whether somebody listens to the signal that workers were to be asked with; if not, none was sent."""

    heard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AllEnded:
    """Nothing lives below the guard any more. ``guard_died``: because the guard itself was killed."""

    guard_died: bool = False


News = Started | Unstartable | Ended | SignalAnswer | AllEnded


class Supervisor:
    """The guard's other end. Nothing here blocks but ``close``; ``fileno`` is readable when there is news.

    Makes this process a subreaper. Raises OSError where no process can be started.
    """

    def __init__(self) -> None:
        # What a killed guard leaves becomes this process's own, instead of nobody's.
        library = ctypes.CDLL(None, use_errno=True)
        if library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "cannot become a subreaper (prctl)")
        self._line, theirs = socket.socketpair()
        self._partial = b""
        self._guard_pid: int | None = None
        theirs.set_inheritable(True)
        try:
            # Descriptors that the user opened for the job (bash's <(...)) go through; Python's own don't.
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD), str(theirs.fileno())], close_fds=False
            )
        finally:
            theirs.close()

    @property
    def keeper_pid(self) -> int:
        """The process that ends what a killed guard leaves."""
        return self._guard.pid

    @property
    def guard_pid(self) -> int | None:
        """The guard's process; ``None`` before it has said so."""
        return self._guard_pid

    def fileno(self) -> int:
        """Readable when there is news."""
        return self._line.fileno()

    def start(self, worker: int, argv: Sequence[str], env: Mapping[str, str], death: int) -> None:
        """Start a worker; the answer is ``Started`` or ``Unstartable``. ``death``: if the guard dies."""
        self._tell({"start": worker, "argv": list(argv), "env": dict(env), "death": int(death)})

    def signal(self, number: int, *, unless_heard: bool) -> None:
        """Send each worker a signal; with ``unless_heard`` not if it was sent to this whole process group."""
        self._tell({"signal": int(number), "unless_heard": unless_heard})

    def ask(self, number: int) -> None:
        """Send it to the processes that catch it, if each worker's tree has one; answers ``SignalAnswer``."""
        self._tell({"ask": int(number)})

    def sweep(self, patience_s: float) -> None:
        """End all that lives below the guard, killed after ``patience_s``; the answer is ``AllEnded``."""
        self._tell({"sweep": float(patience_s)})

    def news(self) -> tuple[News, ...]:
        """What happened; blocks for a word. There is none after ``AllEnded(guard_died=True)``."""
        try:
            came = self._line.recv(1 << 16)
        except OSError:
            came = b""
        if not came:
            if self._guard.wait() != 0:  # the keeper was killed as well: what is left is this process's own
                # Kill what a killed guard left. Each look may find children of what was just killed, so
                # look again.
                while children := tree.descendants(os.getpid()):
                    for pid in children:
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except (ProcessLookupError, PermissionError):
                            continue
                    _reap()
                _reap()
            return (AllEnded(guard_died=True),)
        *lines, self._partial = (self._partial + came).split(b"\n")
        return tuple(news for line in lines if (news := self._news_of(json.loads(line))) is not None)

    def close(self) -> None:
        """Let the guard go; blocks until nothing lives below it and it has ended."""
        self._line.close()
        if self._guard.wait() != 0 and self._guard_pid is not None:  # the keeper was killed
            _await(self._guard_pid)

    def _news_of(self, event: dict[str, object]) -> News | None:
        match event:
            case {"guard": int(pid)}:
                self._guard_pid = pid
                return None
            case _:
                return _read(event)

    def _tell(self, order: dict[str, object]) -> None:
        try:
            self._line.sendall(json.dumps(order).encode() + b"\n")
        except OSError:
            return  # the guard is gone: ``news`` says so


def _read(event: dict[str, object]) -> News:
    match event:
        case {"started": int(worker), "pid": int(pid)}:
            return Started(worker=worker, pid=pid)
        case {"unstartable": int(worker), "why": str(why)}:
            return Unstartable(worker=worker, why=why)
        case {"ended": int(worker), "code": int(code)}:
            return Ended(worker=worker, code=code)
        case {"asked": bool(heard)}:
            return SignalAnswer(heard=heard)
        case {"gone": True}:
            return AllEnded()
        case other:
            raise AssertionError(f"the guard said {other!r}")


def _await(guard: int) -> None:
    """Until a guard that became this process's own child has ended what lives below it, and itself."""
    try:
        os.waitpid(guard, 0)
    except ChildProcessError:
        return


def _reap() -> None:
    """Bury what can be buried."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return
