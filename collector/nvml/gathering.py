"""One answer of the child made into samples and process samples, with what is remembered between ticks.

Kept between ticks: each process's first sighting when /proc hides its start, what each GPU did since the
processes were last looked at (their shares must fit into it), and the power each GPU draws when idle.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from collector.model import GpuSample, GpuUuid, NodeName, Process, ProcessKey, ProcessSample
from collector.nvml import process_list, reading
from collector.nvml.changes import XID_TYPE
from collector.nvml.identity import ProcessStarts, Seen
from collector.nvml.process_list import Presence, Verdict
from collector.nvml.reading import Looked

Processes = tuple[tuple[Process, ...], tuple[ProcessSample, ...]]
HIDDEN = "stat: hidden by /proc; started_ms is when it was first seen"


class Gathering:
    """Turns answers into samples; owns the process descriptors."""

    def __init__(self, node: NodeName, starts: ProcessStarts, *, foreign: bool) -> None:
        self._node = node
        self._starts = starts
        self._foreign = foreign
        self._first_seen: dict[int, int] = {}
        self._idle_power: dict[GpuUuid, int | None] = {}
        self._done: dict[GpuUuid, tuple[float, int]] = {}
        self._looked_ms: int | None = None
        self._parts: dict[str, tuple[str, ...]] = {}

    def close(self) -> None:
        """Give back the process descriptors; safe to call twice."""
        self._starts.close()

    def gather(
        self, answer: Mapping[str, Any], at_ms: int, width_ms: int, *, looked: bool
    ) -> tuple[tuple[GpuSample, ...], Processes | None]:
        """The samples, and the processes when they were looked at."""
        devices = answer["devices"]
        rows = {line[0]: reading.sample(line[0], at_ms, width_ms, line[1], line[2]) for line in devices}
        for uuid, row in rows.items():
            self._accumulate(uuid, row)
        found: Processes | None = None
        counts: dict[str, Looked] = {}
        if looked:
            found, counts = self._processes(devices, rows, at_ms)
            self._looked_ms = at_ms
        xid_by_uuid = {uuid: number for uuid, kind, number in answer["events"] if kind & XID_TYPE}
        self._note_parts(answer)
        samples = tuple(self._finish(row, counts, xid_by_uuid, rows) for row in rows.values())
        return samples, found

    def _finish(
        self,
        row: GpuSample,
        counts: Mapping[str, Looked],
        xids: Mapping[str, int],
        rows: Mapping[str, GpuSample],
    ) -> GpuSample:
        parts = self._parts.get(row.uuid)
        if parts is not None:
            row = reading.without_parts(row, [rows[part] for part in parts if part in rows])
        look = counts.get(row.uuid, Looked())
        if look.count is not None or look.flags:
            row = replace(row, process_count=look.count, flags=(*row.flags, *look.flags))
        if row.uuid in xids:
            row = replace(row, xid=xids[row.uuid])
        doubts = reading.suspicions(row, self._idle_power.get(row.uuid))
        self._idle_power[row.uuid] = reading.idle_power(row, self._idle_power.get(row.uuid))
        return replace(row, flags=(*row.flags, *doubts)) if doubts else row

    def _processes(
        self, devices: list[Any], rows: Mapping[str, GpuSample], at_ms: int
    ) -> tuple[Processes, dict[str, Looked]]:
        listed = {line[0]: line[3] for line in devices if line[3] is not None}
        seen = self._starts.look({pid for entries in listed.values() for pid, _, _ in entries})
        presence = {pid: one.presence for pid, one in seen.items()}
        keys: dict[int, ProcessKey] = {}
        samples: list[ProcessSample] = []
        counts: dict[str, Looked] = {}
        for uuid, _, _, entries, uses, after_us in devices:
            if entries is None:
                continue
            total = rows[uuid].memory_total_bytes
            verdict = process_list.judge(entries, total, presence, foreign=self._foreign)
            for held in verdict.held:
                keys.setdefault(held.pid, self._key(held.pid, seen[held.pid], at_ms))
            made, flags = self._samples(rows[uuid], verdict, uses, after_us, keys)
            samples += made
            counts[uuid] = Looked(count=verdict.count, flags=(*verdict.flags, *flags))
        self._first_seen = {pid: ms for pid, ms in self._first_seen.items() if pid in keys}
        processes = tuple(self._process(key, seen[pid]) for pid, key in keys.items())
        return (processes, tuple(samples)), counts

    def _samples(
        self,
        row: GpuSample,
        verdict: Verdict,
        uses: list[Any] | None,
        after_us: int,
        keys: Mapping[int, ProcessKey],
    ) -> tuple[list[ProcessSample], tuple[str, ...]]:
        ratio, _ = self._done.pop(row.uuid, (None, 0))
        by_pid = process_list.shares(uses or (), after_us, [held.pid for held in verdict.held])
        by_pid, scaled = process_list.within_device(by_pid, ratio)
        flags = (process_list.SCALED,) if scaled else ()
        if row.uuid.startswith("MIG-") and verdict.held:
            flags = (*flags, reading.MIG_BY_INSTANCE)
        made = [
            ProcessSample(
                uuid=row.uuid,
                key=keys[held.pid],
                at_ms=row.at_ms,
                width_ms=self._process_width_ms(row),
                type=held.type,
                memory_used_bytes=held.memory_used_bytes,
                sm_ratio=by_pid.get(held.pid),
            )
            for held in verdict.held
        ]
        return made, flags

    def _key(self, pid: int, seen: Seen, at_ms: int) -> ProcessKey:
        started = seen.started_ms
        if started is None:
            started = self._first_seen.setdefault(pid, at_ms)
        return ProcessKey(node=self._node, pid=pid, started_ms=started)

    def _process(self, key: ProcessKey, seen: Seen) -> Process:
        return Process(key=key, unreadable=(HIDDEN,) if seen.presence is Presence.HIDDEN else ())

    def _accumulate(self, uuid: GpuUuid, row: GpuSample) -> None:
        """Mean GPU utilization, weighted by time, since the processes were last looked at."""
        mean, width = self._done.get(uuid, (None, 0))
        if row.gpu_utilization_ratio is None:
            return
        total = width + row.width_ms
        weighted = (mean or 0.0) * width + row.gpu_utilization_ratio * row.width_ms
        self._done[uuid] = (weighted / total, total)

    def _note_parts(self, answer: Mapping[str, Any]) -> None:
        """Remember each partitioned GPU with the UUIDs of its instances."""
        if "static" in answer:
            self._parts = {
                told["uuid"]: tuple(part["uuid"] for part in told["instances"])
                for told in answer["static"]
                if told["mig"]
            }

    def _process_width_ms(self, row: GpuSample) -> int:
        since = None if self._looked_ms is None else row.at_ms - self._looked_ms
        return since if since and since > 0 else row.width_ms
