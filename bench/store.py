"""What the store costs: a tick's commit, a sealed sample's bytes, a query's wait.

Targets: a tick of 10,000 GPUs committed in 30 ms with ``latest`` and roll-ups kept (from columns, the mean
over whole minutes, so that the minute's own transaction counts in), 15 ms for the samples alone; 0.70
bytes a sealed sample, lossless; every dashboard query in 50 ms and a report over everything in 1 s at 1,000
GPUs and 30 days. Everything runs on real files; data comes from the seeds in ``bench/storage``.

    python bench/store.py [--json] [--quick] [--only ticks|bytes|queries]
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.storage import peers, questions, ticks

Figure = dict[str, object]
TICK_MS, SAMPLES_MS, BYTES, QUERY_MS, REPORT_MS = 30.0, 15.0, 0.70, 50.0, 1000.0


def main() -> None:
    """Measure, and print a table or one object."""
    parser = argparse.ArgumentParser(description="What the store costs")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="smaller, within 50 s")
    parser.add_argument("--only", choices=sorted(PARTS), help="one part alone")
    arguments = parser.parse_args()
    figures: dict[str, Figure] = {}
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            figures |= part(arguments.quick, lambda line: None if arguments.json else print(line, flush=True))
    if arguments.json:
        print(json.dumps(figures))
        return
    print(f"\n{'figure':<34} {'value':>10} {'target':>8}  ok   beside")
    for name, figure in figures.items():
        beside = ", ".join(f"{peer} {value}" for peer, value in _beside(figure).items())
        ok = {True: "yes", False: "NO"}[bool(figure["ok"])]
        print(f"{name:<34} {figure['value']:>10} {figure['target'] or '':>8}  {ok:<4} {beside}")


def measure_ticks(quick: bool, tell: Callable[[str], None]) -> dict[str, Figure]:
    """A tick of 10,000 GPUs, from the reading's objects to the commit."""
    gpus = 10_000
    took = ticks.measure(gpus, 30 if quick else 120)
    tell(
        f"tick of {gpus} GPUs: {took.tick_ms:.1f} ms; making columns of its objects {took.columns_ms:.1f} ms"
    )
    tell(f"  checkpoint between ticks, every 30: {took.checkpoint_ms:.0f} ms")
    beside = {
        "the tick's own transaction": round(took.tick_ms - took.columns_ms, 1),
        "median from objects": round(took.tick_ms, 1),
        "closing a minute, from objects": round(took.closing_ms, 1),
        "columns of objects": round(took.columns_ms, 1),
        "processor time, from objects, mean": round(took.processor_ms, 1),
    }
    return {
        "tick_10000_gpus_commit_ms": _figure(took.commit_ms, TICK_MS, beside),
        "tick_10000_gpus_samples_alone_ms": _figure(took.samples_ms, SAMPLES_MS),
    }


def measure_bytes(quick: bool, tell: Callable[[str], None]) -> dict[str, Figure]:
    """A sealed day of the simulated cluster."""
    found = peers.measure(nodes=1, hours=6) if quick else peers.measure(nodes=4, hours=24)
    tell(f"sealed {found.samples} samples in {found.rows} rows, lossless: {found.lossless}")
    beside = {"Prometheus": found.prometheus, "VictoriaMetrics": found.victoria}
    shown = {name: "not installed" if value is None else round(value, 3) for name, value in beside.items()}
    figure = _figure(found.ours, BYTES, shown, digits=3)
    return {"sealed_bytes_per_sample": {**figure, "ok": bool(figure["ok"]) and found.lossless}}


def measure_queries(quick: bool, tell: Callable[[str], None]) -> dict[str, Figure]:
    """Every named query, and a report, on a big store."""
    scale = questions.Scale(gpus=250, days=7, sample_days=1) if quick else questions.Scale()
    with tempfile.TemporaryDirectory() as name:
        questions.build(Path(name), scale)
        answers, report_ms = questions.measure(Path(name), scale)
    tell(f"{scale.gpus} GPUs, {scale.days} days (quick runs are smaller than the target's size)")
    tell(f"{'query':<24} {'rows':>8} {'all days':>10} {'last day':>10}")
    for answer in questions.slowest(answers):
        tell(f"{answer.name:<24} {answer.rows:>8} {answer.whole_ms:>7.1f} ms {answer.day_ms:>7.1f} ms")
    worst = next(questions.slowest(answers))
    slow = [answer.name for answer in answers if max(answer.whole_ms, answer.day_ms) > QUERY_MS]
    beside = {"slowest": worst.name, "over": len(slow), "queries": len(answers)}
    return {
        "slowest_query_ms": _figure(max(worst.whole_ms, worst.day_ms), QUERY_MS, beside),
        "report_ms": _figure(report_ms, REPORT_MS, {"queries": len(questions.REPORT)}),
    }


def _beside(figure: Figure) -> Mapping[str, object]:
    beside = figure["beside"]
    assert isinstance(beside, dict)
    return beside


def _figure(
    value: float, target: float, beside: Mapping[str, object] | None = None, digits: int = 1
) -> Figure:
    return {"value": round(value, digits), "target": target, "ok": value <= target, "beside": beside or {}}


PARTS = {"ticks": measure_ticks, "bytes": measure_bytes, "queries": measure_queries}


if __name__ == "__main__":
    main()
