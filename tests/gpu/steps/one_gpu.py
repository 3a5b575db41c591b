"""Two workers on one GPU, over copies on the host: shrunk, each of them killed, a large state handed over."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, Missing
from tests.gpu.driven import changes, moved
from tests.gpu.parts import Part, each_apart

SIZES_MIB = (4,) if place.dry else (1024, 8192)
BESIDE_BYTES = 3 * place.GIB
"""Two contexts, the model, and what a copy to the host takes."""
OVER_THE_HOST = {"FALLOW_BACKEND": "gloo"}


def main() -> dict[str, Any]:
    """Changes with the smaller state, then the larger; what was seen is kept at once."""
    smaller, *larger = SIZES_MIB
    parts: dict[str, Part] = {"changes": partial(changes, place.devices(0, 0), OVER_THE_HOST, smaller)}
    parts |= {f"{mib} MiB": partial(_moved, mib) for mib in larger}
    if not place.dry:  # another interpreter that reads torch: two seconds
        parts["cold"] = partial(_moved, smaller, cold=True)
    return {"figures": each_apart(parts)}


def _moved(mib: int, *, cold: bool = False) -> Iterator[Figure]:
    free = place.torch().cuda.mem_get_info()[0]
    if free < 2 * mib * place.MIB + BESIDE_BYTES:
        raise Missing(
            f"{free / place.GIB:.1f} GiB of the GPU are free, of which two workers take {mib} MiB each"
        )
    yield from moved(place.devices(0, 0), OVER_THE_HOST, mib, cold=cold)
