"""What a change of the world costs a training, beside torchrun on the same training, in turn in one run.

Targets: survivors pause at most 100 ms plus the time to move the state (the same bytes broadcast alone,
measured in the same run); growing pauses at least 50 times shorter than torchrun's; the hand-over reaches 70%
of the speed of that broadcast. Medians of five. Real processes, gloo, a transformer of 0.3 and of 50 million
parameters whose micro-batches sleep 5 ms; how a pause is measured, ``bench/elastic/pauses.py`` says.

    python bench/resize.py [--json] [--quick] [--size 0.3M|50M] [--rounds N] [--alone]
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.elastic import broadcasts, ours, torchruns
from bench.elastic.pauses import Change

Figure = dict[str, object]
Changes = dict[tuple[int, int], list[Change]]
ALLOWED_S, SHORTER, SPEED = 0.100, 50.0, 0.70
WORLDS = [1, 2, 4, 1, 3, 2]
MEASURED = ((1, 2), (2, 4), (4, 1), (3, 2))


def main() -> None:
    """Measure, and print a table or one object."""
    parser = argparse.ArgumentParser(description="What a change of the world costs a training")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="0.3M, one round, torchrun for 1 to 2 only")
    parser.add_argument("--size", choices=("0.3M", "50M"), help="one size alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="without torchrun")
    arguments = parser.parse_args()
    sizes = [arguments.size] if arguments.size else ["0.3M"] if arguments.quick else ["0.3M", "50M"]
    rounds = 1 if arguments.quick else arguments.rounds
    beside = () if arguments.alone else MEASURED[:1] if arguments.quick else MEASURED
    figures: dict[str, Figure] = {}
    for size in sizes:
        mine, theirs = measure(size, rounds, beside)
        figures |= judge(size, mine, theirs)
    if arguments.json:
        print(json.dumps(figures))
    else:
        show(figures)


def measure(size: str, rounds: int, beside: tuple[tuple[int, int], ...]) -> tuple[Changes, Changes]:
    """Ours and torchrun's changes, in turn; what torchrun hung at twice is not tried again."""
    mine: Changes = {way: [] for way in MEASURED}
    theirs: Changes = {way: [] for way in beside}
    hung: Counter[tuple[int, int]] = Counter()
    for _ in range(rounds):
        for old, new, change in ours.tour(size, WORLDS):
            if (old, new) in mine:
                mine[old, new].append(change)
        for old, new in (way for way in beside if hung[way] < 2):
            try:
                theirs[old, new].append(torchruns.change(size, old, new))
            except TimeoutError as error:
                hung[old, new] += 1
                print(f"torchrun {old} to {new} hung: {str(error).splitlines()[0]}", file=sys.stderr)
    return mine, theirs


def judge(size: str, mine: Changes, theirs: Changes) -> dict[str, Figure]:
    """The figures of one size."""
    figures: dict[str, Figure] = {}
    for (old, new), changes in mine.items():
        name = f"{size}_{old}_to_{new}"
        pause_s = median(change.pause_s for change in changes)
        receivers, moved = max(0, new - old), changes[0].moved_bytes
        alone_s = broadcasts.seconds(moved // receivers, receivers) if receivers else 0.0
        peer_s = median(c.pause_s for c in theirs[old, new]) if theirs.get((old, new)) else None
        first_s = median(change.decision_to_first_step_s for change in changes)
        figures[f"pause_ms_{name}"] = {
            "value": round(pause_s * 1000),
            "target": round((ALLOWED_S + alone_s) * 1000),
            "ok": pause_s <= ALLOWED_S + alone_s,
            "beside": {
                "torchrun": None if peer_s is None else round(peer_s * 1000),
                "state alone": round(alone_s * 1000),
                "from the last worker": round(median(each.from_last_s for each in changes) * 1000),
                "decision to first step": round(first_s * 1000),
                "all": [round(change.pause_s * 1000) for change in changes],
            },
        }
        if new > old and peer_s is not None:
            times = peer_s / max(pause_s, 0.001)
            figures[f"shorter_than_torchrun_{name}"] = _figure(times, SHORTER, times >= SHORTER)
        moving = [change.moving_s for change in changes if change.moving_s]
        if moving and size == "50M":  # a small state is all latency
            share = alone_s / median(moving)
            figures[f"handover_speed_of_broadcast_{name}"] = _figure(share, SPEED, share >= SPEED)
    return figures


def show(figures: dict[str, Figure]) -> None:
    """A table for people."""
    print(f"{'figure':<44} {'value':>8} {'target':>8}  ok   beside")
    for name, figure in figures.items():
        beside = ", ".join(f"{peer} {value}" for peer, value in dict(figure["beside"]).items())  # type: ignore[call-overload]
        ok = "yes" if figure["ok"] else "NO"
        print(f"{name:<44} {figure['value']:>8} {figure['target']:>8}  {ok:<4} {beside}")


def _figure(value: float, target: float, ok: bool) -> Figure:
    return {"value": round(value, 2), "target": target, "ok": ok, "beside": {}}


if __name__ == "__main__":
    main()
