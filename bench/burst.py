"""Burst plans on the published A100 profiles: beside the published greedy, data parallelism and lower bounds.

    python -m bench.burst                # needs FALLOW_SHARED: the folder with deeppool/profile
    python -m bench.burst --quick        # 8 GPUs alone

Prints, for each model, network and number of GPUs: the least time, with and without overlapped sums of
gradients; the GPU-time that the greedy spends beyond what its own time needs; and what planning took on this
machine.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from advisor.burst.cost import NETWORKS, Setting  # noqa: E402
from advisor.burst.elements import builder  # noqa: E402
from advisor.burst.evaluate import evaluate, uniform  # noqa: E402
from advisor.burst.labels import GPU_TIME, TIME  # noqa: E402
from advisor.burst.planner import Asked, plan  # noqa: E402
from advisor.burst.search import Row  # noqa: E402
from bench.bursts import greedy  # noqa: E402
from bench.bursts.deeppool import table  # noqa: E402
from fallow.burst.table import LayerTable  # noqa: E402

PROFILES = Path(os.environ.get("FALLOW_SHARED", ROOT.parent / "shared")) / "deeppool" / "profile"
MODELS = {"vgg": 32, "wrn": 16, "inception": 32}
"""Global batches of the published figures."""

LIMITS = (1.5, 2.0, 3.0)


def main() -> int:
    """Print the three tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="8 GPUs alone")
    sizes = (8,) if parser.parse_args().quick else (8, 16, 32)
    if not PROFILES.is_dir():
        print("skipped: no published profiles; set FALLOW_SHARED to the folder that has deeppool/profile")
        return 0
    tables = {model: table(PROFILES, model) for model in MODELS}
    _least_times(tables)
    missed = _beside_greedy(tables, sizes)
    _planning(tables)
    return missed


def _least_times(tables: dict[str, LayerTable]) -> None:
    print("Least time on up to 8 GPUs, ms a step (GPU-ms); best one number of GPUs for all layers beside it")
    print(
        f"{'model':10}{'network':10}{'sums':10}{'plan':>17}{'bound':>9}"
        f"{'best k':>20}{'all 8':>9}{'1 GPU':>9}  over k"
    )
    for model, batch in MODELS.items():
        for network in ("nvswitch", "pcie", "100gbe"):
            for overlap in (False, True):
                setting = Setting(
                    gpus=8, batch=batch, network=NETWORKS[network], overlap=overlap, powers_of_two=True
                )
                found = plan(tables[model], setting, Asked())
                whole = evaluate(tables[model], uniform(tables[model], 8), setting)
                print(
                    f"{model:10}{network:10}{'during' if overlap else 'after':10}"
                    f"{found.predicted.time_us / 1e3:8.2f} ({found.predicted.gpu_time_us / 1e3:5.1f})"
                    f"{found.bound / 1e3:10.2f}"
                    f"{found.uniform.time_us / 1e3:9.2f} ({found.uniform.gpu_time_us / 1e3:5.1f})"
                    f" k={found.uniform_gpus}"
                    f"{whole.time_us / 1e3:8.2f}{found.one_gpu.time_us / 1e3:9.2f}"
                    f"{found.uniform.time_us / found.predicted.time_us:8.2f}"
                )


def _beside_greedy(tables: dict[str, LayerTable], sizes: tuple[int, ...]) -> int:
    """1 where a plan costs more than the greedy's."""
    print(
        "\nThe published greedy, sums after the backward pass, NVSwitch: GPU-time that its time does not need"
    )
    print(f"{'model':10}{'GPUs':>5}{'limit':>7}{'greedy':>19}{'least GPU-time at its time':>30}{'saved':>8}")
    missed = 0
    for model, batch in MODELS.items():
        for gpus in sizes:
            setting = Setting(
                gpus=gpus, batch=batch, network=NETWORKS["nvswitch"], overlap=False, powers_of_two=True
            )
            row = Row(
                builder(setting, 1.0, tables[model].smallest_batch).elements(tables[model].layers, gpus)
            )
            for limit in LIMITS:
                theirs = evaluate(tables[model], greedy.plan(tables[model], setting, limit), setting)
                ours = row.best(GPU_TIME, {TIME: theirs.time_us}).costs
                saved = 1 - ours[GPU_TIME] / theirs.gpu_time_us
                missed |= bool(saved < -1e-9)
                print(
                    f"{model:10}{gpus:5}{limit:7.1f}{theirs.time_us / 1e3:9.2f}"
                    f" ({theirs.gpu_time_us / 1e3:7.1f})"
                    f"{ours[TIME] / 1e3:20.2f} ({ours[GPU_TIME] / 1e3:6.1f}){saved:8.0%}"
                )
    return missed


def _planning(tables: dict[str, LayerTable]) -> None:
    print("\nPlanning on this machine, ms of processor time, sums after the backward pass, NVSwitch, limit 2")
    for model, batch in MODELS.items():
        for any_width in (False, True):
            if any_width and model == "inception":
                continue
            setting = Setting(
                gpus=8, batch=batch, network=NETWORKS["nvswitch"], overlap=False, powers_of_two=True
            )
            times = []
            for _ in range(3):
                begun = time.process_time()
                plan(tables[model], replace(setting, powers_of_two=not any_width), Asked(amplification=2))
                times.append(time.process_time() - begun)
            print(f"{model:10}{'any number' if any_width else 'powers of two':15}{min(times) * 1e3:9.0f}")


if __name__ == "__main__":
    sys.exit(main())
