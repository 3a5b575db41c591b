"""The CUDA driver, asked in the name of each process's owner: a root with few powers is refused by it.

Driver 580.159 lets the owner's account and a root with all its powers take a process off its GPU, and refuses
everybody else with CUDA_ERROR_OPERATING_SYSTEM, also with CAP_SYS_PTRACE (seen on an H100, November 2026; the
step ``rights`` of tests/gpu). So a child becomes the account that the kernel names at that moment, and asks.

The child is of the owner's account, so the owner can end it, stop it or speak for it. It decides nothing and
holds nothing: what is done next, in which order, and whether there is room is decided in this process, and
each answer counts for that one call alone. A child that ended or is too slow is given up and another one is
asked, a few times. It is never killed: half-done is worse.
"""

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from advisor.engines.cuda_checkpoint import DriverRefused, ProcessState
from advisor.engines.cuda_checkpointer import LONGEST_S
from collector.procfs.owned_process import Account, NobodysToAct, OwnedProcess

CHILD = "advisor.engines.cuda_driver_child"
CALLS = ("state", "lock", "checkpoint", "restore", "unlock")
START_S = 60.0
"""cuInit takes seconds where persistence mode is off; after a minute nobody comes."""
MOMENT_S = 30.0
"""Of a call that moves no memory, beside its own timeout."""
RESTORE_S = 4 * LONGEST_S
"""The GPUs stay reserved meanwhile, and they are its own: one that is slow is not given up early."""
MOST_STARTS = 3
"""Of children of one account in one act: whoever ends them all the time is not waited for."""
# An answer is one short line; a child of another account must not fill our memory.
MOST_ANSWER_BYTES = 4096
MOST_WORDS = 300
"""Of a reason that is shown: the names of driver errors have a tenth of it."""
KEPT_VARIABLES = ("LD_LIBRARY_PATH",)
"""Where this machine's libcuda lies, in the environment of whoever asks: the owner's is never read."""
UNPRINTABLE = re.compile(r"[^ -~]")


class NobodyAsks(Exception):
    """No child of that account can ask the driver; the message says why. Nothing was asked."""


class OwnersDriver:
    """``advisor.engines.cuda_checkpoint.Driver``, for processes by their start, UTC ms; ``close`` closes it.

    Raises ``NobodyAsks`` where a child that should ask cannot. Every call about a process that is gone,
    root's, or no longer its owner's is refused.
    """

    def __init__(self, begun_ms: Mapping[int, int]) -> None:
        self._processes: dict[int, OwnedProcess] = {}
        self._accounts: dict[int, Account] = {}
        self._children: dict[Account, _Child] = {}
        self._starts: dict[Account, int] = {}
        for pid, at_ms in begun_ms.items():
            with suppress(NobodysToAct):
                self._processes[pid] = OwnedProcess(pid, at_ms)
                self._accounts[pid] = self._processes[pid].account()
        try:
            for account in set(self._accounts.values()):
                self._child(account)
        except NobodyAsks:
            self.close()
            raise

    def state(self, pid: int) -> ProcessState:
        """Where its owner's child says the process stands. Raises ``DriverRefused``."""
        try:
            return ProcessState(self._call("state", pid, MOMENT_S)["state"])
        except (KeyError, ValueError) as error:
            raise DriverRefused(f"the state of process {pid} came as no state") from error

    def lock(self, pid: int, timeout_ms: int) -> None:
        """Make its CUDA calls wait. Raises ``DriverRefused``."""
        self._call("lock", pid, MOMENT_S + timeout_ms / 1000, timeout_ms)

    def checkpoint(self, pid: int) -> None:
        """Move its GPU memory to the host. Raises ``DriverRefused``."""
        self._call("checkpoint", pid, LONGEST_S)

    def restore(self, pid: int) -> None:
        """Bring it back. Raises ``DriverRefused``."""
        self._call("restore", pid, RESTORE_S)

    def unlock(self, pid: int) -> None:
        """Let its CUDA calls go on. Raises ``DriverRefused``."""
        self._call("unlock", pid, MOMENT_S)

    def close(self) -> None:
        """Let the children end, and go of the processes."""
        for child in self._children.values():
            child.close()
        for process in self._processes.values():
            process.close()
        self._children, self._processes = {}, {}

    def _call(self, verb: str, pid: int, within_s: float, *more: int) -> Mapping[str, Any]:
        what = f"{verb} of process {pid}"
        try:
            # The pid may be another account's by now, whose driver must not be asked to act on it.
            if pid not in self._processes:
                raise NobodysToAct(f"process {pid} is gone")
            account = self._processes[pid].account()
            if account != self._accounts.get(pid):
                raise NobodysToAct(f"process {pid} became another account's")
            answer = self._child(account).ask([verb, pid, *more], within_s)
        except (NobodysToAct, NobodyAsks) as error:
            raise DriverRefused(f"{what}: {error}") from error
        if "refused" in answer:
            raise DriverRefused(_readable(answer["refused"]))
        if verb != "state" and answer.get("done") is not True:
            raise DriverRefused(f"{what}: the answer is none")
        return answer

    def _child(self, account: Account) -> "_Child":
        child = self._children.get(account)
        if child is not None and not child.spent:
            return child
        if child is not None:
            child.close()
        self._starts[account] = self._starts.get(account, 0) + 1
        if self._starts[account] > MOST_STARTS:
            raise NobodyAsks(
                f"{MOST_STARTS} children of uid {account.uid} that asked the driver did not last"
            )
        self._children[account] = _Child(account)
        return self._children[account]


class _Child:
    """A process of an account that asks the driver, ready. Raises ``NobodyAsks``."""

    def __init__(self, account: Account) -> None:
        self.spent, self._uid, self._rest = False, account.uid, b""
        try:
            self._process = _started(account)
        except (OSError, subprocess.SubprocessError) as error:
            raise NobodyAsks(f"the driver could not be asked as uid {account.uid}: {error}") from error
        os.set_blocking(self._process.stderr.fileno(), False)  # type: ignore[union-attr]
        try:
            first = self._answer(START_S)
        except NobodyAsks:
            self.close()
            raise
        if first.get("ready") is not True:
            self.close()
            raise NobodyAsks(_readable(first.get("no_driver", "it does not say why")))

    def ask(self, words: Sequence[object], within_s: float) -> Mapping[str, Any]:
        """Its answer. Raises ``NobodyAsks``: then it is spent, and what became of the call is not known."""
        try:
            os.write(self._process.stdin.fileno(), json.dumps(words).encode() + b"\n")  # type: ignore[union-attr]
        except OSError as error:
            self.spent = True
            raise NobodyAsks(self._ended()) from error
        return self._answer(within_s)

    def close(self) -> None:
        """Its input ends, and so does it, once a call that is under way has returned."""
        self.spent = True
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._process.poll()

    def _answer(self, within_s: float) -> Mapping[str, Any]:
        until_s = time.monotonic() + within_s
        descriptor = self._process.stdout.fileno()  # type: ignore[union-attr]
        self.spent = True
        while b"\n" not in self._rest:
            rest_s = until_s - time.monotonic()
            if rest_s <= 0 or not select.select([descriptor], [], [], rest_s)[0]:
                raise NobodyAsks(f"who asks as uid {self._uid} gave no answer within {within_s:g} s")
            piece = os.read(descriptor, MOST_ANSWER_BYTES)
            if not piece:
                raise NobodyAsks(self._ended())
            self._rest += piece
            if len(self._rest) > MOST_ANSWER_BYTES:
                raise NobodyAsks(f"who asks as uid {self._uid} gave no answer but noise")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or self._rest:
            raise NobodyAsks(f"who asks as uid {self._uid} gave no answer but noise")
        self.spent = False
        return answer

    def _ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        text = b""
        with suppress(OSError):
            text = os.read(self._process.stderr.fileno(), MOST_ANSWER_BYTES)  # type: ignore[union-attr]
        last = (text.decode("utf-8", "replace").strip().splitlines() or ["no word"])[-1]
        status = self._process.returncode
        return f"who asked the driver as uid {self._uid} ended (status {status}: {_readable(last)})"


def _started(account: Account) -> "subprocess.Popen[bytes]":
    """The child, of that account before its program begins. Raises OSError.

    ``-I``: neither a variable nor a file of the owner's home says what Python loads. Its environment is made
    here. Becoming somebody takes away every capability (capabilities(7), "Effect of user ID changes").
    """
    variables = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    rights: dict[str, Any] = {}
    if account.uid != os.geteuid():
        rights = {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}
    return subprocess.Popen(
        [sys.executable, "-P", "-I", "-m", CHILD, str(account.uid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/", **variables},
        **rights,
    )


def _readable(words: object) -> str:
    """What a child says, fit to be shown: it is its owner's word."""
    return UNPRINTABLE.sub("?", str(words))[:MOST_WORDS]
