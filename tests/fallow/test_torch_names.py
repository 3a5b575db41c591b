"""What is used of torch is in torch 2.11 too, not only in the pinned version: GPU machines may have it."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.gpu import torch_names

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

pytestmark = pytest.mark.quick

LIBRARY = Path(__file__).parents[2] / "fallow"
UNNAMED = (
    *("torch.Tensor", "torch.nn.Module", "torch.optim.Optimizer", "torch.optim.lr_scheduler.LRScheduler"),
    *("torch.amp.GradScaler", "torch.cuda", "torch.cuda.Event", "torch.cuda.Stream"),
    *("torch.fx.Graph", "torch.fx.GraphModule", "torch.fx.Node"),
    *("torch._C._distributed_c10d.Backend", "torch.distributed.Store", "torch.distributed.Work"),
)
"""What ``fallow`` is given by torch or by scripts, and what such classes inherit from; ``torch.cuda`` is a
device's module. ``torch.distributed.Backend`` is but the name of one.
"""
OTHERS = ("torch._C._distributed_c10d.Backend.resume", "torch.cuda.platform")
"""A trainer's ``resume`` and ``sys.platform``: torch's of those names are newer than 2.11, and not used."""


NOT_EVERYWHERE = (torch_names.NCCL, torch_names.WITH_A_DEVICE)
"""Their attributes are not looked for: not every torch has them to be asked."""
PINNED = re.search(r"^torch==([\d.]+)$", (LIBRARY.parent / "constraints.txt").read_text(), re.MULTILINE)


def nodes_of(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def used(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Every dotted name of torch in a file; of a class that a variable is made of also the attributes."""
    known: dict[str, str] = {}

    def dotted(node: ast.AST) -> str | None:
        match node:
            case ast.Name(id=name):
                return known.get(name)
            case ast.Attribute(value=value, attr=name):
                before = dotted(value)
                return before and f"{before}.{name}"
        return None

    for node in nodes:
        match node:
            case ast.Import(names=names):
                for each in names:
                    if each.name.split(".")[0] == "torch":
                        known[each.asname or "torch"] = each.name if each.asname else "torch"
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "torch":
                known |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
                yield from (f"{module}.{each.name}" for each in names)
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call(func=function)):
                made_of = dotted(function)
                if made_of and made_of.rpartition(".")[2].lstrip("_")[:1].isupper():
                    known[variable] = made_of
    yield from (name for node in nodes if (name := dotted(node)) is not None)


def attributes(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """What a file asks of anything at all, but for what every object has."""
    for node in nodes:
        match node:
            case ast.Attribute(attr=name) if not name.startswith("__"):
                yield name
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]
            ):
                yield from () if name.startswith("__") else (name,)


def reached(asked: set[str], owners: Iterable[str]) -> Iterator[str]:
    """Which of ``asked`` these classes of torch have, by the class that it is inherited from.

    More than is used: a tensor has a ``split`` as a text has. That costs a line in the list, and no name is
    forgotten.
    """
    found = {torch_names.look_up(owner): owner for owner in sorted(owners, reverse=True)}
    for each, owner in found.items():
        # Its own, and not what it inherits from another one of these, or from a text.
        parents = [
            other for other in getattr(each, "__mro__", ())[1:] if other in found or not _is_torchs(other)
        ]
        inherited = {name for parent in parents for name in dir(parent)}
        own = set(dir(each)) - inherited
        yield from (f"{owner}.{name}" for name in asked & own if f"{owner}.{name}" not in OTHERS)


def _is_torchs(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "torch"


def of_library(sources: Iterable[str]) -> set[str]:
    """All names of torch that these files use or may reach."""
    files = [nodes_of(source) for source in sources]
    names = {name for nodes in files for name in used(nodes)}
    there = {name for name in names - set(torch_names.absent(names)) if not name.startswith(NOT_EVERYWHERE)}
    classes = {name for name in there if isinstance(torch_names.look_up(name), type)}
    names |= set(reached({name for nodes in files for name in attributes(nodes)}, {*classes, *UNNAMED}))
    return {name for name in names if not any(other.startswith(f"{name}.") for other in names)}


@pytest.mark.skipif(
    PINNED is None or not torch.__version__.startswith(PINNED[1]),
    reason="the list is that of the pinned torch: what another one's objects have besides is not in it",
)
def test_no_name_of_torch_is_used_that_was_not_looked_up_in_the_older_version() -> None:
    names, known = of_library(path.read_text() for path in LIBRARY.rglob("*.py")), set(torch_names.used())
    assert sorted(names - known) == [], "look these up in torch 2.11, then add them to torch_names.txt"
    assert sorted(known - names) == [], "no longer used: take them out of torch_names.txt"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\ntorch.brand_new.thing(1)", "torch.brand_new.thing"),
        ("import torch.brand_new as new\nnew.thing", "torch.brand_new.thing"),
        ("from torch.brand_new import thing", "torch.brand_new.thing"),
        ("from torch import brand_new as new\n\ndef f():\n    return new.thing", "torch.brand_new.thing"),
        ("import torch\nnew = torch.Brand()\nnew.config.option = 1", "torch.Brand.config.option"),
        (
            "def f(group):\n    group._start_coalescing()",
            "torch._C._distributed_c10d.Backend._start_coalescing",
        ),
        ("def f(module):\n    return getattr(module, 'ipc_collect', None)", "torch.cuda.ipc_collect"),
        (
            "import torch\ndef f(made: torch.nn.RNN):\n    made.flatten_parameters()",
            "torch.nn.RNN.flatten_parameters",
        ),
    ],
)
def test_a_new_name_is_seen_however_it_is_come_by(source: str, name: str) -> None:
    assert name in of_library([source])


def test_all_are_in_the_installed_version() -> None:
    assert torch_names.absent(torch_names.used()) == ()
