"""Joins the driver's bare pids to what /proc says of them: user, framework, job."""

from dataclasses import replace

from collector.model import NodeName, Process, Reading, Unavailable
from collector.procfs.table import ProcessTable
from collector.source import Source

START_SLACK_MS = 2_000
"""Two looks at one process's start differ by the clock's rounding at most; another process's by more."""


class Described:
    """A source of this machine whose bare processes get their user, framework and job from /proc."""

    def __init__(self, source: Source, node: NodeName) -> None:
        self._source = source
        self._table = ProcessTable(node)

    @property
    def name(self) -> str:
        """The name of the source that is described."""
        return self._source.name

    def read(self, now_ms: int) -> Reading | Unavailable:
        """The source's reading, its processes described."""
        reading = self._source.read(now_ms)
        if isinstance(reading, Unavailable) or not reading.processes:
            return reading
        seen = self._table.look((process.key.pid for process in reading.processes), now_ms)
        described = tuple(_described(each, seen.get(each.key.pid)) for each in reading.processes)
        return replace(reading, processes=described)

    def close(self) -> None:
        """Let go of the processes and of the source."""
        self._table.close()
        self._source.close()


def _described(bare: Process, found: Process | None) -> Process:
    if found is None or abs(found.key.started_ms - bare.key.started_ms) > START_SLACK_MS:
        return bare
    return replace(found, key=bare.key)
