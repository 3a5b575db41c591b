"""Gives samples to other ranks within forward and backward passes: what a layer on other ranks needs.

The gradient of what was given comes back the same way. Every rank takes part in every exchange, one without
samples too: its empty result hangs on an anchor that requires a gradient, or autograd would leave out its
backward pass, and the others would wait for it for ever.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from fallow.burst.shares import Moves, Shares, moves
from fallow.process_group.collectives import Group

Waiting = Callable[[], AbstractContextManager[None]]


class Exchange:
    """From ``before`` to ``after`` over ``group``. ``waiting`` surrounds the wait of a rank without
    samples before.
    """

    def __init__(self, group: Group, before: Shares, after: Shares, waiting: Waiting = nullcontext) -> None:
        self._group, self._waiting = group, waiting
        self._forth, self._back = moves(before, after, group.rank), moves(after, before, group.rank)
        self._before, self._after = before.count(group.rank), after.count(group.rank)

    def forth(self, rows: torch.Tensor) -> torch.Tensor:
        """The samples of ``rows`` as they lie after the exchange. Blocks. Raises GroupBroken."""
        return self._move(rows, self._forth, self._before, self._after)

    def back(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of what was given, from that of what came. Blocks. Raises GroupBroken."""
        return self._move(gradient, self._back, self._after, self._before)

    def _move(self, rows: torch.Tensor, plan: Moves, had: int, has: int) -> torch.Tensor:
        rows = rows.detach().contiguous()
        out = rows.new_empty((has, *rows.shape[1:]))
        start, at, samples = plan.stays
        out[at : at + samples] = rows[start : start + samples]
        sends = [(_bytes(rows[start:stop]), other) for other, start, stop in plan.sends]
        receives = [(_bytes(out[start:stop]), other) for other, start, stop in plan.receives]
        with nullcontext() if had else self._waiting():
            self._group.start_exchange(sends, receives).wait()
        return out


class _Exchanged(torch.autograd.Function):  # type: ignore[misc]
    """An exchange as a step of autograd."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, rows: torch.Tensor, exchange: Exchange) -> torch.Tensor:
        ctx.exchange = exchange
        return exchange.forth(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, ctx.exchange.back(gradients[0]), None


def exchanged(anchor: torch.Tensor, rows: torch.Tensor, exchange: Exchange) -> torch.Tensor:
    """``rows`` after the exchange, with a gradient that goes back. ``anchor`` requires one. Blocks."""
    out: torch.Tensor = _Exchanged.apply(anchor, rows, exchange)
    return out


def _bytes(samples: torch.Tensor) -> torch.Tensor:
    """The same memory as bytes: gloo and NCCL don't carry every type."""
    return samples.reshape(-1).view(torch.uint8)
