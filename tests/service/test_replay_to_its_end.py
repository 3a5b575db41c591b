"""A recording that is stored whole days at once is measured to its end, however narrow its rows are."""

from pathlib import Path
from typing import Any, cast

from analytics.query import run
from collector.clock import SystemClock
from collector.sources.replay.read import open_recording
from service.config.model import Config
from service.sources.replaying import Replaying
from tests.collector.store.store_parts import T0
from tests.stores import open_store

HOUR_MS = 3_600_000


def test_no_gpu_of_a_recording_is_silent_at_its_end(tmp_path: Path) -> None:
    # One row each 7 s of GPU-b for ten minutes, one each 30 s of GPU-a: those are more, so a tick is 30 s.
    rows = [
        f"GPU-{name},n,{T0 + HOUR_MS - back * width},{width},3,0.5"
        for name, width, length_ms in (("a", 30_000, HOUR_MS), ("b", 7_000, HOUR_MS // 6))
        for back in range(length_ms // width)
    ]
    (tmp_path / "rows").mkdir()
    heading = "uuid,node,at_ms,width_ms,rung,utilization_ratio"
    (tmp_path / "rows" / "samples.csv").write_text("\n".join([heading, *rows]) + "\n")
    recording = open_recording(tmp_path / "rows")
    replaying = Replaying.of(recording, SystemClock(), Config())
    with open_store(tmp_path / "fallow.duckdb") as store:
        replaying.run(cast("Any", None), store, lambda: False, lambda stage: None)  # no ticks, no loop
        with store.reader() as reader:
            states = {row["uuid"]: row["state"] for row in run(reader, "gpus_now", {}).to_pylist()}
    assert set(states) == {"GPU-a", "GPU-b"}
    assert "unknown" not in states.values()
