"""What an exporter tells of each pod of a shared GPU comes through a peer, and from an export, unchanged."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from collector.dcgm.fetch import Limits
from collector.metrics_endpoint import exposition
from collector.model import HolderSample, JobId
from collector.reading import Reading, Tick
from collector.snapshot import KEPT_MS, Snapshot, after
from collector.sources.peer import PeerSettings, peer_source
from collector.sources.replay.read import open_recording
from collector.sources.replay.recording import histories
from collector.sources.replay.source import ReplaySource
from collector.store.database import Store
from tests.collector.dcgm.loopback import serving, text
from tests.collector.store.store_parts import GIB, T0, TICK_MS, gpu, held, sample, uuid
from tests.stores import open_store

NAMES = ("ann", "bob")
USES = {"ann": 0.6, "bob": 0.0}
MEMORY = {"ann": 12 * GIB, "bob": 3 * GIB}
TICKS = 60
USED = "SELECT job, sum(used_ms) FROM rollup_1m JOIN holders USING (holder_id) GROUP BY job ORDER BY job"


def told(at_ms: int) -> Reading:
    """A GPU at 60% that two pods hold, of which one does all of it."""
    return Reading(
        source="dcgm",
        at_ms=at_ms,
        gpus=(gpu(0),),
        samples=(sample(0, at_ms, 0.6),),
        allocations=tuple(held(0, name, 0.5) for name in NAMES),
        holder_samples=tuple(
            HolderSample(
                uuid=uuid(0),
                job=JobId(f"slurm:{name}"),
                at_ms=at_ms,
                width_ms=TICK_MS,
                gpu_utilization_ratio=USES[name],
                memory_used_bytes=MEMORY[name],
            )
            for name in NAMES
        ),
    )


def tick_of(reading: Reading) -> Tick:
    return Tick(
        at_ms=reading.at_ms, width_ms=TICK_MS, outcomes=(reading,), allocations=reading.allocations or ()
    )


def fill(folder: Path) -> Store:
    store = open_store(folder / "first.duckdb")
    for n in range(1, TICKS + 1):
        store.write_tick(tick_of(told(T0 + n * TICK_MS)))
    return store


def used(store: Store) -> dict[str, int]:
    with store.reader() as connection:
        return {job: int(ms) for job, ms in connection.execute(USED).fetchall()}


def test_a_peer_tells_what_each_holder_did_in_the_time_of_the_newest_sample() -> None:
    reading = told(T0)
    shown = after(Snapshot(), tick_of(reading), duration_ms=1)
    with serving(lambda *_: text(exposition(shown).decode())) as url:
        peer = peer_source(PeerSettings(urls=(url,), limits=Limits(timeout_s=2), environment={}))
        first, second = peer.read(T0 + 1000), peer.read(T0 + 2000)
        peer.close()
    assert isinstance(first, Reading) and isinstance(second, Reading)
    assert sorted(first.holder_samples, key=repr) == sorted(reading.holder_samples, key=repr)
    assert second.holder_samples == (), "what was told before is not told again"


def test_what_is_older_than_the_newest_sample_is_not_shown() -> None:
    shown = after(Snapshot(), tick_of(told(T0)), duration_ms=1)
    alone = replace(told(T0 + TICK_MS), holder_samples=())
    assert after(shown, tick_of(alone), duration_ms=1).holder_samples == ()
    late = replace(told(T0 + KEPT_MS + TICK_MS), gpus=(), samples=(), holder_samples=())
    assert after(shown, tick_of(late), duration_ms=1).holder_samples == ()


@pytest.mark.slow
def test_an_export_brings_each_holders_use_back(tmp_path: Path) -> None:
    kinds: tuple[Literal["parquet", "csv"], ...] = ("parquet", "csv")
    with fill(tmp_path) as store:
        expected: dict[str, Any] = used(store)
        for kind in kinds:
            store.export(tmp_path / kind, kind, T0, T0 + TICKS * TICK_MS)
    assert expected["slurm:bob"] == 0 < expected["slurm:ann"]
    for kind in kinds:
        recording = open_recording(tmp_path / kind)
        with open_store(tmp_path / f"{kind}.duckdb") as second:
            for history in histories(recording):
                second.write_history(history)
            assert used(second) == expected, kind
    source = ReplaySource(recording)
    read = [source.read(T0 + n * TICK_MS) for n in (1, 2)]
    assert [len(each.holder_samples) for each in read if isinstance(each, Reading)] == [2, 2]


def test_an_export_without_any_has_no_file_of_them(tmp_path: Path) -> None:
    with open_store(tmp_path / "f.duckdb") as store:
        store.write_tick(tick_of(replace(told(T0), holder_samples=())))
        (tmp_path / "holder_samples.csv").write_text("left over from an earlier export")
        written = store.export(tmp_path, "csv", T0 - TICK_MS, T0)
    assert [each.name for each in written.files] == ["samples.csv", "allocations.csv", "gpus.csv"]
    assert not (tmp_path / "holder_samples.csv").exists()
