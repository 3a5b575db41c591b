"""Habits from TOML files; whatever makes no sense is refused with the file, the line and the key.

The reference of the format is ``bench/habits/README.md``.
"""

import difflib
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

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

UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LEAD = "20m"
"""How long the GPUs stand free before the habit begins: a board's idle power and memory are learned there."""

_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_HEADER = re.compile(r"\s*\[{1,2}\s*([\w.-]+)\s*\]{1,2}\s*(?:#.*)?$")


class HabitError(ValueError):
    """A habit's file that cannot be played; the message names file, line and key."""


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
    return _habit(_Table(told, str(path), text), path.stem)


def length_ms(text: object) -> int:
    """Milliseconds of ``"1h30m"``, ``"90s"``, ``"0"``. Raises ValueError."""
    if text in (0, "0"):
        return 0
    if not isinstance(text, str) or not _LENGTH.fullmatch(text):
        raise ValueError(f'{text!r} is no length of time; say "90s", "20m", "1h30m" or "2d"')
    return round(sum(float(number) * UNIT_MS[unit] for number, unit in _PART.findall(text)))


class _Table:
    """A table of the file with its place in it; every key is taken once, and what is left is unknown."""

    def __init__(
        self, told: Mapping[str, Any], file: str, text: str, where: str = "", number: int = 0
    ) -> None:
        self._left = dict(told)
        self._file = file
        self._text = text
        self._where = where
        self._number = number
        self._known: list[str] = []

    def take(self, key: str, default: Any = None) -> Any:
        """The value of a key."""
        self._known.append(key)
        return self._left.pop(key, default)

    def must(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """The value of a key that has to be there."""
        value = self.take(key)
        if value is None:
            raise self.wrong(key, f"is missing; say {what}")
        if not isinstance(value, kind):
            raise self.wrong(key, f"is {value!r}; say {what}")
        return value

    def number(self, key: str, default: float | None, low: float, high: float) -> float | None:
        """A number within bounds."""
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.wrong(key, f"is {value!r}; say a number from {low:g} to {high:g}")
        return float(value)

    def text(self, key: str, default: str | None = None, among: Iterable[str] | None = None) -> str | None:
        """A text, among those given."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(key, f"is {value!r}; say a text")
        if among is not None and value not in among:
            raise self.wrong(key, f"is {value!r}{_nearest(value, among)}; known are {', '.join(among)}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {value!r}; say true or false")
        return value

    def words(self, key: str, among: Iterable[str] | None = None) -> tuple[str, ...] | None:
        """A list of texts, among those given; ``None`` when the key is not there."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, f"is {value!r}; say a list of texts")
        for each in value:
            if among is not None and each not in among:
                raise self.wrong(key, f"has {each!r}{_nearest(each, among)}; known are {', '.join(among)}")
        return tuple(value)

    def gpus(self, key: str, count: int) -> tuple[int, ...]:
        """A list of GPUs of the habit; all of them when the key is not there."""
        value = self.take(key)
        if value is None:
            return tuple(range(count))
        if not isinstance(value, list) or not all(type(each) is int and 0 <= each < count for each in value):
            raise self.wrong(key, f"is {value!r}; say a list of GPUs from 0 to {count - 1}")
        return tuple(value)

    def length(self, key: str, default: str | None = None) -> int | None:
        """A length of time in ms."""
        value = self.take(key, default)
        return None if value is None else self._length(key, value)

    def span(self, key: str) -> tuple[int, int]:
        """A length of time, or a list of the shortest and the longest."""
        value = self.take(key)
        if value is None:
            raise self.wrong(key, 'is missing; say a length of time like "40m", or ["30m", "50m"]')
        if isinstance(value, list) and len(value) == 2:
            low, high = (self._length(key, each) for each in value)
            if not 0 < low <= high:
                raise self.wrong(key, f"is {value!r}; the first is longer than the second, or nothing")
            return low, high
        same = self._length(key, value)
        return same, same

    def tables(self, key: str) -> list["_Table"]:
        """The tables of ``[[key]]``; one written as ``[key]`` counts too."""
        value = self.take(key, [])
        rows = [value] if isinstance(value, dict) else value
        if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
            raise self.wrong(key, f"is no table; say [[{key}]]")
        return [self.below(row, f"{key}", number) for number, row in enumerate(rows)]

    def below(self, row: Mapping[str, Any], where: str, number: int = 0) -> "_Table":
        """A table within this one."""
        path = f"{self._where}.{where}" if self._where else where
        return _Table(row, self._file, self._text, path, number)

    def done(self) -> None:
        """No key may be left over."""
        for key in self._left:
            raise self.wrong(key, f"is unknown here{_nearest(key, self._known)}")

    def wrong(self, key: str, what: str) -> HabitError:
        """An error about a key."""
        line = _line_of(self._text, self._where, self._number, key)
        place = f", line {line}" if line else ""
        count = f"[{self._number}]" if self._where and self._number else ""
        name = f"{self._where}{count}.{key}" if self._where else key
        return HabitError(f"{self._file}{place}: {name} {what}")

    def _length(self, key: str, value: object) -> int:
        try:
            return length_ms(value)
        except ValueError as error:
            raise self.wrong(key, f"has {error}") from error


def _line_of(text: str, where: str, number: int, key: str) -> int | None:
    """The line that sets the key in the ``number``-th table of that name, else the table's own line."""
    current, seen, header = "", -1, 1
    for line_number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.match(line):
            current = match[1]
            if current == where:
                seen += 1
                header = line_number
        elif (
            current == where and (not where or seen == number) and re.match(rf"\s*{re.escape(key)}\s*=", line)
        ):
            return line_number
    return header if seen >= number and where else None


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _habit(table: _Table, name: str) -> Habit:
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
                    "holder", f"names the phase {phase!r}{_nearest(phase, phases)}; it isn't there"
                )
    table.done()
    if not habit.labels:
        raise table.wrong("label", "is missing: say what is right in which part of the timeline")
    return habit


def _source(table: _Table) -> tuple[str, ...]:
    found = table.words("source")
    if not found:
        raise table.wrong("source", "is missing: say where such a habit is described (URL or issue)")
    return found


def _positive(table: _Table, key: str) -> int:
    found = table.length(key)
    if not found:
        raise table.wrong(key, 'is missing; say a length of time like "12h"')
    return found


def _clock(table: _Table, key: str, text: str | None) -> int:
    match = _CLOCK.fullmatch(text or "")
    if not match:
        raise table.wrong(key, f'is {text!r}; say a time of the day like "08:30"')
    return int(match[1]) * UNIT_MS["h"] + int(match[2]) * UNIT_MS["m"]


def _hardware(table: _Table) -> Hardware:
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


def _holder(row: _Table, count: int) -> HolderPlan:
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


def _processes(table: _Table, holders: tuple[HolderPlan, ...], count: int) -> dict[str, ProcessPlan]:
    rows = table.take("process", {})
    if not isinstance(rows, dict):
        raise table.wrong("process", "is no table of tables; say [process.NAME]")
    return {
        name: _process(table.below(row, f"process.{name}"), name, holders, count)
        for name, row in rows.items()
    }


def _process(row: _Table, name: str, holders: tuple[HolderPlan, ...], count: int) -> ProcessPlan:
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


def _phases(table: _Table, processes: Mapping[str, ProcessPlan], count: int) -> dict[str, Phase]:
    phases: dict[str, Phase] = {}
    for row in table.tables("phase"):
        phase = _phase(row, processes, count)
        if phase.name in phases:
            raise row.wrong("name", f"is {phase.name!r}, and so is another phase's")
        phases[phase.name] = phase
    if not phases:
        raise table.wrong("phase", "is missing: say [[phase]] with a name, a length and what is busy")
    return phases


def _phase(row: _Table, processes: Mapping[str, ProcessPlan], count: int) -> Phase:
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


def _load(row: _Table) -> Load:
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


def _part(row: _Table, count: int) -> tuple[tuple[int, ...], Load]:
    gpus = row.gpus("gpus", count)
    found = gpus, _load(row)
    row.done()
    return found


def _pulse(row: _Table) -> Pulse:
    found = Pulse(every_ms=row.span("every"), lasts_ms=row.span("lasts"))
    row.done()
    return found


def _steps(table: _Table, told: object, phases: Mapping[str, Phase]) -> tuple[str | Repeat, ...]:
    if told is None:
        return tuple(phases)
    if not isinstance(told, list) or not told:
        raise table.wrong(
            "play", f"is {told!r}; say a list of phases, with lists in it for what is lived again"
        )
    return tuple(_step(table, each, phases) for each in told)


def _step(table: _Table, told: object, phases: Mapping[str, Phase]) -> str | Repeat:
    match told:
        case str() if told in phases:
            return told
        case str():
            raise table.wrong("play", f"names the phase {told!r}{_nearest(told, phases)}; it isn't there")
        case list() if told:
            return Repeat(steps=tuple(_step(table, each, phases) for each in told))
        case {"times": int() as times, "of": list() as steps} if times > 0 and steps:
            return Repeat(steps=tuple(_step(table, each, phases) for each in steps), times=times)
    raise table.wrong("play", f'has {told!r}; say a phase, ["a", "b"], or {{times = 3, of = ["a"]}}')


def _label(
    row: _Table, count: int, phases: Mapping[str, Phase], holders: tuple[HolderPlan, ...], *, of_job: bool
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
