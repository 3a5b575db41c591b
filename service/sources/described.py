"""Joins the driver's bare pids to what /proc says of them: user, framework, job."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from collector.inventory.hub import NO_HUB, HubAccounts, with_hub_user
from collector.model import (
    NodeName,
    Process,
    Unavailable,
)
from collector.procfs.proc_files import is_same_start
from collector.procfs.process_table import FORGET_MS, ProcessTable
from collector.reading import Reading
from collector.source import Source
from service.privileged.client import ProbeTable, probe_socket

log = logging.getLogger(__name__)

LOOK_MS = 30_000
"""How soon /proc is asked again of processes that are known, for frameworks that were loaded since."""

SETTLED_LOOK_MS = FORGET_MS
"""How often it is asked when all there was to say was said: what has ended since is let go."""


class Described:
    """A source of this machine whose bare processes get their user, framework and job from /proc."""

    def __init__(self, source: Source, node: NodeName, hub: HubAccounts = NO_HUB) -> None:
        self._source, self._hub = source, hub
        probe = probe_socket()
        self._table = ProcessTable(node) if probe is None else ProbeTable(node, probe)
        self._joined: dict[int, _Joined] = {}
        self._looked_ms: int | None = None
        self._lasts_ms = LOOK_MS

    @property
    def name(self) -> str:
        """The name of the source that is described."""
        return self._source.name

    def read(self, now_ms: int) -> Reading | Unavailable:
        """The source's reading, its processes described."""
        reading = self._source.read(now_ms)
        if isinstance(reading, Unavailable) or not reading.processes:
            return reading
        if self._is_due(now_ms) or not all(map(self._is_same, reading.processes)):
            self._look(reading.processes, now_ms)
        return replace(reading, processes=tuple([self._described(each) for each in reading.processes]))

    def close(self) -> None:
        """Let go of the processes and of the source."""
        self._table.close()
        self._source.close()

    def _is_due(self, now_ms: int) -> bool:
        return self._looked_ms is None or not 0 <= now_ms - self._looked_ms < self._lasts_ms

    def _is_same(self, bare: Process) -> bool:
        """A source hands out the same object for as long as the same process runs."""
        entry = self._joined.get(bare.key.pid)
        return entry is not None and entry.bare is bare

    def _look(self, processes: Sequence[Process], now_ms: int) -> None:
        self._looked_ms = now_ms
        pids = [each.key.pid for each in processes]
        looked_up = self._table.look(pids, now_ms)
        self._lasts_ms = SETTLED_LOOK_MS if self._table.has_settled(pids) else LOOK_MS
        before, self._joined = self._joined, {}
        for bare in processes:
            pid = bare.key.pid
            self._joined[pid] = _joined(bare, looked_up.get(pid), before.get(pid), self._hub)

    def _described(self, bare: Process) -> Process:
        return self._joined[bare.key.pid].described


class _Joined(NamedTuple):
    """A bare process, what /proc said of it, and what became of both."""

    bare: Process
    found: Process | None
    described: Process


def _joined(bare: Process, process: Process | None, before: _Joined | None, hub: HubAccounts) -> _Joined:
    """The two joined; what was joined ``before`` still holds where neither is another object now."""
    if before is not None and before.bare is bare and before.found is process:
        return before
    if process is None or not is_same_start(process.key.started_ms, bare.key.started_ms):
        return _Joined(bare, process, bare)
    described = replace(process, key=bare.key)
    try:
        return _Joined(bare, process, with_hub_user(described, hub))
    except Exception:
        log.exception("process %d is nobody of a hub: what it says of itself could not be read", bare.key.pid)
        return _Joined(bare, process, described)
