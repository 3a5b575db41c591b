"""The NVML source: what the loop reads each tick, whatever becomes of the driver or the child that asks it.

Effects and their order only; what answers mean is in ``convert``, ``process_list`` and ``device_changes``.

``Restarts`` says when to start the child again, and which GPUs to leave alone meanwhile. It is pure:

    running ── crash, hang, refusal ──► waiting (back-off doubles) ──► starting ──► running
       └── a GPU was lost ──► after RETRY_LOST a planned restart asks for it again

No jitter: the only rival for the driver is this one child.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from collector.model import (
    GpuSample,
    GpuUuid,
    MigPlace,
    NodeName,
    Unavailable,
)
from collector.reading import Reading
from collector.sources.nvml import device_changes
from collector.sources.nvml.assemble import Assembly
from collector.sources.nvml.convert import (
    CONTAINER_ADVICE,
    explain_call,
    explain_problem,
    gpus,
    mig_places,
    with_memory,
)
from collector.sources.nvml.device_changes import Failure, Known
from collector.sources.nvml.identity import ProcessStarts, shares_host_pids
from collector.sources.nvml.worker import ChildLost, Worker

FIRST_WAIT_MS = 5_000
"""Until the first fresh child after one that ended; each further one waits twice as long."""
LONGEST_WAIT_MS = 300_000
RETRY_LOST_MS = 300_000
"""Until a GPU that crashed the child is asked again: asking may end that child too, and costs all GPUs a
tick."""
LONGEST_RETRY_LOST_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoided:
    """A GPU that is left alone until then, why, and how long the pause after the next failure is."""

    until_ms: int
    pause_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """How often it failed in a row, when to try next, and the GPUs (by index) that are left alone."""

    failures: int = 0
    not_before_ms: int = 0
    avoided: Mapping[int, Avoided] = field(default_factory=dict)


def failed(state: Restarts, now_ms: int, *, touching: int | None, reason: str) -> Restarts:
    """After a crash, a hang or a refusal. With a GPU to blame the rest goes on at once, without it."""
    if touching is not None:
        before = state.avoided.get(touching)
        pause = before.pause_ms if before else RETRY_LOST_MS
        avoidance = Avoided(until_ms=now_ms + pause, pause_ms=pause, reason=reason)
        return replace(state, avoided={**state.avoided, touching: avoidance})
    wait = min(FIRST_WAIT_MS * 2**state.failures, LONGEST_WAIT_MS)
    return replace(state, failures=state.failures + 1, not_before_ms=now_ms + wait)


def succeeded(state: Restarts) -> Restarts:
    """After a reading."""
    return replace(state, failures=0, not_before_ms=0) if state.failures else state


def noticed_lost(state: Restarts, now_ms: int, index: int, reason: str) -> Restarts:
    """A GPU was reported lost: remember when to ask for it again."""
    return state if index in state.avoided else failed(state, now_ms, touching=index, reason=reason)


def wants_fresh_child(state: Restarts, now_ms: int) -> bool:
    """Whether a GPU that was left alone is due to be asked for again, which takes a new child."""
    return any(_is_due(avoidance, now_ms) for avoidance in state.avoided.values())


def starting(state: Restarts, now_ms: int) -> tuple[frozenset[int], Restarts]:
    """The GPUs a new child must leave alone; those that are due get a try, and a longer pause after it."""
    renewed = {
        index: _longer(avoidance, now_ms) if _is_due(avoidance, now_ms) else avoidance
        for index, avoidance in state.avoided.items()
    }
    avoid = frozenset(index for index, avoidance in state.avoided.items() if not _is_due(avoidance, now_ms))
    return avoid, replace(state, avoided=renewed)


def returned(state: Restarts, answered: set[int]) -> Restarts:
    """Forget the GPUs that answer again."""
    rest = {index: avoidance for index, avoidance in state.avoided.items() if index not in answered}
    return state if len(rest) == len(state.avoided) else replace(state, avoided=rest)


def must_wait_ms(state: Restarts, now_ms: int) -> int:
    """How long to wait before the next try; 0 when it is time, or when the clock was set back."""
    remaining = state.not_before_ms - now_ms
    return remaining if 0 < remaining <= LONGEST_WAIT_MS else 0


def _is_due(avoidance: Avoided, now_ms: int) -> bool:
    """Whether its pause is over, or longer than it ever was: the clock was set back."""
    return not 0 < avoidance.until_ms - now_ms <= avoidance.pause_ms


def _longer(avoidance: Avoided, now_ms: int) -> Avoided:
    pause = min(avoidance.pause_ms * 2, LONGEST_RETRY_LOST_MS)
    return replace(avoidance, until_ms=now_ms + pause, pause_ms=pause)


LOST_CODES = (15, 16, 28)
HANDLE = "nvmlDeviceGetHandleByIndex"
NO_GPU = -1
"""The index in a problem that is not one GPU's."""
_WIDEST_TICKS = 3
"""Of a tick: the driver's own samples reach back no further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlOptions:
    """How often and how patiently to ask.

    ``processes_every``: the process lists take the driver milliseconds under a lock, so they are read at
    every n-th tick only. ``rescan_every``: what hardly ever changes (index, persistence and MIG mode,
    power limit); GPUs and MIG instances that come and go are found sooner. ``timeout_s`` is for one
    reading, ``start_timeout_s`` for the driver's initialization, which takes seconds a GPU without
    persistence mode. ``host_pids``: whether the driver's pids are ours; None: find out.
    """

    tick_ms: int = 10_000
    processes_every: int = 3
    rescan_every: int = 6
    timeout_s: float = 5.0
    start_timeout_s: float = 60.0
    host_pids: bool | None = None


class NvmlSource:
    """Reads all GPUs and MIG instances of this machine through a child process.

    ``processes`` of a reading are bare keys (pid and start time): whoever wires sources together has them
    described. Not for several threads at once. Making one raises OSError where there is no /proc.
    """

    def __init__(self, *, node: NodeName, name: str = "nvml", options: NvmlOptions | None = None) -> None:
        self._node = node
        self._name = name
        self._options = options or NvmlOptions()
        self._worker: Worker | None = None
        self._versions: Mapping[str, Any] | None = None
        self._asked_for_start = 0.0
        self._restarts = Restarts()
        self._last_reason = ""
        self._known = Known()
        self._places: tuple[MigPlace, ...] = ()
        self._generation = -1
        self._last_ms: int | None = None
        self._began = 0.0
        self._ticks = 0
        shares = shares_host_pids() if self._options.host_pids is None else self._options.host_pids
        starts = ProcessStarts(foreign=shares is False)
        self._gathering = Assembly(node, starts, host_pids=shares)

    @property
    def name(self) -> str:
        """The name given at the start."""
        return self._name

    @property
    def child_pid(self) -> int | None:
        """The process id of the child that reads NVML; None while there is none."""
        return self._worker.pid if self._worker else None

    def read(self, now_ms: int) -> Reading | Unavailable:
        """Everything since the last call; blocks for at most about two ``timeout_s``."""
        self._began = time.perf_counter()
        outcome = self._read(now_ms)
        return outcome if isinstance(outcome, Reading) else replace(outcome, duration_ms=self._lasted_ms())

    def close(self) -> None:
        """End the child and forget the processes; safe to call twice."""
        self._end()
        self._gathering.close()

    def _read(self, now_ms: int) -> Reading | Unavailable:
        if self._worker and self._worker.owner != os.getpid():
            self._end()  # a forked copy: the child is the original's, and so are its answers
        if self._worker and wants_fresh_child(self._restarts, now_ms):
            self._end()
        wait_ms = must_wait_ms(self._restarts, now_ms)
        if wait_ms and not self._worker:
            return self._unavailable(now_ms, f"{self._last_reason}; next try in {wait_ms / 1000:.0f} s")
        try:
            return self._ask(now_ms)
        except ChildLost as lost:
            self._blame(now_ms, lost)
            if lost.touching is None or lost.silent:
                return self._unavailable(now_ms, self._last_reason)
        try:
            return self._ask(now_ms)
        except ChildLost as lost:
            self._blame(now_ms, lost)
            return self._unavailable(now_ms, self._last_reason)

    def _ask(self, now_ms: int) -> Reading | Unavailable:
        worker = self._worker or self._start(now_ms)
        if self._versions is None:
            problem = self._await_start(worker, now_ms)
            if problem:
                return problem
        width_ms = self._width_ms(now_ms)
        look = self._ticks % max(self._options.processes_every, 1) == 0
        request = {
            "op": "read",
            "now_us": now_ms * 1000,
            "width_us": width_ms * 1000,
            "processes": look,
            "rescan": self._ticks % max(self._options.rescan_every, 1) == 0,
            "known": self._generation,
        }
        answer = worker.ask(request, self._options.timeout_s)
        if "unusable" in answer:
            return self._refused(now_ms, answer["unusable"])
        if answer["failed"] and not answer["devices"]:
            return self._refused(now_ms, answer["failed"][0])
        self._ticks += 1
        self._last_ms = now_ms
        return self._reading(answer, now_ms, width_ms, looked=look)

    def _start(self, now_ms: int) -> Worker:
        avoid, self._restarts = starting(self._restarts, now_ms)
        self._versions = None
        self._generation = -1
        self._asked_for_start = time.monotonic()
        try:
            self._worker = Worker(avoid, node=self._node)
        except OSError as error:
            raise ChildLost(f"could not be started: {error}", None, silent=True) from error
        return self._worker

    def _await_start(self, worker: Worker, now_ms: int) -> Unavailable | None:
        """None when the child is ready; a driver that is slow to initialize is waited for over many ticks."""
        if not worker.is_ready(self._options.timeout_s):
            waited = time.monotonic() - self._asked_for_start
            if waited > self._options.start_timeout_s:
                raise ChildLost(f"not initialized after {waited:.0f} s", worker.touching(), silent=True)
            return self._unavailable(
                now_ms, f"the driver has been initializing for {waited:.0f} s; persistence mode makes it fast"
            )
        hello = worker.receive(self._options.timeout_s)
        if "unusable" in hello:
            return self._refused(now_ms, hello["unusable"])
        self._versions = hello["versions"]
        return None

    def _reading(self, answer: Mapping[str, Any], now_ms: int, width_ms: int, *, looked: bool) -> Reading:
        before = self._known
        samples, unread = self._gathering.gather(answer, now_ms, width_ms, looked=looked)
        gpus_now = self._remember(answer, samples, now_ms)
        happened = device_changes.events(before, gpus_now, samples, now_ms)
        events = device_changes.xids(answer["events"], now_ms)
        self._known = gpus_now
        self._restarts = succeeded(self._restarts)
        processes, process_samples = unread if unread else (None, None)
        return Reading(
            source=self._name,
            at_ms=now_ms,
            gpus=tuple(gpus_now.gpus.values()),
            samples=samples,
            processes=processes,
            process_samples=process_samples,
            events=(*happened, *events),
            gaps=(
                *device_changes.gaps(gpus_now, self._name, now_ms - width_ms, now_ms),
                *device_changes.unnamed(
                    gpus_now, self._failures(answer), self._name, now_ms - width_ms, now_ms
                ),
            ),
            mig_places=self._places,
            duration_ms=self._lasted_ms(),
        )

    def _lasted_ms(self) -> float:
        return (time.perf_counter() - self._began) * 1000

    def _remember(self, answer: Mapping[str, Any], samples: tuple[GpuSample, ...], now_ms: int) -> Known:
        blind = device_changes.blind_now(self._known, self._failures(answer))
        self._note_lost(blind, {row.uuid for row in samples}, now_ms)
        present = self._known.gpus
        if "static" in answer:
            self._generation = answer["generation"]
            driver = (self._versions or {}).get("driver")
            fresh = {gpu.uuid: gpu for gpu in gpus(answer["static"], self._node, driver)}
            missing = {uuid: present[uuid] for uuid in blind if uuid in present and uuid not in fresh}
            present = {gpu.uuid: gpu for gpu in with_memory(fresh.values(), samples)} | missing
            unread = (place for place in self._places if place.uuid in missing)
            self._places = (*mig_places(answer["static"]), *unread)
        present = {**present, **device_changes.never_described(blind, present, self._node)}
        return Known(gpus=present, blind=blind, energy_mj=device_changes.energies(self._known, samples))

    def _failures(self, answer: Mapping[str, Any]) -> list[Failure]:
        return [self._failure(failure) for failure in answer["failed"]]

    def _failure(self, failure: Mapping[str, Any]) -> Failure:
        index, call, code = failure["index"], failure["call"], failure["code"]
        avoidance = self._restarts.avoided.get(index)
        reason = avoidance.reason if avoidance else explain_call(call, code)
        is_lost = avoidance is not None or code in LOST_CODES or call == HANDLE
        return Failure(index=index, uuid=failure["uuid"], reason=reason, lost=is_lost)

    def _note_lost(self, blind: Mapping[GpuUuid, Failure], read: set[GpuUuid], now_ms: int) -> None:
        for failure in blind.values():
            if failure.lost:
                self._restarts = noticed_lost(self._restarts, now_ms, failure.index, failure.reason)
        answered = {
            gpu.index for gpu in self._known.gpus.values() if gpu.uuid in read and gpu.index is not None
        }
        self._restarts = returned(self._restarts, answered)

    def _blame(self, now_ms: int, lost: ChildLost) -> None:
        where = "" if lost.touching is None else f" while it asked GPU {lost.touching}"
        self._last_reason = f"the process that reads NVML {lost}{where}"
        self._restarts = failed(self._restarts, now_ms, touching=lost.touching, reason=self._last_reason)
        self._end()

    def _refused(self, now_ms: int, problem: Mapping[str, Any]) -> Unavailable:
        avoidance = self._restarts.avoided.get(problem.get("index", NO_GPU))
        self._last_reason = explain_problem(problem) if avoidance is None else avoidance.reason
        if avoidance is None and problem["code"] in (1, 999):
            self._last_reason += f" ({CONTAINER_ADVICE})"
        self._restarts = failed(self._restarts, now_ms, touching=None, reason=self._last_reason)
        self._end()
        return self._unavailable(now_ms, self._last_reason)

    def _end(self) -> None:
        if self._worker:
            self._worker.end()
        self._worker = None

    def _width_ms(self, now_ms: int) -> int:
        """The time since the last reading, but no more than the driver remembers."""
        tick = self._options.tick_ms
        if self._last_ms is None or now_ms <= self._last_ms:
            return tick
        return min(now_ms - self._last_ms, _WIDEST_TICKS * tick)

    def _unavailable(self, now_ms: int, reason: str) -> Unavailable:
        return Unavailable(source=self._name, at_ms=now_ms, reason=reason)
