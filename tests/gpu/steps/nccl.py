"""A communicator of one rank, as ``fallow`` makes it: torch's names and options, and the cost."""

import time
from typing import Any

from tests.gpu import place
from tests.gpu.answers import is_so, told


def main() -> dict[str, Any]:
    """Build, sum, abort."""
    torch = place.torch()
    import torch.distributed as dist

    from fallow.world import group

    store = dist.HashStore()
    options = dist.ProcessGroupNCCL.Options()
    begun_s = time.monotonic()
    made = group._nccl(store, 0, 1, torch.device("cuda", 0))
    built_s = time.monotonic() - begun_s
    numbers = torch.ones(1 << 20, device="cuda:0")
    made.allreduce([numbers]).wait()
    torch.cuda.synchronize()
    total = float(numbers.sum().item())
    begun_s = time.monotonic()
    made.abort()
    return {
        "figures": [
            told("to build it", built_s, "s"),
            is_so("the sum over one rank", total, float(1 << 20)),
            told("to abort it", time.monotonic() - begun_s, "s"),
        ],
        "options": [name for name in dir(options) if not name.startswith("__")],
    }
