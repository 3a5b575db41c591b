"""A world through NVML: what the child process would answer each tick, made into readings by the real code.

Everything behind the driver is Fallow's own: rows to samples, lists of pids to processes, /proc to
descriptions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.habit_player.machine import Machine
from bench.habit_player.world import TICK_MS, Series, Values, World, memory_gib
from collector.model import (
    Gap,
    Gpu,
    NodeName,
    Process,
)
from collector.reading import Reading
from collector.sources.nvml import convert
from collector.sources.nvml.assemble import Assembly
from collector.sources.nvml.identity import ProcessStarts
from collector.sources.nvml.wire import MEASURES

SOURCE = "nvml"
LOOK_MS = 30_000
"""Process lists are read every 30 s, as the NVML source does by default (each third tick of 10 s)."""
BOARD_SLICES = 7
RESERVED_BYTES = 500 << 20
COLUMNS = {
    "gpu_utilization": "gpu",
    "memory_controller": "controller",
    "encoder": "encoder",
    "decoder": "decoder",
    "jpeg": "jpeg",
    "ofa": "ofa",
    "graphics_active": "graphics",
    "sm_active": "sm",
}
"""A measure of the wire, by the load it shows; those that the wire does not know are not played."""
FROM_GPM = ("graphics_active", "sm_active")


class Driver:
    """Reads a world tick by tick, as one NVML source does.

    ``blind``: no utilization, only memory and processes.
    """

    def __init__(self, world: World, folder: Path, tick_ms: int, *, blind: bool = False) -> None:
        self._world = world
        self._tick_ms = tick_ms
        self._blind = blind
        self._machine = Machine(world, folder)
        starts = ProcessStarts(folder, foreign=False)
        self._gathering = Assembly(NodeName(world.node), starts, host_pids=True)
        self._rows = [self._columns(series) for series in world.gpus]
        self._static = _static(world)
        self._gpus = self._described()
        self._places = convert.mig_places(self._static)

    def readings(self) -> Iterator[Reading]:
        """One reading a tick, from the world's begin to its end."""
        step = self._tick_ms // TICK_MS
        ticks = len(self._world.gpus[0].power) // step
        for tick in range(ticks):
            at_ms = self._world.from_ms + (tick + 1) * self._tick_ms
            looked = at_ms % LOOK_MS == 0
            if looked:
                self._machine.bring_to(at_ms)
            found = self._reading(tick, at_ms, looked=looked)
            if found is not None:
                yield found

    def close(self) -> None:
        """Give back what is held open."""
        self._machine.close()
        self._gathering.close()

    def _reading(self, tick: int, at_ms: int, *, looked: bool) -> Reading | None:
        last = (tick + 1) * (self._tick_ms // TICK_MS) - 1
        if not any(series.there[last] for series in self._world.gpus):
            return None
        if not any(series.seen[last] for series in self._world.gpus):
            gap = Gap(
                source=SOURCE,
                from_ms=at_ms - self._tick_ms,
                to_ms=at_ms,
                reason="the driver did not answer",
                node=NodeName(self._world.node),
            )
            return Reading(source=SOURCE, at_ms=at_ms, gpus=self._gpus, gaps=(gap,))
        lines = [self._line(gpu, tick, last, looked=looked) for gpu in range(len(self._world.gpus))]
        answer: Mapping[str, Any] = {"devices": [*self._parent(last, looked=looked), *lines], "events": ()}
        if tick == 0:
            answer = {**answer, "static": self._static}
        samples, used = self._gathering.gather(answer, at_ms, self._tick_ms, looked=looked)
        processes, process_samples = used if used else (None, None)
        return Reading(
            source=SOURCE,
            at_ms=at_ms,
            gpus=self._gpus,
            samples=samples,
            processes=None if processes is None else self._with_words(processes, at_ms),
            process_samples=process_samples,
            mig_places=self._places,
        )

    def _line(self, gpu: int, tick: int, last: int, *, looked: bool) -> list[Any]:
        series, uuid = self._world.gpus[gpu], self._world.uuid(gpu)
        if not looked:
            return [uuid, self._rows[gpu][tick], (), None, None]
        at_ms = self._world.from_ms + (last + 1) * TICK_MS
        here = [
            one for one in self._world.running if gpu in one.plan.gpus and one.from_ms < at_ms <= one.to_ms
        ]
        entries = [
            (one.pid, round(series.memory_of[one.pid][last]), "G" if one.plan.graphics else "C")
            for one in here
            if one.plan.listed
        ]
        first = max(0, last + 1 - LOOK_MS // TICK_MS)
        uses = [
            (one.pid, 100 * float(series.work_of[one.pid][first : last + 1].mean()))
            for one in here
            if one.plan.listed and not one.plan.dead
        ]
        return [uuid, self._rows[gpu][tick], (), entries, None if self._world.habit.hardware.mig else uses]

    def _parent(self, last: int, *, looked: bool) -> list[list[Any]]:
        """The row of a board that is cut into instances: its power, and all their memory."""
        if self._world.habit.hardware.mig is None:
            return []
        used = round(sum(series.memory[last] for series in self._world.gpus))
        total = round(self._world.habit.hardware.board.memory_gib * 2**30)
        told = {
            "memory_used_bytes": used,
            "memory_reserved_bytes": RESERVED_BYTES,
            "memory_total_bytes": total,
        }
        row = [told.get(name) for name in MEASURES]
        return [[board_uuid(self._world), row, (), [] if looked else None, None]]

    def _with_words(self, processes: tuple[Process, ...], at_ms: int) -> tuple[Process, ...]:
        """The bare processes as /proc describes them, under the driver's own keys."""
        known = self._machine.look(tuple(each.key.pid for each in processes), at_ms)
        return tuple(
            replace(known[each.key.pid], key=each.key) if each.key.pid in known else each
            for each in processes
        )

    def _columns(self, series: Series) -> list[tuple[Any, ...]]:
        """The GPU's rows of all ticks, in the order of the wire."""
        step = self._tick_ms // TICK_MS
        columns = [self._column(name, series, step) for name in MEASURES]
        return list(zip(*columns, strict=True))

    def _column(self, name: str, series: Series, step: int) -> list[Any]:
        ticks = len(series.power) // step
        nothing: list[Any] = [None] * ticks
        hardware = self._world.habit.hardware
        if name in COLUMNS:
            hidden = self._blind or (name in FROM_GPM and not hardware.board.nvml_sm)
            hidden = hidden or (hardware.mig is not None and name not in FROM_GPM)
            return nothing if hidden else _plain(100 * _mean(series.loads[COLUMNS[name]], step))
        match name:
            case "gpu_utilization_max" if not self._blind and hardware.mig is None:
                return _plain(100 * _grouped(series.loads["gpu"], step).max(axis=1))
            case "gpu_busy" if not self._blind and hardware.mig is None:
                return _plain(_mean((series.loads["gpu"] > 0).astype(float), step))
            case "memory_used_bytes" if not hardware.unified:
                return _plain(np.round(_last(series.memory, step)).astype(int))
            case "memory_reserved_bytes" if not hardware.unified:
                return [RESERVED_BYTES] * ticks
            case "memory_total_bytes" if not hardware.unified:
                return [round(memory_gib(self._world.habit) * 2**30)] * ticks
            case "power_mw" if hardware.mig is None:
                return _plain(np.round(1000 * _mean(series.power, step)).astype(int))
            case "energy_mj" if hardware.mig is None:
                joules = np.cumsum(series.power) * (TICK_MS / 1000)
                return _plain(np.round(1000 * _last(joules, step)).astype(int))
            case "temperature_c":
                return [45] * ticks
        return nothing

    def _described(self) -> tuple[Gpu, ...]:
        total = round(memory_gib(self._world.habit) * 2**30)
        known = convert.gpus(self._static, NodeName(self._world.node), "570.86.15")
        if self._world.habit.hardware.unified:
            return known
        return tuple(replace(gpu, memory_total_bytes=total) for gpu in known)


def board_uuid(world: World) -> str:
    """The name of the board that a world's MIG instances are cut from."""
    return f"GPU-{world.number:08x}-0000-4000-8000-ffffffffffff"


def slices_of(profile: str) -> int:
    """The compute slices in a MIG profile's name: 3 in ``3g.40gb``."""
    return int(profile.split("g.", maxsplit=1)[0])


def _static(world: World) -> list[dict[str, Any]]:
    hardware = world.habit.hardware
    common = {
        "model": hardware.board.name,
        "power_limit_mw": round(hardware.board.most_w * 1000),
        "persistence_mode": 1,
        "slices": BOARD_SLICES,
    }
    if hardware.mig is None:
        return [
            {**common, "uuid": world.uuid(gpu), "index": gpu, "mig": False, "instances": []}
            for gpu in range(hardware.count)
        ]
    parts = [
        {
            "uuid": world.uuid(gpu),
            "profile": hardware.mig,
            "compute_slices": slices_of(hardware.mig),
            "gpu_instance": 7 + gpu,
        }
        for gpu in range(hardware.count)
    ]
    return [{**common, "uuid": board_uuid(world), "index": 0, "mig": True, "instances": parts}]


def _plain(values: npt.NDArray[Any]) -> list[Any]:
    """Numbers as Python's own, as the driver's client hands them out."""
    found: list[Any] = values.tolist()
    return found


def _grouped(values: Values, step: int) -> Values:
    ticks = len(values) // step
    return values[: ticks * step].reshape(ticks, step)


def _mean(values: Values, step: int) -> Values:
    found: Values = _grouped(values, step).mean(axis=1)
    return found


def _last(values: Values, step: int) -> Values:
    found: Values = _grouped(values, step)[:, -1]
    return found
