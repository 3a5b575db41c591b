"""A habit as the hardware lives it: what every GPU does in every ten seconds, and which processes are when.

Seeded and pure. The numbers know nothing of how they are measured: that is the sources' affair (``sources``).
What a phase leaves out is worked out here, by plain physics: graphics as any kernel, the memory controller at
0.4 of the SMs, memory of 0.5 GiB a process (a CUDA context), power between a board's idle and its most.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bench.habit_player.model import LOADS, Habit, Load, Phase, ProcessPlan, Pulse
from bench.habit_player.timeline import Holding, Occurrence, holdings, occurrences

TICK_MS = 10_000
GIB = 1 << 30
CONTEXT_GIB = 0.5
FIRST_PID = 3_000_000
"""Far above what a machine hands out, so that a played pid is never mistaken for one that runs here."""
IDLE_NOISE = 0.004
POWER_NOISE = 0.02

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One process for as long as it runs, absolute times; ``job`` is the number of its holder's job."""

    plan: ProcessPlan
    pid: int
    from_ms: int
    to_ms: int
    holding: Holding | None


@dataclass(slots=True, kw_only=True)
class Series:
    """What one GPU does in each tick; ``seen`` is false where nobody measures, ``there`` where it is away.

    ``loads`` are ratios, ``memory`` bytes without the reserved part, ``power`` watts. ``memory_of`` and
    ``work_of`` are of each of its processes by pid: bytes, and the part of ``gpu`` that is its own.
    """

    loads: dict[str, Values]
    memory: Values
    power: Values
    seen: npt.NDArray[np.bool_]
    there: npt.NDArray[np.bool_]
    memory_of: dict[int, Values] = field(default_factory=dict)
    work_of: dict[int, Values] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A habit that was lived: from ``from_ms`` (its lead included) to ``to_ms``, ``begin_ms`` between."""

    habit: Habit
    number: int
    from_ms: int
    begin_ms: int
    to_ms: int
    lived: tuple[Occurrence, ...]
    held: tuple[Holding, ...]
    running: tuple[Running, ...]
    gpus: tuple[Series, ...]

    @property
    def node(self) -> str:
        """The machine: each habit has its own."""
        return f"h{self.number:03d}"

    def uuid(self, gpu: int) -> str:
        """The name of one of its GPUs; a MIG instance's begins with MIG."""
        kind = "MIG" if self.habit.hardware.mig else "GPU"
        return f"{kind}-{self.number:08x}-0000-4000-8000-{gpu:012x}"


def live(habit: Habit, number: int, day_ms: int) -> World:
    """The habit lived on the day that begins at ``day_ms``; ``number`` names its machine."""
    begin_ms = day_ms + habit.begins_ms
    lead_ms = habit.lead_ms // TICK_MS * TICK_MS
    lived = occurrences(habit)
    held = holdings(habit, lived)
    world = World(
        habit=habit,
        number=number,
        from_ms=begin_ms - lead_ms,
        begin_ms=begin_ms,
        to_ms=begin_ms + habit.lasts_ms // TICK_MS * TICK_MS,
        lived=lived,
        held=held,
        running=_processes(habit, lived, held, begin_ms),
        gpus=(),
    )
    return replace(world, gpus=tuple(_Gpu(world, gpu).series() for gpu in range(habit.hardware.count)))


def memory_gib(habit: Habit) -> float:
    """The memory of one GPU of the habit; of a MIG instance, what its profile's name says."""
    mig = habit.hardware.mig
    return (
        habit.hardware.board.memory_gib if mig is None else float(mig.split(".")[1].removesuffix("gb")) * 0.97
    )


def _processes(
    habit: Habit, lived: tuple[Occurrence, ...], held: tuple[Holding, ...], begin_ms: int
) -> tuple[Running, ...]:
    """Each process from when its phase begins to when a phase without it does, or its job ends."""
    found: list[Running] = []
    pid = FIRST_PID + habit.seed % 1000 * 500
    for plan in habit.processes.values():
        open_: Running | None = None
        for each in lived:
            holding = _holding_at(held, plan, each.from_ms)
            is_there = plan.name in each.phase.processes and (plan.holder is None or holding is not None)
            changed = open_ is not None and (each.phase.fresh or open_.holding is not holding)
            if open_ is not None and (not is_there or changed):
                found.append(replace(open_, to_ms=begin_ms + each.from_ms))
                open_ = None
            if is_there and open_ is None:
                pid += 1
                open_ = Running(plan=plan, pid=pid, from_ms=begin_ms + each.from_ms, to_ms=0, holding=holding)
        if open_ is not None:
            found.append(replace(open_, to_ms=begin_ms + habit.lasts_ms))
    return tuple(found)


def _holding_at(held: tuple[Holding, ...], plan: ProcessPlan, at_ms: int) -> Holding | None:
    return next(
        (one for one in held if one.plan.name == plan.holder and one.from_ms <= at_ms < one.to_ms), None
    )


class _Gpu:
    """Makes one GPU's series, phase by phase."""

    def __init__(self, world: World, gpu: int) -> None:
        habit = world.habit
        lead_ms, ticks = world.begin_ms - world.from_ms, (world.to_ms - world.from_ms) // TICK_MS
        self._habit = habit
        self._gpu = gpu
        self._lived = world.lived
        self._running = [one for one in world.running if gpu in one.plan.gpus]
        self._lead_ms = lead_ms
        self._begin_ms = world.begin_ms
        self._noise = np.random.default_rng([habit.seed, gpu])
        board = habit.hardware.board
        self._board = board
        self._idle_bytes = board.idle_mib * (1 << 20) if habit.hardware.mig is None else 0.0
        self._series = Series(
            loads={name: np.zeros(ticks) for name in LOADS},
            memory=np.full(ticks, self._idle_bytes),
            power=np.full(ticks, float(board.idle_w)),
            seen=np.ones(ticks, np.bool_),
            there=np.ones(ticks, np.bool_),
            memory_of={one.pid: np.zeros(ticks) for one in self._running},
            work_of={one.pid: np.zeros(ticks) for one in self._running},
        )

    def series(self) -> Series:
        """The whole life."""
        for each in self._lived:
            low, high = ((self._lead_ms + ms) // TICK_MS for ms in (each.from_ms, each.to_ms))
            if high > low:
                self._live(each, slice(low, high))
        ticks = len(self._series.power)
        self._series.power *= 1 + POWER_NOISE * self._noise.standard_normal(ticks)
        return self._series

    def _live(self, lived: Occurrence, at: slice) -> None:
        phase, ticks, series = lived.phase, at.stop - at.start, self._series
        load = next((part for gpus, part in phase.parts if self._gpu in gpus), phase.load)
        busy = np.ones(ticks) if phase.pulse is None else self._pulses(phase.pulse, ticks)
        shared = phase.noise * self._noise.standard_normal(ticks)
        for name, level in _levels(load).items():
            if level:
                wobble = 1 + shared + 0.3 * phase.noise * self._noise.standard_normal(ticks)
                series.loads[name][at] = np.clip(level * busy * wobble, 0.0, 1.0)
        series.seen[at] = phase.measured and phase.there
        series.there[at] = phase.there
        # By the phase's own begin, which may lie between two ticks: who ended with the last phase is gone.
        begin_ms = self._begin_ms + lived.from_ms
        here = [one for one in self._running if one.from_ms <= begin_ms < one.to_ms]
        series.memory[at] = self._idle_bytes + self._memory_bytes(load, here)
        if load.power is not None:
            series.power[at] = load.power
        else:
            series.power[at] = self._watts(at, bool(here))
        self._divide(phase, load, here, at)

    def _pulses(self, pulse: Pulse, ticks: int) -> Values:
        """The part of each tick that lies within a pulse."""
        busy = np.zeros(ticks)
        end_ms = ticks * TICK_MS
        at_ms = float(self._noise.integers(0, pulse.every_ms[1] + 1)) * 0.5
        while at_ms < end_ms:
            stop_ms = min(at_ms + self._drawn(pulse.lasts_ms), end_ms)
            first, last = int(at_ms // TICK_MS), int((stop_ms - 1) // TICK_MS)
            for tick in range(first, min(last, ticks - 1) + 1):
                busy[tick] += min(stop_ms, (tick + 1) * TICK_MS) - max(at_ms, tick * TICK_MS)
            at_ms = max(stop_ms, at_ms + self._drawn(pulse.every_ms))
        return np.minimum(busy / TICK_MS, 1.0)

    def _drawn(self, span: tuple[int, int]) -> float:
        return float(self._noise.uniform(*span)) if span[1] > span[0] else float(span[0])

    def _memory_bytes(self, load: Load, here: list[Running]) -> float:
        if load.memory is not None:
            return load.memory * GIB
        return sum(CONTEXT_GIB if one.plan.memory is None else one.plan.memory for one in here) * GIB

    def _watts(self, at: slice, occupied: bool) -> Values:
        board, loads = self._board, self._series.loads
        low = board.context_w if occupied else board.idle_w
        engines = np.maximum(loads["encoder"][at], loads["decoder"][at])
        part = 0.25 * loads["gpu"][at] + 0.75 * loads["sm"][at] + 0.1 * engines
        watts: Values = low + (board.most_w * 0.95 - low) * np.minimum(part, 1.0)
        return watts

    def _divide(self, phase: Phase, load: Load, here: list[Running], at: slice) -> None:
        """Memory and work among the processes that are here."""
        if not here:
            return
        total = self._memory_bytes(load, here)
        fixed = sum((one.plan.memory or 0.0) * GIB for one in here if one.plan.memory is not None)
        open_ = [one for one in here if one.plan.memory is None]
        each = max(0.0, total - fixed) / len(open_) if open_ else 0.0
        workers = _workers(phase, here)
        weights = sum(workers.values()) or 1.0
        for one in here:
            own = each if one.plan.memory is None else one.plan.memory * GIB
            self._series.memory_of[one.pid][at] = own
            part = workers.get(one.pid, 0.0) / weights
            self._series.work_of[one.pid][at] = self._series.loads["gpu"][at] * part


def _workers(phase: Phase, here: list[Running]) -> Mapping[int, float]:
    """How the work is divided: as the phase says, else evenly among those who can compute."""
    if phase.work:
        return {one.pid: phase.work.get(one.plan.name, 0.0) for one in here}
    return {one.pid: 1.0 for one in here if not one.plan.dead and not one.plan.graphics}


def _levels(load: Load) -> dict[str, float]:
    sm = load.gpu * 0.6 if load.sm is None else load.sm
    return {
        "gpu": load.gpu,
        "sm": sm,
        "graphics": load.gpu if load.graphics is None else load.graphics,
        "controller": 0.4 * sm if load.controller is None else load.controller,
        "encoder": load.encoder,
        "decoder": load.decoder,
        "jpeg": load.jpeg,
        "ofa": load.ofa,
    }
