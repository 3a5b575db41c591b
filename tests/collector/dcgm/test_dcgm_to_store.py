"""From a real capture over HTTP, through the loop, into a real store: what a person will then be shown."""

from pathlib import Path

import pytest

from analytics.query import run
from collector.attribution import Attribution, attribute
from collector.dcgm.source import DcgmSettings, dcgm_source
from collector.reading import Reading
from collector.scrape_loop import Loop, LoopDependencies, Timing
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


@pytest.mark.slow
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


PODS = (("busy", 95, 30_000), ("quiet", 0, 2_000))
"""Two pods on one GPU: use in percent, memory in MiB."""


def page_of_pods(told_apart: bool) -> str:
    """What an exporter with KUBERNETES_VIRTUAL_GPUS writes of them; from 4.8.2 on it tells each apart."""
    board = 'gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'
    lines = [f"DCGM_FI_DEV_FB_FREE{{{board}}} 49000"]
    if told_apart:
        lines += [f"DCGM_FI_DEV_GPU_UTIL{{{board}}} 95", f"DCGM_FI_DEV_FB_USED{{{board}}} 32000"]
    for at, (pod, used, memory) in enumerate(PODS):
        labels = f'{board},container="main",namespace="lab",pod="{pod}",vgpu="{at}"'
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {used if told_apart else 95}",
            f"DCGM_FI_DEV_FB_USED{{{labels}}} {memory if told_apart else 32_000}",
            f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} 0.8",
        ]
    return "".join(f"{line}\n" for line in lines)


def charged(told_apart: bool, path: Path) -> dict[str, tuple[float, float]]:
    """GPU-minutes used and wasted of each pod, in six minutes of ticks over HTTP."""
    clock = Standing()
    clock.ms = NOW_MS // 60_000 * 60_000
    began_ms = clock.ms
    page = page_of_pods(told_apart)
    with serving(lambda *_: text(page)) as url, open_store(path) as store:
        ports = LoopDependencies(
            sources=(dcgm_source(DcgmSettings(urls=(url,))),), attribute=attributed, sink=store.write_tick
        )
        loop = Loop(ports, clock=clock, timing=Timing())
        while clock.ms <= began_ms + 8 * 60_000:
            loop.tick_once()
            clock.ms += 10_000
        loop.close()
        span = {"from_ts": began_ms + 60_000, "to_ts": began_ms + 5 * 60_000}
        with store.reader() as reader:
            rows = run(reader, "ledger_by_job", span).to_pylist()
            apart = [
                run(reader, "job_gpus", {"job": f"pod:lab/{pod}", **span}).to_pylist()[0]["is_told_apart"]
                for pod, *_ in PODS
            ]
    assert apart == [told_apart, told_apart]
    return {
        row["key"]: (round(row["used_gpu_hours"] * 60, 3), round(row["wasted_gpu_hours"] * 60, 3))
        for row in rows
        if row["key"] is not None
    }


@pytest.mark.slow
def test_pods_on_one_gpu_are_charged_for_what_each_of_them_did(tmp_path: Path) -> None:
    # four minutes at 80% of the SMs, of which each holds half: what is used is all the busy one's
    assert charged(True, tmp_path / "apart.duckdb") == {
        "pod:lab/busy": (3.2, 0.0),
        "pod:lab/quiet": (0.0, 2.0),
    }


@pytest.mark.slow
def test_pods_of_whom_nothing_is_told_are_charged_alike(tmp_path: Path) -> None:
    assert charged(False, tmp_path / "alike.duckdb") == {
        "pod:lab/busy": (1.6, 0.0),
        "pod:lab/quiet": (1.6, 0.0),
    }
