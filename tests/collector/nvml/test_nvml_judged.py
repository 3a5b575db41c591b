"""What the driver says, read, stored and judged: an encoder alone at work, a GPU that was never measured."""

from dataclasses import replace
from pathlib import Path

from analytics.assess import assess
from analytics.model import FindingKind
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval, History, to_table
from collector.model import Allocation, GpuUuid, Holder, JobId, JobKind
from collector.reading import Tick
from collector.store.database import Store
from tests.collector.nvml.conftest import START_MS, Watch, Watched
from tests.driver.driver import GPU_IS_LOST
from tests.stores import open_store

STEP_MS = 30_000
HOURS_MS = 3 * 3_600_000


def hours_of(store: Store, w: Watched, *held: str) -> int:
    """Three hours of what the driver says at one tick, held by a server of ann's; when they end, UTC ms."""
    holder = Holder(job=JobId("slurm:7"), user="ann", kind=JobKind.INFERENCE)
    reading, first_ms = w.read(STEP_MS), w.now_ms
    ends_ms = range(first_ms, first_ms + HOURS_MS, STEP_MS)
    rows = [replace(row, at_ms=at_ms, width_ms=STEP_MS) for at_ms in ends_ms for row in reading.samples]
    claims = tuple(
        HeldInterval(allocation=Allocation(uuid=GpuUuid(uuid), holder=holder), from_ms=START_MS, to_ms=None)
        for uuid in held
    )
    store.write_history(History(source="nvml", gpus=reading.gpus, samples=to_table(rows), held=claims))
    return ends_ms[-1]


def test_a_server_that_only_encodes_is_working(watch: Watch, tmp_path: Path) -> None:
    w = watch(gpus=2)
    video, still = w.driver.gpu(0), w.driver.gpu(1)
    video.encoder = 30
    with open_store(tmp_path / "f.duckdb") as store:
        now_ms = hours_of(store, w, video.uuid, still.uuid)
        with store.reader() as reader:
            found = assess(reader, now_ms, Thresholds(), STEP_MS).findings
            rows = run(reader, "ledger_by_gpu", {"from_ts": START_MS, "to_ts": now_ms}).to_pylist()
    wasted = {row["key"]: row["wasted_gpu_hours"] for row in rows}
    assert {each.uuid for each in found if each.kind is not FindingKind.USES_PART} == {still.uuid}
    assert wasted[video.uuid] == 0 and wasted[still.uuid] > 2.9


def test_a_gpu_lost_before_the_first_tick_falls_on_its_own_node(watch: Watch, tmp_path: Path) -> None:
    w = watch(gpus=2)
    lost = w.driver.gpu(1)
    w.driver.fail("nvmlDeviceGetUtilizationRates", GPU_IS_LOST, gpu=1)
    with open_store(tmp_path / "f.duckdb") as store:
        for _ in range(8):
            reading = w.read(STEP_MS)
            store.write_tick(Tick(at_ms=w.now_ms, width_ms=STEP_MS, outcomes=(reading,)))
        with store.reader() as reader:
            found = assess(reader, w.now_ms, Thresholds(), STEP_MS).findings
            (row,) = run(reader, "gpus_now", {}).to_pylist()[1:]
    (finding,) = found
    assert (finding.kind, finding.uuid, finding.node) == (FindingKind.FALLING_GPU, lost.uuid, "node-a")
    assert finding.sentence.startswith("GPU 1 of node-a fell off the bus")
    assert (row["uuid"], row["node"], row["state"]) == (lost.uuid, "node-a", "unknown")
