"""A communicator of one rank, as ``fallow`` makes it: torch's names and options, and the cost.

What a sum is over several, only two GPUs show (``two_gpus``).
"""

import importlib
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, is_so, told
from tests.gpu.driven import story
from tests.gpu.parts import Part, each_apart

COUNT = 1 << 20
CONNECT_S, SUM_S = 8.0, 5.0
MULTI_RANK, FIRST_MULTI_RANK = "NCCL_MULTI_RANK_GPU_ENABLE", (2, 30)
"""From this version on NCCL lets two ranks share a GPU where the variable is 1."""
STAND_IN_VERSION = (2, 28, 9)
"""Of a dry run: its stand-in connects threads of one process, so two workers are not tried over it."""


def main() -> dict[str, Any]:
    """Build, sum, exchange with itself, abort; then two ranks, which may hang: the first figures are kept."""
    torch = place.torch()
    import torch.distributed as dist

    version = STAND_IN_VERSION if place.dry else torch.cuda.nccl.version()
    parts: dict[str, Part] = {"one rank": _alone, "two ranks": lambda: two_of_one_gpu(version, story)}
    options = _stand_in().Options if place.dry else dist.ProcessGroupNCCL.Options
    return {
        "figures": each_apart(parts),
        "options": [name for name in dir(options()) if not name.startswith("__")],
    }


def _stand_in() -> Any:
    return importlib.import_module("tests.fallow.nccl_stand_in")


def _alone() -> Iterator[Figure]:
    torch, device = place.torch(), place.torch_device()
    import torch.distributed as dist

    from fallow.process_group import nccl_group

    begun_s = time.monotonic()
    make = _stand_in().StandIn if place.dry else None
    group = nccl_group.connect(
        dist.HashStore(), 0, 1, device, timeout_s=SUM_S, connect_timeout_s=CONNECT_S, make=make
    )
    yield told("to build it", time.monotonic() - begun_s, "s")
    numbers = torch.ones(COUNT, device=device)
    group.all_reduce([numbers])
    yield is_so("a sum over one rank", float(numbers.sum().item()), float(COUNT))
    incoming = torch.zeros(COUNT, device=device)
    group.all_to_all(incoming, numbers, [COUNT], [COUNT])
    place.synchronize()
    yield is_so("an exchange with itself", bool(incoming.equal(numbers)), True)
    begun_s = time.monotonic()
    group.abort()
    yield told("to abort it", time.monotonic() - begun_s, "s")


def two_of_one_gpu(version: tuple[int, ...], play: Callable[..., Iterable[Figure]]) -> Iterator[Figure]:
    """The story of ``two`` over NCCL itself, where it lets two ranks share a GPU."""
    if version[:2] < FIRST_MULTI_RANK:
        text = ".".join(map(str, version))
        yield told("two ranks on one GPU", f"not tried: NCCL {text}, and 2.30 is the first that lets them")
        return
    try:
        yield from play(place.devices(0, 0), {MULTI_RANK: "1", "FALLOW_BACKEND": "nccl"})
    except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
        yield told("two ranks on one GPU", f"do not meet over NCCL: {error}")
