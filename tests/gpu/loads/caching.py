"""A PyTorch program that listens, and caches memory which it uses no more."""

import os
import sys
from typing import Any

import fallow
from tests.gpu import place
from tests.gpu.loads.pipe import Words, serve


def main(mib: int) -> None:
    """Hold so much in the cache, and a little in use."""
    torch, device = place.torch(), place.torch_device()
    heard = fallow.listen()
    block = torch.empty((1 if place.dry else mib) * place.MIB, dtype=torch.uint8, device=device)
    keep = torch.ones(1 << 20, device=device)
    place.synchronize()
    del block
    place.pretend_process(os.getpid(), (mib + 500) * place.MIB)

    def told(words: Words) -> dict[str, Any]:
        if words[0] == "empty":
            place.pretend_process(os.getpid(), 500 * place.MIB)
            return {"emptied": True}
        return {"sum": float(keep.sum().item()), "heard": heard is not None}

    serve(told)
    place.pretend_process(os.getpid(), None)


if __name__ == "__main__":
    main(int(sys.argv[1]))
