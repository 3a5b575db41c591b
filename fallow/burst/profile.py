"""Measures a model's layers one by one: what ``fallow burst plan`` plans with.

Each layer runs alone at each batch, forward and backward, on the device of the model's parameters. A layer
that works in place on the result before it is measured together with that layer, as it has no result of its
own to give back. On a GPU all runs of a layer are queued before anything is waited for, and the device's own
events take their times: a wait after each would book the host's launches and its waking up on every layer,
which in a training it does ahead.
"""

import importlib
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fallow.burst.layers import layers_in_a_row
from fallow.burst.table import BadTable, Layer, LayerTable, Timing

WARM_UP, REPEATS = 2, 7
"""Runs that don't count (allocation, choice of kernels), and runs of which the median counts."""


def profile(
    model: nn.Module, sample: torch.Tensor, batches: Sequence[int], *, name: str = "model"
) -> LayerTable:
    """The layer table of a model whose modules run in a row.

    ``sample``: one sample's input without a batch dimension. ``batches``: the local batches to measure at, of
    which the largest has to be the global batch if one GPU is to be compared. Parameters and their gradients
    are left as they are; buffers of layers in training mode (BatchNorm's means) take part in the runs.

    Raises: BadTable for a model whose layers are not in a row, and for a layer that changes the number of
    samples.
    """
    if not batches or min(batches) < 1:
        raise BadTable("give the batches to measure at: whole numbers from 1 on")
    groups = layers_in_a_row(model)
    old_gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in old_gradients:
        parameter.grad = None
    timings: list[list[Timing]] = [[] for _ in groups]
    sizes: list[tuple[int, int]] = []
    try:
        for batch in sorted(set(batches)):
            x = sample.unsqueeze(0).expand(batch, *sample.shape).contiguous()
            x = x.to(_device(model)) if _device(model) is not None else x
            sizes = []
            for place, (title, layers) in enumerate(groups):
                timing, y, activations = _measured(title, layers, x)
                timings[place].append(timing)
                sizes.append((y[0].numel(), activations // batch))
                x = y
    finally:
        for parameter, gradient in old_gradients:
            parameter.grad = gradient
    device = _device(model) or torch.device("cpu")
    return LayerTable(
        model=name,
        hardware=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        layers=tuple(
            Layer(
                name=title,
                timings=tuple(timed),
                parameters=sum(p.numel() for layer in layers for p in layer.parameters() if p.requires_grad),
                output=output,
                kept_bytes=activations,
            )
            for (title, layers), timed, (output, activations) in zip(groups, timings, sizes, strict=True)
        ),
    )


def profile_named(named: str, shape: Sequence[int], batches: Sequence[int]) -> LayerTable:
    """The layer table of ``module:name`` from the current folder or what is installed.

    The name is a module, or a function that returns one. Samples are random, of ``shape``.

    Raises: BadTable also where the model cannot be had or does not take such samples.
    """
    model = _named(named)
    try:
        return profile(model, torch.randn(*shape), batches, name=named)
    except (RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, BadTable):
            raise
        raise BadTable(f"the model does not take it: {error}") from error


def _named(named: str) -> nn.Module:
    module, _, name = named.partition(":")
    if not module or not name:
        raise BadTable(f"{named!r} is not MODULE:NAME, as train:model is for the variable model in train.py")
    sys.path.insert(0, str(Path.cwd()))
    try:
        target: Any = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise BadTable(f"{named} cannot be had: {error}") from error
    finally:
        sys.path.pop(0)
    if not isinstance(target, nn.Module) and callable(target):
        try:
            target = target()
        except TypeError as error:
            raise BadTable(f"{named} is called without arguments, and cannot be: {error}") from error
    if not isinstance(target, nn.Module):
        raise BadTable(f"{named} is of {type(target)}, not a torch.nn.Module nor a function that returns one")
    return target


def _device(model: nn.Module) -> torch.device | None:
    return next((parameter.device for parameter in model.parameters()), None)


def _measured(title: str, layers: Sequence[nn.Module], x: torch.Tensor) -> tuple[Timing, torch.Tensor, int]:
    """A layer's median times on ``x``, its result, and the bytes that its backward pass needs."""
    activations = _Activations(layers)
    with torch.autograd.graph.saved_tensors_hooks(activations.pack, activations.unpack):
        y = _forward(layers, _fresh_input(x))
    if y.ndim == 0 or y.shape[0] != x.shape[0]:
        raise BadTable(
            f"layer {title!r} makes {tuple(y.shape)} of {x.shape[0]} samples: a layer has to keep the first "
            "dimension, which is the batch"
        )
    gradient = torch.ones_like(y)
    runs = [_one_run(layers, x, gradient) for _ in range(WARM_UP + REPEATS)]
    if _has_queue(x.device):
        torch.get_device_module(x.device).synchronize(x.device)
    took = [(before.us_until(between), between.us_until(after)) for before, between, after in runs[WARM_UP:]]
    timing = Timing(x.shape[0], *(statistics.median(each) for each in zip(*took, strict=True)))
    return timing, y.detach(), activations.bytes


def _fresh_input(x: torch.Tensor) -> torch.Tensor:
    """What the layer before would give, with a gradient if it is floating. A copy: layers work in place."""
    fresh = x.detach().clone()
    if not fresh.is_floating_point():
        return fresh
    return fresh.requires_grad_().clone()


def _forward(layers: Sequence[nn.Module], x: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        x = layer(x)
    return x


def _one_run(
    layers: Sequence[nn.Module], x: torch.Tensor, gradient: torch.Tensor
) -> tuple["_Mark", "_Mark", "_Mark"]:
    """Marks before one forward pass, between it and its backward pass, and behind that; nothing is waited
    for. Gradients go, as they do before each step of a training: to add to them would take time.
    """
    for layer in layers:
        layer.zero_grad()
    x_fresh = _fresh_input(x)
    before = _Mark(x.device)
    result = _forward(layers, x_fresh)
    between = _Mark(x.device)
    if result.requires_grad:
        result.backward(gradient)
        return before, between, _Mark(x.device)
    return before, between, between


def _has_queue(device: torch.device) -> bool:
    """Whether it has events of its own that take times; torch's for Apple's devices know no stream."""
    return device.type not in ("cpu", "mps")


class _Mark:
    """A moment of a device: an event in its queue, or of a CPU, which does everything at once, the time."""

    def __init__(self, device: torch.device) -> None:
        self._event: Any = None
        if _has_queue(device):
            module = torch.get_device_module(device)
            self._event = module.Event(enable_timing=True)
            self._event.record(module.current_stream(device))
        self._ns = time.perf_counter_ns()

    def us_until(self, later: "_Mark") -> float:
        """Microseconds to a later one, which the device has passed."""
        if self is later:
            return 0.0
        if self._event is None:
            return (later._ns - self._ns) / 1000
        return float(self._event.elapsed_time(later._event)) * 1000


class _Activations:
    """Counts the bytes that are kept for the backward pass, parameters aside, each storage once."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self.bytes = 0
        self._seen = {p.untyped_storage().data_ptr() for layer in layers for p in layer.parameters()}

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            self.bytes += storage.nbytes()
        return tensor

    @staticmethod
    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        return tensor
