"""A layer table: how long each layer of a model takes at each local batch, and what it weighs. Pure.

A model is a sequence of layers and forks. A ``Fork`` holds branches that start from the same samples and
whose results the next layer joins; a branch is a sequence again, and an empty one is a skip connection.
Layers that work in place on the result of the layer before, as an in-place ReLU does, belong into that layer:
the profiler of the published tables books a convolution's backward time on the activation behind it.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

FORMAT = "fallow layer table 1"
"""Written into each file; another number means that a file is read differently."""


class BadTable(ValueError):
    """A layer table is incomplete or contradicts itself; the message names the layer and what to do."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What one layer takes at one local batch: samples, and microseconds of its forward and backward pass."""

    batch: int
    forward_us: float
    backward_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer. ``timings`` ascend by batch; sizes are elements of 4 bytes, ``output`` and ``kept`` of one
    sample.

    ``parameters`` are those whose gradients are summed over ranks. ``kept_bytes`` is what one sample leaves
    in memory until its backward pass, 0 where it was not measured.
    """

    name: str
    timings: tuple[Timing, ...]
    parameters: int
    output: int
    kept_bytes: int = 0

    def __post_init__(self) -> None:
        if not self.timings:
            raise BadTable(
                f"layer {self.name!r} has no timing: profile it at the batches that a plan may use"
            )
        if self.timings[0].batch < 1 or any(a.batch >= b.batch for a, b in pairwise(self.timings)):
            raise BadTable(f"layer {self.name!r}: batches are whole numbers from 1 on that ascend, each once")
        if any(not (0 <= t.forward_us < 1e12 and 0 <= t.backward_us < 1e12) for t in self.timings):
            raise BadTable(f"layer {self.name!r}: a time is a number of microseconds, 0 or more")
        if min(self.parameters, self.output, self.kept_bytes) < 0:
            raise BadTable(f"layer {self.name!r}: sizes are 0 or more")

    def at(self, batch: int) -> Timing:
        """What ``batch`` samples take: a straight line between what was measured, never beyond it.

        Raises: BadTable where ``batch`` is outside the measured range.
        """
        measured = self.timings
        if not measured[0].batch <= batch <= measured[-1].batch:
            raise BadTable(
                f"layer {self.name!r} was measured at {measured[0].batch} to {measured[-1].batch} samples, "
                f"not at {batch}: profile the model at that batch too"
            )
        place = bisect_left(measured, batch, key=lambda timing: timing.batch)
        above = measured[place]
        if above.batch == batch:
            return above
        below = measured[place - 1]
        part = (batch - below.batch) / (above.batch - below.batch)
        return Timing(
            batch,
            below.forward_us + part * (above.forward_us - below.forward_us),
            below.backward_us + part * (above.backward_us - below.backward_us),
        )


@dataclass(frozen=True, slots=True)
class Fork:
    """Branches from the same samples, joined by the layer behind the fork. An empty branch is a skip."""

    branches: tuple["Sequence", ...]

    def __post_init__(self) -> None:
        if len(self.branches) < 2:
            raise BadTable("a fork has at least two branches: write a single one as layers in a row")
        for branch in self.branches:
            if branch and (isinstance(branch[0], Fork) or isinstance(branch[-1], Fork)):
                raise BadTable(
                    "a fork within a branch needs a layer before and one behind it, for example the "
                    "concatenation that joins it"
                )


Sequence = tuple[Layer | Fork, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTable:
    """A model's layers in forward order, and on what they were measured."""

    model: str
    hardware: str
    layers: Sequence

    def __post_init__(self) -> None:
        if not self.layers:
            raise BadTable(f"the table of {self.model!r} has no layers")
        if isinstance(self.layers[0], Fork) or isinstance(self.layers[-1], Fork):
            raise BadTable("a model begins and ends with a layer, not with a fork")
        _check_joined(self.layers)
        names = [layer.name for layer in every_layer(self.layers)]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BadTable(f"two layers are called {twice!r}: each needs a name of its own")

    @property
    def largest_batch(self) -> int:
        """The largest local batch at which every layer was measured."""
        return min(layer.timings[-1].batch for layer in every_layer(self.layers))

    @property
    def smallest_batch(self) -> int:
        """The smallest local batch at which every layer was measured."""
        return max(layer.timings[0].batch for layer in every_layer(self.layers))

    def to_json(self) -> str:
        """The table as a file's text."""
        return json.dumps(
            {
                "format": FORMAT,
                "model": self.model,
                "hardware": self.hardware,
                "layers": [_to_node(node) for node in self.layers],
            },
            indent=1,
        )


def every_layer(layers: Sequence) -> Iterator[Layer]:
    """All layers in forward order, branch after branch."""
    for node in layers:
        if isinstance(node, Fork):
            for branch in node.branches:
                yield from every_layer(branch)
        else:
            yield node


def read_table(text: str) -> LayerTable:
    """The table in a file's text. Raises: BadTable with what is wrong and where."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadTable(f"not a layer table: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadTable(f'not a layer table: a file of "format": "{FORMAT}" is expected')
    try:
        return LayerTable(
            model=str(document["model"]),
            hardware=str(document["hardware"]),
            layers=tuple(_read(node) for node in document["layers"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, BadTable):
            raise
        raise BadTable(f"a layer table is incomplete: {type(error).__name__}: {error}") from error


def _check_joined(layers: Sequence) -> None:
    """Two forks in a row have no layer that joins the first."""
    for before, behind in pairwise(layers):
        if isinstance(before, Fork) and isinstance(behind, Fork):
            raise BadTable(
                "a fork follows a fork: the layer that joins the first one is missing between them"
            )
    for node in layers:
        for branch in node.branches if isinstance(node, Fork) else ():
            _check_joined(branch)


def _to_node(node: Layer | Fork) -> dict[str, Any]:
    if isinstance(node, Fork):
        return {"branches": [[_to_node(inner) for inner in branch] for branch in node.branches]}
    return {
        "name": node.name,
        "parameters": node.parameters,
        "output": node.output,
        "kept_bytes": node.kept_bytes,
        "timings": [[timing.batch, timing.forward_us, timing.backward_us] for timing in node.timings],
    }


def _read(node: Mapping[str, Any]) -> Layer | Fork:
    if "branches" in node:
        return Fork(tuple(tuple(_read(inner) for inner in branch) for branch in node["branches"]))
    return Layer(
        name=str(node["name"]),
        parameters=int(node["parameters"]),
        output=int(node["output"]),
        kept_bytes=int(node.get("kept_bytes", 0)),
        timings=tuple(
            Timing(int(batch), float(forward), float(backward))
            for batch, forward, backward in node["timings"]
        ),
    )
