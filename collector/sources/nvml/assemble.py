"""One answer of the child made into samples and process samples, with what is remembered between ticks.

Kept between ticks: the processes' keys, what each GPU did since the processes were last looked at (their
shares must fit into it), the power each GPU draws when idle, and which GPUs are partitioned.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from collector.model import GpuSample, GpuUuid, NodeName, Process, ProcessKey, ProcessSample
from collector.sources.nvml import convert, process_list
from collector.sources.nvml.device_changes import XID_TYPE
from collector.sources.nvml.identity import ProcessStarts, Seen
from collector.sources.nvml.process_list import Presence, Verdict

Processes = tuple[tuple[Process, ...], tuple[ProcessSample, ...]]
HIDDEN = "stat: hidden by /proc; started_ms is when it was first seen"


class Assembly:
    """Turns answers into samples; owns the process descriptors."""

    def __init__(self, node: NodeName, starts: ProcessStarts, *, host_pids: bool | None) -> None:
        self._node = node
        self._starts = starts
        self._host_pids = host_pids
        self._processes: dict[int, Process] = {}
        self._idle_power: dict[GpuUuid, int | None] = {}
        self._done: dict[GpuUuid, tuple[float, int]] = {}
        self._looked_ms: int | None = None
        self._parts: dict[GpuUuid, tuple[GpuUuid, ...]] = {}

    def close(self) -> None:
        """Give back the process descriptors; safe to call twice."""
        self._starts.close()

    def gather(
        self, answer: Mapping[str, Any], at_ms: int, width_ms: int, *, looked: bool
    ) -> tuple[tuple[GpuSample, ...], Processes | None]:
        """The samples, and the processes when they were looked at."""
        self._note_parts(answer)
        lines = answer["devices"]
        xids = {uuid: number for uuid, kind, number in answer["events"] if kind & XID_TYPE}
        if looked:
            self._meet([pid for line in lines for pid, _, _ in line[3] or ()], at_ms)
        since_ms = at_ms - self._looked_ms if self._looked_ms is not None else 0
        process_width_ms = since_ms if since_ms > 0 else width_ms
        samples: list[GpuSample] = []
        used: list[ProcessSample] = []
        for uuid, row, told, entries, uses in lines:
            values = convert.by_name(row)
            self._accumulate(uuid, values["gpu_utilization_ratio"], width_ms)
            count, flags = 0 if looked and uuid in self._parts else None, tuple(told)
            if entries is not None:
                verdict = self._judge(values, entries, uses)
                shares, said = self._shares(uuid, verdict, uses)
                said = (*said, *process_list.served(entries, verdict.held))
                used += self._used(uuid, verdict, shares, at_ms, process_width_ms)
                count, flags = verdict.total, (*flags, *verdict.flags, *said)
            idle = self._idle_power.get(uuid)
            doubts = convert.suspicions(values, count, idle)
            self._idle_power[uuid] = convert.idle_power(values, idle)
            measured = convert.sample(
                uuid,
                at_ms,
                width_ms,
                values,
                flags=(*flags, *doubts),
                process_count=count,
                xid=xids.get(uuid),
            )
            # A namespace of our own lists its own processes alone: their sum is not the board's memory.
            summed = entries is not None and self._host_pids is not False
            samples.append(convert.with_unified_memory(measured, verdict.held) if summed else measured)
        if not looked:
            return self._without_parts(samples), None
        self._looked_ms = at_ms
        return self._without_parts(samples), (self._listed(used), tuple(used))

    def _meet(self, pids: Sequence[int], at_ms: int) -> None:
        """Look the pids up; a process is the same object for as long as it runs and is listed."""
        starts = self._starts.look(pids)
        before = self._processes
        self._processes = {}
        for pid, one in starts.items():
            if one.presence is Presence.ABSENT:
                continue
            previous = before.get(pid)
            same = previous and (one.started_ms is None or previous.key.started_ms == one.started_ms)
            self._processes[pid] = previous if previous and same else self._process(pid, one, at_ms)

    def _process(self, pid: int, seen: Seen, at_ms: int) -> Process:
        started_ms = at_ms if seen.started_ms is None else seen.started_ms
        key = ProcessKey(node=self._node, pid=pid, started_ms=started_ms)
        return Process(key=key, unreadable=(HIDDEN,) if seen.presence is Presence.HIDDEN else ())

    def _judge(
        self,
        values: Mapping[str, Any],
        entries: Sequence[process_list.Entry],
        uses: Sequence[tuple[int, float]] | None,
    ) -> Verdict:
        return process_list.judge(
            entries,
            values["memory_total_bytes"],
            self._processes.keys(),
            host_pids=self._host_pids,
            memory_used_bytes=values["memory_used_bytes"],
            busy_ratio=self._busiest(values, entries, uses),
        )

    @staticmethod
    def _busiest(
        values: Mapping[str, Any],
        entries: Sequence[process_list.Entry],
        uses: Sequence[tuple[int, float]] | None,
    ) -> float | None:
        """What the busiest part of the GPU did, or the busiest of the processes that are listed."""
        listed = {pid for pid, _, _ in entries}
        own = [percent / 100 for pid, percent in uses or () if pid in listed]
        parts = [values[name] for name in convert.ACTIVITY if values[name] is not None]
        return max([*own, *parts], default=None)

    def _shares(
        self, uuid: GpuUuid, verdict: Verdict, uses: Sequence[tuple[int, float]] | None
    ) -> tuple[Mapping[int, float], tuple[str, ...]]:
        """SM share by pid, held against what the GPU did in the same time; and flags."""
        ratio, _ = self._done.pop(uuid, (None, 0))
        flags = (convert.MIG_BY_INSTANCE,) if verdict.held and uuid.startswith("MIG-") else ()
        listed = {one.pid for one in verdict.held}
        by_pid, strange = process_list.believed(uses, listed, foreign=self._host_pids is False)
        by_pid, scaled = process_list.within_device(by_pid, ratio)
        return by_pid, (*flags, *strange, *((process_list.SCALED,) if scaled else ()))

    def _used(
        self, uuid: GpuUuid, verdict: Verdict, shares: Mapping[int, float], at_ms: int, width_ms: int
    ) -> list[ProcessSample]:
        return [
            ProcessSample(
                uuid=uuid,
                key=self._processes[pid].key,
                at_ms=at_ms,
                width_ms=width_ms,
                type=kind,
                memory_used_bytes=memory,
                sm_ratio=shares.get(pid),
            )
            for pid, kind, memory in verdict.held
        ]

    def _listed(self, used: Sequence[ProcessSample]) -> tuple[Process, ...]:
        pids = dict.fromkeys([row.key.pid for row in used])
        return tuple([self._processes[pid] for pid in pids])

    def _accumulate(self, uuid: GpuUuid, ratio: float | None, width_ms: int) -> None:
        """Mean GPU utilization, weighted by time, since the processes were last looked at."""
        if ratio is not None:
            mean, width = self._done.get(uuid, (0.0, 0))
            total = width + width_ms
            self._done[uuid] = ((mean * width + ratio * width_ms) / total, total)

    def _note_parts(self, answer: Mapping[str, Any]) -> None:
        """Remember each partitioned GPU with the UUIDs of its instances."""
        if "static" in answer:
            self._parts = {
                static["uuid"]: tuple(part["uuid"] for part in static["instances"])
                for static in answer["static"]
                if static["mig"]
            }

    def _without_parts(self, samples: list[GpuSample]) -> tuple[GpuSample, ...]:
        """A partitioned GPU's memory without that of its instances."""
        if not self._parts:
            return tuple(samples)
        by_uuid = {row.uuid: row for row in samples}
        return tuple(
            convert.without_parts(row, [by_uuid[part] for part in self._parts[row.uuid] if part in by_uuid])
            if row.uuid in self._parts
            else row
            for row in samples
        )
