"""A communicator of one rank, as ``fallow`` makes it: torch's names and options, and the cost.

What a sum is over several, only two GPUs show (``two_gpus``).
"""

import time
from typing import Any

from tests.gpu import place
from tests.gpu.answers import is_so, told

COUNT = 1 << 20
CONNECT_S, SUM_S = 8.0, 5.0


def main() -> dict[str, Any]:
    """Build, sum, exchange with itself, abort."""
    torch, device = place.torch(), place.torch_device()
    import torch.distributed as dist

    from fallow.world import nccl_group

    begun_s = time.monotonic()
    group = nccl_group.connect(dist.HashStore(), 0, 1, device, timeout_s=SUM_S, connect_timeout_s=CONNECT_S)
    built_s = time.monotonic() - begun_s
    numbers = torch.ones(COUNT, device=device)
    group.all_reduce([numbers])
    total = float(numbers.sum().item())
    incoming = torch.zeros(COUNT, device=device)
    group.all_to_all(incoming, numbers, [COUNT], [COUNT])
    place.synchronize()
    begun_s = time.monotonic()
    group.abort()
    aborted_s = time.monotonic() - begun_s
    return {
        "figures": [
            told("to build it", built_s, "s"),
            is_so("a sum over one rank", total, float(COUNT)),
            is_so("an exchange with itself", bool(incoming.equal(numbers)), True),
            told("to abort it", aborted_s, "s"),
        ],
        "options": [name for name in dir(dist.ProcessGroupNCCL.Options()) if not name.startswith("__")],
    }
