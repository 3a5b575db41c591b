"""Habits from TOML files; whatever makes no sense is refused with the file, the line and the key.

The reference of the format is ``bench/habits/README.md``.
"""

import re
import tomllib
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.habit_player.model import (
    BOARDS,
    BORDERLINE,
    GIVERS,
    JOB_FINDINGS,
    KINDS,
    LOADS,
    SOURCES,
    UNASKED,
    USES,
    Habit,
    Hardware,
    HolderPlan,
    Label,
    Load,
    Phase,
    ProcessPlan,
    Pulse,
    Repeat,
)
from bench.habit_player.table import UNIT_MS, HabitError, Table, length_ms, nearest

__all__ = ["HabitError", "length_ms", "read_folder", "read_habit"]

LEAD = "20m"
"""How long the GPUs stand free before the habit begins: a board's idle power and memory are learned there."""

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


def read_folder(folder: Path) -> tuple[Habit, ...]:
    """Every habit of a folder, by name. Raises HabitError, also where there is none."""
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise HabitError(f"{folder}: no habit (*.toml) is there; give a folder of habits")
    return tuple(read_habit(path) for path in paths)


def read_habit(path: Path) -> Habit:
    """The habit in a file. Raises HabitError."""
    try:
        text = path.read_text(encoding="utf-8")
        told = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise HabitError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise HabitError(f"{path}: no TOML: {error}") from error
    return _habit(Table(told, str(path), text), path.stem)


def _habit(table: Table, name: str) -> Habit:
    hardware = _hardware(table)
    holders = tuple(_holder(each, hardware.count) for each in table.tables("holder"))
    processes = _processes(table, holders, hardware.count)
    phases = _phases(table, processes, hardware.count)
    begins = table.text("begins", "08:00")
    seed = table.take("seed", zlib.crc32(name.encode()))
    habit = Habit(
        name=name,
        about=table.must("about", str, "in a sentence what the habit is"),
        source=_source(table),
        begins_ms=_clock(table, "begins", begins),
        lasts_ms=_positive(table, "lasts"),
        lead_ms=table.length("lead", LEAD) or 0,
        seed=seed if type(seed) is int else zlib.crc32(str(seed).encode()),
        hardware=hardware,
        holders=holders,
        processes=processes,
        phases=phases,
        steps=_steps(table, table.take("play"), phases),
        labels=tuple(
            _label(each, hardware.count, phases, holders, of_job=False) for each in table.tables("label")
        ),
        job_labels=tuple(
            _label(each, hardware.count, phases, holders, of_job=True) for each in table.tables("job")
        ),
    )
    for plan in holders:
        for phase in (*(plan.phases or ()), *plan.again):
            if phase not in phases:
                raise table.wrong(
                    "holder", f"names the phase {phase!r}{nearest(phase, phases)}; it isn't there"
                )
    table.done()
    if not habit.labels:
        raise table.wrong("label", "is missing: say what is right in which part of the timeline")
    return habit


def _source(table: Table) -> tuple[str, ...]:
    found = table.words("source")
    if not found:
        raise table.wrong("source", "is missing: say where such a habit is described (URL or issue)")
    return found


def _positive(table: Table, key: str) -> int:
    found = table.length(key)
    if not found:
        raise table.wrong(key, 'is missing; say a length of time like "12h"')
    return found


def _clock(table: Table, key: str, text: str | None) -> int:
    match = _CLOCK.fullmatch(text or "")
    if not match:
        raise table.wrong(key, f'is {text!r}; say a time of the day like "08:30"')
    return int(match[1]) * UNIT_MS["h"] + int(match[2]) * UNIT_MS["m"]


def _hardware(table: Table) -> Hardware:
    (row,) = table.tables("gpu") or [table.below({}, "gpu")]
    short = {name: name for name in BOARDS}
    model = row.text("model", "NVIDIA H100 80GB HBM3", among=short)
    count = row.number("count", 1, 1, 16)
    found = Hardware(
        board=BOARDS[model or ""],
        count=int(count or 1),
        mig=row.text("mig"),
        unified=row.flag("unified"),
        spot=row.flag("spot"),
    )
    row.done()
    return found


def _holder(row: Table, count: int) -> HolderPlan:
    name = row.must("name", str, "a name for the holder, used in this file only")
    found = HolderPlan(
        name=name,
        by=row.text("by", "slurm", among=GIVERS) or "slurm",
        use=row.text("use", "batch", among=tuple(USES)) or "batch",
        user=row.text("user", name),
        project=row.text("project"),
        title=row.text("title"),
        share=row.number("share", 1.0, 0.01, 1.0) or 1.0,
        gpus=row.gpus("gpus", count),
        phases=row.words("phases"),
        again=row.words("again") or (),
    )
    row.done()
    return found


def _processes(table: Table, holders: tuple[HolderPlan, ...], count: int) -> dict[str, ProcessPlan]:
    rows = table.take("process", {})
    if not isinstance(rows, dict):
        raise table.wrong("process", "is no table of tables; say [process.NAME]")
    return {
        name: _process(table.below(row, f"process.{name}"), name, holders, count)
        for name, row in rows.items()
    }


def _process(row: Table, name: str, holders: tuple[HolderPlan, ...], count: int) -> ProcessPlan:
    command = row.must("command", str, "its command line")
    named = {holder.name: holder for holder in holders}
    only = holders[0].name if len(holders) == 1 else None
    told = row.text("holder", only, among=(*named, "nobody"))
    holder = named.get(told or "")
    libraries = row.words("libraries") or ()
    environment = row.take("environment", {})
    ports = row.take("listens", [])
    if not isinstance(ports, list) or not all(type(port) is int and 0 < port < 65536 for port in ports):
        raise row.wrong("listens", f"is {ports!r}; say a list of ports")
    found = ProcessPlan(
        name=name,
        command=command,
        comm=row.text("comm", command.split()[0].rsplit("/", 1)[-1][:15]) or "",
        holder=None if holder is None else holder.name,
        user=row.text("user", holder.user if holder else None),
        gpus=row.gpus("gpus", count),
        memory=row.number("memory", None, 0, 1024),
        libraries=libraries,
        listens=tuple(ports),
        environment={str(key): str(value) for key, value in environment.items()},
        terminal=row.flag("terminal"),
        dead=row.flag("dead"),
        listed=row.flag("listed", True),
        graphics=row.flag("graphics"),
    )
    row.done()
    return found


def _phases(table: Table, processes: Mapping[str, ProcessPlan], count: int) -> dict[str, Phase]:
    phases: dict[str, Phase] = {}
    for row in table.tables("phase"):
        phase = _phase(row, processes, count)
        if phase.name in phases:
            raise row.wrong("name", f"is {phase.name!r}, and so is another phase's")
        phases[phase.name] = phase
    if not phases:
        raise table.wrong("phase", "is missing: say [[phase]] with a name, a length and what is busy")
    return phases


def _phase(row: Table, processes: Mapping[str, ProcessPlan], count: int) -> Phase:
    name = row.must("name", str, "a name")
    until = row.text("until")
    names = row.words("processes", among=tuple(processes))
    work = row.take("work", {})
    pulses = row.tables("pulse")
    found = Phase(
        name=name,
        lasts_ms=None if until else row.span("lasts"),
        until_ms=_clock(row, "until", until) if until else None,
        load=_load(row),
        noise=row.number("noise", 0.15, 0, 2) or 0.0,
        pulse=_pulse(pulses[0]) if pulses else None,
        parts=tuple(_part(each, count) for each in row.tables("part")),
        processes=tuple(processes) if names is None else names,
        fresh=row.flag("fresh"),
        measured=row.flag("measured", True),
        there=row.flag("there", True),
        work={key: float(value) for key, value in work.items()},
    )
    row.done()
    return found


def _load(row: Table) -> Load:
    found = {name: row.number(name, None, 0, 1) for name in LOADS}
    if found["gpu"] and found["sm"] is None:
        raise row.wrong("sm", "is missing: say how busy the SMs are while kernels run (gpu)")
    return Load(
        gpu=found["gpu"] or 0.0,
        sm=found["sm"],
        graphics=found["graphics"],
        controller=found["controller"],
        encoder=found["encoder"] or 0.0,
        decoder=found["decoder"] or 0.0,
        jpeg=found["jpeg"] or 0.0,
        ofa=found["ofa"] or 0.0,
        memory=row.number("memory", None, 0, 1024),
        power=row.number("power", None, 0, 2000),
    )


def _part(row: Table, count: int) -> tuple[tuple[int, ...], Load]:
    gpus = row.gpus("gpus", count)
    found = gpus, _load(row)
    row.done()
    return found


def _pulse(row: Table) -> Pulse:
    found = Pulse(every_ms=row.span("every"), lasts_ms=row.span("lasts"))
    row.done()
    return found


def _steps(table: Table, told: object, phases: Mapping[str, Phase]) -> tuple[str | Repeat, ...]:
    if told is None:
        return tuple(phases)
    if not isinstance(told, list) or not told:
        raise table.wrong(
            "play", f"is {told!r}; say a list of phases, with lists in it for what is lived again"
        )
    return tuple(_step(table, each, phases) for each in told)


def _step(table: Table, told: object, phases: Mapping[str, Phase]) -> str | Repeat:
    match told:
        case str() if told in phases:
            return told
        case str():
            raise table.wrong("play", f"names the phase {told!r}{nearest(told, phases)}; it isn't there")
        case list() if told:
            return Repeat(steps=tuple(_step(table, each, phases) for each in told))
        case {"times": int() as times, "of": list() as steps} if times > 0 and steps:
            return Repeat(steps=tuple(_step(table, each, phases) for each in steps), times=times)
    raise table.wrong("play", f'has {told!r}; say a phase, ["a", "b"], or {{times = 3, of = ["a"]}}')


def _label(
    row: Table, count: int, phases: Mapping[str, Phase], holders: tuple[HolderPlan, ...], *, of_job: bool
) -> Label:
    kinds = (*JOB_FINDINGS, "working", BORDERLINE) if of_job else (*KINDS, BORDERLINE, UNASKED)
    among: Callable[[str], tuple[str, ...]] = lambda key: row.words(key, among=KINDS) or ()  # noqa: E731
    found = Label(
        kind=row.text("kind", None, among=kinds) or "",
        phase=row.text("phase", None, among=tuple(phases)),
        from_ms=row.length("from", "0") or 0,
        to_ms=row.length("to"),
        gpus=row.gpus("gpus", count),
        holder=row.text("holder", None, among=tuple(each.name for each in holders)),
        only=row.words("only", among=SOURCES) or SOURCES,
        also=among("also"),
        may=among("may"),
        unknown=among("unknown"),
        twin=row.text("twin"),
        why=row.text("why", "") or "",
    )
    row.done()
    if not found.kind:
        raise row.wrong("kind", f"is missing; known are {', '.join(kinds)}")
    if (found.kind in ("unknown", UNASKED) or found.unknown) and not found.twin:
        raise row.wrong("twin", "is missing: name the habit, or the state of a GPU, that looks the same")
    if found.to_ms is not None and found.to_ms <= found.from_ms:
        raise row.wrong("to", "is not after from")
    return found
