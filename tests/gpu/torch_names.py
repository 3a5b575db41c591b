"""The names of torch that ``fallow/`` uses, looked up in the torch that is here: a GPU machine has its own.

The list is ``tests/fallow/torch_names.txt``, which a test there holds to the source.
``python -m tests.gpu.torch_names`` prints those that are absent.
"""

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

KNOWN = Path(__file__).parents[1] / "fallow" / "torch_names.txt"
NCCL, WITH_A_DEVICE = "torch.distributed.ProcessGroupNCCL", "torch.cuda.default_generators"


def used() -> tuple[str, ...]:
    """``torch.distributed.TCPStore`` and so on."""
    return tuple(line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#"))


def absent(names: Iterable[str]) -> tuple[str, ...]:
    """Those that this torch lacks; of one without NCCL not NCCL's, without a GPU not its generators."""
    left_out = () if importlib.import_module("torch.distributed").is_nccl_available() else (NCCL,)
    if not importlib.import_module("torch").cuda.is_available():
        left_out = (*left_out, WITH_A_DEVICE)
    wanted = (name for name in names if not (left_out and name.startswith(left_out)))
    return tuple(sorted(name for name in wanted if not _is_there(name)))


def _is_there(name: str) -> bool:
    """Walks modules and attributes."""
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for at, part in enumerate(parts[1:], start=1):
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        try:
            found = importlib.import_module(".".join(parts[: at + 1]))
        except ImportError:
            return False
    return True


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in absent(used())))
