"""Two workers on one GPU, over copies on the host: it grows, a worker is killed, and it learns on."""

from importlib.util import find_spec
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, Missing
from tests.gpu.driven import story


def main() -> dict[str, Any]:
    """Plain, and with the same bits at any size."""
    if find_spec("fallow.process_group.staged_group") is None:
        raise Missing("fallow has no group of two workers on one GPU yet")
    figures: list[Figure] = []
    ways: tuple[tuple[str, ...], ...] = (("deterministic",),) if place.dry else ((), ("deterministic",))
    for words in ways:
        figures += story("0,0", {"FALLOW_BACKEND": "gloo"}, *words)
    return {"figures": figures}
