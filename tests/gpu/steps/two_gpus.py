"""The story of ``two`` with a GPU each, over NCCL; each change, and what it takes to hand state over."""

from functools import partial
from typing import Any

from tests.gpu import place
from tests.gpu.driven import changes, moved, story
from tests.gpu.parts import each_apart

SIZES_MIB = (16,) if place.dry else (1024, 8192)


def main() -> dict[str, Any]:
    """Grow, kill, shrink; what was seen is kept at once, and what fails ends nothing else."""
    both = place.devices(0, 1)
    parts = {"plain": partial(story, both, {}), "changes": partial(changes, both, {})}
    parts |= {f"{mib} MiB": partial(moved, both, {}, mib) for mib in SIZES_MIB}
    if not place.dry:  # else it is what ``two`` plays
        parts["deterministic"] = partial(story, both, {}, "deterministic")
    return {"figures": each_apart(parts)}
