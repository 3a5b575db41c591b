"""Plays habits through sources and scores what the analysis says at many instants of their timelines."""

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from analytics.assess import assess
from analytics.query import Connection, run
from analytics.thresholds import Thresholds
from bench.habit_player.model import Habit, Label
from bench.habit_player.read import read_folder
from bench.habit_player.scoring import Now, Tally, job_said_of, said_of, score
from bench.habit_player.sources import export_for_replay, names, play
from bench.habit_player.timeline import Subject, job_label_at, label_at, subjects
from bench.habit_player.world import World, live
from collector.store.database import open_store

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
DAY_MS = 1_793_145_600_000  # 2026-10-28, a Wednesday
STEP_MS = 17 * MINUTE_MS + 10_000
"""Between two instants: no round number, so that they wander through hours, bins and ticks."""
SETTLE_MS = 2 * MINUTE_MS
"""Not asked this soon after a begin, or after a change of label: a slow source may be a tick late."""
LONG_MS = 16 * HOUR_MS
"""Habits that last longer are played together, so that the short ones need not be asked for days."""


STATE_MS = 3 * MINUTE_MS
STATES = (
    "free",
    "allocated_empty",
    "held_idle",
    "low_saturation",
    "moderate",
    "good",
    "suspect",
    "withheld",
    "unknown",
)
"""The ledger's states, as the minutes' columns name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some sources over some habits, for one worker; ``places`` are the habits' in the folder."""

    folder: Path
    places: tuple[int, ...]
    sources: tuple[str, ...]
    step_ms: int
    fast: bool


def tasks(
    folder: Path,
    habits: Sequence[Habit],
    sources: Sequence[str],
    *,
    step_ms: int = STEP_MS,
    fast: bool = True,
) -> tuple[Task, ...]:
    """The work in pieces of about the same size; ``replay`` goes with ``nvml``, whose store it reads."""
    short = tuple(place for place, each in enumerate(habits) if each.lasts_ms <= LONG_MS)
    long = tuple(place for place, each in enumerate(habits) if each.lasts_ms > LONG_MS)
    pieces = [
        tuple(s for s in some if s in sources)
        for some in (("nvml", "replay"), ("peer",), ("dcgm-counts",), ("dcgm", "lowest"))
    ]
    return tuple(
        Task(folder=folder, places=group, sources=piece, step_ms=step_ms, fast=fast)
        for piece in pieces
        if piece
        for group in (short, long)
        if group
    )


def run_all(work: Sequence[Task], processes: int = 2) -> dict[str, dict[str, Tally]]:
    """Tallies by source and habit."""
    found: dict[str, dict[str, Tally]] = {}
    if processes <= 1 or len(work) == 1:
        results = [run_task(task) for task in work]
    else:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            results = list(pool.map(run_task, work))
    for result in results:
        for source, by_habit in result.items():
            for name, tally in by_habit.items():
                found.setdefault(source, {}).setdefault(name, Tally()).add(tally)
    return found


def run_task(task: Task) -> dict[str, dict[str, Tally]]:
    """Play and score one piece."""
    habits = read_folder(task.folder)
    worlds = [live(habits[place], place + 1, DAY_MS) for place in task.places]
    found: dict[str, dict[str, Tally]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in task.sources:
            if source == "replay" and "nvml" not in task.sources:
                with open_store(folder / "nvml" / "fallow.duckdb") as store:
                    play("nvml", worlds, store, folder, fast=False)
                    export_for_replay(store, folder / "export", worlds)
            with open_store(folder / source / "fallow.duckdb") as store:
                tick_ms = play(source, worlds, store, folder / "export", fast=task.fast)
                if source == "nvml" and "replay" in task.sources:
                    export_for_replay(store, folder / "export", worlds)
                with store.reader() as reader:
                    found[source] = scored(reader, source, worlds, tick_ms, task.step_ms)
    return found


def scored(
    reader: Connection, source: str, worlds: Sequence[World], tick_ms: int, step_ms: int
) -> dict[str, Tally]:
    """The tally of each habit, asked every ``step_ms`` of its life."""
    found = {world.habit.name: Tally() for world in worlds}
    for now_ms in instants(worlds, step_ms):
        alive = [world for world in worlds if world.begin_ms + SETTLE_MS <= now_ms < world.to_ms]
        if not alive:
            continue
        analysis = assess(reader, now_ms, Thresholds(), tick_ms)
        now = now_of(reader, now_ms)
        for world in alive:
            uuids = names(world, source)
            since_ms = now_ms - world.begin_ms - 1
            for subject in subjects(world.habit):
                label = label_at(world.habit, world.lived, source, subject, since_ms)
                if label is None or not _is_settled(world, source, subject, since_ms, label):
                    continue
                uuid = uuids[subject.gpu]
                said = said_of(analysis, world, subject, uuid, now)
                score(found[world.habit.name], label, said, f"{source} {world.habit.name} GPU {subject.gpu}")
            wanted = job_label_at(world.habit, world.lived, source, since_ms)
            if wanted is not None:
                said = job_said_of(analysis, uuids.values())
                score(found[world.habit.name], wanted, said, f"{source} {world.habit.name} job")
    return found


def instants(worlds: Sequence[World], step_ms: int) -> Iterator[int]:
    """When is asked: over the lives of all worlds."""
    first, last = min(world.begin_ms for world in worlds), max(world.to_ms for world in worlds)
    yield from range(first + step_ms // 2, last, step_ms)


def _is_settled(world: World, source: str, subject: Subject, since_ms: int, label: Label) -> bool:
    """Whether the label has stood for as long as a slow source may be late."""
    before_ms = since_ms - SETTLE_MS
    return before_ms < 0 or label_at(world.habit, world.lived, source, subject, before_ms) is label


def now_of(reader: Connection, now_ms: int) -> Now:
    """Who holds each GPU at an instant, and the state that most of its last three whole minutes were in."""
    asked = {"as_of": now_ms, "bins_from": now_ms - HOUR_MS}
    uuid_of = {row["gpu_id"]: row["uuid"] for row in run(reader, "assess_gpus", asked).to_pylist()}
    held: dict[str, list[tuple[str, str | None]]] = {}
    for row in run(reader, "assess_claims", {"as_of": now_ms}).to_pylist():
        if row["gpu_id"] in uuid_of:
            held.setdefault(uuid_of[row["gpu_id"]], []).append((row["job"], row["user_name"]))
    to_ms = now_ms // MINUTE_MS * MINUTE_MS
    sums = ", ".join(f"sum({name}_ms) AS {name}" for name in STATES)
    rows = reader.execute(
        f"SELECT gpu_id, {sums} FROM rollup_1m WHERE epoch_ms(ts) >= ? AND epoch_ms(ts) < ? GROUP BY gpu_id",
        [to_ms - STATE_MS, to_ms],
    ).to_arrow_table()
    states = {
        uuid_of[row["gpu_id"]]: max(STATES, key=lambda name: (row[name], name))
        for row in rows.to_pylist()
        if row["gpu_id"] in uuid_of
    }
    return Now(held_by={uuid: tuple(each) for uuid, each in held.items()}, states=states)
