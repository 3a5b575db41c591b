"""How like real clusters the simulated one is: its distributions beside published measurements.

Real ones are read from a folder of traces, never copied: Acme (CC-BY-4.0: Hu et al., "Characterization of
Large Language Model Development in the Datacenter", NSDI 2024), MISO (MIT: Li et al., SoCC 2022), and
Alibaba's GenAI trace of 2026, whose curve is drawn only when asked for: its terms are for research alone.

Each real distribution is compared with the simulated rows it speaks of, whole subsets, none picked by hand:

* *trainings*: every row of the GPUs that are given to trainings of four GPUs and more, idle and free time
  included (Acme's are the GPUs of two clusters of that use, 15 s, DCGM);
* *services*: every row while an inference service holds the GPU, forgotten ones included (Alibaba's are the
  pods of a serving cluster);
* *single jobs*: rows of ordinary one-GPU jobs on A100 while they run (MISO profiled such jobs on an A100).

A distance is the mean distance between quantiles (the Wasserstein-1 distance), in the unit of the axis. Two
real clusters differ too: where there are two, their distance from each other is the yardstick, and ours from
one of them should not be larger (for power at most twice as large: our boards' watts follow a formula).

    python bench/realism.py [--traces FOLDER] [--out FOLDER] [--with-alibaba] [--json] [--quick]
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.likeness.measured import GRID, Floats, Real, Rows, read_real, simulate  # noqa: E402
from collector.sources.simulated.labels import KINDS, LabelKind  # noqa: E402

SERVICES = (LabelKind.INFERENCE, LabelKind.FORGOTTEN_SERVICE)
IDLE_W = 58.0
MISO_IDLE_W = 36.0  # MISO's "dummy" job on its A100 PCIe


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured figure, the bounds it should lie in, and what stands beside it."""

    value: float
    low: float
    high: float
    beside: dict[str, float]

    @property
    def ok(self) -> bool:
        """Whether the value lies within its bounds."""
        return self.low <= self.value <= self.high

    def as_json(self) -> dict[str, Any]:
        """The figure as ``--json`` prints it."""
        return {
            "value": round(self.value, 3),
            "target": f"{self.low:g} to {self.high:g}",
            "ok": self.ok,
            "beside": {name: round(value, 3) for name, value in self.beside.items()},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    shared = Path(os.environ.get("FALLOW_SHARED", ROOT.parent / "shared"))
    parser.add_argument(
        "--traces", type=Path, default=shared / "traces", help="folder of the published traces"
    )
    parser.add_argument("--out", type=Path, help="folder for realism.png")
    parser.add_argument("--with-alibaba", action="store_true", help="draw Alibaba's curve too, for yourself")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer seeds")
    asked = parser.parse_args()
    if not (asked.traces / "acme").is_dir():
        sys.exit(f"comparing with real traces: none found at {asked.traces}; give their folder with --traces")
    real, rows = read_real(asked.traces), simulate(3 if asked.quick else 8)
    figures = compare(real, rows)
    if asked.out is not None:
        draw(real, rows, asked.out, with_alibaba=asked.with_alibaba)
    if asked.json:
        print(json.dumps({name: figure.as_json() for name, figure in figures.items()}, indent=2))
    else:
        print_table(figures)


def compare(real: Real, rows: Rows) -> dict[str, Figure]:
    """Every figure, by name."""
    return {**_trainings(real, rows), **_services(real, rows), **_singles(real, rows)}


def _trainings(real: Real, rows: Rows) -> dict[str, Figure]:
    mine = rows.where(rows.training)
    busy = mine.where(mine.util > 0)
    ampere = mine.where(mine.ampere)

    def acme(metric: str) -> tuple[Floats, Floats]:
        return real.acme["Seren", metric], real.acme["Kalos", metric]

    def beside(of: Callable[[Floats], float], metric: str) -> dict[str, float]:
        seren, kalos = acme(metric)
        return {"acme-seren": of(seren), "acme-kalos": of(kalos)}

    def apart(ours: Floats, metric: str, above: float | None, times: float = 1.0) -> Figure:
        seren, kalos = (curve if above is None else curve[curve > above] for curve in acme(metric))
        between = {
            "acme-kalos to acme-seren": distance(kalos, seren),
            "ours to acme-kalos": distance(ours, kalos),
        }
        limit = times * between["acme-kalos to acme-seren"]
        return Figure(value=distance(ours, seren), low=0.0, high=round(limit, 1), beside=between)

    middle: Callable[[Floats], float] = lambda values: float(np.median(values))  # noqa: E731
    zero: Callable[[Floats], float] = lambda values: 100.0 * float(np.mean(values == 0))  # noqa: E731
    return {
        "trainings: GPU utilization, median %": Figure(
            value=middle(mine.util), low=97.0, high=100.0, beside=beside(middle, "GPU_UTIL_pct")
        ),
        "trainings: SM active, median %": Figure(
            value=middle(mine.sm), low=30.0, high=65.0, beside=beside(middle, "SM_ACTIVE_pct")
        ),
        "trainings: GPU utilization 0, % of time": Figure(
            value=zero(mine.util), low=20.0, high=42.0, beside=beside(zero, "GPU_UTIL_pct")
        ),
        "trainings: SM active while busy, distance in points": apart(busy.sm, "SM_ACTIVE_pct", 1.0),
        "trainings: GPU utilization while busy, distance in points": apart(busy.util, "GPU_UTIL_pct", 0.5),
        "trainings: memory used, distance in points": apart(mine.memory, "GPU_MEM_USED_pct", None),
        "trainings: power of A100, distance in W": apart(ampere.power_w, "GPU_POWER_W", None, 2.0),
    }


def _services(real: Real, rows: Rows) -> dict[str, Figure]:
    mine = rows.where(np.isin(rows.kind, [KINDS.index(kind) for kind in SERVICES]))
    theirs = real.alibaba_util
    return {
        "services: GPU utilization 0, % of time": Figure(
            value=100.0 * float(np.mean(mine.util == 0)),
            low=56.0,
            high=78.0,
            beside={"alibaba-genai-2026": 100.0 * float(np.mean(theirs == 0))},
        ),
        "services: GPU utilization, mean %": Figure(
            value=float(mine.util.mean()),
            low=4.5,
            high=9.5,
            beside={"alibaba-genai-2026": float(theirs.mean())},
        ),
        "services: GPU utilization while busy, distance in points": Figure(
            value=distance(mine.util[mine.util > 0], theirs[theirs > 0]),
            low=0.0,
            high=5.0,
            beside={
                "if always at their mean": distance(np.array([theirs[theirs > 0].mean()]), theirs[theirs > 0])
            },
        ),
    }


def _singles(real: Real, rows: Rows) -> dict[str, Figure]:
    """MISO's watts above idle as a plane over utilization and memory controller, and our jobs beside it."""
    weights = _plane(real)
    theirs = real.miso["power_w"] - MISO_IDLE_W
    own = np.abs(_on(weights, real.miso["sm_util_pct"], real.miso["mem_bw_util_pct"]) - theirs)
    mine = _single_jobs(rows)
    ours = np.abs(_on(weights, mine.util, mine.controller) - (mine.power_w - IDLE_W))
    flat = np.abs(theirs.mean() - theirs)
    return {
        "single jobs: watts above idle, median distance from MISO's plane": Figure(
            value=float(np.median(ours)),
            low=0.0,
            high=30.0,
            beside={
                "miso's own jobs": float(np.median(own)),
                "miso's jobs from their mean": float(np.median(flat)),
            },
        ),
        "single jobs: correlation of power and memory controller": Figure(
            value=float(np.corrcoef(mine.controller, mine.power_w)[0, 1]),
            low=0.6,
            high=1.0,
            beside={"miso": float(np.corrcoef(real.miso["mem_bw_util_pct"], real.miso["power_w"])[0, 1])},
        ),
    }


def distance(ours: Floats, theirs: Floats) -> float:
    """Wasserstein-1: the mean absolute difference of quantiles."""
    return float(np.mean(np.abs(np.quantile(ours, GRID) - np.quantile(theirs, GRID))))


def print_table(figures: dict[str, Figure]) -> None:
    print(f"{'figure':68} {'ours':>8} {'target':>12}  ok   beside")
    for name, figure in figures.items():
        beside = ", ".join(f"{peer} {value:.1f}" for peer, value in figure.beside.items())
        target = f"{figure.low:g} to {figure.high:g}"
        print(f"{name:68} {figure.value:8.2f} {target:>12}  {'yes' if figure.ok else 'NO ':3}  {beside}")


def draw(real: Real, rows: Rows, out: Path, *, with_alibaba: bool) -> Path:
    """The page of plots, as ``realism.png`` in ``out``."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    page, grid = plt.subplots(2, 3, figsize=(15, 8.2), layout="constrained")
    training = rows.where(rows.training)
    panels = (
        ("GPU utilization, trainings (%)", training.util, "GPU_UTIL_pct"),
        ("SM active, trainings (%)", training.sm, "SM_ACTIVE_pct"),
        ("memory used, trainings (%)", training.memory, "GPU_MEM_USED_pct"),
        ("power, trainings on A100 (W)", training.power_w[training.ampere], "GPU_POWER_W"),
    )
    for axes, (title, ours, metric) in zip(grid.flat, panels, strict=False):
        curves = {f"Acme {name}": real.acme[name, metric] for name in ("Seren", "Kalos")}
        _curves(axes, title, ours, curves)
    services = rows.where(np.isin(rows.kind, [KINDS.index(kind) for kind in SERVICES]))
    pods = {"Alibaba GenAI 2026": np.quantile(real.alibaba_util, GRID)} if with_alibaba else {}
    _curves(grid[1, 1], "GPU utilization, inference services (%)", services.util, pods)
    _watts(grid[1, 2], real, rows)
    page.suptitle("Busy is not saturated: the simulated cluster beside published measurements")
    page.text(
        0.0,
        -0.035,
        "Acme: Hu et al., NSDI 2024, CC-BY-4.0 (InternLM/AcmeTrace).  MISO: Li et al., SoCC 2022, MIT "
        "(boringlee24/socc22-miso).  Simulated: bench/realism.py.",
        fontsize=8,
    )
    out.mkdir(parents=True, exist_ok=True)
    target = out / "realism.png"
    page.savefig(target, dpi=80, bbox_inches="tight")
    plt.close(page)
    return target


def _curves(axes: Any, title: str, ours: Floats, theirs: dict[str, Floats]) -> None:
    for (name, values), colour, dash in zip(
        theirs.items(), ("#0072b2", "#009e73"), ("--", ":"), strict=False
    ):
        axes.plot(values, 100 * GRID, dash, color=colour, label=name, linewidth=1.6)
    axes.plot(np.quantile(ours, GRID), 100 * GRID, color="#d55e00", label="simulated", linewidth=1.8)
    axes.set(title=title, ylabel="% of time at or below", ylim=(0, 101))
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", fontsize=8)


def _watts(axes: Any, real: Real, rows: Rows) -> None:
    mine = _single_jobs(rows)
    pick = np.linspace(0, len(mine.util) - 1, 700).astype(int)
    axes.scatter(
        mine.util[pick], mine.power_w[pick] - IDLE_W, s=6, color="#d55e00", alpha=0.5, label="simulated"
    )
    axes.scatter(
        real.miso["sm_util_pct"],
        real.miso["power_w"] - MISO_IDLE_W,
        s=34,
        marker="^",
        color="#0072b2",
        label="MISO",
    )
    axes.set(title="single jobs on A100", xlabel="GPU utilization (%)", ylabel="watts above idle")
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", fontsize=8)


def _single_jobs(rows: Rows) -> Rows:
    return rows.where((rows.kind == KINDS.index(LabelKind.BATCH)) & rows.ampere & (rows.util > 0))


def _plane(real: Real) -> Floats:
    columns = np.stack(
        [np.ones_like(real.miso["power_w"]), real.miso["sm_util_pct"], real.miso["mem_bw_util_pct"]]
    )
    weights = np.linalg.lstsq(columns.T, real.miso["power_w"] - MISO_IDLE_W, rcond=None)[0]
    return weights.astype(np.float64)


def _on(weights: Floats, util: Floats, controller: Floats) -> Floats:
    watts: Floats = weights[0] + weights[1] * util + weights[2] * controller
    return watts


if __name__ == "__main__":
    main()
