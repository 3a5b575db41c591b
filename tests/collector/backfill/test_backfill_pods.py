"""Exporters from 4.8.2 on, months later: what each pod of a shared GPU did, out of a real Prometheus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.query import run as ask
from collector.sources.prometheus.import_history import ImportSettings, import_history
from collector.sources.prometheus.server import Access
from tests.collector.backfill.past import Life, MemoryStore, prometheus, write_blocks
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


HALF = START + HOUR


def life(uuid: str, instance: str, at_ms: range, step_ms: int = STEP, **labels: str) -> Life:
    return Life(
        board=Board(uuid=uuid, holders={"namespace": "lab", "container": "main"} | labels),
        dialect=CLASSIC,
        at_ms=tuple(at_ms)[:: step_ms // STEP],
        facts=lambda _: Facts(gpu_utilization_ratio=0.5, memory_used_bytes=20_000 * MIB),
        target={"job": "pods", "instance": instance},
    )


def one_site() -> Iterator[Life]:
    """Targets that are set up each in its own way, behind one server."""
    exporter = {"pod": "board-watch-0", "namespace": "ops"}
    renamed = exporter | {"exported_pod": "w1", "exported_namespace": "lab"}
    every = range(START + STEP, END + 1, STEP)
    yield life("GPU-a", "a", every, pod="train-0", k8s_cluster_name="east")
    yield life("GPU-b", "b", every, pod="train-0", k8s_cluster_name="west", step_ms=4 * STEP)
    yield life("GPU-c", "c", range(START + STEP, HALF + 1, STEP), pod="w1")
    yield life("GPU-c", "c", range(HALF + STEP, END + 1, STEP), **renamed)
    yield life("GPU-d", "d", every, **exporter)
    yield life("", "e", every, pod="nameless")


def test_each_target_behind_a_prometheus_is_judged_by_its_own_labels(tmp_path: Path) -> None:
    """Cut into pieces that see one half of it each: what is known of the targets is known in all."""
    up = (
        f'up{{job="pods",instance="d",pod="board-watch-0",namespace="ops",container="main"}} 1 {at / 1000}\n'
        for at in AT
    )
    store = MemoryStore()
    with prometheus(write_blocks(one_site(), tmp_path, up)) as url:
        done = import_history(Access(url=url), (START, END), store=store, settings=ImportSettings(rows=300))
    assert done.pieces > 2 and done.unnamed == ("e gpu 0",)
    assert done.shared_nodes == ("node-1 (east, west)",)
    hours: dict[tuple[str, str], float] = {}
    for held in (each for history in store.histories for each in history.held):
        assert held.to_ms is not None
        key = held.allocation.uuid, held.allocation.holder.job
        hours[key] = hours.get(key, 0.0) + (held.to_ms - held.from_ms) / HOUR
    assert hours == {
        ("GPU-a", "pod:lab/train-0@east"): pytest.approx(2, abs=0.01),
        ("GPU-b", "pod:lab/train-0@west"): pytest.approx(2, abs=0.04),
        ("GPU-c", "pod:lab/w1"): pytest.approx(2, abs=0.01),
    }
