"""The story of ``two`` with a GPU each, over NCCL; each change, and what it takes to hand state over."""

import tempfile
from pathlib import Path
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, at_most, told
from tests.gpu.steps.two import Driven, story

SIZES_MIB = (1024, 8192)
MANY_STEPS = 10_000
"""More than any of the changes takes: such a training is ended, and does not end by itself."""


def main() -> dict[str, Any]:
    """Grow, kill, shrink; what was seen is kept after each."""
    figures: list[Figure] = []
    for played in (
        lambda: story("0,1", {}),
        lambda: changes("0,1", {}),
        *(lambda mib=mib: moved("0,1", {}, mib) for mib in SIZES_MIB),
        lambda: story("0,1", {}, "deterministic"),
    ):
        figures += played()
        place.so_far(figures)
    return {"figures": figures}


def changes(devices: str, environment: dict[str, str]) -> list[Figure]:
    """Grown and shrunk, grown and each of the two killed in turn: what each change took."""
    with tempfile.TemporaryDirectory() as folder:
        training = Driven(Path(folder), devices=devices, environment=environment, steps=MANY_STEPS)
        try:
            training.until("it begins", lambda rows: len(rows) >= 3)
            training.grow()
            shrunk_s = training.shrink()
            again_s = training.grow()
            younger_s = training.kill(max)
            training.grow()
            older_s = training.kill(min)
        finally:
            if training.process.poll() is None:
                training.end()
    return [
        told("from the order to the first step of one", shrunk_s, "s"),
        told("grown a second time: from the order to the first step of two", again_s, "s"),
        at_most("pause after kill -9 of the younger worker", younger_s, 20.0, "s"),
        at_most("pause after kill -9 of the older worker", older_s, 20.0, "s"),
    ]


def moved(devices: str, environment: dict[str, str], mib: int) -> list[Figure]:
    """The pause of one that grows and hands so much state over, and the least rate that this means."""
    with tempfile.TemporaryDirectory() as folder:
        words = f"state={mib}"
        training = Driven(Path(folder), words, devices=devices, environment=environment, steps=MANY_STEPS)
        try:
            training.until("it begins", lambda rows: len(rows) >= 3)
            training.grow()
            rows = training.rows()
        finally:
            if training.process.poll() is None:
                training.end()
    first = next(n for n, row in enumerate(rows) if row["world"] == 2)
    pause_s = rows[first]["at_s"] - rows[first - 1]["at_s"]
    return [
        told(f"{mib} MiB of state handed over: between two steps", pause_s, "s"),
        told(f"{mib} MiB of state handed over: at least", mib * 2**20 / 1e9 / pause_s, "GB/s"),
    ]
