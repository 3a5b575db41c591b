"""When a hold has ended is one rule for every query: what ends with the newest sample has no known end."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from collector.model import GpuSample
from collector.store.database import Store
from tests.collector.store.store_parts import T0, held, history, sample
from tests.stores import open_store

BEGIN = datetime.fromtimestamp(T0 / 1000, UTC).replace(tzinfo=None)
MINUTE_MS = 60_000
LAST = 60
"""The recording is an hour long."""


def rows(gpu: int, *minutes: int) -> Iterator[GpuSample]:
    for minute in minutes:
        yield sample(gpu, T0 + minute * MINUTE_MS, 0.5, width_ms=MINUTE_MS)


def claim(gpu: int, name: str, to_minute: int) -> HeldInterval:
    return HeldInterval(allocation=held(gpu, name), from_ms=T0, to_ms=T0 + to_minute * MINUTE_MS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One silent for twenty minutes in its hold, one silent since minute 40, one given back at minute 45."""
    samples = [
        *rows(0, *range(1, 21), *range(41, LAST + 1)),
        *rows(1, *range(1, 41)),
        *rows(2, *range(1, LAST + 1)),
    ]
    claims = [claim(0, "paused", LAST), claim(1, "lost", 40), claim(2, "over", 45)]
    with open_store(tmp_path_factory.mktemp("ends") / "fallow.duckdb") as opened:
        opened.write_history(history(samples, claims))
        yield opened


def ask(store: Store, name: str, **more: object) -> list[dict[str, object]]:
    window = {"from_ts": BEGIN, "to_ts": BEGIN + timedelta(hours=2)}
    with store.reader() as reader:
        return run(reader, name, (window if name != "gpus_now" else {}) | more).to_pylist()


def test_jobs_and_the_screen_of_now_agree_on_who_still_holds(store: Store) -> None:
    ends = {row["job"]: row["to_ts"] for row in ask(store, "jobs")}
    over = BEGIN + timedelta(minutes=45)
    assert ends == {"slurm:paused": None, "slurm:lost": None, "slurm:over": over}
    assert {row["job"] for row in ask(store, "gpus_now")} == {"slurm:paused", "slurm:lost", None}
    for job, to_ts in ends.items():
        assert [row["to_ts"] for row in ask(store, "job_gpus", job=job)] == [to_ts]
    shown = [row["to_ts"] for gpu in range(3) for row in ask(store, "gpu_holders", uuid=f"GPU-{gpu:08d}")]
    assert shown == [None, None, over]


def test_a_hold_without_an_end_says_how_far_it_is_known(store: Store) -> None:
    known = {row["job"]: row["measured_to"] for row in ask(store, "jobs")}
    assert known == {
        "slurm:paused": BEGIN + timedelta(minutes=60),
        "slurm:lost": BEGIN + timedelta(minutes=40),
        "slurm:over": None,
    }
