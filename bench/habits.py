"""Precision and recall of the findings, kind by kind and source by source, on habits of people never met.

``bench/habits/*.toml`` say what people do on GPUs, taken from public issue trackers and documentation, and
what is right to say of it; the format and the rules of scoring are in ``bench/habits/README.md``. Each habit
is played through every source (``bench/habit_player/sources.py``) into a real store, and the analysis is
asked at many instants of its timeline.

    python bench/habits.py [--json] [--quick] [--folder DIR] [--source NAME] [--mistakes]
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.habit_player.model import FINDINGS, JOB_FINDINGS, QUIET, SOURCES  # noqa: E402
from bench.habit_player.read import HabitError, read_folder  # noqa: E402
from bench.habit_player.scoring import Tally  # noqa: E402

FOLDER = ROOT / "bench" / "habits"
TARGET = 0.95
UNKNOWN_MOST = {"nvml": 0.05, "lowest": 0.25}
"""Of all cases; between the two ends of the ladder no bar is set."""
SHOWN = (*FINDINGS, *JOB_FINDINGS, *QUIET, "unknown")
Tallies = Mapping[str, Mapping[str, Tally]]
Figure = dict[str, object]


def main() -> int:
    """Play and print; 1 where a bar is missed, 2 for a file that cannot be played."""
    parser = argparse.ArgumentParser(description="Precision and recall of findings on habits")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="two sources and a third of the instants")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the folder of habits to play")
    parser.add_argument(
        "--source", choices=SOURCES, action="append", help="only this source; may be repeated"
    )
    parser.add_argument("--mistakes", action="store_true", help="print every wrong or missed kind, counted")
    parser.add_argument("--processes", type=int, default=2, help="workers side by side")
    arguments = parser.parse_args()
    began = time.perf_counter()
    sources = tuple(arguments.source or (("nvml", "dcgm") if arguments.quick else SOURCES))
    try:
        found = played(arguments.folder, sources, quick=arguments.quick, processes=arguments.processes)
    except HabitError as error:
        print(error, file=sys.stderr)
        return 2
    shown = figures(found)
    if arguments.json:
        print(json.dumps(shown))
    else:
        print("\n".join(table(found)))
        print(f"{time.perf_counter() - began:.0f} s")
    if arguments.mistakes:
        print("\n".join(mistakes(found)))
    return 0 if all(bool(each["ok"]) for each in shown.values()) else 1


def played(folder: Path, sources: Sequence[str], *, quick: bool, processes: int = 2) -> Tallies:
    """Tallies by source and habit. Raises HabitError."""
    # Imported here: where a worker's main module imports DuckDB, it takes itself for a prompt and draws bars.
    from bench.habit_player.run import STEP_MS, run_all, tasks

    step_ms = 3 * STEP_MS if quick else STEP_MS
    return run_all(tasks(folder, read_folder(folder), sources, step_ms=step_ms, fast=not quick), processes)


def figures(found: Tallies) -> dict[str, Figure]:
    """Each figure with its bar; a kind that no habit of the folder has is left out."""
    shown: dict[str, Figure] = {}
    for source, by_habit in found.items():
        tally = total(by_habit)
        for kind in SHOWN:
            right, wrong, missed = tally.right[kind], tally.wrong[kind], tally.missed[kind]
            if not right + missed and not wrong:
                continue
            for name, of in (("precision", right + wrong), ("recall", right + missed)):
                value = right / of if of else None
                ok = value is None if not of and name == "recall" else value is not None and value >= TARGET
                shown[f"{source}: {kind} {name}"] = {
                    "value": value,
                    "target": TARGET,
                    "ok": ok,
                    "beside": {"cases": of, "right": right},
                }
        shown[f"{source}: active called idle"] = {
            "value": sum(tally.accused.values()),
            "target": 0,
            "ok": not tally.accused,
            "beside": {"active cases": tally.active},
        }
        most = UNKNOWN_MOST.get(source)
        share = tally.said_unknown / tally.cases if tally.cases else 0.0
        shown[f"{source}: unknown"] = {
            "value": share,
            "target": most,
            "ok": most is None or share <= most,
            "beside": {"cases": tally.cases, "labelled": tally.labelled_unknown},
        }
    return shown


def total(by_habit: Mapping[str, Tally]) -> Tally:
    """All habits of a source as one."""
    whole = Tally()
    for tally in by_habit.values():
        whole.add(tally)
    return whole


def table(found: Tallies) -> Iterator[str]:
    """The tables for people: a row a kind, for each source precision and recall; then the other bars."""
    sources = [source for source in SOURCES if source in found]
    tallies = {source: total(found[source]) for source in sources}
    habits = {name for by_habit in found.values() for name in by_habit}
    yield f"{len(habits)} habits; precision / recall, and how many cases have the label (target {TARGET})"
    yield f"{'kind':19s} " + " ".join(f"{source:>19s}" for source in sources)
    for kind in SHOWN:
        cells = [_cell(tallies[source], kind) for source in sources]
        if any(cell.strip() for cell in cells):
            yield f"{kind:19s} " + " ".join(f"{cell:>19s}" for cell in cells)
    yield ""
    yield f"{'cases':19s} " + " ".join(f"{tallies[source].cases:19d}" for source in sources)
    yield f"{'of them borderline':19s} " + " ".join(f"{tallies[source].borderline:19d}" for source in sources)
    yield f"{'active called idle':19s} " + " ".join(
        f"{f'{sum(tallies[s].accused.values())} of {tallies[s].active}':>19s}" for s in sources
    )
    yield f"{'said unknown':19s} " + " ".join(
        f"{_share(tallies[s].said_unknown, tallies[s].cases):>19s}" for s in sources
    )
    yield f"{'labelled unknown':19s} " + " ".join(
        f"{_share(tallies[s].labelled_unknown, tallies[s].cases):>19s}" for s in sources
    )
    shown = figures(found)
    missed = sum(not each["ok"] for each in shown.values())
    yield f"\n{len(shown) - missed} of {len(shown)} bars met" + (": BARS MISSED" if missed else "")


def mistakes(found: Tallies) -> Iterator[str]:
    """Every wrong or missed kind with how often, the worst first."""
    counted: Counter[str] = Counter()
    for by_habit in found.values():
        for tally in by_habit.values():
            counted.update(tally.mistakes)
    yield from (f"{count:5d}  {what}" for what, count in counted.most_common())


def _cell(tally: Tally, kind: str) -> str:
    right, wrong, missed = tally.right[kind], tally.wrong[kind], tally.missed[kind]
    if not right + wrong + missed:
        return ""
    precision = f"{right / (right + wrong):.3f}" if right + wrong else "-"
    recall = f"{right / (right + missed):.3f}" if right + missed else "-"
    return f"{precision}/{recall} {right + missed}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


if __name__ == "__main__":
    sys.exit(main())
