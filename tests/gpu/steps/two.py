"""Two workers on one GPU, over copies on the host: it grows, a worker is killed, and it learns on."""

from functools import partial
from importlib.util import find_spec
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Missing
from tests.gpu.driven import story
from tests.gpu.parts import each_apart


def main() -> dict[str, Any]:
    """Plain, and with the same bits at any size."""
    if find_spec("fallow.process_group.staged_group") is None:
        raise Missing("fallow has no group of two workers on one GPU yet")
    ways: tuple[tuple[str, ...], ...] = (("deterministic",),) if place.dry else ((), ("deterministic",))
    play = partial(story, place.devices(0, 0), {"FALLOW_BACKEND": "gloo"})
    return {"figures": each_apart({" ".join(words) or "plain": partial(play, *words) for words in ways})}
