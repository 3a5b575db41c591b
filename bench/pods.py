"""What is said of real pods: 144 of a serving cluster over 23 hours (Alibaba's GenAI trace of 2026).

The trace is read from a folder of reference data and never copied: its terms are for research alone. Each
pod is played as a GPU that one holder has, replayed from the CSV itself through the real import, and the
analysis is asked at many instants. Nobody labelled these pods, so what is held against the findings is the
data:

* *busy and called idle*: held-idle verdicts on a pod that was at 10% or more within the hour before, or in
  the verdict's own window where that is longer. None is allowed.
* *never passed 1%, named*: such a pod is named by its last row: as waste or as not started where it lived for
  longer than a job may take to start, else at least as starting. (No pod that was busy once is silent for six
  hours afterwards, so nothing has to be called held-idle here; how often it is said is printed.)
* *ledger*: the GPU-hours of each state, over all pods and their whole lives, against a sum of rows in pandas
  that knows nothing of bins: a row counts for its own width, once. Allocated-empty and held-idle are held
  against it together, for nobody counted processes here; they are printed apart.

    python bench/pods.py [--json] [--quick] [--mistakes]

Needs ``traces/alibaba-genai-2026`` in the folder that FALLOW_SHARED names; skipped aloud without it.
"""

import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import pandas as pd  # noqa: E402

from analytics.assess import assess  # noqa: E402
from analytics.model import Analysis  # noqa: E402
from analytics.query import Connection, run  # noqa: E402
from analytics.thresholds import Thresholds  # noqa: E402
from collector.sources.replay.mapping import parse_mapping  # noqa: E402
from collector.sources.replay.read import open_recording  # noqa: E402
from collector.sources.replay.recording import histories  # noqa: E402
from collector.store.database import open_store  # noqa: E402

SHARED = Path(os.environ.get("FALLOW_SHARED", ROOT.parent / "shared"))
TRACE = SHARED / "traces" / "alibaba-genai-2026" / "pod_gpu_telemetry.csv.gz"
ORIGIN_MS = 1_793_145_600_000  # 2026-10-28
MAPPING = """
width_s = 57
time = { column = "t_s", unit = "s", origin = "2026-10-28T00:00:00Z" }
gpu = { column = "pod" }
node = { column = "pod" }
[sample]
gpu_utilization_ratio = { column = "gpu_util_pct", unit = "percent" }
memory_used_bytes = { column = "gpu_mem_used_mib", unit = "MiB" }
[holder]
job = "pod"
"""
WIDTH_S = 57
"""The step of the trace; a row stands for the time since the one before."""
NOISE_PCT, BUSY_PCT = 1.0, 10.0
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
STEP_MS = 19 * MINUTE_MS
START_MS = 130 * MINUTE_MS
"""From here on a pod that has not computed is no more only starting (two hours, and some minutes of rows)."""
WASTE = ("held-idle", "allocated-empty", "sleeping-batch", "not-started", "rarely-used")
LOW_PCT, GOOD_PCT = 25.0, 50.0
STATES = ("wasted", "low-saturation", "moderate", "good", "unknown")
APART = 0.01


@dataclass(slots=True)
class Found:
    """What was counted; ``ledger`` has for each state the store's hours and the rows' own."""

    held_idle: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    never: dict[str, bool] = field(default_factory=dict)
    ledger: dict[str, tuple[float, float]] = field(default_factory=dict)
    instants: int = 0


def main() -> int:
    """Play, and print; 1 where a bar is missed, 0 too where there is nothing to play."""
    parser = argparse.ArgumentParser(description="What is said of real pods")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="a third of the instants")
    parser.add_argument("--mistakes", action="store_true", help="print the pods behind each figure")
    arguments = parser.parse_args()
    if not TRACE.is_file():
        print(f"skipped: no trace at {TRACE}; set FALLOW_SHARED to the reference data", file=sys.stderr)
        print("{}" if arguments.json else "skipped")
        return 0
    found = play(TRACE, 3 * STEP_MS if arguments.quick else STEP_MS)
    shown = figures(found)
    if arguments.json:
        print(json.dumps(shown))
    else:
        for name, figure in shown.items():
            print(f"{name:34s} {figure['value']!s:>24s}  target {figure['target']!s:>6s}  ok {figure['ok']}")
    if arguments.mistakes:
        print(
            "\n".join(f"{count:5d}  busy and called idle: {pod}" for pod, count in found.wrong.most_common())
        )
    return 0 if all(bool(each["ok"]) for each in shown.values()) else 1


def play(trace: Path, step_ms: int = STEP_MS) -> Found:
    """Replay the trace into a store, ask, and compare."""
    rows = pd.read_csv(trace)
    found = Found()
    with tempfile.TemporaryDirectory() as name, open_store(Path(name) / "fallow.duckdb") as store:
        plain = Path(name) / "pods.csv"
        with gzip.open(trace, "rb") as packed, plain.open("wb") as out:
            shutil.copyfileobj(packed, out)
        recording = open_recording(plain, parse_mapping(MAPPING, "the trace's mapping"))
        for history in histories(recording):
            store.write_history(history)
        with store.reader() as reader:
            pods = {str(name): of_pod for name, of_pod in rows.groupby("pod")}
            ask(reader, pods, found, recording.to_ms, step_ms)
            found.ledger = ledger(reader, pods)
    return found


def ask(reader: Connection, pods: dict[str, pd.DataFrame], found: Found, to_ms: int, step_ms: int) -> None:
    """Judge at many instants, and each pod that never passed 1% at its end."""
    tick_ms = WIDTH_S * 1000
    for now_ms in range(ORIGIN_MS + HOUR_MS, to_ms, step_ms):
        count_held_idle(assess(reader, now_ms, Thresholds(), tick_ms), found, pods, now_ms)
        found.instants += 1
    for pod, rows in pods.items():
        if rows.gpu_util_pct.notna().any() and rows.gpu_util_pct.max() <= NOISE_PCT:
            end_ms = ORIGIN_MS + int(rows.t_s.max()) * 1000 - 1  # at its very end it holds nothing any more
            analysis = assess(reader, end_ms, Thresholds(), tick_ms)
            lived_ms = (int(rows.t_s.max()) - int(rows.t_s.min()) + WIDTH_S) * 1000
            found.never[pod] = is_named(analysis, pod, only_waste=lived_ms >= START_MS)


def count_held_idle(analysis: Analysis, found: Found, pods: dict[str, pd.DataFrame], now_ms: int) -> None:
    """Count the held-idle verdicts, and those on pods that were busy."""
    for finding in analysis.findings:
        if finding.kind.value == "held-idle":
            found.held_idle += 1
            from_ms = min(now_ms - HOUR_MS, finding.window_from_ms)
            if highest(pods[finding.node], from_ms, now_ms) >= BUSY_PCT:
                found.wrong[finding.node] += 1


def is_named(analysis: Analysis, pod: str, *, only_waste: bool) -> bool:
    """Whether a pod is among the findings of waste, or else among those who are starting."""
    if any(each.node == pod and each.kind.value in WASTE for each in analysis.findings):
        return True
    uuids = {each.uuid for each in analysis.starting}
    return not only_waste and any(pod in uuid for uuid in uuids)


def highest(rows: pd.DataFrame, from_ms: int, to_ms: int) -> float:
    """The highest utilization of the rows that end within a time, percent; 0 where there is none."""
    at_ms = ORIGIN_MS + rows.t_s * 1000
    found = rows.gpu_util_pct[(at_ms > from_ms) & (at_ms <= to_ms)].max()
    return 0.0 if pd.isna(found) else float(found)


def ledger(reader: Connection, pods: dict[str, pd.DataFrame]) -> dict[str, tuple[float, float]]:
    """GPU-hours of each state over the pods' lives, by the store and by their rows."""
    stored: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for pod, rows in pods.items():
        first_ms = ORIGIN_MS + (int(rows.t_s.min()) - WIDTH_S) * 1000
        from_ms = -(-first_ms // MINUTE_MS) * MINUTE_MS
        to_ms = (ORIGIN_MS + int(rows.t_s.max()) * 1000) // MINUTE_MS * MINUTE_MS
        if to_ms <= from_ms:
            continue
        window = {"from_ts": from_ms, "to_ts": to_ms, "node": pod}
        for row in run(reader, "ledger_by_state", window).to_pylist():
            stored[row["state"]] += row["gpu_hours"]
        own.update(by_rows(rows, from_ms, to_ms))
    stored["wasted"] = stored["allocated-empty"] + stored["held-idle"]
    own["wasted"] = own["allocated-empty"] + own["held-idle"]
    states = dict.fromkeys([*STATES, *stored, *own])
    return {state: (float(stored[state]), float(own[state])) for state in states}


def by_rows(rows: pd.DataFrame, from_ms: int, to_ms: int) -> dict[str, float]:
    """GPU-hours of each state within a time: a row counts for the width of the trace, up to its own time.

    What no row stands for is unknown. A GPU with memory above that of a context (half a gibibyte) has
    somebody on it.
    """
    at_ms = ORIGIN_MS + rows.t_s * 1000
    ends = at_ms.clip(upper=to_ms)
    starts = (at_ms - WIDTH_S * 1000).clip(lower=from_ms)
    ms = (ends - starts).clip(lower=0)
    busy = rows.gpu_util_pct
    quiet = busy <= NOISE_PCT
    empty = rows.gpu_mem_used_mib < 512
    hours = {
        "allocated-empty": ms[quiet & empty].sum(),
        "held-idle": ms[quiet & ~empty].sum(),
        "low-saturation": ms[(busy > NOISE_PCT) & (busy < LOW_PCT)].sum(),
        "moderate": ms[(busy >= LOW_PCT) & (busy < GOOD_PCT)].sum(),
        "good": ms[busy >= GOOD_PCT].sum(),
    }
    hours["unknown"] = (to_ms - from_ms) - sum(hours.values())
    return {state: value / HOUR_MS for state, value in hours.items()}


def figures(found: Found) -> dict[str, dict[str, object]]:
    """Each figure with its bar."""
    wrong = sum(found.wrong.values())
    never = sum(found.never.values())
    shown: dict[str, dict[str, object]] = {
        "busy and called idle": {
            "value": wrong,
            "target": 0,
            "ok": wrong == 0,
            "beside": {"held-idle verdicts": found.held_idle, "instants": found.instants},
        },
        "never passed 1%, named": {
            "value": never,
            "target": len(found.never),
            "ok": never == len(found.never),
            "beside": {"not named": sorted(pod for pod, named in found.never.items() if not named)},
        },
    }
    for state in STATES:
        stored, own = found.ledger[state]
        apart = abs(stored - own) / own if own else abs(stored - own)
        shown[f"ledger: {state}"] = {
            "value": round(stored, 2),
            "target": round(own, 2),
            "ok": apart <= APART,
            "beside": {"apart": round(apart, 4)},
        }
    rest = {state: pair for state, pair in found.ledger.items() if state not in STATES}
    wasted = shown["ledger: wasted"]["beside"]
    assert isinstance(wasted, dict)
    wasted |= {state: [round(value, 2) for value in pair] for state, pair in rest.items()}
    return shown


if __name__ == "__main__":
    sys.exit(main())
