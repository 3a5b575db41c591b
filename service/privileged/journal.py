"""The hand's own journal: a line before each act and one after it, synced; root's alone.

{"n": 3, "at_ms": .., "verb": "pause", "processes": [[pid, started_ms]], "by": 991,
 "held": {pid: {uuid: bytes}}}
{"n": 3, "at_ms": .., "ok": true, "undone": false, "found": ".."}
"""

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.engines.gpu_room import ProcessMemory
from collector.model import GpuUuid

Process = tuple[int, int]
"""A pid and when it started, UTC ms."""


class HandJournal:
    """Append only; ``open_journal`` makes one. Safe from any thread."""

    def __init__(self, descriptor: int, rows: Sequence[dict[str, Any]]) -> None:
        self._descriptor = descriptor
        self._guard = threading.Lock()
        self._number = max((int(row["n"]) for row in rows), default=0)
        self._open: dict[int, tuple[str, tuple[Process, ...]]] = {}
        self._paused: set[Process] = set()
        self._held: dict[int, Mapping[GpuUuid, int]] = {}
        self._last: dict[int, int] = {}
        for row in rows:
            self._note(row)

    def begun(
        self, verb: str, processes: Sequence[Process], by: int, memory: ProcessMemory | None = None
    ) -> int:
        """Durable when it returns; the number of the act. Raises OSError: then it must not be begun.

        ``memory``: what the hand measured of the processes.
        """
        with self._guard:
            number = self._number + 1
            row = {
                "n": number,
                "at_ms": time.time_ns() // 1_000_000,
                "verb": verb,
                "processes": [list(each) for each in processes],
                "by": by,
            }
            if memory is not None:
                row["held"] = {str(pid): dict(sizes) for pid, sizes in memory.items()}
            self._append(row)
            self._number = number
            self._note(row)
            return number

    def ended(self, number: int, *, ok: bool, undone: bool, found: str) -> None:
        """What came of it. Raises OSError."""
        with self._guard:
            row = {
                "n": number,
                "at_ms": time.time_ns() // 1_000_000,
                "ok": ok,
                "undone": undone,
                "found": found[:2000],
            }
            self._note(row)
            self._append(row)

    def paused(self) -> frozenset[Process]:
        """What it paused, or may have paused, and has not brought back."""
        with self._guard:
            return frozenset(self._paused)

    def last_paused(self, pid: int) -> int | None:
        """When the process of this pid that was paused last had begun, also if it was brought back since."""
        with self._guard:
            return self._last.get(pid)

    def held(self, pid: int) -> Mapping[GpuUuid, int] | None:
        """What a process held when it was last paused; ``None``: that was not written down yet then."""
        with self._guard:
            return self._held.get(pid)

    def _note(self, row: dict[str, Any]) -> None:
        """A pause counts from its beginning: one that was cut off may have happened."""
        if "verb" in row:
            processes = tuple((int(pid), int(at)) for pid, at in row["processes"])
            self._open[row["n"]] = (row["verb"], processes)
            if row["verb"] == "pause":
                self._paused |= set(processes)
                self._last.update(processes)
                sizes = dict(row.get("held") or {})
                for pid, _ in processes:
                    self._held.pop(pid, None)
                    if sizes.get(str(pid)):
                        self._held[pid] = sizes[str(pid)]
            return
        verb, processes = self._open.pop(row["n"], ("", ()))
        if (verb == "resume" and row["ok"]) or (verb == "pause" and not row["ok"] and row["undone"]):
            pids = {pid for pid, _ in processes}
            self._paused = {each for each in self._paused if each[0] not in pids}

    def _append(self, row: dict[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        if os.write(self._descriptor, line) != len(line):
            raise OSError("the journal took only a part of a line; is the disk full?")
        os.fsync(self._descriptor)


def open_journal(path: Path) -> HandJournal:
    """The journal of a file, which is made when it is missing. A line cut short by a crash is passed over."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    rows = []
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "n" in row:
            rows.append(row)
    if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
        os.write(descriptor, b"\n")
    return HandJournal(descriptor, rows)
