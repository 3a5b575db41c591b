"""The names of torch that ``fallow/`` uses, looked up in the torch that is here: a GPU machine has its own.

The list is ``tests/fallow/torch_names.txt``, which a test there holds to the source.
``python -m tests.gpu.torch_names`` prints those that are absent.
"""

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

KNOWN = Path(__file__).parents[1] / "fallow" / "torch_names.txt"
NCCL, WITH_A_DEVICE = "torch.distributed.ProcessGroupNCCL", "torch.cuda.default_generators"


def used() -> tuple[str, ...]:
    """``torch.distributed.TCPStore`` and so on."""
    return tuple(line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#"))


def absent(names: Iterable[str]) -> tuple[str, ...]:
    """Those that this torch lacks, of which it should have some."""
    beginnings = left_out()
    wanted = (name for name in names if not name.startswith(beginnings))
    return tuple(sorted(name for name in wanted if not _is_there(name)))


def left_out() -> tuple[str, ...]:
    """How names begin that are not looked for: NCCL's in a torch without it, its generators without a GPU."""
    beginnings = () if importlib.import_module("torch.distributed").is_nccl_available() else (NCCL,)
    return (
        beginnings if importlib.import_module("torch").cuda.is_available() else (*beginnings, WITH_A_DEVICE)
    )


def look_up(name: str) -> Any:
    """The module, class or function; options are made, since only one of them has its attributes.

    Raises LookupError.
    """
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for at, part in enumerate(parts[1:], start=1):
        if isinstance(found, property):
            found = getattr(look_up(".".join(parts[: at - 1]))(), parts[at - 1])
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        try:
            found = importlib.import_module(".".join(parts[: at + 1]))
        except ImportError:
            raise LookupError(name) from None
    return found


def _is_there(name: str) -> bool:
    try:
        look_up(name)
    except LookupError:
        return False
    return True


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in absent(used())))
