"""Whether a loss is the mean over the samples of its micro-batch, told by how it was computed.

A step's loss is the mean of its micro-batches' losses, each weighted by its samples. A sum, a mean over other
items than samples, or a loss that couples samples makes that something else, and another thing in each world.
The script's loop isn't run again to find out, no random number is drawn and no module called: what autograd
keeps of the loss is read, and differentiated twice where that is cheap. What it cannot tell, it doesn't.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

MEAN, SUM = 1, 2
"""ATen's ``Reduction`` (torch 2.13, ATen/core/Reduction.h)."""
PASSED = ("Add", "Sub", "Neg", "Mul", "Div", "View", "Reshape", "Squeeze", "ToCopy", "Clone", "Alias")
"""How the names of nodes begin that leave a single number one: those between losses and their sum."""
# Bounds the walk through the graph of a large model.
MOST_NODES = 10_000
MOST_NUMBERS = 1 << 22
"""Numbers in a model's outputs, up to which the loss is differentiated twice: 16 MB in float32. Beyond, the
memory might not be there."""
NEGLIGIBLE = 1e-6
"""Of the largest second derivative: what is below is rounding."""


def doubt(
    loss: torch.Tensor,
    samples: int,
    count: float | None,
    outputs: Sequence[torch.Tensor],
    *,
    is_cut_alike: bool = False,
) -> str | None:
    """Why ``loss``, of a micro-batch of ``samples``, is no mean over them, and what to do about it.

    ``None`` if it may be one. ``count`` is what was passed to ``backward``, ``outputs`` what the model
    returned. ``is_cut_alike``: every world cuts a step at the same samples, so a loss that compares those
    of a micro-batch is the same in each. May wait for the device.
    """
    for node, factor, is_alone in _ends(loss.grad_fn):
        reason = _reduced(node, factor, samples, count)
        if reason is not None and (is_alone or not node.name().startswith("Sum") or _reaches(node, outputs)):
            return reason
    return None if is_cut_alike else _coupled(loss, samples, outputs)


def _ends(node: Any) -> Iterator[tuple[Any, float, bool]]:
    """The nodes that made one number of many, by what each is multiplied with, and whether it is alone."""
    pending = [(node, 1.0, True)]
    for _ in range(MOST_NODES):
        if not pending:
            return
        node, factor, is_alone = pending.pop()
        if node is None:
            continue
        name = node.name()
        if not name.startswith(PASSED):
            yield node, factor, is_alone
            continue
        following = [each for each, _ in node.next_functions if each is not None]
        if len(following) == 1 and name.startswith(("Mul", "Div")):
            by = _number(getattr(node, "_saved_other", None))
            if by is None or not by:
                continue
            factor = factor * by if name.startswith("Mul") else factor / by
        elif name.startswith(("Mul", "Div")):
            continue  # a ratio or a product of what is learned: that is for the second derivatives to tell
        pending += [(each, factor, is_alone and len(following) == 1) for each in following]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, torch.Tensor) and value.numel() == 1 else None


def _reduced(node: Any, factor: float, samples: int, count: float | None) -> str | None:
    kind = getattr(node, "_saved_reduction", None)
    if kind == SUM or node.name() == "SumBackward0":
        parts = 1 / factor
        if (
            round(parts)
            and abs(parts / samples - round(parts / samples)) < NEGLIGIBLE
            and abs(parts) >= samples
        ):
            return None  # divided by the number of samples, or of their items
        if abs(factor) == 1 or abs(parts) < 1:
            return (
                "the loss is a sum over its micro-batch, so it grows with it: use reduction='mean', or "
                "divide by the number of samples"
            )
        if count is None:
            return (
                f"the loss is a sum over its micro-batch of {samples} samples, divided by {abs(parts):g}. If "
                "that is the number of items it is the mean over, pass it: trainer.backward(loss, "
                "count=...); if not, use reduction='mean', or divide by the number of samples"
            )
    if kind == MEAN and count is None and node.name().startswith("NllLoss"):
        return _of_classes(node)
    return None


def _of_classes(node: Any) -> str | None:
    """``cross_entropy`` and ``nll_loss``, whose mean is one over weights and over what isn't ignored."""
    total, targets = float(node._saved_total_weight), node._saved_target.numel()
    if node._saved_weight is not None:
        return (
            "the loss is a mean weighted by class, divided by the weights of its micro-batch's targets: "
            f"pass their sum, trainer.backward(loss, count=weight[targets].sum()), {total:g} here"
        )
    if total != targets:
        ignored = torch.tensor(node._saved_ignore_index, dtype=torch.uint64).view(torch.int64).item()
        return (
            f"the loss is a mean over {total:g} of its micro-batch's {targets} targets, others are ignored: "
            f"pass their number, trainer.backward(loss, count=int((targets != {ignored}).sum()))"
        )
    return None


def _coupled(loss: torch.Tensor, samples: int, outputs: Sequence[torch.Tensor]) -> str | None:
    """Whether the derivative by one half of the samples' outputs depends on the other half's."""
    half = samples // 2
    if not half or not outputs or sum(each.numel() for each in outputs) > MOST_NUMBERS:
        return None
    try:
        first = torch.autograd.grad(loss, outputs, create_graph=True, retain_graph=True, allow_unused=True)
        parts = [each[:half] for each in first if each is not None]
        probe = sum((part * _ramp(part)).sum() for part in parts)
        if not isinstance(probe, torch.Tensor) or not probe.requires_grad:
            return None
        second = torch.autograd.grad(probe, outputs, retain_graph=True, allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return None  # something on the way cannot be differentiated twice
    magnitudes = [each.abs() for each in second if each is not None]
    own = max((float(each[:half].max()) for each in magnitudes), default=0.0)
    other = max((float(each[half:].max()) for each in magnitudes), default=0.0)
    if other <= NEGLIGIBLE * max(own, other) or other == 0.0:
        return None
    return (
        "the loss of a sample depends on others of its micro-batch (as contrastive and dice losses do), so "
        "it changes with how a step is cut: write it as a mean over samples, or set max_micro_batch to the "
        "number of samples to compare, and deterministic=True, which cuts alike in every world"
    )


def _ramp(like: torch.Tensor) -> torch.Tensor:
    """Numbers of which no two are alike, without a random generator."""
    return torch.linspace(0.5, 1.5, like.numel(), dtype=like.dtype, device=like.device).view(like.shape)


def _reaches(node: Any, outputs: Sequence[torch.Tensor]) -> bool:
    """Whether ``node`` was computed from one of ``outputs``: a penalty on parameters sums no samples."""
    targets = {output.grad_fn for output in outputs}
    visited, pending = {node}, [node]
    while pending and len(visited) < MOST_NODES:
        for each, _ in pending.pop().next_functions:
            if each in targets:
                return True
            if each is not None and each not in visited:
                visited.add(each)
                pending.append(each)
    return False
