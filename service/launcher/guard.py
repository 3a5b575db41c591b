"""The parent of all of a job's workers, so that none outlives its launcher, whatever kills that.

    python -I -S guard.py FD       (started by ``crew``; not for people)

FD is a socket to the launcher: a line of JSON each way. When it closes, the launcher is gone, and everything
below this process is ended: asked, and after ``PATIENCE_S`` killed. It is a subreaper (prctl(2)), so what a
worker left behind stays below it. If this process is killed itself, its workers get
``death`` from the kernel, and what they left falls to its own parent, the keeper.

The keeper is this program as it was started: it forks the guard and does nothing but wait for it, in a
session of its own, so that no signal to the launcher's group or terminal reaches it. A subreaper as well, it
inherits what lived below a guard that was killed, together with its launcher or alone, and ends it. If the
keeper is killed, all this falls to the launcher, which is a subreaper too.

    launcher ─► keeper ─► guard ─► workers ─► what they start

It shares the launcher's process group and blocks what people send there: a signal that waits here was sent to
the whole group (Ctrl-C, `kill %1`, timeout(1)), so the workers have it already and it isn't sent on to them.

Standard library alone, and little of it: there is one such process a job.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - no pathlib here

import tree  # type: ignore[import-not-found]

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Between SIGTERM and SIGKILL for what is left of a job.
PATIENCE_S = 5.0
GENTLE_S = 60.0
"""The same for clients of MPS: one that is killed takes down what shares the GPU with it."""
# Children may have children meanwhile: how often they are looked for.
LOOK_S = 0.05
GROUP_S = 0.02
"""How long a signal to the group takes to reach all of it, for certain."""
FORWARDED = tuple(
    getattr(signal, f"SIG{name}")
    for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "TSTP", "TTIN", "TTOU", "CONT", "WINCH")
)
# As a shell says "not found".
UNSTARTABLE = 127


def main() -> None:
    """Serve one launcher until it goes; then end what is left."""
    signal.pthread_sigmask(signal.SIG_SETMASK, FORWARDED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    line = int(sys.argv[1])
    guard = os.fork()
    if guard:
        os.close(line)
        keep(guard)
        return
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    launcher = socket.socket(fileno=line)
    launcher.set_inheritable(False)
    guarding = SupervisorChild(launcher)
    guarding.say({"guard": os.getpid()})
    guarding.run()


def keep(guard: int) -> None:
    """Wait for the guard; whatever it leaves behind was left by a guard that was killed, and is ended."""
    os.setsid()
    while True:
        pid, _ = os.waitpid(-1, 0)
        if pid == guard:
            break
    until = time.monotonic() + PATIENCE_S
    for pid in tree.descendants(os.getpid()):
        _kill(pid, signal.SIGTERM)
        # A process that is stopped gets its SIGTERM only once it goes on.
        _kill(pid, signal.SIGCONT)
    while children := tree.descendants(os.getpid()):
        if time.monotonic() >= until:
            for pid in children:
                _kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(LOOK_S)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


def prctl(option: int, value: int) -> None:
    """The Linux call; raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


class SupervisorChild:
    """The loop: orders in, births and deaths out. ``sweeping`` is when to kill what won't end."""

    def __init__(self, launcher: socket.socket):
        self._launcher = launcher
        self._partial = b""
        self._workers: dict[int, int] = {}
        self._sweeping: float | None = None
        self._patience_s = PATIENCE_S
        self._left = False
        self._woken, wake = socket.socketpair()
        for end in (self._woken, wake):
            end.setblocking(False)
        self._wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Until the launcher is gone and nothing lives below."""
        while True:
            sources = [self._woken] if self._left else [self._woken, self._launcher]
            pause = LOOK_S if self._sweeping is not None else None
            readable, _, _ = select.select(sources, [], [], pause)
            if self._woken in readable:
                self._woken.recv(4096)
            if self._launcher in readable:
                self._hear()
            self._bury()
            if self._sweeping is not None and self._swept() and self._left:
                return

    def _hear(self) -> None:
        try:
            came = self._launcher.recv(1 << 16)
        except OSError:
            came = b""
        if not came:
            self._left = True
            self._sweep(self._patience_s)
            return
        *lines, self._partial = (self._partial + came).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, order: dict[str, object]) -> None:
        match order:
            case {"start": int(worker), "argv": list(argv), "env": dict(env), "death": int(death)}:
                self._start(worker, argv, env, death)
            case {"signal": int(number), "unless_heard": bool(unless_heard)}:
                self._forward(number, unless_heard)
            case {"ask": int(number)}:
                # A signal for who listens to it: if in any worker's tree nobody does, nobody gets it.
                trees = [tree.listeners(pid, number) for pid in self._workers]
                if all(trees) and trees:
                    for pid in (pid for result in trees for pid in result):
                        _kill(pid, number)
                    self.say({"asked": True})
                else:
                    self.say({"asked": False})
            case {"sweep": float(patience_s)}:
                self._sweep(patience_s)

    def _start(self, worker: int, argv: list[str], env: dict[str, str], death: int) -> None:
        self._patience_s = PATIENCE_S if death == signal.SIGKILL else GENTLE_S
        errors, error = os.pipe()  # close-on-exec: empty at its end means that the command runs
        pid = os.fork()
        if pid == 0:
            self._become(error, argv, env, death)
        os.close(error)
        with os.fdopen(errors, "rb") as problem:
            why = problem.read().decode(errors="replace")
        if why:
            os.waitpid(pid, 0)
            self.say({"unstartable": worker, "why": why})
        else:
            self._workers[pid] = worker
            self.say({"started": worker, "pid": pid})

    def _become(self, error: int, argv: list[str], env: dict[str, str], death: int) -> None:
        try:
            parent = os.getppid()
            prctl(PR_SET_PDEATHSIG, death)
            # The parent may have died before the kernel was asked, and no signal would come any more.
            if os.getppid() != parent:
                os._exit(UNSTARTABLE)
            # It writes to the guard's own socket, which the child shares until it becomes the command.
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores them
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execvpe(argv[0], argv, env)
        except BaseException as failure:
            os.write(error, str(failure).encode())
        finally:
            os._exit(UNSTARTABLE)

    def _forward(self, number: int, unless_heard: bool) -> None:
        """To each worker itself, but not to one that has it already because the whole group has."""
        by_group = False
        if unless_heard:
            by_group = signal.sigtimedwait([number], GROUP_S) is not None
        group = os.getpgrp()
        for pid in self._workers:
            try:
                if not by_group or os.getpgid(pid) != group:
                    os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def _sweep(self, patience_s: float) -> None:
        """Ask all that live below to end, and kill after ``patience_s`` whatever still does."""
        for pid in tree.descendants(os.getpid()):
            _kill(pid, signal.SIGTERM)
            _kill(pid, signal.SIGCONT)
        self._sweeping = time.monotonic() + patience_s

    def _swept(self) -> bool:
        children = tree.descendants(os.getpid())
        if not children and not self._workers:
            self._sweeping = None
            self.say({"gone": True})
            return True
        if self._sweeping is not None and time.monotonic() >= self._sweeping:
            for pid in children:
                _kill(pid, signal.SIGKILL)
        return False

    def _bury(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self._workers.pop(pid, None)
            if worker is not None:
                self.say({"ended": worker, "code": os.waitstatus_to_exitcode(status)})

    def say(self, what: dict[str, object]) -> None:
        """Tell the launcher, if it is still there."""
        try:
            self._launcher.sendall(json.dumps(what).encode() + b"\n")
        except OSError:
            return


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


if __name__ == "__main__":
    main()
