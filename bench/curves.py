"""Draws what a resized training learns over what a fixed one learns, for the docs.

A small transformer on text of a little grammar: once alone, once resized every 50 steps with workers killed
with -9 at random steps (seeded); in float64 with plain sums, and in float32 with the deterministic mode and
dropout. Writes docs/images/elastic-curves.svg and prints how far the curves are apart.

    python bench/curves.py [--steps N] [--seed N] [--out PATH]
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.elastic import whole
from bench.elastic.whole import Committed, Disturbance

ROOT = Path(__file__).parents[1]
EVERY = 50
TITLES = {
    "exact": "float64, plain sums",
    "bitwise": "float32, deterministic mode, dropout",
}
Curves = tuple[dict[int, Committed], dict[int, Committed], list[Disturbance]]


def main() -> None:
    """Train both ways in both modes, compare, draw."""
    parser = argparse.ArgumentParser(description="The loss curves of a fixed and of a resized training")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "elastic-curves.svg")
    arguments = parser.parse_args()
    found: dict[str, Curves] = {}
    for mode, title in TITLES.items():
        found[mode] = fixed, disturbed, plan = curves(mode, arguments.steps, arguments.seed)
        apart = max(abs(disturbed[step].loss - done.loss) / abs(done.loss) for step, done in fixed.items())
        deaths = sum(each.kill_at is not None for each in plan)
        print(f"{title}: {len(plan)} resizes, {deaths} kills, at most {apart:.1e} apart (relative)")
    draw(found, arguments.out)
    print(f"wrote {arguments.out}")


def curves(mode: str, steps: int, seed: int) -> Curves:
    """The fixed curve, the disturbed one, and what was done to it."""
    plan = whole.disturbances(steps, EVERY, seed)
    with tempfile.TemporaryDirectory() as name:
        fixed = whole.undisturbed(Path(name) / "fixed", steps, mode)
        workers, _ = whole.disturbed(Path(name) / "disturbed", steps, mode, plan)
    joined: dict[int, Committed] = {}
    for log in workers.values():
        joined.update(log)
    assert joined.keys() == fixed.keys(), "a step is missing"
    return fixed, joined, plan


def draw(found: dict[str, Curves], out: Path) -> None:
    """Per mode: the curves, the world below them, and how far they are apart."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fallow"  # the same drawing gives the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        3, len(found), figsize=(11, 6.5), sharex=True, height_ratios=(4, 1.3, 1.3), layout="constrained"
    )
    for column, (mode, (fixed, disturbed, plan)) in enumerate(found.items()):
        _draw_mode(axes[:, column], TITLES[mode], fixed, disturbed, plan)
    axes[0, 0].set_ylabel("loss of the global batch")
    axes[1, 0].set_ylabel("workers")
    axes[2, 0].set_ylabel("apart (relative)")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


def _draw_mode(
    axes: Any,
    title: str,
    fixed: dict[int, Committed],
    disturbed: dict[int, Committed],
    plan: list[Disturbance],
) -> None:
    losses, world, apart = axes
    steps = sorted(fixed)
    losses.plot(
        steps, [fixed[s].loss for s in steps], color="#d97706", linewidth=4, alpha=0.45, label="fixed"
    )
    resized = [disturbed[s].loss for s in steps]
    losses.plot(steps, resized, color="#1d4ed8", linewidth=1.1, label="resized and killed")
    for each in plan:
        if each.kill_at is not None:
            losses.axvline(each.kill_at, color="#b91c1c", linewidth=0.7, linestyle=":")
    losses.set_title(f"{title}\n(dotted: a worker is killed with -9)", fontsize=10)
    losses.legend(frameon=False)
    world.step(steps, [disturbed[s].world_size for s in steps], where="post", color="#1d4ed8")
    world.set_yticks([1, 2, 3, 4])
    apart.plot(
        steps, [abs(disturbed[s].loss - fixed[s].loss) / abs(fixed[s].loss) for s in steps], color="#444"
    )
    apart.set_xlabel("step")
    apart.set_yscale("symlog", linthresh=1e-17)
    apart.set_ylim(0, 1e-9)
    apart.set_yticks([0, 1e-16, 1e-13, 1e-10])
    apart.axhline(1e-10, color="#b91c1c", linewidth=0.7)


if __name__ == "__main__":
    main()
