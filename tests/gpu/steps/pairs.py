"""Two loads on one GPU: what share of its own speed each keeps, by time slices and under MPS.

The loads start once a mode and are driven by their pipes: a start takes longer than a measurement.
"""

import time
from collections.abc import Sequence
from typing import Any

from advisor.engines.mps import find_mps
from tests.gpu import place
from tests.gpu.answers import Figure, at_least, is_so, told
from tests.gpu.mps import APART, daemon

LOADS: dict[str, tuple[object, ...]] = {
    "compute": ("work", "product", 4096),
    "copy": ("work", "copy", 2048),
    "starved": ("work", "train", 32, 0.5),
}
PAIRS = (("compute", "compute"), ("compute", "copy"), ("starved", "starved"), ("starved", "compute"))
DRY_PAIRS = PAIRS[1:2]
OVER_S, WARM_S = (0.5, 0.1) if place.dry else (2.5, 0.5)
WORTH = 0.7
"""Two that share a GPU by turns each keep half; under this sum the turns themselves cost too much."""


def main() -> dict[str, Any]:
    """Each alone, then the pairs in each mode that there is."""
    alone: dict[str, float] = {}
    figures = _in_mode("time slices", APART, alone)
    place.so_far(figures)
    lacking = place.lacking("mps")
    if lacking is not None:
        return {"figures": [*figures, told("MPS", f"not tried: {lacking}")]}
    with daemon() as variables:
        figures += _in_mode("MPS", variables, alone)
        place.so_far(figures)
        if not place.dry:
            figures += _seen(variables)
            half = {**variables, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}
            figures += _in_mode("MPS, 50% each", half, alone)
            found = find_mps({"CUDA_MPS_PIPE_DIRECTORY": variables["CUDA_MPS_PIPE_DIRECTORY"]})
            figures.append(is_so("the daemon is found", found.pipe_directory is not None, True))
    return {"figures": figures}


def _seen(environment: dict[str, str]) -> list[Figure]:
    """What the collector makes of two clients of a daemon that both compute."""
    with place.loads(LOADS["compute"], LOADS["compute"], environment=environment), place.watching() as read:
        for _ in range(3):
            reading = read()
    sample = reading.samples[0]
    rows = reading.process_samples or ()
    figures = [told("MPS: processes that are listed", sample.process_count)]
    figures.append(told("MPS: flags", ", ".join(sample.flags)))
    for at, row in enumerate(rows):
        held = None if row.memory_used_bytes is None else row.memory_used_bytes >> 20
        what = f"{row.type.name}, {held} MiB, share {row.sm_ratio}"
        figures.append(told(f"MPS: process {at} as it is read", what))
    return [*figures, told("MPS: SM active of both", sample.sm_active_ratio)]


def _in_mode(mode: str, environment: dict[str, str], alone: dict[str, float]) -> list[Figure]:
    """The pairs; ``alone`` is measured where it is not known yet, which is in the first mode."""
    pairs = DRY_PAIRS if place.dry else PAIRS
    names = sorted({name for pair in pairs for name in pair}) + ([] if place.dry else ["compute", "starved"])
    figures: list[Figure] = []
    with place.loads(*(LOADS[name] for name in names), environment=environment) as made:
        for load in made:
            load.ask("rest")
        for name in dict.fromkeys(names):
            if name not in alone:
                (alone[name],) = _rates([made[names.index(name)]])
                figures.append(told(f"{name} alone", alone[name], "/s"))
        for pair in pairs:
            chosen = _of(pair, names, made)
            shares = [rate / alone[name] for name, rate in zip(pair, _rates(chosen), strict=True)]
            each = ", ".join(f"{share:.2f}" for share in shares)
            title = f"{mode}: {' and '.join(pair)}"
            figures.append(told(f"{title}: share of own speed", each))
            figures.append(at_least(f"{title}: sum", sum(shares), 0.0 if place.dry else WORTH))
    return figures


def _of(pair: Sequence[str], names: Sequence[str], made: Sequence[place.Load]) -> list[place.Load]:
    """A load for each name, none twice."""
    left = list(zip(names, made, strict=True))
    chosen = []
    for name in pair:
        at = next(at for at, (each, _) in enumerate(left) if each == name)
        chosen.append(left.pop(at)[1])
    return chosen


def _rates(made: Sequence[place.Load]) -> list[float]:
    """Units a second of these while they work side by side."""
    for load in made:
        load.ask("go")
    time.sleep(WARM_S)
    for load in made:
        load.ask("rate")
    time.sleep(OVER_S)
    for load in made:
        load.tell("rate")
    rates = [float(load.answer()["rate"]) for load in made]
    for load in made:
        load.ask("rest")
    return rates
