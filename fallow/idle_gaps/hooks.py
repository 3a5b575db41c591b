"""Where a background job's gates stand: torch's own hooks, on whatever model and optimizer the script has.

Before each layer without children, for a gate in the midst of one would be passed twice; after the gradient
of a layer's first parameter that has one; before each part of an optimizer's step. What is compiled or
captured runs as one piece, behind the gate before it.
"""

import math
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

PART_S = 0.0005
"""What a part of an optimizer's step should last: half of what a gate lets into the queue. AdamW took 26 ms
for 0.83 thousand million parameters (H100, 26 November 2026): as one piece that fits into few gaps."""

TOO_LONG, MOST_PARTS = 2, 64
"""Parts are made smaller once they last so many times ``PART_S``; and so many at most, since each costs the
host a tenth of a millisecond or two."""

ELEMENTWISE = frozenset(
    (
        torch.optim.SGD,
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.RMSprop,
        torch.optim.Adagrad,
        torch.optim.NAdam,
        torch.optim.RAdam,
        torch.optim.Adamax,
    )
)
"""Each parameter's update is its own, and all that is kept is kept by parameter: so their steps have parts.
Not their subclasses, of which nothing is known."""


class Gates(Protocol):
    """What stands at the hooks: ``fallow.idle_gaps.gate.Gate``, or what measures in its place."""

    def pass_through(self, name: Hashable, devices: Collection[torch.device] = ()) -> None:
        """Wait until the piece of this name, which runs on these devices, may be launched."""

    def usual_s(self, name: Hashable) -> float | None:
        """How long a piece takes; None while it is little known."""

    def end_step(self) -> None:
        """An optimizer's step is over."""


def put(gate: Gates) -> Callable[[], None]:
    """Put gates before every layer, gradient and part of an optimizer's step of this process.

    Returns what takes those before layers and optimizers away; a gradient's stays with its parameter.
    """
    hooked: dict[int, weakref.ref[torch.Tensor]] = {}

    def before_layer(module: nn.Module, args: Any) -> None:
        if module._modules or not _is_eager():
            return
        for parameter in module._parameters.values():
            if parameter is not None and parameter.requires_grad:
                reference = hooked.get(id(parameter))
                if reference is None or reference() is not parameter:  # an address comes again
                    hooked[id(parameter)] = weakref.ref(parameter)
                    parameter.register_post_accumulate_grad_hook(after_gradient)
                break
        gate.pass_through(("layer", id(module)), _devices_of(module, args))

    def after_gradient(parameter: torch.Tensor) -> None:
        if _is_eager():
            gate.pass_through(("gradient", id(parameter)), (parameter.device,))

    put_there = ExitStack()
    put_there.callback(register_module_forward_pre_hook(before_layer).remove)
    put_there.callback(register_optimizer_step_pre_hook(_Parts(gate).before_step).remove)
    put_there.callback(register_optimizer_step_post_hook(lambda *_: gate.end_step()).remove)
    return put_there.close


def _is_eager() -> bool:
    if torch.compiler.is_compiling():
        return False
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _devices_of(module: nn.Module, args: Any) -> tuple[torch.device, ...]:
    """Where a layer runs: where its parameters lie, or what it is called with. None if it doesn't show."""
    for tensor in (*module._parameters.values(), *args):
        if isinstance(tensor, torch.Tensor):
            return (tensor.device,)
    return ()


def _devices_in(groups: Iterable[dict[str, Any]]) -> set[torch.device]:
    return {parameter.device for group in groups for parameter in group["params"]}


class _Gated(list[dict[str, Any]]):
    """Parameter groups with a gate before each, whenever an optimizer's step goes through them."""

    def __init__(self, gate: Gates, groups: list[dict[str, Any]], names: list[Hashable]) -> None:
        super().__init__(groups)
        self._gate, self._names = gate, names

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for name, group in zip(self._names, super().__iter__(), strict=True):
            self._gate.pass_through(name, _devices_in([group]))
            yield group


class _Parts:
    """Cuts optimizers' steps into parts of about ``PART_S``.

    A step goes through its parameter groups. Here it goes through more and smaller ones, by a stand-in for
    the optimizer that has its state and all else; the optimizer itself stays as it is, whatever happens.
    """

    def __init__(self, gate: Gates) -> None:
        self._gate = gate
        self._wanted: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()

    def before_step(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """What the step is called with, in place of these."""
        if type(optimizer) not in ELEMENTWISE or not _is_eager():
            self._gate.pass_through(("optimizer", id(optimizer)), _devices_in(optimizer.param_groups))
            return None
        wanted = self._wanted.get(optimizer, 1)
        groups = _cut(optimizer.param_groups, wanted)
        names = _names(optimizer, wanted, len(groups))
        lengths = [self._gate.usual_s(name) for name in names]
        total_s = math.inf if None in lengths else sum(length or 0.0 for length in lengths)
        if TOO_LONG * PART_S * wanted < total_s < math.inf and wanted < MOST_PARTS:
            self._wanted[optimizer] = wanted = min(MOST_PARTS, math.ceil(total_s / PART_S))
            groups = _cut(optimizer.param_groups, wanted)
            names = _names(optimizer, wanted, len(groups))
        stand_in = object.__new__(type(optimizer))
        stand_in.__dict__.update(optimizer.__dict__)
        stand_in.__dict__["_warned_capturable_if_run_uncaptured"] = True  # it would go through all groups
        stand_in.param_groups = _Gated(self._gate, groups, names)
        return (stand_in, *args[1:]), dict(kwargs)


def _names(optimizer: Optimizer, wanted: int, count: int) -> list[Hashable]:
    return [("optimizer", id(optimizer), wanted, number) for number in range(count)]


def _cut(groups: list[dict[str, Any]], wanted: int) -> list[dict[str, Any]]:
    """The same parameters in the same order, in about as many groups, of about the same size; a parameter is
    not cut.
    """
    if wanted <= 1:
        return list(groups)
    most = math.ceil(sum(parameter.numel() for group in groups for parameter in group["params"]) / wanted)
    parts: list[dict[str, Any]] = []
    for group in groups:
        part: list[torch.Tensor] = []
        size = 0
        for parameter in group["params"]:
            if part and size + parameter.numel() > most:
                parts.append({**group, "params": part})
                part, size = [], 0
            part.append(parameter)
            size += parameter.numel()
        parts.append({**group, "params": part})
    return parts
