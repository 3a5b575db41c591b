"""The story of ``two`` with a GPU each, over NCCL; each change, and what it takes to hand state over."""

from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure
from tests.gpu.driven import changes, moved, story

SIZES_MIB = (1024, 8192)


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
