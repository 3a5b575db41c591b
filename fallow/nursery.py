"""Workers that start at once: forked from a parent that has already imported torch.

Importing torch takes seconds, forking a process that has done so takes milliseconds. The parent is a process
of its own that never touches a GPU and never computes: neither CUDA nor thread pools survive a fork.
It speaks JSON lines: a request names the script and the environment, answers tell births and deaths.

    python -m fallow.nursery        (started by ``Nursery``; not for people)
"""

import ctypes
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


class Nursery:
    """A warm parent and its children, seen from the controller; ``close`` ends all of them."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str] | None = None):
        self._words = list(words)
        quiet = {"TORCH_CPP_LOG_LEVEL": "ERROR"}
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "fallow.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **quiet, **(environment or {})},
        )
        self._changed = threading.Condition()
        self._born: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._asked = 0
        threading.Thread(target=self._listen, name="fallow-nursery", daemon=True).start()

    def spawn(self, variables: Mapping[str, str]) -> "Child":
        """Start one worker with ``variables`` added to the parent's environment. Never blocks."""
        number, self._asked = self._asked, self._asked + 1
        request = {"number": number, "words": self._words, "environment": dict(variables)}
        assert self._parent.stdin is not None
        self._parent.stdin.write((json.dumps(request) + "\n").encode())
        self._parent.stdin.flush()
        return Child(self, number)

    def close(self) -> None:
        """End the parent; its children die with it."""
        self._parent.kill()
        self._parent.wait()

    def pid(self, number: int) -> int | None:
        """The process id of child ``number``, once it is born."""
        return self._born.get(number)

    def code(self, number: int) -> int | None:
        """How child ``number`` ended, negative for a signal; ``None`` while it runs."""
        if self._parent.poll() is not None:
            return self._codes.get(number, -signal.SIGKILL)
        return self._codes.get(number)

    def wait(self, number: int, timeout: float | None) -> int:
        """Block until child ``number`` has ended. Raises subprocess.TimeoutExpired."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.code(number) is not None, timeout):
                raise subprocess.TimeoutExpired(self._words, timeout or 0)
        code = self.code(number)
        assert code is not None
        return code

    def _listen(self) -> None:
        assert self._parent.stdout is not None
        for line in self._parent.stdout:
            news = json.loads(line)
            with self._changed:
                (self._born if "pid" in news else self._codes)[news["number"]] = news.get(
                    "pid", news.get("code")
                )
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


class Child:
    """One worker of a nursery; has the part of ``subprocess.Popen`` that a controller needs."""

    def __init__(self, nursery: Nursery, number: int):
        self._nursery, self._number = nursery, number

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs."""
        return self._nursery.code(self._number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended. Raises subprocess.TimeoutExpired."""
        return self._nursery.wait(self._number, timeout)

    def _signal(self, number: int) -> None:
        pid = self._nursery.pid(self._number)
        if pid is not None and self.poll() is None:
            os.kill(pid, number)


def main() -> None:
    """The warm parent: import, then fork on request until standard input ends."""
    die_with_parent()
    import torch
    import torch._dynamo  # the first optimizer would import it

    del torch
    children: dict[int, int] = {}
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    pending = b""
    while True:
        readable, _, _ = select.select([requests], [], [], 0.01 if children else None)
        if readable:
            read = requests.read(65536)
            if not read:
                return
            *lines, pending = (pending + read).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    _live(request)
                children[pid] = request["number"]
                _tell({"number": request["number"], "pid": pid})
        _bury(children)


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies (Linux; elsewhere nothing happens)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _live(request: dict[str, Any]) -> None:
    """Become the worker; never returns."""
    code = 1
    try:
        die_with_parent()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.environ.update(request["environment"])
        sys.argv = list(request["words"])
        sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _bury(children: dict[int, int]) -> None:
    for pid in list(children):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            _tell({"number": children.pop(pid), "code": os.waitstatus_to_exitcode(status)})


def _tell(news: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
