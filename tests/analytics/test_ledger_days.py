"""Whole days are read from days, and every answer stays what the hours would have given, to the bit."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analytics.query import Connection, catalogue, run
from collector.arrow import HeldInterval, History, to_table
from collector.model import Allocation, Basis, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from collector.store.database import Store
from tests.searches import examples
from tests.stores import open_store

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
D0 = 1_793_188_800_000 // DAY_MS * DAY_MS
DAYS = 5
GPUS = 3
STEPS_S = (3_600, 43_200, 86_400, 2 * 86_400)
WITH_DAYS = tuple(name for name, spec in catalogue().items() if ("days_to", "rollup_1d") in spec.marks)


def uuid(number: int) -> GpuUuid:
    return GpuUuid(f"GPU-{number}")


def past(number: int, levels: list[float | None], width_ms: int, hole: tuple[int, int]) -> list[GpuSample]:
    """Five days of samples, but for a hole, that begin some hours later on each next GPU."""
    ends = range(D0 + number * 7 * HOUR_MS + width_ms, D0 + DAYS * DAY_MS + 1, width_ms)
    return [
        GpuSample(
            uuid=uuid(number),
            at_ms=end,
            width_ms=width_ms,
            rung=Basis.UNKNOWN if level is None else Basis.SM_ACTIVE,
            utilization_ratio=level,
            gpu_utilization_ratio=level,
            memory_used_bytes=5 << 30,
            process_count=int(end // HOUR_MS % 3 > 0),
        )
        for place, end in enumerate(ends)
        for level in [levels[place % len(levels)]]
        if not hole[0] < end - D0 <= hole[1]
    ]


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int]:
    start, end = sorted(draw(st.tuples(st.integers(0, DAYS * 1440), st.integers(0, DAYS * 1440))))
    return start * MINUTE_MS, (end + 1) * MINUTE_MS


@st.composite
def tellings(draw: st.DrawFn) -> tuple[History, ...]:
    """A history of three GPUs with holes and shared holders, cut into pieces that come in any order."""
    order = random.Random(draw(st.integers(0, 1 << 30)))
    levels = draw(st.lists(st.sampled_from([None, 0.0, 0.005, 0.1, 0.4, 0.95]), min_size=1, max_size=5))
    width_ms = draw(st.sampled_from([HOUR_MS // 2, HOUR_MS // 3, 47 * MINUTE_MS]))
    samples = [row for n in range(GPUS) for row in past(n, levels, width_ms, draw(spans()))]
    held = tuple(
        HeldInterval(
            allocation=Allocation(
                uuid=uuid(draw(st.integers(0, GPUS - 1))),
                holder=Holder(job=JobId(f"slurm:{n}"), user="xyz"[n % 3], project="pq"[n % 2]),
                share=draw(st.sampled_from([1.0, 0.5, 1 / 3])),
            ),
            from_ms=D0 + start,
            to_ms=D0 + end,
        )
        for n, (start, end) in enumerate(draw(st.lists(spans(), max_size=6)))
    )
    samples.sort(key=lambda row: row.at_ms)
    cuts = sorted(order.sample(range(1, len(samples)), 2))
    pieces = [samples[a:b] for a, b in zip([0, *cuts], [*cuts, len(samples)], strict=True)]
    order.shuffle(pieces)
    gpus = tuple(Gpu(uuid=uuid(n), node=NodeName(f"node{n % 2}"), index=n, model="H100") for n in range(GPUS))
    return tuple(History(source="told", gpus=gpus, samples=to_table(piece), held=held) for piece in pieces)


windows = st.tuples(st.integers(-600, 3 * 1440), st.integers(1, 6 * 1440)).map(
    lambda pair: (D0 + pair[0] * MINUTE_MS, D0 + (pair[0] + pair[1]) * MINUTE_MS)
)


@pytest.mark.slow
@settings(
    max_examples=examples(3, 6),
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(told=tellings(), window=windows, step_s=st.sampled_from(STEPS_S), user=st.sampled_from([None, "x"]))
def test_every_query_answers_with_days_what_it_answers_without(
    told: tuple[History, ...], window: tuple[int, int], step_s: int, user: str | None
) -> None:
    asked = {"from_ts": window[0], "to_ts": window[1], "step_s": step_s, "uuid": uuid(0), "user": user}
    asked |= {"job": "slurm:0", "jobs": ["slurm:0", "slurm:1"]}
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "fallow.duckdb") as store:
        for piece in told:
            store.write_history(piece)
        store.set_prices({"*": (2.0, "EUR")})
        with store.reader() as reader:
            with_days = answers(reader, asked)
            forget_days(store)
            assert answers(reader, asked) == with_days


def answers(reader: Connection, asked: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Of every query that reads days."""
    found = {}
    for name in WITH_DAYS:
        wanted = {parameter.name for parameter in catalogue()[name].parameters}
        given = {key: value for key, value in asked.items() if key in wanted}
        found[name] = run(reader, name, given).to_pylist()
    return found


def forget_days(store: Store) -> None:
    """From now on nothing says that any day is complete, so hours are read."""
    with store.writing("forgetting the days") as connection:
        connection.execute("DELETE FROM watermarks WHERE name = 'rollup_1d'")


@pytest.fixture(scope="module")
def hourless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A store of five busy days whose third has lost its hours and minutes: only the day tells of it."""
    with open_store(tmp_path_factory.mktemp("hourless") / "fallow.duckdb") as store:
        samples = past(0, [0.6], HOUR_MS // 2, (0, 0))
        gpu = Gpu(uuid=uuid(0), node=NodeName("node0"), index=0)
        store.write_history(History(source="told", gpus=(gpu,), samples=to_table(samples)))
        lost = [D0 + 2 * DAY_MS, D0 + 3 * DAY_MS]
        with store.writing("losing hours") as connection:
            for level in ("rollup_1h", "rollup_1m"):
                connection.execute(f"DELETE FROM {level} WHERE epoch_ms(ts) >= ? AND epoch_ms(ts) < ?", lost)
        with store.reader() as reader:
            yield reader


@pytest.mark.parametrize("name", ["ledger_by_gpu", "ledger_by_day", "ledger_by_user"])
def test_a_window_of_whole_days_needs_no_hours(hourless: Connection, name: str) -> None:
    window = {"from_ts": D0 + DAY_MS, "to_ts": D0 + 4 * DAY_MS}
    assert sum(row["good_gpu_hours"] for row in run(hourless, name, window).to_pylist()) == 72.0


def test_a_part_of_a_day_and_steps_of_hours_are_read_from_hours(hourless: Connection) -> None:
    part = {"from_ts": D0 + 2 * DAY_MS + HOUR_MS, "to_ts": D0 + 3 * DAY_MS}
    (row,) = run(hourless, "ledger_by_gpu", part).to_pylist()
    assert (row["good_gpu_hours"], row["unknown_gpu_hours"]) == (0.0, 23.0)
    whole = {"from_ts": D0 + DAY_MS, "to_ts": D0 + 4 * DAY_MS}
    assert sum(row["good_gpu_hours"] for row in run(hourless, "ledger_by_hour", whole).to_pylist()) == 48.0
