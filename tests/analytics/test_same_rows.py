"""Queries that were rewritten for large sites answer as they did before, on random stores.

The text of before is in ``oracles/``. The stores are written past the program, so that a row may be what the
program seldom writes: a minute without any time in it, two people in the same minute, nothing measured.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from analytics.query import load
from collector.store.database import FILE_NAME
from tests.searches import examples
from tests.stores import open_store

ORACLES = Path(__file__).parent / "oracles"
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC).replace(tzinfo=None)
MINUTES = 1800
"""Thirty hours: the newest 24 are judged apart."""
GPUS, HOLDERS = 4, 5
STATES = ("free", "allocated_empty", "held_idle", "low_saturation", "moderate", "good", "suspect", "unknown")
OTHERS = (
    "withheld_ms",
    "held_ms",
    "measured_ms",
    "used_ms",
    "engines_ms",
    "faint_ms",
    "rung",
    "controller_max_e4",
    "memory_used_max_bytes",
)
MINUTE = timedelta(minutes=1)


def stored(folder: Path, seed: int) -> duckdb.DuckDBPyConnection:
    """A store of thirty hours, each holder with a habit of its own."""
    chance = random.Random(seed)
    open_store(folder / FILE_NAME).close()
    store = duckdb.connect(str(folder / FILE_NAME))
    store.execute(
        "INSERT INTO gpus (gpu_id, uuid, node, gpu_index, model, memory_total_bytes, source, installed_from) "
        "SELECT n, format('GPU-{}', n), 'a', n, 'H100', 85520809984, 'hand', ? FROM range(1, ? + 1) AS t(n)",
        [NOON, GPUS],
    )
    store.execute(
        "INSERT INTO holders (holder_id, job, user_name, project, kind, first_seen, last_seen) "
        "SELECT n, format('slurm:{}', n), 'ana', 'vision', 'batch', $1, $1 FROM range(1, $2 + 1) AS t(n)",
        [NOON, HOLDERS],
    )
    holds = [hold for gpu in range(1, GPUS + 1) for hold in _holds(chance, gpu)]
    store.executemany("INSERT INTO allocations VALUES (?, ?, ?, ?, ?, 'slurm')", holds)
    names = ("ts", "gpu_id", "holder_id", *(f"{each}_ms" for each in STATES), *OTHERS)
    rows = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in _minutes(chance, holds)])
    store.register("given", rows)
    store.execute("INSERT INTO rollup_1m BY NAME SELECT * FROM given")
    return store


def _holds(chance: random.Random, gpu: int) -> Iterator[tuple[object, ...]]:
    """One to three holders of a GPU, one after another or at once; some come back after a break."""
    for holder in chance.sample(range(1, HOLDERS + 1), chance.randint(1, 3)):
        begin = NOON + timedelta(seconds=chance.randrange(MINUTES * 30))
        if chance.random() < 0.7:
            end = begin + timedelta(seconds=chance.randrange(60, MINUTES * 15))
            yield gpu, holder, chance.choice((0.5, 1.0)), begin, end
            begin = end + timedelta(
                minutes=chance.choice((2, 15, 90, 200, 1500)), seconds=chance.randrange(60)
            )
        ended = begin + timedelta(minutes=chance.randrange(1, MINUTES)) if chance.random() < 0.2 else None
        yield gpu, holder, chance.choice((0.5, 1.0)), begin, ended


def _minutes(chance: random.Random, holds: list[tuple[Any, ...]]) -> Iterator[tuple[object, ...]]:
    habits = {holder: chance.choice(("idle", "faint", "steady", "mixed")) for holder in range(HOLDERS + 1)}
    for gpu in range(1, GPUS + 1):
        mine = [(holder, begin, end) for its, holder, _, begin, end in holds if its == gpu]
        for minute in range(MINUTES):
            ts = NOON + minute * MINUTE
            if chance.random() < 0.03:
                continue
            there = {
                holder for holder, begin, end in mine if begin < ts + MINUTE and (end is None or end > ts)
            }
            holders: list[int | None] = [*sorted(there)]
            if not holders or chance.random() < 0.05:
                holders.append(None)
            for holder in holders:
                yield (ts, gpu, holder, *_row(chance, habits[holder or 0], len(holders)))


def _row(chance: random.Random, habit: str, parts: int) -> tuple[object, ...]:
    """The columns of one minute, of which a part is this holder's."""
    span = chance.choice((60_000, 60_000, 60_000, 30_000, 0)) // parts
    state = {
        "idle": chance.choice(("allocated_empty", "held_idle", "held_idle", "unknown")),
        "faint": "low_saturation",
        "steady": chance.choice(("good", "moderate")),
        "mixed": chance.choice(STATES),
    }[habit]
    times = dict.fromkeys(STATES, 0) | {state: span}
    if habit == "mixed" and chance.random() < 0.3:
        other = chance.choice(STATES)
        times[state] -= span // 3
        times[other] += span // 3
    withheld = span if chance.random() < 0.02 else 0
    measured = 0 if state == "unknown" else span
    used = {"idle": 0, "faint": measured // 200, "steady": chance.randint(measured // 2, measured)}.get(
        habit, chance.randint(0, measured)
    )
    faint = times["low_saturation"] if habit == "faint" else chance.choice((0, 0, None))
    traffic = chance.choice((None, chance.randrange(10_001)))
    memory = chance.choice((None, chance.randrange(80) << 30))
    engines = chance.choice((0, 0, 0, measured // 3))
    rung = chance.choice((1, 2, 3, 3, 3, 3, 3, 3))
    return (*times.values(), withheld, span, measured, used, engines, faint, rung, traffic, memory)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(3, 60)))
def test_decide_jobs_has_the_rows_it_had(tmp_path: Path, seed: int) -> None:
    store = stored(tmp_path, seed)
    until = NOON + MINUTES * MINUTE + timedelta(seconds=(0, 10, 59)[seed % 3])
    for since in (NOON, NOON + timedelta(hours=20), NOON - timedelta(days=6)):
        given = {"as_of": until, "from_ts": since}
        before = store.execute((ORACLES / "decide_jobs.sql").read_text(), given).to_arrow_table().to_pylist()
        assert before and any(row["others"] for row in before) and any(row["rung"] for row in before)
        after = store.execute(load("decide_jobs").sql, given).to_arrow_table().to_pylist()
        assert after == [_close_to(row) for row in before]
    store.close()


def _close_to(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of fractions come in any order: they are the same to nine digits."""
    return {
        key: pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float | list) else value
        for key, value in row.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + examples(3, 60)))
def test_holds_at_has_the_rows_it_had(tmp_path: Path, seed: int) -> None:
    store = stored(tmp_path, seed)
    breaks = 0
    for hours in (6, 18, 30, 40):
        instant = {"at_ts": NOON + timedelta(hours=hours, seconds=seed % 60)}
        before = store.execute((ORACLES / "holds_at.sql").read_text(), instant).fetchall()
        after = store.execute("FROM holds_at($at_ts)", instant).fetchall()
        assert sorted(after) == sorted(before)
        firsts = "SELECT gpu_id, holder_id, min(from_ts) FROM allocations GROUP BY ALL"
        began = {row[:2]: row[2] for row in store.execute(firsts).fetchall()}
        breaks += sum(began[(gpu, holder)] != since for gpu, holder, _, since in after)
    assert breaks, "some began anew after a break"
    store.close()
