"""What is known of a running training, for whoever decides about its GPUs, from its workers' reports.

Everything is the workers' own word. ``None`` is not known; times in seconds, ``_ms`` UTC milliseconds.
"""

import json
import time
from collections.abc import Mapping
from typing import Any

from fallow.controller.controller import Controller
from fallow.protocol import MemberId
from fallow.workers.hosts import Hosts

EVERY_S = 1.0
"""As often as workers report."""


class Tally:
    """Remembers what a report says of one moment only: how long a step took in each size that there was."""

    def __init__(self) -> None:
        self._looked_s = float("-inf")
        self._step_s: dict[int, float] = {}
        self._first: dict[str, Any] = {}
        self._checkpoint_ms: int | None = None

    def look(self, controller: Controller) -> None:
        """Read the first member's newest report, at most once in EVERY_S."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= EVERY_S:
            self._looked_s = now_s
            self._read(controller)

    def status(self, controller: Controller, hosts: Hosts) -> dict[str, Any]:
        """All that can be said of the training now."""
        self._read(controller)
        view, first = controller.view, self._first
        reports = {member: controller.report(member) for member in view.members}
        read = {member: json.loads(report) for member, report in reports.items() if report is not None}
        return {
            "target": view.target,
            "spare": view.spare,
            "members": list(view.members),
            "generation": view.generation,
            "changing": view.pending is not None,
            "stopping": view.stopping,
            "workers": {member: worker.phase.value for member, worker in view.workers.items()},
            "pids": {member: getattr(handle, "pid", None) for member, handle in controller.processes.items()},
            "devices": [
                {"device": seat.device, "worker": seat.member, "kept": seat.kept} for seat in hosts.seating()
            ],
            "machines": [
                {
                    "machine": machine.offer.name,
                    "slots": machine.size,
                    "workers": list(machine.sitting()),
                    "leaving": machine.leaving,
                    "job": machine.offer.job,
                }
                for machine in hosts.guests()
            ],
            "step": first.get("step"),
            "steps_left": first.get("remaining_steps"),
            "step_s": {str(size): seconds for size, seconds in sorted(self._step_s.items())},
            "resize_s": controller.paused_s,
            "memory_held_bytes": _most(read, "memory_reserved_bytes"),
            "memory_needed_bytes": _most(read, "memory_peak_bytes"),
            "checkpoint_ms": self._checkpoint_ms,
            "can_save": bool(first["can_save"]) if "can_save" in first else None,
            "failures": view.failures,
            "last_failure": view.last_failure,
            "settled": view.settled,
            "reports": read,
        }

    def _read(self, controller: Controller) -> None:
        members = controller.view.members
        report = controller.report(members[0]) if members else None
        if report is None:
            return
        self._first = document = json.loads(report)
        if document.get("step_time_s") is not None and document.get("world_size") is not None:
            self._step_s[int(document["world_size"])] = document["step_time_s"]
        saved = [ms for ms in (document.get("checkpoint_ms"), self._checkpoint_ms) if ms is not None]
        self._checkpoint_ms = max(saved, default=None)


def _most(reports: Mapping[MemberId, dict[str, Any]], name: str) -> int | None:
    """The most that any worker told, bytes on its device."""
    values = [report[name] for report in reports.values() if report.get(name) is not None]
    return max(values, default=None)
