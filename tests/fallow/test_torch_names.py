"""What is used of torch is in torch 2.11 too, not only in the pinned version: GPU machines may have it."""

import ast
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

pytestmark = pytest.mark.quick

LIBRARY = Path(__file__).parents[2] / "fallow"
KNOWN = [
    line
    for line in Path(__file__).with_name("torch_names.txt").read_text().splitlines()
    if not line.startswith("#")
]
BACKEND = (
    *("rank", "size", "allreduce", "alltoall_base", "_allgather_base", "send", "recv", "abort"),
    *("supports_coalescing", "_start_coalescing", "_end_coalescing", "set_timeout"),
)
"""Of a backend's methods, which no name in a file leads to; in 2.11 too."""


def used(path: Path) -> Iterator[str]:
    """Every dotted name of torch in a file."""
    tree = ast.parse(path.read_text())
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    if each.name.split(".")[0] == "torch":
                        known[each.asname or "torch"] = each.name if each.asname else "torch"
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "torch":
                known |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
                yield from (f"{module}.{each.name}" for each in names)

    def dotted(node: ast.AST) -> str | None:
        match node:
            case ast.Name(id=name):
                return known.get(name)
            case ast.Attribute(value=value, attr=name):
                before = dotted(value)
                return before and f"{before}.{name}"
        return None

    yield from (name for node in ast.walk(tree) if (name := dotted(node)) is not None)


def test_no_name_of_torch_is_used_that_was_not_looked_up_in_the_older_version() -> None:
    names = {name for path in LIBRARY.rglob("*.py") for name in used(path)}
    whole = {name for name in names if not any(other.startswith(f"{name}.") for other in names)}
    assert sorted(whole - set(KNOWN)) == [], "look these up in torch 2.11, then add them to torch_names.txt"
    assert sorted(set(KNOWN) - whole) == [], "no longer used: take them out of torch_names.txt"


@pytest.mark.parametrize(
    "line",
    [
        "import torch\ntorch.brand_new.thing(1)",
        "import torch.brand_new as new\nnew.thing",
        "from torch.brand_new import thing",
        "from torch import brand_new as new\n\ndef f():\n    return new.thing",
    ],
)
def test_a_new_name_is_seen_however_it_is_imported(line: str, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(line)
    assert "torch.brand_new.thing" in set(used(tmp_path / "new.py")) - set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_it_is_in_the_installed_version(name: str) -> None:
    if "ProcessGroupNCCL" in name and not torch.distributed.is_nccl_available():
        pytest.skip("this torch was built without NCCL")
    if name.endswith("torch.cuda.default_generators") and not torch.cuda.is_available():
        pytest.skip("no CUDA device here, so no generators")
    module, _, last = name.rpartition(".")
    if module in sys.modules:
        assert hasattr(sys.modules[module], last)
    else:
        reduce(getattr, name.split(".")[1:], torch)


@pytest.mark.parametrize("name", BACKEND)
def test_backends_have_what_groups_call(name: str) -> None:
    assert hasattr(torch.distributed.ProcessGroupGloo, name)
