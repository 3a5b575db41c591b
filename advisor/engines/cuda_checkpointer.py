"""Checkpoints processes of this machine: looks at them first, then has a child process ask the driver.

The only place that starts such a child. What may be checkpointed is decided in ``checkpoint``.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from advisor.engines.cuda_checkpoint import TRIED_DRIVERS, Deed, Host, Target
from advisor.engines.gpu_room import ProcessMemory
from advisor.engines.memory_transfers import Ongoing
from advisor.jobs.external_jobs import Seen
from advisor.serialize import Unreadable, from_text
from collector.procfs.checkpoint_blockers import (
    CheckpointBlocker,
    Looking,
    available_bytes,
    entanglement,
    mps_pids,
    owner,
)
from collector.procfs.proc_files import is_same_start

CHILD = "advisor.engines.cuda_checkpoint_child"
LONGEST_S = 900.0
"""After so long the child is left to itself: 80 GiB at 0.1 GiB/s. It is never killed: half-done is worse."""
# A look only asks the driver for states; longer than this and the driver hangs.
LOOK_S = 20.0
HELD_MEMORY = "collector.sources.nvml.held_memory"
ASK_S = 60.0
"""NVML's first call takes seconds where persistence mode is off; after a minute it is not known."""


Begun = Mapping[int, int]
"""When processes began, UTC ms, where whoever asks made sure of it."""
NOT_SAID: Begun = {}


class Checkpointer(Protocol):
    """Takes processes off their GPUs and back, and says beforehand what stands against it."""

    def host(self) -> Host:
        """What is known of the machine now."""
        ...

    def targets(self, processes: Sequence[Seen]) -> tuple[Target, ...]:
        """The processes as they are now."""
        ...

    def pause(self, pids: Sequence[int], memory: ProcessMemory, begun_ms: Begun = NOT_SAID) -> Ongoing:
        """Begin to take them off their GPUs; ``memory`` says what each has on which."""
        ...

    def resume(
        self,
        pids: Sequence[int],
        memory: ProcessMemory,
        locks: Sequence[int] = (),
        begun_ms: Begun = NOT_SAID,
    ) -> Ongoing:
        """Begin to bring them back, where each GPU has room for what ``memory`` says they had on it.

        ``locks`` are descriptors that stay open in whoever does it, also when this process ends before.
        """
        ...

    def look(self, pids: Sequence[int], begun_ms: Begun = NOT_SAID) -> Deed:
        """Only their states; blocks for a moment."""
        ...


class LocalCheckpointer:
    """This machine's. ``driver_version`` as the driver says it (``570.86.15``), asked anew each time.

    ``drivers``: the major versions under which this site lets jobs be checkpointed. ``as_owner``: the driver
    is asked by a child of the account whose process it is, never root's; needs CAP_SETUID and CAP_SETGID.
    """

    def __init__(
        self,
        driver_version: Callable[[], str | None],
        lock_timeout_s: float,
        drivers: tuple[int, ...] = TRIED_DRIVERS,
        *,
        as_owner: bool = False,
    ) -> None:
        self._driver_version, self._timeout_ms = driver_version, round(lock_timeout_s * 1000)
        self._drivers, self._as_owner = drivers, as_owner

    def host(self) -> Host:
        """Reads /proc; blocks as long as the driver does for its version."""
        return Host(
            architecture=platform.machine(),
            driver_major=major(self._driver_version()),
            uid=os.geteuid(),
            available_bytes=available_bytes(),
            mps_pids=mps_pids(),
            drivers=self._drivers,
        )

    def targets(self, processes: Sequence[Seen]) -> tuple[Target, ...]:
        """Each process as /proc has it now; another one that has got its pid counts as gone."""
        looking = Looking()
        return tuple(
            Target(
                pid=each.pid,
                memory_bytes=each.memory_bytes,
                uuids=each.uuids,
                world_size=each.world_size,
                now=_same(each, entanglement(each.pid, looking=looking)),
            )
            for each in processes
        )

    def pause(self, pids: Sequence[int], memory: ProcessMemory, begun_ms: Begun = NOT_SAID) -> Ongoing:
        """Begin; it is over when the memory has moved, or after a quarter of an hour."""
        return self._ask("pause", self._words(pids, begun_ms), memory, LONGEST_S)

    def resume(
        self,
        pids: Sequence[int],
        memory: ProcessMemory,
        locks: Sequence[int] = (),
        begun_ms: Begun = NOT_SAID,
    ) -> Ongoing:
        """Begin; it is over when the memory has moved, or after a quarter of an hour."""
        return self._ask("resume", self._words(pids, begun_ms), memory, LONGEST_S, locks)

    def look(self, pids: Sequence[int], begun_ms: Begun = NOT_SAID) -> Deed:
        """Blocks for some seconds at most."""
        result = self._ask("look", self._words(pids, begun_ms), {}, LOOK_S)
        while (deed := result.ended(LOOK_S)) is None:
            pass
        return deed

    def _words(self, pids: Sequence[int], begun_ms: Begun) -> list[str]:
        return [_with_start(pid, begun_ms) if self._as_owner else str(pid) for pid in pids]

    def _ask(
        self,
        verb: str,
        words: Sequence[str],
        memory: ProcessMemory,
        patience_s: float,
        locks: Sequence[int] = (),
    ) -> Ongoing:
        sizes = json.dumps({str(pid): dict(each) for pid, each in memory.items()})
        # -P: no module comes from the folder one stands in (docs/decisions/0035).
        command = [sys.executable, "-P", "-m", CHILD, verb, str(self._timeout_ms), sizes, *words]
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                # A lock is held as long as any process has it open: these outlive a service that ends
                # meanwhile.
                pass_fds=locks,
            )
        except OSError as error:
            return Over(Deed(ok=False, found=f"the driver could not be asked: {error}", undone=True))
        return Child(child, patience_s)


def held_memory(pids: Sequence[int]) -> ProcessMemory:
    """Bytes that each process holds on each GPU now, by NVML in a process of its own; empty: not known."""
    command = [sys.executable, "-P", "-m", HELD_MEMORY, *map(str, pids)]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=ASK_S
        )
        answer = json.loads(result.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {pid: {} for pid in pids}
    return {pid: answer.get(str(pid)) or {} for pid in pids}


class Over:
    """What ended as it began."""

    def __init__(self, deed: Deed) -> None:
        self._deed = deed

    def ended(self, at_most_s: float) -> Deed:
        """What came of it, at once."""
        return self._deed


class Child:
    """A process that asks the driver, and is left to itself after ``patience_s``."""

    def __init__(self, process: "subprocess.Popen[str]", patience_s: float) -> None:
        self._process, self._patience_s = process, patience_s
        self._until_s = time.monotonic() + patience_s

    def ended(self, at_most_s: float) -> Deed | None:
        """What came of it, waiting so long at most; ``None`` when it still asks, and its time is not over."""
        try:
            out, err = self._process.communicate(timeout=max(0.0, at_most_s))
        except subprocess.TimeoutExpired:
            if time.monotonic() < self._until_s:
                return None
            goes_on = f"process {self._process.pid} goes on asking"
            return Deed(
                ok=False, found=f"the driver has not finished after {self._patience_s:g} s ({goes_on})"
            )
        try:
            deed: Deed = from_text(Deed, out)
        except Unreadable:
            last = (err.strip().splitlines() or ["no word"])[-1]
            status = self._process.returncode
            return Deed(ok=False, found=f"asking the driver ended with status {status}: {last}")
        return deed


def _with_start(pid: int, begun_ms: Begun) -> str:
    """A process by pid and start; one that is gone by a start that nobody has."""
    if pid in begun_ms:
        return f"{pid}@{begun_ms[pid]}"
    now = owner(pid)
    return f"{pid}@{0 if now is None else now.started_ms}"


def _same(then: Seen, now: CheckpointBlocker | None) -> CheckpointBlocker | None:
    return now if now is not None and is_same_start(now.started_ms, then.started_ms) else None


def major(version: str | None) -> int | None:
    """The first number of a driver's version; ``None`` where it has none."""
    head = (version or "").split(".", 1)[0]
    return int(head) if head.isdigit() else None
