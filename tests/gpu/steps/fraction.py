"""A share of memory holds a PyTorch job that uses the library, and its neighbour keeps the rest."""

from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, is_so, told
from tests.gpu.steps.hogs import lease_settings


def main() -> dict[str, Any]:
    """Half of the GPU, under both settings of the allocator."""
    settings = lease_settings(0.5)
    fraction = float(settings["FALLOW_MEMORY_FRACTION"])
    figures: list[Figure] = [told("FALLOW_MEMORY_FRACTION of a half", fraction)]
    for name, more in place.ALLOCATORS.items():
        with place.loads(("capped",), environment={**settings, **more}) as (job,):
            figures += [
                is_so(f"{name}: half of its share fits", job.ask("take", fraction * 0.5)["taken"], True),
                is_so(f"{name}: 1.1 of its share does not", job.ask("take", fraction * 1.1)["taken"], False),
            ]
    return {"figures": figures}
