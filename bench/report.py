"""What a report costs: the time and memory of ``fallow report`` at 1,000 GPUs and 30 days, charts drawn.

Target: 3 s and 500 MiB, imports and the process that draws included. Told beside: the same without charts
(Markdown), and the smaller kinds. Every run is a fresh process, medians of ``--rounds``.

    python bench/report.py [--json] [--quick] [--rounds N]
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.storage import questions  # noqa: E402

LONGEST_S, LARGEST_MIB = 3.0, 500.0
LOOK_S = 0.05
ORDERS = {
    "cluster_week_html": ("cluster-week", "html"),
    "cluster_week_md": ("cluster-week", "md"),
    "chargeback_csv": ("chargeback", "csv"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Wall-clock seconds, and the largest resident size of the process and those it started, in MiB."""

    took_s: float
    resident_mib: float


def main() -> None:
    """Measure, and print a table or one object."""
    parser = argparse.ArgumentParser(description="What a report costs")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="250 GPUs and 7 days, one round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    scale = questions.Scale(gpus=250, days=7, sample_days=1) if arguments.quick else questions.Scale()
    rounds = 1 if arguments.quick else arguments.rounds
    with tempfile.TemporaryDirectory() as name:
        _built(Path(name), scale)
        found = {order: measure(Path(name), scale, words, rounds) for order, words in ORDERS.items()}
    figures = judge(found)
    if arguments.json:
        print(json.dumps(figures))
        return
    print(f"{scale.gpus} GPUs, {scale.days} days (quick runs are smaller than the target's size)")
    print(f"{'figure':<32} {'value':>8} {'target':>8}  ok")
    for name, figure in figures.items():
        print(
            f"{name:<32} {figure['value']:>8} {figure['target'] or '':>8}  {'yes' if figure['ok'] else 'NO'}"
        )


def measure(data: Path, scale: questions.Scale, words: Sequence[str], rounds: int) -> Cost:
    """The median of several fresh processes."""
    costs = [_once(data, scale, words) for _ in range(rounds)]
    return Cost(
        took_s=statistics.median(cost.took_s for cost in costs),
        resident_mib=max(cost.resident_mib for cost in costs),
    )


def judge(found: dict[str, Cost]) -> dict[str, dict[str, object]]:
    """The figures; only the largest report has targets."""
    figures: dict[str, dict[str, object]] = {}
    for name, cost in found.items():
        held = name == "cluster_week_html"
        took, size = round(cost.took_s, 2), round(cost.resident_mib)
        figures[f"{name}_s"] = {
            "value": took,
            "target": LONGEST_S if held else None,
            "ok": not held or took <= LONGEST_S,
            "beside": {},
        }
        figures[f"{name}_mib"] = {
            "value": size,
            "target": LARGEST_MIB if held else None,
            "ok": not held or size <= LARGEST_MIB,
            "beside": {},
        }
    return figures


def _built(folder: Path, scale: questions.Scale) -> None:
    """The store, made by a process of its own: a child's largest size counts its parent's at the fork."""
    maker = multiprocessing.get_context("spawn").Process(target=questions.build, args=(folder, scale))
    maker.start()
    maker.join()
    if maker.exitcode != 0:
        raise SystemExit("the store could not be made")


def _once(data: Path, scale: questions.Scale, words: Sequence[str]) -> Cost:
    kind, format = words
    command = [
        *(sys.executable, "-m", "service.cli", "report", kind, "--data", str(data), "--format", format),
        *(
            "--since",
            f"{scale.days}d",
            "--until",
            f"{questions.END:%Y-%m-%d}",
            "--out",
            str(data / f"out.{format}"),
        ),
    ]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    largest: dict[int, float] = {}
    watching = threading.Thread(target=_watch, args=(process.pid, largest))
    watching.start()
    _, status, usage = os.wait4(process.pid, 0)
    took_s = time.perf_counter() - begun
    watching.join()
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"the report failed: {' '.join(command)}")
    beside_mib = sum(mib for pid, mib in largest.items() if pid != process.pid)
    return Cost(took_s=took_s, resident_mib=usage.ru_maxrss / 1024 + beside_mib)


def _watch(pid: int, largest: dict[int, float]) -> None:
    """The largest resident size of a process and its children, each in MiB, until it has ended."""
    while True:
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for each in (pid, *map(int, children)):
                with contextlib.suppress(OSError):
                    status = Path(f"/proc/{each}/status").read_text()
                    found = re.search(r"VmHWM:\s+(\d+) kB", status)
                    largest[each] = float(found[1]) / 1024 if found else largest.get(each, 0.0)
        except OSError:
            return
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
