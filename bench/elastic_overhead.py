"""What elasticity costs while nobody resizes: steps beside DistributedDataParallel and a plain loop.

Targets: a step of two and of three workers at 50 million parameters costs at most 1% over DDP with the same
accumulation (``no_sync``); alone, at most 1% over a plain loop; the deterministic mode's reduction takes at
most 1.3 times a plain all-reduce of the same bytes where each worker holds one subtree, 1.8 times where not.

All ways take turns, step by step and in an order drawn anew each turn, on the same processes and the same
model, so that what else the machine does falls on all alike; a figure is the median of the turns' ratios.
Processor time (of rank 0, its network threads included) is told beside, because it hardly feels what else the
machine does. Alone, where a hundredth is to be told from noise, there are five times as many turns. The
steps include forward, backward, the sum and AdamW. The trainer is the real one in a static world, as torchrun
would start it.

    python bench/elastic_overhead.py [--json] [--quick] [--only steps|sums] [--steps N]
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch.distributed as dist

from bench.elastic import reductions, turns

Figure = dict[str, object]
STEP, ALIGNED, UNEVEN = 1.01, 1.30, 1.80
ALONE_MORE = 5


def main() -> None:
    """Measure, and print a table or one object."""
    parser = argparse.ArgumentParser(description="What elasticity costs while nobody resizes")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="few steps, within 50 s")
    parser.add_argument("--only", choices=("steps", "sums"), help="one part alone")
    parser.add_argument("--steps", type=int, default=20, help="steps of each kind")
    arguments = parser.parse_args()
    steps = 4 if arguments.quick else arguments.steps
    figures: dict[str, Figure] = {}
    for world in [2] if arguments.quick else [1, 2, 3]:
        if arguments.only != "sums":
            figures |= _steps(world, steps * (ALONE_MORE if world == 1 else 1))
    for world, target in ((2, ALIGNED), (3, UNEVEN)):
        if arguments.only != "steps":
            figures |= _reductions(world, steps, target)
    if arguments.json:
        print(json.dumps(figures))
        return
    print(f"{'figure':<48} {'value':>8} {'target':>8}  ok   beside")
    for name, figure in figures.items():
        beside = ", ".join(f"{peer} {value}" for peer, value in _beside(figure).items())
        bar = "" if figure["target"] is None else figure["target"]
        print(f"{name:<48} {figure['value']:>8} {bar:>8}  {'yes' if figure['ok'] else 'NO':<4} {beside}")


def _beside(figure: Figure) -> Mapping[str, object]:
    beside = figure["beside"]
    assert isinstance(beside, dict)
    return beside


def _steps(world: int, steps: int) -> dict[str, Figure]:
    """Whole steps: ours, to the bit, and the peer's."""
    took: dict[str, list[tuple[float, float]]] = _together(turns.rank, world, steps)
    wall_s = {way: [wall for wall, _ in found] for way, found in took.items()}
    cpu_s = {way: [cpu for _, cpu in found] for way, found in took.items()}
    peer = "plain loop" if world == 1 else "DDP"
    figures: dict[str, Figure] = {}
    for way, prefix, target in (("plain", "", STEP), ("deterministic", "deterministic_", None)):
        beside = {
            f"{peer} ms": round(median(wall_s["peer"]) * 1000),
            "ours ms": round(median(wall_s[way]) * 1000),
            "processor time": round(_ratio(cpu_s[way], cpu_s["peer"]), 3),
        }
        name = f"{prefix}step_of_{world}_over_{peer.replace(' ', '_')}"
        figures[name] = _figure(_ratio(wall_s[way], wall_s["peer"]), target, beside)
    return figures


def _ratio(ours: Sequence[float], peers: Sequence[float]) -> float:
    """The median over the turns of one way's seconds to the other's in the same turn."""
    return median(own / other for own, other in zip(ours, peers, strict=True))


def _reductions(world: int, steps: int, target: float) -> dict[str, Figure]:
    """The sum alone: the tree beside a plain all-reduce."""
    took: dict[str, list[float]] = _together(reductions.rank, world, steps)
    tree_s, plain_s = median(took["tree"]), median(took["all-reduce"])
    beside = {"all-reduce ms": round(plain_s * 1000), "tree ms": round(tree_s * 1000)}
    return {
        f"tree_over_all_reduce_{world}_workers_{reductions.PIECES}_pieces": _figure(
            tree_s / plain_s, target, beside
        )
    }


def _together(rank: Any, world: int, *arguments: int) -> Any:
    """Run ``rank(rank, world, port, *arguments, answers)`` in ``world`` processes; rank 0's answer."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    spawning = multiprocessing.get_context("spawn")
    answers: Any = spawning.SimpleQueue()
    processes = [
        spawning.Process(target=rank, args=(number, world, store.port, *arguments, answers))
        for number in range(world)
    ]
    for process in processes:
        process.start()
    answer = answers.get()
    for process in processes:
        process.join()
    return answer


def _figure(value: float, target: float | None, beside: Mapping[str, object]) -> Figure:
    ok = target is None or value <= target
    return {"value": round(value, 3), "target": target, "ok": ok, "beside": beside}


if __name__ == "__main__":
    main()
