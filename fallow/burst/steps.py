"""The trainer's side of a burst module: who has which samples of a step, and passes that may break."""

from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

import torch
from torch import nn

from fallow.burst.bursts import BurstModule
from fallow.data.batch_plan import BatchError, StepShape
from fallow.process_group.collectives import Group, GroupBroken


class Gaps(Protocol):
    """Says when this rank's GPU waits (``fallow.idle_gaps.announce``)."""

    def gap(self, kind: str) -> AbstractContextManager[None]:
        """The GPU waits within."""
        ...


class BurstSteps:
    """For a model that is no burst module, every pass is an ordinary one."""

    def __init__(self, model: nn.Module, global_batch: int, gaps: Gaps) -> None:
        self._module = model if isinstance(model, BurstModule) else None
        if self._module is not None:
            self._module.check(global_batch)
        self._waiting = partial(gaps.gap, "layers")
        self._group: Group | None = None

    def begin(self, group: Group, shape: StepShape) -> None:
        """A step of ``shape`` begins in ``group``.

        Raises: BatchError for a rank with several micro-batches.
        """
        self._group = group
        if self._module is None:
            return
        counts = [shape.samples(rank) for rank in range(group.world_size)]
        self._module.enter(group, counts, self._waiting)
        if self._module.bursts and (most := max(len(each) for each in shape.ranks)) > 1:
            raise BatchError(
                f"a rank has {most} micro-batches of a step, and a burst plan is for one: give "
                f"max_micro_batch={max(counts)} or more, or train without bursts"
            )

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass of a weighted loss. A group that breaks within is broken at the step's sum."""
        try:
            loss.backward()
        except GroupBroken:
            assert self._group is not None
            self._group.abort()

    def backward_without_samples(self, loss: torch.Tensor) -> None:
        """The backward pass of a rank whose loss counts nothing: only others' gradients come through it."""
        if self._module is not None and self._module.bursts and loss.requires_grad:
            self.backward(loss)
