"""The names of torch that ``fallow/`` uses, held against the torch that is here: a GPU machine has its own.

Attribute chains from ``torch`` and its aliases in the source; a name that ``getattr`` looks up isn't seen.
``python -m tests.gpu.torch_names`` prints those that are absent.
"""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

NCCL = "torch.distributed.ProcessGroupNCCL"
FALLOW = Path(__file__).parents[2] / "fallow"


def used(folder: Path = FALLOW) -> frozenset[str]:
    """``torch.distributed.TCPStore`` and so on, as the modules of this folder write them."""
    return frozenset(
        name for path in folder.rglob("*.py") for name in _names(ast.parse(path.read_text(), str(path)))
    )


def absent(folder: Path = FALLOW) -> tuple[str, ...]:
    """Those that the torch which is installed here lacks; of one without NCCL, not NCCL's."""
    without = "" if importlib.import_module("torch.distributed").is_nccl_available() else NCCL
    names = (name for name in used(folder) if not (without and name.startswith(without)))
    return tuple(sorted(name for name in names if not _is_there(name)))


def _names(tree: ast.Module) -> Iterator[str]:
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "torch":
                    aliases[name.asname or "torch"] = name.name if name.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            for name in node.names:
                aliases[name.asname or name.name] = f"{node.module}.{name.name}"
                yield f"{node.module}.{name.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            chain = _chain(node)
            if chain and chain[0] in aliases:
                yield ".".join((aliases[chain[0]], *chain[1:]))


def _chain(node: ast.expr) -> tuple[str, ...]:
    """The names of ``a.b.c``; empty where it begins with anything but a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def _is_there(name: str) -> bool:
    """Walks modules and attributes; what a value has that is no module or class is its own affair."""
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
    sys.stdout.write("".join(f"{name}\n" for name in absent()))
