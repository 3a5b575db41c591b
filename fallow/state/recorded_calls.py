"""How a script calls its model, as shapes: written down by a worker that trains, made again by a joiner.

A joiner warms up before it is taken in, so that nobody waits while it loads kernels, compiles or touches
memory for the first time. The script's own loop cannot be run for that: it would print, save and count as a
worker that it isn't. What can be run is the model, on tensors of the same kinds; no value of one is kept.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

LONGEST_CALLS = 16
"""Calls of a micro-batch that are kept: a loop over time steps needn't be warmed up a thousand times."""
LONGEST_TEXT = 256 * 1024
"""Characters; the text goes through the controller's store, and one this long holds no shapes but data."""
FILLING = 0.5
"""What floating tensors are filled with: no norm, logarithm or root of it is out of the ordinary."""


class Unrecordable(Exception):
    """An argument is neither a plain tensor nor something that JSON can say."""


class Recorder:
    """Listens to the calls of ``model``, from outside of it, until ``close``; of one micro-batch.

    Dimensions of ``samples`` are taken for the samples'. A compiled model is heard at its outermost call
    alone: a hook within would be compiled.
    """

    def __init__(self, model: nn.Module, samples: int):
        self._samples = samples
        self._calls: list[dict[str, Any]] = []
        self._depth = 0
        self._failed = False
        self._hooks: list[Any] = []
        for name, module in _listened(model):
            self._hooks.append(module.register_forward_pre_hook(self._enter(name), with_kwargs=True))
            self._hooks.append(module.register_forward_hook(self._leave, always_call=True))

    def close(self) -> str | None:
        """Listen no more; the calls as text, ``None`` when there are none that can be made again."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        text = None if self._failed or not self._calls else json.dumps(self._calls)
        return None if text is not None and len(text) > LONGEST_TEXT else text

    def _enter(self, name: str) -> Callable[..., None]:
        def entered(module: nn.Module, arguments: Any, options: Any) -> None:
            self._depth += 1
            if self._depth > 1 or self._failed or len(self._calls) == LONGEST_CALLS:
                return
            try:
                record = {"arguments": _recorded(list(arguments), self._samples)}
                self._calls.append({"module": name, **record, "options": _recorded(options, self._samples)})
            except Unrecordable:
                self._failed = True

        return entered

    def _leave(self, *_: Any) -> None:
        self._depth -= 1


def replay(model: nn.Module, text: str, samples: int, device: torch.device) -> None:
    """Make the calls again with ``samples`` samples each, and a backward pass. Gradients are added up.

    Raises whatever the model does: its calls may need values that nobody kept.
    """
    modules = dict(model.named_modules())
    total = torch.zeros((), device=device)
    for call in json.loads(text):
        arguments = _rebuilt(call["arguments"], samples, device)
        output = modules[call["module"]](*arguments, **_rebuilt(call["options"], samples, device))
        for tensor in floating(output):
            total = total + tensor.sum().to(total.dtype)
    if total.requires_grad:
        total.backward()


def _listened(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Each module that can be listened to; of a model with compiled parts, the outermost alone."""
    compiled = [m for m in model.modules() if hasattr(m, "_orig_mod") or is_compiled_in_place(m)]
    if not compiled:
        return [(name, m) for name, m in model.named_modules() if not isinstance(m, torch.jit.ScriptModule)]
    return [] if is_compiled_in_place(model) else [("", model)]


def is_compiled_in_place(module: nn.Module) -> bool:
    """Whether ``module.compile()`` was called: hooks on it are compiled then."""
    return getattr(module, "_compiled_call_impl", None) is not None


def _recorded(node: Any, samples: int) -> Any:
    if isinstance(node, torch.Tensor):
        if type(node) not in (torch.Tensor, nn.Parameter) or node.layout is not torch.strided:
            raise Unrecordable
        shape = [None if size == samples else size for size in node.shape]
        return {"tensor": shape, "dtype": str(node.dtype).removeprefix("torch.")}
    if node is None or type(node) in (bool, int, float, str):
        return {"is": node}
    if type(node) in (list, tuple):
        return {type(node).__name__: [_recorded(item, samples) for item in node]}
    if isinstance(node, dict) and all(type(key) is str for key in node):
        return {"dict": {key: _recorded(value, samples) for key, value in node.items()}}
    raise Unrecordable


def _rebuilt(node: Any, samples: int, device: torch.device) -> Any:
    match node:
        case {"tensor": shape, "dtype": name}:
            dtype = getattr(torch, name)
            sizes = [samples if size is None else size for size in shape]
            filling = FILLING if dtype.is_floating_point or dtype.is_complex else 0
            return torch.full(sizes, filling, dtype=dtype, device=device)
        case {"list": items}:
            return [_rebuilt(item, samples, device) for item in items]
        case {"tuple": items}:
            return tuple([_rebuilt(item, samples, device) for item in items])
        case {"dict": pairs}:
            return {key: _rebuilt(value, samples, device) for key, value in pairs.items()}
    return node["is"]


def floating(output: Any) -> Iterator[torch.Tensor]:
    """Tensors with a gradient in whatever a model returned."""
    if isinstance(output, torch.Tensor):
        if output.requires_grad and not output.is_complex():
            yield output
    elif isinstance(output, dict):
        for value in output.values():
            yield from floating(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from floating(value)
