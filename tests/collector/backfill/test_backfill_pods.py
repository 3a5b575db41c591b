"""Exporters from 4.8.2 on, months later: what each pod of a shared GPU did, out of a real Prometheus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.query import run as ask
from collector.sources.prometheus.import_history import ImportSettings, import_history
from collector.sources.prometheus.server import Access
from tests.collector.backfill.past import Life, prometheus, write_blocks
from tests.collector.dcgm.dcgm_writer import CLASSIC, MIB, Board, Facts
from tests.stores import open_store

pytestmark = pytest.mark.process

STEP, HOUR = 30_000, 3_600_000
START = 1_763_000_000_000 // HOUR * HOUR
END = START + 2 * HOUR
AT = tuple(range(START + STEP, END + 1, STEP))


def lives() -> Iterator[Life]:
    """Two pods on one GPU, beside the row that is the GPU's own: one does it all."""
    for holders, busy in (({}, 0.95), ({"pod": "ann"}, 0.95), ({"pod": "bob"}, 0.0)):
        yield Life(
            board=Board(uuid="GPU-p", holders={"namespace": "lab", **holders} if holders else {}),
            dialect=CLASSIC,
            at_ms=AT,
            facts=lambda _, busy=busy: Facts(  # type: ignore[misc]
                gpu_utilization_ratio=busy, memory_used_bytes=round((5 + 20 * busy) * 1024) * MIB
            ),
            target={"job": "pods", "instance": "a"},
        )


def test_what_each_pod_of_a_shared_gpu_did_is_charged_to_it(tmp_path: Path) -> None:
    # NVIDIA/dcgm-exporter, pull request 594: a row of the GPU without a pod, and each pod's own beside it
    settings = ImportSettings(rows=300)
    span = {"from_ts": START, "to_ts": END}
    data = write_blocks(lives(), tmp_path)
    with prometheus(data) as url, open_store(tmp_path / "fallow.duckdb") as store:
        for _ in range(2):
            import_history(Access(url=url), (START, END), store=store, settings=settings)
            with store.reader() as reader:
                rows = {row["key"]: row for row in ask(reader, "ledger_by_job", span).to_pylist()}
                (alike,) = ask(reader, "charged_alike", span).to_pylist()
                count = reader.execute("SELECT count(*) FROM holder_samples").fetchone()
            assert count == (2 * len(AT),)
            ann, bob = rows["pod:lab/ann"], rows["pod:lab/bob"]
            assert ann["used_gpu_hours"] == pytest.approx(0.95 * 2, rel=0.02)
            assert (bob["used_gpu_hours"], bob["wasted_gpu_hours"]) == (0, pytest.approx(1.0, rel=0.02))
            assert alike["shared_gpu_hours"] == pytest.approx(2.0, rel=0.02) and alike["alike_gpu_hours"] == 0
