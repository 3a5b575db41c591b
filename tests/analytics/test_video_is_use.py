"""Work of the video engines is use, as it is activity. Values by hand, one hour."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from collector.model import GpuSample
from collector.store.database import Store
from tests.collector.store.store_parts import T0, held, history, sample
from tests.stores import open_store

BEGIN = datetime.fromtimestamp(T0 / 1000, UTC)
HOUR = {"from_ts": BEGIN, "to_ts": BEGIN + timedelta(hours=1)}
BIN_MS = 30_000
BINS = 120


def hour_of(index: int, level: float | None, **more: float) -> Iterator[GpuSample]:
    for number in (*range(1, BINS + 1), BINS + 6):  # the last closes the hour
        yield sample(index, T0 + number * BIN_MS, level, width_ms=BIN_MS, **more)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One encodes, one trains and decodes a little, one is noise, two share one, one tells no utilization."""
    rows = [
        *hour_of(0, 0.0, encoder_ratio=0.6),
        *hour_of(1, 0.5, decoder_ratio=0.2),
        *hour_of(2, 0.005, decoder_ratio=0.01),
        *hour_of(3, 0.1, encoder_ratio=0.4),
        *hour_of(4, None, decoder_ratio=0.7),
    ]
    claims = [
        HeldInterval(allocation=held(gpu, name, share), from_ms=T0, to_ms=None)
        for gpu, name, share in (
            (0, "encodes", 1.0),
            (1, "trains", 1.0),
            (2, "sleeps", 1.0),
            (3, "half-a", 0.5),
            (3, "half-b", 0.5),
            (4, "decodes", 1.0),
        )
    ]
    with open_store(tmp_path_factory.mktemp("video") / "fallow.duckdb") as opened:
        opened.write_history(history(rows, claims))
        yield opened


USED = {
    "slurm:encodes": 0.6,  # the SMs did nothing
    "slurm:trains": 0.5,  # the busiest part of a GPU says how busy it is: nothing is added
    "slurm:sleeps": 0.005,  # engines at the bound of noise are none
    "slurm:half-a": 0.2,  # who of two encodes is not told
    "slurm:half-b": 0.2,
    "slurm:decodes": 0.7,  # measured, though no rung of utilization is
}


@pytest.mark.parametrize("name", ["ledger_by_job", "jobs"])
def test_video_work_is_used_hours(store: Store, name: str) -> None:
    with store.reader() as reader:
        rows = run(reader, name, HOUR).to_pylist()
    key = "key" if name == "ledger_by_job" else "job"
    used = {row[key]: row["used_gpu_hours"] for row in rows if row[key] is not None}
    ratios = {row[key]: row["utilization_ratio"] for row in rows if row[key] is not None}
    assert used == pytest.approx(USED)
    assert ratios == pytest.approx(USED | {"slurm:half-a": 0.4, "slurm:half-b": 0.4})


def test_what_engines_did_is_still_told_from_what_the_sms_did(store: Store) -> None:
    with store.reader() as reader:
        rows = run(reader, "jobs", HOUR).to_pylist()
        (known,) = reader.execute("SELECT sum(used_ms), sum(engines_ms) FROM rollup_1h").fetchall()
    engines = {row["job"]: row["engine_gpu_hours"] for row in rows}
    assert engines == pytest.approx(
        {
            "slurm:encodes": 1.0,
            "slurm:trains": 0.0,
            "slurm:sleeps": 0.0,
            "slurm:half-a": 0.5,  # 25% at least, of which the SMs' 10% are no two thirds
            "slurm:half-b": 0.5,
            "slurm:decodes": 1.0,
        }
    )
    hours = [ms / 3_600_000 for ms in known]
    assert hours == pytest.approx([0.6 + 0.5 + 0.005 + 0.4 + 0.7, 0.6 + 0.3 + 0.7])
