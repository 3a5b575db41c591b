"""A model's layers by ``fallow.burst.profile`` on a GPU: whether their times add up to its step, and a plan.

VGG-16 alone: Inception has branches, which the profile refuses.
"""

import statistics
from typing import Any

from advisor.burst.cost import NETWORKS, Setting
from advisor.burst.planner import Asked, plan
from fallow.burst.profile import profile
from fallow.burst.table import LayerTable, every_layer
from tests.gpu import place
from tests.gpu.answers import Figure, Missing, at_most, near, told
from tests.gpu.loads import models
from tests.gpu.parts import apart

BATCHES = (2, 1) if place.dry else (32, 16, 8, 4, 2, 1)
WARM, REPEATS = (1, 2) if place.dry else (5, 15)
WITHIN = 0.25
"""So far may the layers' sum be from the step: beyond it a plan's gain of a third would be noise."""
PUBLISHED = {1: 5.527, 2: 7.259, 4: 10.3, 8: 16.875, 16: 29.388, 32: 53.733}
PUBLISHED_LAYERS = {"2": 10.13, "12": 4.23, "17": 2.04, "24": 1.037, "33": 1.894}
"""Milliseconds of all layers by batch, and of some at 32 by their place in the row, forward and backward, on
an A100: the profile published with DeepPool (MLSys 2022)."""


def main() -> dict[str, Any]:
    """Profile, add up, compare, plan: each apart."""
    torch = place.torch()
    net = models.vgg_16(torch)
    sample = models.images(torch, 1)[0]
    found: list[LayerTable] = []

    def profiled() -> list[Figure]:
        found.append(profile(net, sample, BATCHES, name="VGG-16"))
        return [told("VGG-16: layers", len(found[0].layers))]

    figures = apart("VGG-16 by layer", profiled)
    for name, part in (("layers and step", _adds_up), ("published", _beside), ("plan", _planned)):
        figures += apart(name, lambda part=part: part(torch, net, _known(found)))
    return {"figures": figures}


def _known(found: list[LayerTable]) -> LayerTable:
    if not found:
        raise Missing("no layer was measured")
    return found[0]


def _sum_ms(table: LayerTable, batch: int) -> float:
    timings = (layer.at(batch) for layer in every_layer(table.layers))
    return sum(timing.forward_us + timing.backward_us for timing in timings) / 1000


def _adds_up(torch: Any, net: Any, table: LayerTable) -> list[Figure]:
    figures: list[Figure] = []
    for batch in (BATCHES[0], BATCHES[-1]):
        whole, layers = _step_ms(torch, net, batch), _sum_ms(table, batch)
        title = f"VGG-16, batch {batch}"
        figures.append(told(f"{title}: forward and backward", whole, "ms"))
        figures.append(told(f"{title}: layers", layers, "ms"))
        ratio, name = layers / whole, f"{title}: layers over the step"
        is_held = batch == BATCHES[0] and not place.dry
        figures.append(near(name, ratio, 1.0, WITHIN) if is_held else told(name, ratio))
    return figures


def _step_ms(torch: Any, net: Any, batch: int) -> float:
    """Forward and backward of the whole model: the median of steps that are queued one after another."""
    module = torch.get_device_module(place.torch_device())
    x = models.images(torch, batch).to(place.torch_device())
    gradient = torch.ones_like(net(x).detach())
    marks = []
    for _ in range(WARM + REPEATS):
        net.zero_grad()
        before, after = module.Event(enable_timing=True), module.Event(enable_timing=True)
        before.record()
        net(x).backward(gradient)
        after.record()
        marks.append((before, after))
    module.synchronize()
    return statistics.median(float(before.elapsed_time(after)) for before, after in marks[WARM:])


def _beside(_torch: Any, _net: Any, table: LayerTable) -> list[Figure]:
    if place.dry:
        raise Missing("a dry run's model is another one")
    figures = []
    for batch, theirs in PUBLISHED.items():
        figures.append(told(f"all layers, batch {batch}; A100: {theirs:.1f}", _sum_ms(table, batch), "ms"))
    ours = {layer.name.split()[0]: layer for layer in every_layer(table.layers)}
    for number, theirs in PUBLISHED_LAYERS.items():
        timing = ours[number].at(BATCHES[0])
        took = (timing.forward_us + timing.backward_us) / 1000
        figures.append(told(f"layer {ours[number].name}, batch 32; A100: {theirs:.2f}", took, "ms"))
    return figures


def _planned(_torch: Any, _net: Any, table: LayerTable) -> list[Figure]:
    figures: list[Figure] = []
    gpus = 2 if place.dry else 8
    for network in ("nvswitch", "pcie"):
        setting = Setting(gpus=gpus, batch=BATCHES[0], network=NETWORKS[network], powers_of_two=True)
        made = plan(table, setting, Asked())
        gain = made.uniform.time_us / made.predicted.time_us
        title = f"{gpus} GPUs, {network}"
        figures.append(told(f"{title}: a planned step", made.predicted.time_us / 1000, "ms"))
        name = f"{title}: times faster than the best one number of GPUs"
        figures += [told(name, gain), told(f"{title}: verdict", f"{made.verdict}, else {made.uniform_gpus}")]
        over = made.predicted.time_us / made.uniform.time_us
        figures.append(at_most(f"{title}: the plan beside one number of GPUs", over, 1.0))
    return figures
