"""Layer tables from the A100 profiles published with DeepPool (MIT licence; see the folder's README).

A row is ``name{parameters}[batch]<input shape>  total_ms  forward_us  backward_us``. A convolution's backward
time is booked on the in-place activation behind it, so the two are one layer here. The profile of
Inception-v3 lists its layers branch after branch; the branches are written down below from the model's
published architecture.
"""

import json
import re
from collections.abc import Sequence
from math import prod
from pathlib import Path

from fallow.burst.table import Fork, Layer, LayerTable, Timing

ROW = re.compile(r"^\s*(\w+)(\{.*\})\[(\d+)\](\[[\d,]+\]|\d+)\s+([\d.]+)\s+(\d+)\s+(\d+)\s*$")
IN_PLACE = ("ReLU2d", "ReLU1d", "flatten")

Nodes = tuple["Layer | Fork", ...]


def table(profiles: Path, model: str) -> LayerTable:
    """``model``: vgg, wrn or inception. ``profiles``: the folder with the ``A100_*.prof`` files."""
    blocks = _blocks(profiles / f"A100_{model}.prof")
    flat = _layers(blocks)
    nodes = _branched(flat) if model == "inception" else tuple(flat)
    return LayerTable(model=model, hardware="A100, as published with DeepPool", layers=nodes)


def _blocks(path: Path) -> dict[int, list[tuple[str, dict[str, object], tuple[int, ...], float, float]]]:
    """For each local batch its rows: kind, parameters, input shape, forward and backward microseconds.

    ``total_ms`` counts; the split is scaled to it.
    """
    blocks: dict[int, list[tuple[str, dict[str, object], tuple[int, ...], float, float]]] = {}
    for line in path.read_text().splitlines():
        if (row := ROW.match(line)) is None:
            continue
        kind, parameters, batch, shape, total, forward, backward = row.groups()
        whole = float(total) * 1000
        parts = int(forward) + int(backward)
        before = whole * int(forward) / parts if parts else whole
        size = tuple(json.loads(shape)) if shape.startswith("[") else (int(shape),)
        blocks.setdefault(int(batch), []).append((kind, json.loads(parameters), size, before, whole - before))
    return blocks


def _layers(
    blocks: dict[int, list[tuple[str, dict[str, object], tuple[int, ...], float, float]]],
) -> list[Layer]:
    batches = sorted(blocks)
    rows = blocks[batches[0]]
    layers: list[Layer] = []
    for place, (kind, parameters, size, *_) in enumerate(rows):
        timings = tuple(Timing(batch, *blocks[batch][place][3:]) for batch in batches)
        following = rows[place + 1][2] if place + 1 < len(rows) else ()
        if kind in IN_PLACE and layers:
            before = layers[-1]
            merged = tuple(
                Timing(a.batch, a.forward_us + b.forward_us, a.backward_us + b.backward_us)
                for a, b in zip(before.timings, timings, strict=True)
            )
            layers[-1] = Layer(
                name=before.name, timings=merged, parameters=before.parameters, output=before.output
            )
            continue
        layers.append(
            Layer(
                name=f"{place:03d} {kind}",
                timings=timings,
                parameters=_parameters(kind, parameters),
                output=_output(kind, parameters, size, following),
            )
        )
    return layers


def _pair(value: object) -> tuple[int, int]:
    if isinstance(value, list):
        return int(value[0]), int(value[1])
    assert isinstance(value, int)
    return value, value


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _parameters(kind: str, given: dict[str, object]) -> int:
    if kind == "conv2d":
        return (
            _number(given["in_channels"]) * _number(given["out_channels"]) * prod(_pair(given["kernel_size"]))
        )
    if kind == "linear":
        return (_number(given["in_features"]) + 1) * _number(given["out_features"])
    if kind == "ResnetBottleneck":
        planes, into = _number(given["planes"]), _number(given["inplanes"])
        width = planes * _number(given["base_width"]) // 64
        weights = into * width + 9 * width * width + width * planes * 4
        down = given.get("downsampleParams")
        return weights + (into * planes * 4 if down else 0)
    return 0


def _output(kind: str, given: dict[str, object], size: tuple[int, ...], following: tuple[int, ...]) -> int:
    """Elements of one sample's result."""
    if kind == "linear":
        return _number(given["out_features"])
    if kind in ("conv2d", "maxPool2d", "avgPool2d"):
        channels = _number(given["out_channels"]) if kind == "conv2d" else size[0]
        kernel, pad, stride = (_pair(given[name]) for name in ("kernel_size", "padding", "stride"))
        sides = ((size[1 + k] + 2 * pad[k] - kernel[k]) // stride[k] + 1 for k in (0, 1))
        return channels * prod(sides)
    return prod(following) if following else prod(size)


def _branched(flat: Sequence[Layer]) -> Nodes:
    """Inception-v3's forks: lengths of branches in the order in which the profile lists them.

    A concatenation is a layer that takes no time: the profile has none.
    """
    left = iter(flat)
    made = 0

    def take(number: int) -> tuple[Layer, ...]:
        return tuple(next(left) for _ in range(number))

    def join(branches: Sequence[Nodes], before: Layer) -> tuple[Fork, Layer]:
        nonlocal made
        made += 1
        output = sum(_last(branch, before).output for branch in branches)
        timings = tuple(Timing(timing.batch, 0.0, 0.0) for timing in flat[0].timings)
        return Fork(tuple(branches)), Layer(
            name=f"concatenation {made}", timings=timings, parameters=0, output=output
        )

    nodes: list[Layer | Fork] = list(take(7))
    a, b, c, d = (1, 2, 3, 2), (1, 3, 1), (1, 3, 5, 2), (2, 4, 1)
    for lengths in (a, a, a, b, c, c, c, c, d):
        before = _last(tuple(nodes), flat[0])
        nodes += join([take(length) for length in lengths], before)
    for _ in range(2):
        before = _last(tuple(nodes), flat[0])
        straight, head, sides = take(1), take(1), (take(1), take(1))
        first: Nodes = (*head, *join(sides, head[-1]))
        long_head, long_sides = take(2), (take(1), take(1))
        second: Nodes = (*long_head, *join(long_sides, long_head[-1]))
        nodes += join([straight, first, second, take(2)], before)
    assert next(left, None) is None
    return tuple(nodes)


def _last(branch: Nodes, before: Layer) -> Layer:
    last = branch[-1] if branch else before
    assert isinstance(last, Layer)
    return last
