"""What was odd about a GPU when its processes were looked at reaches whoever lists them."""

from dataclasses import replace
from pathlib import Path

from analytics.query import run
from collector.model import (
    Basis,
    Gpu,
    GpuSample,
    GpuUuid,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading, Tick
from tests.stores import open_store

AT_MS = 1_795_000_000_000
UUID, NODE = GpuUuid("GPU-a"), NodeName("n")
KEY = ProcessKey(node=NODE, pid=7, started_ms=AT_MS - 60_000)
SAMPLE = GpuSample(
    uuid=UUID,
    at_ms=AT_MS,
    width_ms=10_000,
    utilization_ratio=0.5,
    rung=Basis.SM_ACTIVE,
    process_count=1,
    flags=("uses-by-mps-server",),
)
USED = ProcessSample(key=KEY, uuid=UUID, at_ms=AT_MS, width_ms=10_000, memory_used_bytes=1 << 30)


def test_flags_are_those_of_the_tick_at_which_processes_were_looked_at(tmp_path: Path) -> None:
    with open_store(tmp_path / "f.duckdb") as store:
        for at_ms, flags, used in ((AT_MS, SAMPLE.flags, (USED,)), (AT_MS + 10_000, (), None)):
            reading = Reading(
                source="nvml",
                at_ms=at_ms,
                gpus=(Gpu(uuid=UUID, node=NODE, index=0, memory_total_bytes=80 << 30),),
                samples=(replace(SAMPLE, at_ms=at_ms, flags=flags, process_count=1 if used else None),),
                processes=(Process(key=KEY, user="ann"),),
                process_samples=used,
            )
            store.write_tick(Tick(at_ms=at_ms, width_ms=10_000, outcomes=(reading,)))
        with store.reader() as connection:
            (row,) = run(connection, "processes_now", {"uuid": UUID}).to_pylist()
    assert (row["pid"], row["sm_ratio"], row["flags"]) == (7, None, "uses-by-mps-server")
