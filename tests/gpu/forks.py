"""Processes of a dry run, forked from one that has read torch: a start takes 2 s of processor time else.

A step is forked from the template, and from a copy of it, made before the step does anything, its loads: so
they are of the step's session and group, and end with it. On a real GPU nothing is forked.
"""

import contextlib
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

READ = (
    *("torch", "torch._dynamo", "tests.fallow.pretend", "fallow.trainer", "tests.gpu.place"),
    *("service.cli.parser", "service.server.main", "service.usecases.judge", "pandas"),
)
"""What steps, loads, the service and its verbs read; the first optimizer reads ``_dynamo``."""
ARROWS = "jemalloc_bg_thd"
"""A thread of Arrow's allocator, which starts it anew in a fork."""
LONGEST = 1 << 17
"""Bytes of a request: an environment is a few thousand, and Linux sends 208 KiB at once."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""The tensors are tiny, and a pool of threads is lost in a fork."""

here: "Template | None" = None
"""Where this process has its loads forked; none in a process that was started."""


class Forked:
    """A process as ``subprocess.Popen`` has it, so far as steps use it; the template is its parent."""

    def __init__(self, args: Sequence[str], news: int, stdin: Any, stdout: Any) -> None:
        self.args, self.stdin, self.stdout = args, stdin, stdout
        self.returncode: int | None = None
        self._news = os.fdopen(news)
        self.pid = int(self._news.readline())

    def poll(self) -> int | None:
        """Its status, or ``None`` while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its status. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._news], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
            self.returncode = int(self._news.readline() or -signal.SIGKILL)  # the template went before it
            self._news.close()
        return self.returncode

    def terminate(self) -> None:
        """SIGTERM, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


class Template:
    """The other end of a process that forks what is asked of it."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self._channel, self._pid = channel, pid

    def end(self) -> None:
        """No more forks; waited for, so that what it took of the processors counts where it was asked."""
        self._channel.close()
        os.waitpid(self._pid, 0)

    def popen(
        self,
        args: Sequence[str],
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        env: Mapping[str, str] | None = None,
        cwd: Any = None,
        text: bool = True,
        start_new_session: bool = False,
    ) -> Forked:
        """As ``subprocess.Popen`` of ``python -m MODULE ...`` in this folder; pipes are text."""
        assert args[1] == "-m" and text, args
        news, tell_news = os.pipe()
        ours: dict[str, IO[str] | None] = {"stdin": None, "stdout": None}
        theirs, close = [], [tell_news]
        for number, (name, wanted) in enumerate((("stdin", stdin), ("stdout", stdout), ("stderr", stderr))):
            if wanted == subprocess.PIPE:
                ends = os.pipe()
                ours[name] = os.fdopen(ends[1 - number], "w" if number == 0 else "r")
                theirs.append(ends[number])
                close.append(ends[number])
            elif wanted == subprocess.DEVNULL:
                theirs.append(os.open(os.devnull, os.O_RDWR))
                close.append(theirs[-1])
            else:
                theirs.append(
                    number if wanted is None else wanted if isinstance(wanted, int) else wanted.fileno()
                )
        request = {"words": list(args[2:]), "env": dict(env or os.environ), "session": start_new_session}
        socket.send_fds(self._channel, [json.dumps(request).encode()], [*theirs, tell_news])
        for each in close:
            os.close(each)
        return Forked(args, news, ours["stdin"], ours["stdout"])


@contextlib.contextmanager
def template(environment: Mapping[str, str], modules: Sequence[str] = READ) -> Iterator[Template]:
    """One for a dry run, in this environment; whoever it forked has ended before, or is left to its group."""
    ours, theirs = _channel()
    code = f"from tests.gpu import forks; forks.main({theirs.fileno()}, {tuple(modules)!r})"
    words = [sys.executable, "-c", code]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, env={**environment, **ONE_THREAD}, pass_fds=[theirs.fileno()]
    )
    theirs.close()
    made = Template(ours, process.pid)
    try:
        yield made
    finally:
        made.end()
        process.returncode = 0  # waited for


def main(descriptor: int, modules: Sequence[str]) -> None:
    """Read these, then fork until nobody asks any more. Raises RuntimeError when they left threads behind."""
    for name in modules:
        importlib.import_module(name)
    threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    if len(threads) - threads.count(ARROWS) > 1:
        raise RuntimeError(
            f"threads after {', '.join(modules)} were read, which a fork would lose: {threads}"
        )
    _serve(socket.socket(fileno=descriptor))


def _channel() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _serve(channel: socket.socket) -> None:
    """Fork, and tell of births and deaths, until the other end is closed."""
    children: dict[int, tuple[int, int]] = {}  # by its descriptor: its id, and where its end is told
    while True:
        for ready in select.select([channel, *children], [], [])[0]:
            if ready is channel:
                words, descriptors, _, _ = socket.recv_fds(channel, LONGEST, 4)
                if not words:
                    for pid, _ in children.values():
                        os.waitpid(pid, os.WNOHANG)
                    return
                pid = os.fork()
                if pid == 0:
                    _become(json.loads(words), descriptors, [channel, *children])
                os.write(descriptors[3], f"{pid}\n".encode())
                for each in descriptors[:3]:
                    os.close(each)
                children[os.pidfd_open(pid)] = (pid, descriptors[3])
            else:
                pid, news = children.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(BrokenPipeError):
                    os.write(news, f"{code}\n".encode())
                os.close(ready)
                os.close(news)


def _become(request: Mapping[str, Any], descriptors: Sequence[int], others: Sequence[Any]) -> None:
    """Be that module's process. Never returns."""
    global here  # noqa: PLW0603
    for number, each in enumerate(descriptors[:3]):
        os.dup2(each, number)
    for each in [*descriptors, *(other if isinstance(other, int) else other.fileno() for other in others)]:
        os.close(each)
    os.environ.clear()
    os.environ.update(request["env"])
    random.seed()
    here = None
    if request["session"]:
        os.setsid()
        ours, theirs = _channel()
        copy = os.fork()
        if copy == 0:
            ours.close()
            _serve(theirs)
            os._exit(0)
        theirs.close()
        here = Template(ours, copy)
    code = 1
    try:
        module, *sys.argv[1:] = request["words"]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for each in (sys.stdout, sys.stderr):
            with contextlib.suppress(BrokenPipeError, ValueError):  # a program may have closed it
                each.flush()
        os._exit(code)
