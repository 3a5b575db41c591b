"""Precision and recall of the findings, kind by kind: on the simulated cluster, and on habits of others.

The habits (``bench/habits/*.toml``, played by ``bench/habits.py`` through every source) are written from what
public issue trackers and documentation describe, and not by whoever writes the rules. They come second here;
``--folder`` plays other people's alone. What follows is about the first part, the simulated cluster's labels.

Everything goes the way it goes in service: the cluster's ten-second samples into a real store, rolled up, and
at many instants ``analytics.assess`` reads it back as of that instant and judges.

A *case* is one GPU, one kind and one instant. The rules, stated so that they can be disputed:

* A kind is *truly there* when the label has said so for the whole of the time that the kind's rule looks at
  (``LOOKS_S``), and truly absent when it has not said so for that time. In between the case is *borderline*,
  for people as for the rule, and counts neither for nor against; how many there were is printed.
* A case is *unmeasured* when over 5% of that time was not measured (the collector was blind, the node was
  down, the GPU was off the bus). The right answer is "unknown"; what is found there without ever having been
  true in that time counts as wrong.
* A job that had its GPU before the records begin and has been idle ever since cannot be told from one that
  never started; Fallow says the latter, which accuses nobody. These are counted apart (*older than records*).
* *held-idle* and *allocated-empty* follow the holder's own silences where it is no notebook: missed for as
  long as 90% of the silences that the labels show of this holder on this GPU in seven days (at most six
  hours) the case is borderline, and no longer; found within them, after the rule's own time, it is right.
* A job that by its labels never worked since it was given the GPU is starting for two hours; then, if it is
  no notebook, *not-started*, and after six hours *sleeping-batch*. Until then an idle or empty GPU of it is
  borderline.
* Labels are the simulator's own. The detector never sees them, and no label was made to fit it. Kinds that
  they don't speak of (rarely-used, reserved-by-design, crash-loop, those of jobs) are counted as found beside
  the table; the habits below ask for them.

Apart from that, and without any borderline: *called idle* counts every held-idle or allocated-empty on a GPU
whose label at that instant is a working or a starting one. Two things are left out, and counted: a person who
is back at the desk and has not run anything yet (for at most 12.5 minutes, the longest thinking time), and
work that began in the last minute. Nothing is left out for jobs that are starting up. Beside it stands how
many starting jobs a plain rule ("nothing for an hour, or no process for half of one") would have called idle.

    python bench/findings.py [--json] [--quick] [--mistakes] [--folder DIR]

The exit code is 0 when every bar is met, 1 when one is missed, 2 when a habit's file cannot be read.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from analytics.assess import assess  # noqa: E402
from analytics.model import FindingKind  # noqa: E402
from analytics.query import Connection  # noqa: E402
from analytics.thresholds import Thresholds  # noqa: E402
from bench import habits  # noqa: E402
from bench.habit_player.model import SOURCES  # noqa: E402
from bench.habit_player.read import HabitError  # noqa: E402
from bench.true_labels import (  # noqa: E402
    ACCUSING,
    IDLE_LABELS,
    Case,
    Labels,
    has_slept_since,
    is_excused,
    labelled,
)
from collector.model import GpuUuid  # noqa: E402
from collector.sources.simulated.cluster import SimulatedCluster  # noqa: E402
from collector.sources.simulated.labels import Label, LabelKind  # noqa: E402
from collector.store.database import open_store  # noqa: E402

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
START_MS = 1_793_145_600_000  # 2026-10-28, a Wednesday
TICK_MS = 10_000
STEP_MS = 53 * MINUTE_MS + 20_000  # no round number: instants wander through hours and bins
TARGET = 0.95
UNMEASURED_MOST = 0.05

LOOKS_S = {
    FindingKind.HELD_IDLE: 3600,
    FindingKind.ALLOCATED_EMPTY: 1800,
    FindingKind.LOW_SATURATION: 7200,
    FindingKind.MEMORY_HOG: 1800,
    FindingKind.SUSPECT_COUNTERS: 600,
    FindingKind.ZOMBIE_MEMORY: 600,
    FindingKind.FALLING_GPU: 300,
    FindingKind.INTRUDER: 360,
    FindingKind.SLEEPING_BATCH: 6 * 3600,
}
UNSPOKEN = (
    FindingKind.RARELY_USED,
    FindingKind.RESERVED_BY_DESIGN,
    FindingKind.CRASH_LOOP,
    FindingKind.STRAGGLER,
    FindingKind.USES_PART,
    FindingKind.MAY_HANG,
)
"""Kinds that no label speaks of."""
SETTLE_MS = {LabelKind.NOTEBOOK_SESSION: 750_000, LabelKind.STARTING_UP: 0}
PLAIN = Thresholds(grace_s=0, start_limit_s=0)


@dataclass(slots=True)
class Tally:
    """What was counted; ``called`` and ``settling`` are of GPUs called idle while their label is active."""

    right: Counter[FindingKind] = field(default_factory=Counter)
    wrong: Counter[FindingKind] = field(default_factory=Counter)
    missed: Counter[FindingKind] = field(default_factory=Counter)
    borderline: Counter[FindingKind] = field(default_factory=Counter)
    unmeasured: Counter[FindingKind] = field(default_factory=Counter)
    unspoken: Counter[FindingKind] = field(default_factory=Counter)
    called: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    settling: int = 0
    censored: int = 0
    called_plainly: int = 0
    active_cases: int = 0
    starting_cases: int = 0
    not_started_right: int = 0
    not_started_wrong: int = 0
    instants: int = 0
    assess_ms: list[float] = field(default_factory=list)


def main() -> int:
    """Run the seeds and the habits; print the tables, or the figures as JSON."""
    parser = argparse.ArgumentParser(description="Precision and recall of findings against true labels")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="two seeds and three days, habits on NVML alone")
    parser.add_argument("--mistakes", action="store_true", help="print every wrong or missed case")
    parser.add_argument("--folder", type=Path, help="play the habits of this folder, and nothing else")
    arguments = parser.parse_args()
    shown: dict[str, dict[str, object]] = {}
    said: list[str] = []
    if arguments.folder is None:
        seeds, days = ((0, 1), 3) if arguments.quick else (tuple(range(6)), 10)
        tally = Tally()
        for seed in seeds:
            run_seed(seed, days, tally)
        shown |= figures(tally)
        said = sorted(tally.mistakes + tally.called)
        if not arguments.json:
            print_table(tally, shown, seeds, days)
            print()
    try:
        played = habits.played(
            arguments.folder or habits.FOLDER,
            ("nvml",) if arguments.quick else SOURCES,
            quick=arguments.quick,
        )
    except HabitError as error:
        print(error, file=sys.stderr)
        return 2
    shown |= {f"habits, {name}": figure for name, figure in habits.figures(played).items()}
    print(json.dumps(shown) if arguments.json else "\n".join(habits.table(played)))
    if arguments.mistakes:
        print("\n".join([*said, *habits.mistakes(played)]))
    return 0 if all(bool(figure["ok"]) for figure in shown.values()) else 1


def run_seed(seed: int, days: int, tally: Tally) -> None:
    """Store ``days`` of one cluster and judge it at many instants, from the second day on."""
    cluster = SimulatedCluster(seed)
    end_ms = START_MS + days * DAY_MS
    labels = labels_of(cluster.truth(START_MS, end_ms))
    blind: list[tuple[int, int, str | None, str | None]] = []
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "fallow.duckdb") as store:
        for history in cluster.history(START_MS, end_ms, TICK_MS):
            store.write_history(history)
            blind += [(gap.from_ms, gap.to_ms, gap.node, gap.uuid) for gap in history.gaps]
        node_of = {gpu.uuid: gpu.node for gpu in cluster.gpus}
        with store.reader() as reader:
            for now_ms in range(START_MS + DAY_MS, end_ms, STEP_MS):
                began = time.perf_counter()
                analysis = assess(reader, now_ms, Thresholds(), TICK_MS)
                tally.assess_ms.append((time.perf_counter() - began) * 1000)
                tally.instants += 1
                naive = called_plainly(reader, now_ms, labels)
                tally.called_plainly += naive
                for uuid, truth in labels.items():
                    score(
                        tally,
                        Case(
                            place=f"seed {seed} {now_ms} {uuid[:12]}",
                            truth=truth,
                            dark=tuple(
                                (low, high)
                                for low, high, node, gpu in blind
                                if gpu in (None, uuid) and node in (None, node_of[uuid])
                            ),
                            now_ms=now_ms,
                            found=frozenset(f.kind for f in analysis.findings if f.uuid == uuid),
                            unknown=tuple(entry.reason for entry in analysis.unknown if entry.uuid == uuid),
                        ),
                    )


def called_plainly(reader: Connection, now_ms: int, labels: Mapping[GpuUuid, Labels]) -> int:
    """How many starting jobs a rule without any grace calls idle; asked only where somebody is starting."""
    starting = {
        uuid
        for uuid, truth in labels.items()
        if any(row.kind is LabelKind.STARTING_UP for row in truth.at(now_ms - 1))
    }
    if not starting:
        return 0
    findings = assess(reader, now_ms, PLAIN, TICK_MS).findings
    return sum(f.uuid in starting and f.kind in ACCUSING | {FindingKind.NOT_STARTED} for f in findings)


def labels_of(rows: tuple[Label, ...]) -> dict[GpuUuid, Labels]:
    """The truth by GPU; rows of the same time stand together."""
    by_gpu: dict[GpuUuid, dict[int, list[Label]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_gpu[row.uuid][row.from_ms].append(row)
    return {
        uuid: Labels(starts_ms=tuple(sorted(times)), rows=tuple(tuple(times[at]) for at in sorted(times)))
        for uuid, times in by_gpu.items()
    }


def score(tally: Tally, case: Case) -> None:
    """Hold what was found about one GPU at one instant against its labels."""
    tally.unspoken.update(case.found & {*UNSPOKEN})
    for kind, looks_s in LOOKS_S.items():
        from_ms = case.now_ms - looks_s * 1000
        answers = labelled(case, kind, from_ms)
        silent_by_nature = kind is FindingKind.FALLING_GPU
        if not silent_by_nature and _dark_ratio(case.dark, from_ms, case.now_ms) > UNMEASURED_MOST:
            tally.unmeasured[kind] += 1
            if kind in case.found and not any(answers):
                tally.wrong[kind] += 1
                tally.mistakes.append(f"wrong  {kind.value} {case.words} (unmeasured)")
        elif any(answers) and not all(answers):
            tally.borderline[kind] += 1
        elif kind in case.found:
            (tally.right if all(answers) else tally.wrong)[kind] += 1
            if not all(answers):
                tally.mistakes.append(f"wrong  {kind.value} {case.words}")
        elif all(answers) and FindingKind.NOT_STARTED in case.found and case.is_older_than_records:
            tally.censored += 1
        elif all(answers) and kind in ACCUSING and is_excused(case, kind):
            tally.borderline[kind] += 1
        elif all(answers):
            tally.missed[kind] += 1
            tally.mistakes.append(f"missed {kind.value} {case.words} {case.unknown}")
    _score_idle(tally, case)


def _score_idle(tally: Tally, case: Case) -> None:
    starting = any(row.kind is LabelKind.STARTING_UP for row in case.present)
    if FindingKind.NOT_STARTED in case.found:
        unfit = not starting and not case.is_older_than_records and has_slept_since(case) == math.inf
        tally.not_started_right += starting
        tally.not_started_wrong += unfit
        if unfit:
            tally.mistakes.append(f"wrong  not-started {case.words}")
    working = [row for row in case.present if row.holder is not None and row.kind not in IDLE_LABELS]
    tally.active_cases += bool(working)
    tally.starting_cases += starting
    if not working or not case.found & ACCUSING:
        return
    began_ms = min(_began(case.truth, row, case.now_ms) for row in working)
    settle_ms = min(SETTLE_MS.get(row.kind, MINUTE_MS) for row in working)
    if case.now_ms - began_ms < settle_ms:
        tally.settling += 1
    else:
        tally.called.append(f"IDLE   {case.words}")


def _began(truth: Labels, row: Label, now_ms: int) -> int:
    """When this label of this holder began, in one piece up to now."""
    began = row.from_ms
    for rows in reversed(truth.during(0, now_ms)):
        same = [other for other in rows if other.kind is row.kind and other.holder == row.holder]
        if not same:
            break
        began = same[0].from_ms
    return began


def _dark_ratio(dark: tuple[tuple[int, int], ...], from_ms: int, to_ms: int) -> float:
    lost = sum(max(0, min(end, to_ms) - max(begin, from_ms)) for begin, end in dark)
    return lost / (to_ms - from_ms)


def figures(tally: Tally) -> dict[str, dict[str, object]]:
    """Each figure with its target."""
    shown: dict[str, dict[str, object]] = {}
    for kind in LOOKS_S:
        right, wrong, missed = tally.right[kind], tally.wrong[kind], tally.missed[kind]
        if not right + wrong + missed:  # no case of it in these clusters
            continue
        for name, of in (("precision", right + wrong), ("recall", right + missed)):
            value = right / of if of else None
            shown[f"{kind.value} {name}"] = {
                "value": value,
                "target": TARGET,
                "ok": value is not None and value >= TARGET,
                "beside": {"cases": of, "right": right},
            }
    shown["active or starting jobs called idle"] = {
        "value": len(tally.called),
        "target": 0,
        "ok": not tally.called,
        "beside": {
            "active cases": tally.active_cases,
            "starting cases": tally.starting_cases,
            "plain rule calls idle of these": tally.called_plainly,
        },
    }
    return shown


def print_table(tally: Tally, shown: dict[str, dict[str, object]], seeds: tuple[int, ...], days: int) -> None:
    """The table for people."""
    print(f"{len(seeds)} seeds, {days} days each, {tally.instants} instants, 32 GPUs, 10 s ticks")
    print(
        f"{'kind':18s} {'precision':>10s} {'recall':>8s} {'right':>7s} {'wrong':>6s} {'missed':>7s}", end=""
    )
    print(f" {'borderline':>11s} {'unmeasured':>11s}")
    for line in _lines(tally):
        print(line)
    print(f"\ncalled idle while active or starting: {len(tally.called)} (target 0)", end="")
    print(f" of {tally.active_cases} active cases, {tally.starting_cases} of them starting;")
    print(f"a plain rule without grace calls {tally.called_plainly} of the starting ones idle;")
    print(f"left out: {tally.settling} where the person or job had only just begun")
    print(
        f"not started yet (accuses nobody): {tally.not_started_right} right, {tally.not_started_wrong} wrong"
    )
    beside = ", ".join(f"{kind.value} {tally.unspoken[kind]}" for kind in UNSPOKEN)
    print(f"found of kinds that no label speaks of: {beside}")
    print(f"idle since before the records begin, and so not called idle: {tally.censored}")
    millis = sorted(tally.assess_ms)
    print(f"an assessment took {millis[len(millis) // 2]:.0f} ms (median), {millis[-1]:.0f} ms at most")
    print("all targets met" if all(bool(entry["ok"]) for entry in shown.values()) else "TARGETS MISSED")


def _lines(tally: Tally) -> Iterator[str]:
    for kind in LOOKS_S:
        right, wrong, missed = tally.right[kind], tally.wrong[kind], tally.missed[kind]
        precision = f"{right / (right + wrong):.3f}" if right + wrong else "-"
        recall = f"{right / (right + missed):.3f}" if right + missed else "-"
        yield (
            f"{kind.value:18s} {precision:>10s} {recall:>8s} {right:7d} {wrong:6d} {missed:7d}"
            f" {tally.borderline[kind]:11d} {tally.unmeasured[kind]:11d}"
        )


if __name__ == "__main__":
    sys.exit(main())
