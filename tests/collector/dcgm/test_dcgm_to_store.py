"""From a real capture over HTTP, through the loop, into a real store: what a person will then be shown."""

from pathlib import Path

import pytest

from collector.attribution import Attribution, attribute
from collector.dcgm.source import DcgmSettings, dcgm_source
from collector.loop import Loop, LoopDependencies, Timing
from collector.model import Reading
from tests.collector.dcgm.loopback import serving, text
from tests.stores import open_store

NOW_MS = 1_790_000_000_000


class Standing:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


def attributed(readings: tuple[Reading, ...], now_ms: int) -> Attribution:
    gpus = [gpu for reading in readings for gpu in reading.gpus]
    return attribute(gpus, [a for reading in readings for a in reading.allocations or ()], (), (), now_ms)


def stored(capture: str, path: Path) -> list[tuple[object, ...]]:
    """Each GPU with its newest sample and its holder, as the store has them after a minute of ticks."""
    clock = Standing()
    with serving(lambda *_: text(capture)) as url, open_store(path) as store:
        source = dcgm_source(DcgmSettings(urls=(url,)))
        ports = LoopDependencies(
            sources=(source,),
            attribute=attributed,
            sink=store.write_tick,
        )
        loop = Loop(ports, clock=clock, timing=Timing())
        for _ in range(7):
            loop.tick_once()
            clock.ms += 10_000
        loop.close()
        with store.reader() as reader:
            rows: list[tuple[object, ...]] = reader.execute(
                "SELECT uuid, share_of_device, power_mw, utilization_e4, job, "
                "(SELECT sum(width_ms) FROM samples s WHERE s.gpu_id = gpus.gpu_id) "
                "FROM gpus JOIN latest USING (gpu_id) LEFT JOIN allocations a USING (gpu_id) "
                "LEFT JOIN holders USING (holder_id) ORDER BY uuid"
            ).fetchall()
    return rows


def test_pods_gpu_is_stored_with_its_holder_and_its_time(shared: Path, tmp_path: Path) -> None:
    rows = stored((shared / "dcgm/h100_8gpu_k8s_pods_evidence.prom").read_text(), tmp_path / "f.duckdb")
    assert len(rows) == 8
    held = {row[0]: row[4] for row in rows if row[4] is not None}
    assert held == {
        "GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005": "pod:dynamo-workload/vllm-agg-0-vllmdecodeworker-s65j5"
    }
    assert sum(1 for row in rows if row[2] == 113611) == 1
    assert {row[5] for row in rows} == {90_000}


def test_mig_board_is_stored_in_parts_that_add_up(shared: Path, tmp_path: Path) -> None:
    rows = stored((shared / "dcgm/a100_mig_4_active.prom").read_text(), tmp_path / "f.duckdb")
    shares = [row[1] for row in rows]
    assert len(rows) == 5 and sum(shares) == pytest.approx(1)  # type: ignore[arg-type]
    assert [row[2] for row in rows if row[2] is not None] == [112252]
    assert sorted(row[3] for row in rows if row[3] is not None) == [0, 0, 0, 4085]  # type: ignore[type-var]
