"""How long every named query takes on a big store: 1,000 GPUs, 30 days of minutes, hours and days.

The data is made by SQL from a hash of (GPU, time), so it is the same on every machine. Raw samples are 30 s
apart and cover the last ``sample_days`` days, the older of them sealed; roll-ups cover all days.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

import duckdb

from collector.store.database import FILE_NAME, open_store
from collector.store.statements import statement

END = datetime(2026, 11, 20, tzinfo=UTC)
RUNS = 5
REPORT = (
    "ledger_by_state",
    "ledger_by_node",
    "ledger_by_user",
    "ledger_by_project",
    "ledger_by_job",
    "ledger_by_framework",
    "ledger_by_model",
    "ledger_by_day",
    "people",
    "projects",
    "jobs",
    "usage_over_time",
    "states_over_time",
    "findings",
)
HEATMAP_STEPS_S = (43_200, 1_800)
"""What the Cluster page asks for at 1,000 GPUs, by node: over 30 days, over a day."""
ONE_NODE = ("heatmap",)
"""Questions that the page asks of so many GPUs for one node at a time."""
CHORES = ("activity", "assess_", "decide_", "idle_stretches", "past_jobs", "project_use")
"""Questions of the chores and of deciding, which no screen waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One query over the whole span and over its last day; medians in ms."""

    name: str
    rows: int
    whole_ms: float
    day_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much data."""

    gpus: int = 1_000
    days: int = 30
    sample_days: int = 2


def build(folder: Path, scale: Scale) -> None:
    """A store of that size in ``folder``; takes a minute or two for the largest."""
    path = folder / FILE_NAME
    open_store(path).close()
    with duckdb.connect(str(path), config={"memory_limit": "4GB", "file_search_path": str(folder)}) as store:
        for text in (_DIMENSIONS, _ALLOCATIONS):
            for part in text.split(";"):
                store.execute(part, _parameters(scale, part))
        for day in range(scale.days):
            start = END - timedelta(days=scale.days - day)
            store.execute(_MINUTES, {"gpus": scale.gpus, "start": _plain(start)})
            span = {"from_ms": _ms(start), "to_ms": _ms(start + timedelta(days=1)), "gpu_ids": None}
            store.execute(statement("mark_worked_minutes"), span)
            store.execute(statement("rollup_hours"), span)
            store.execute(statement("rollup_days"), span)
            if day >= scale.days - scale.sample_days:
                store.execute(_SAMPLES, {"gpus": scale.gpus, "start": _plain(start)})
        for name in ("rollup_1m", "rollup_1h", "rollup_1d"):
            store.execute(statement("set_watermark"), {"name": name, "complete_to_ms": _ms(END)})
        store.execute(_LATEST, [_plain(END)])
    with open_store(path) as store:
        store.seal_days(_ms(END) - 1)
        store.checkpoint()


def measure(folder: Path, scale: Scale) -> tuple[list[Answer], float]:
    """Every named query; and the time of a report over the whole span, all its queries together."""
    from analytics.query import catalogue, run

    answers = []
    with open_store(folder / FILE_NAME) as store, store.reader() as connection:
        for name, spec in catalogue().items():
            if name.startswith(CHORES) or name == "marks":
                continue
            wanted = {parameter.name for parameter in spec.parameters}
            times = []
            rows = 0
            for days in (scale.days, 1):
                given = {key: value for key, value in _given(name, days).items() if key in wanted}
                rows = max(rows, len(run(connection, name, given)))
                times.append(_median(partial(run, connection, name, given)))
            answers.append(Answer(name=name, rows=rows, whole_ms=times[0], day_ms=times[1]))
    return answers, sum(answer.whole_ms for answer in answers if answer.name in REPORT)


def _given(name: str, days: int) -> dict[str, object]:
    long, short = HEATMAP_STEPS_S if name.startswith("heatmap") else (3_600, 300)
    return {
        "from_ts": _plain(END - timedelta(days=days)),
        "to_ts": _plain(END),
        "step_s": long if days > 1 else short,
        "node": "node0007" if name in ONE_NODE else None,
        "as_of": _plain(END),
        "uuid": "GPU-00000100",
        "job": "slurm:42",
        "jobs": [f"slurm:{number}" for number in range(40, 50)],
    }


def _median(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1e3)
    return median(times)


def _parameters(scale: Scale, text: str) -> dict[str, object] | None:
    known = {"gpus": scale.gpus, "days": scale.days, "until": _plain(END)}
    return {key: value for key, value in known.items() if f"${key}" in text} or None


def _plain(at: datetime) -> datetime:
    return at.replace(tzinfo=None)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def slowest(answers: list[Answer]) -> Iterator[Answer]:
    """Slowest first, by the worse of its two spans."""
    yield from sorted(answers, key=lambda answer: -max(answer.whole_ms, answer.day_ms))


_DIMENSIONS = """
INSERT INTO gpus (
    gpu_id, uuid, node, gpu_index, model, memory_total_bytes, share_of_device, source, installed_from,
    idle_power_mw
)
SELECT n, format('GPU-{:08d}', n), format('node{:04d}', n // 8), n % 8,
    ['NVIDIA H100 80GB HBM3', 'NVIDIA A100-SXM4-80GB', 'NVIDIA L40S'][1 + n // 8 % 3],
    85520809984, 1.0, 'bench',
    CAST($until AS TIMESTAMP) - to_days(CAST($days AS INTEGER)), 70000
FROM range(1, $gpus + 1) AS t(n);
INSERT INTO holders (holder_id, job, user_name, project, job_name, kind, framework, first_seen, last_seen)
SELECT n, format('slurm:{}', n), format('user{:03d}', n % 150), format('project{:02d}', n % 150 % 20),
    format('train-{}', n % 40), ['batch', 'interactive', 'inference'][1 + n % 3],
    ['torch', 'jax', 'tensorflow', NULL][1 + n % 4],
    CAST($until AS TIMESTAMP), CAST($until AS TIMESTAMP)
FROM range(1, 5001) AS t(n);
INSERT INTO prices VALUES ('*', 2.0, 'EUR');
SELECT max(nextval('gpu_ids')) FROM range($gpus);
SELECT max(nextval('holder_ids')) FROM range(5000);
INSERT INTO findings (kind, gpu_id, holder_id, opened_at, last_seen_at, closed_at, window_from, window_to,
    coverage, rung, wasted_gpu_hours, sentence, evidence)
SELECT 'held-idle', 1 + n % $gpus, 1 + n % 5000, seen, seen,
    CASE WHEN n % 4 > 0 THEN seen + INTERVAL 2 HOUR END, seen - INTERVAL 1 HOUR, seen,
    1.0, 3, 1.0, 'It does nothing.', '{}'
FROM (SELECT n, CAST($until AS TIMESTAMP) - to_minutes(n) AS seen FROM range(2000) AS t(n))
"""
_ALLOCATIONS = """
INSERT INTO allocations
SELECT gpu_id, 1 + hash(gpu_id // 4, block) % 5000, 1.0, from_ts,
    CASE WHEN from_ts + INTERVAL 12 HOUR < CAST($until AS TIMESTAMP) THEN from_ts + INTERVAL 12 HOUR END,
    'slurm'
FROM (
    SELECT gpu_id, epoch(from_ts)::BIGINT // 43200 AS block, from_ts  -- as the minutes count them
    FROM range(1, $gpus + 1) AS t(gpu_id), (
        SELECT CAST($until AS TIMESTAMP) - to_days(CAST($days AS INTEGER)) + to_hours(12 * n) AS from_ts
        FROM range(2 * $days) AS b(n))
)
WHERE hash(gpu_id // 4, block) % 10 < 8
"""
_MINUTES = """
INSERT INTO rollup_1m BY NAME
SELECT ts, gpu_id, CASE WHEN held THEN holder_id END AS holder_id,
    CASE WHEN NOT held THEN 60000 ELSE 0 END AS free_ms, 0 AS allocated_empty_ms,
    CASE WHEN held AND busy < 100 THEN 60000 ELSE 0 END AS held_idle_ms,
    CASE WHEN held AND busy BETWEEN 100 AND 2499 THEN 60000 ELSE 0 END AS low_saturation_ms,
    CASE WHEN held AND busy BETWEEN 2500 AND 4999 THEN 60000 ELSE 0 END AS moderate_ms,
    CASE WHEN held AND busy >= 5000 THEN 60000 ELSE 0 END AS good_ms, 0 AS suspect_ms, 0 AS unknown_ms,
    CASE WHEN held THEN 60000 ELSE 0 END AS held_ms, 60000 AS measured_ms,
    CASE WHEN held THEN busy * 6 ELSE 0 END AS used_ms,
    least(10000, busy + 500) AS utilization_max_e4, 3 AS rung,
    memory AS memory_used_mean_bytes, memory AS memory_used_max_bytes, 70000 * 60 + busy * 3600 AS energy_mj
FROM (
    SELECT gpu_id, $start + to_minutes(m) AS ts, 1 + hash(gpu_id // 4, block) % 5000 AS holder_id,
        hash(gpu_id // 4, block) % 10 < 8 AS held, hash(gpu_id // 4, block) % 60 * 1000000000 AS memory,
        CASE WHEN hash(gpu_id, hour) % 3 = 0 THEN 0
            ELSE hash(gpu_id, hour, 1) % 9000 + hash(gpu_id, m, hour) % 1000 END AS busy
    FROM (
        SELECT gpu_id, m, epoch($start)::BIGINT // 3600 + m // 60 AS hour,
            (epoch($start)::BIGINT // 3600 + m // 60) // 12 AS block
        FROM range(1440) AS t(m), range(1, $gpus + 1) AS g(gpu_id)
    )
)
ORDER BY ts, gpu_id
"""
_LATEST = "INSERT INTO latest_times VALUES (?)"
_SAMPLES = """
INSERT INTO samples BY NAME
SELECT $start + to_seconds(30 * (n + 1)) AS ts, gpu_id, 30000 AS width_ms, 3 AS rung,
    hash(gpu_id, n) % 10000 AS utilization_e4, hash(gpu_id, n) % 10000 AS sm_active_e4,
    greatest(hash(gpu_id, n) % 10000, hash(gpu_id, n, 1) % 10000) AS gpu_utilization_e4,
    hash(gpu_id, n // 100) % 80 * 1000000000 AS memory_used_bytes,
    70000 + hash(gpu_id, n) % 10000 * 60 AS power_mw,
    n * 9000000 AS energy_mj, 40 + hash(gpu_id, n // 10) % 40 AS temperature_c, 1980 AS sm_clock_mhz,
    1 AS process_count
FROM range(2880) AS t(n), range(1, $gpus + 1) AS g(gpu_id)
ORDER BY ts, gpu_id
"""
