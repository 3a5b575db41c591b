"""CPU that Prometheus text costs: reading a dcgm-exporter, writing our own /metrics, importing history.

Reading is held against prometheus_client's parser alone, on the same text of 8 GPUs with pods, in one run, in
turns; ours ends with samples, the parser with families. The import reads raw samples out of a real Prometheus
(skipped aloud without one) into a real store; CPU is this process's, the server's is its own.

    python bench/scrape.py [--json] [--quick]
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from collector.dcgm.endpoint import Endpoint, heard  # noqa: E402
from collector.metrics_endpoint import exposition as fallow_exposition  # noqa: E402
from collector.reading import Reading, Tick  # noqa: E402
from collector.snapshot import Snapshot, after  # noqa: E402
from collector.sources.prometheus.import_history import import_history  # noqa: E402
from collector.sources.prometheus.server import Access  # noqa: E402
from collector.store.database import open_store  # noqa: E402
from tests.collector.backfill.past import Life, prometheus, write_blocks  # noqa: E402
from tests.collector.dcgm.dcgm_writer import CLASSIC, MIB, Board, Facts, exposition  # noqa: E402

GPUS = 8
START_MS = 1_763_000_000_000
STEP_MS = 30_000
THIRD = 1 / 3
EXPOSE_MS = 5.0
IMPORT_US = 10.0
Figure = dict[str, Any]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    figures = {**reading(rounds=20 if options.quick else 100), **importing(hours=12 if options.quick else 24)}
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        beside = ", ".join(f"{peer} {value:.3g}" for peer, value in figure["beside"].items())
        verdict = "ok" if figure["ok"] else "MISSED"
        print(f"{name:28} {figure['value']:8.3g}  target {figure['target']:<8.3g} {verdict:7} {beside}")


def boards() -> list[Board]:
    """A node of eight GPUs, each held by a pod, with the exporter's default fields."""
    facts = Facts(
        gpu_utilization_ratio=0.91,
        memory_controller_ratio=0.4,
        encoder_ratio=0.0,
        decoder_ratio=0.0,
        graphics_active_ratio=0.89,
        tensor_active_ratio=0.28,
        dram_active_ratio=0.2,
        memory_used_bytes=61_000 * MIB,
        memory_free_bytes=20_000 * MIB,
        memory_reserved_bytes=500 * MIB,
        power_mw=612_345,
        energy_mj=123_456_789_012,
        temperature_c=61,
        sm_clock_mhz=1980,
        memory_clock_mhz=2619,
        xid=0,
    )
    return [
        Board(
            uuid=f"GPU-{i:08d}-4b2e-9f1c-77aa-0123456789ab",
            index=i,
            facts=facts,
            holders={"container": "main", "namespace": "vision", "pod": f"train-{i}"},
        )
        for i in range(GPUS)
    ]


def reading(rounds: int) -> dict[str, Figure]:
    """Milliseconds of CPU for one exporter's answer, and for one of ours."""
    text = exposition(boards(), CLASSIC)
    content = text.encode()
    fresh = Endpoint(url="http://n/metrics", fallback_node="n", interval_ms=STEP_MS)
    known, news = heard(fresh, content, START_MS)
    outcome = Reading(source="dcgm", at_ms=START_MS, gpus=news.gpus, samples=news.samples)
    tick = Tick(at_ms=START_MS, width_ms=10_000, outcomes=(outcome,), allocations=news.allocations)
    snapshot = after(Snapshot(), tick, duration_ms=1.0)
    cost = in_turns(
        rounds,
        parser=lambda: list(text_string_to_metric_families(text)),
        changed=lambda: heard(fresh, content, START_MS),
        unchanged=lambda: heard(known, content, START_MS + 10_000),
        expose=lambda: fallow_exposition(snapshot),
    )
    peer = {"prometheus_client_parser_ms": cost["parser"]}
    limit = cost["parser"] * THIRD
    return {
        "read_8_gpus_ms": figure(cost["changed"], limit, peer),
        "read_8_gpus_unchanged_ms": figure(cost["unchanged"], limit, peer),
        "expose_8_gpus_ms": figure(cost["expose"], EXPOSE_MS, {}),
    }


def importing(hours: int) -> dict[str, Figure]:
    """Microseconds of CPU for one raw sample, from the server's answer to committed rows."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print(
            "prometheus is not installed, so the import is not measured; apt-get install prometheus",
            file=sys.stderr,
        )
        return {}
    times = tuple(range(START_MS, START_MS + hours * 3_600_000, STEP_MS))
    lives = [
        Life(board=board, dialect=CLASSIC, at_ms=times, facts=lambda _, board=board: board.facts)  # type: ignore[misc]
        for board in boards()
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            prometheus(write_blocks(lives, folder), "--query.max-samples=50000000") as url,
            open_store(folder / "fallow.duckdb") as store,
        ):
            before = time.process_time()
            done = import_history(Access(url=url), (START_MS - 1, times[-1]), store=store)
            cpu_s = time.process_time() - before
    assert done.rows_added == len(times) * GPUS, done
    return {"import_raw_sample_us": figure(cpu_s / done.samples_read * 1e6, IMPORT_US, {})}


def in_turns(rounds: int, **work: Callable[[], object]) -> dict[str, float]:
    """Median milliseconds of CPU of each, taken in turns."""
    costs: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, one in work.items():
            before = time.process_time_ns()
            one()
            costs[name].append((time.process_time_ns() - before) / 1e6)
    return {name: statistics.median(values) for name, values in costs.items()}


def figure(value: float, target: float, beside: dict[str, float]) -> Figure:
    """One figure; smaller is better."""
    return {"value": value, "target": target, "ok": value <= target, "beside": beside}


if __name__ == "__main__":
    main()
