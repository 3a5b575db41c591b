"""What one layer of a model is: a module in a row of them, with those that work on its result in place."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import nn

from fallow.burst.table import BadTable


def layers_in_a_row(model: nn.Module) -> list[tuple[str, list[nn.Module]]]:
    """The layers in forward order: a title, as in a layer table and in a plan, and the modules of each.

    Raises: BadTable for a model whose modules don't run in a row.
    """
    return _groups(_in_a_row(model))


def _in_a_row(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers of nested ``nn.Sequential``s, else those of a traced graph without branches."""
    if isinstance(model, nn.Sequential):
        return list(_flat(model, ""))
    try:
        graph = torch.fx.symbolic_trace(model).graph
    except Exception as error:
        raise BadTable(
            f"{type(model).__name__} cannot be traced ({type(error).__name__}: {error}): give its layers as "
            "an nn.Sequential"
        ) from error
    nodes = [node for node in graph.nodes if node.op != "output"]
    row = all(
        node.op == "call_module" and node.all_input_nodes == [before] for before, node in pairwise(nodes)
    )
    if len(nodes) < 2 or nodes[0].op != "placeholder" or not row:
        odd = next((node for before, node in pairwise(nodes) if node.all_input_nodes != [before]), None)
        where = "" if odd is None else f" (at {odd.name!r})"
        raise BadTable(
            f"{type(model).__name__} has branches, or computes outside its modules{where}: give its layers "
            "as an nn.Sequential of blocks, each of which becomes one layer"
        )
    modules = dict(model.named_modules())
    return [(str(node.target), modules[str(node.target)]) for node in nodes[1:]]


def _flat(model: nn.Sequential, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    for name, child in model.named_children():
        if isinstance(child, nn.Sequential):
            yield from _flat(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def _groups(row: Sequence[tuple[str, nn.Module]]) -> list[tuple[str, list[nn.Module]]]:
    """Each layer with those behind it that work in place on its result."""
    groups: list[tuple[str, list[nn.Module]]] = []
    for name, layer in row:
        if groups and getattr(layer, "inplace", False):
            groups[-1][1].append(layer)
        else:
            groups.append((f"{name} {type(layer).__name__}", [layer]))
    return groups
