"""What is looked at in a worker's first steps, and costs nothing later: how the script calls its model, what
is left of its old loop, and whether its loss is a mean over samples.
"""

import logging
from typing import Any

import torch

from fallow.data.step import Weighed
from fallow.gradients.loss_checks import doubt
from fallow.loop_guard import LoopGuard
from fallow.state.recorded_calls import floating, is_compiled_in_place
from fallow.state.replica import Replica
from fallow.state.warm_up import Peers, WarmUp

LOG = logging.getLogger("fallow")
LOOKED_AT = 2
"""Micro-batches whose loss is looked at: the second may have the padding that the first had not."""


class FirstSteps:
    """One worker's; ``guard`` goes on for as long as the loop does."""

    def __init__(self, replica: Replica, peers: Peers):
        self._model, self._peers = replica.model, peers
        self.warm_up, self.guard = WarmUp(replica, peers), LoopGuard(replica)
        self._is_cut_alike = replica.recipe.deterministic
        self._losses_left = LOOKED_AT
        self._outputs: list[torch.Tensor] = []
        self._hook: Any = None

    def handed_out(self, samples: int) -> None:
        """A micro-batch of ``samples`` is the script's now."""
        self.warm_up.listen(samples)
        self.guard.handed_out()
        if self._losses_left and self._peers.group.rank == 0 and self._hook is None:
            self._listen(samples)

    def before_backward(self, loss: Any, part: Weighed, step: int) -> None:
        """Its loss is there. Raises LoopError for a line of the old loop."""
        self.warm_up.heard()
        self.guard.check()
        if self._hook is not None:
            self._hook.remove()
            outputs, self._hook, self._outputs = self._outputs, None, []
            self._losses_left -= 1
            if isinstance(loss, torch.Tensor) and loss.grad_fn is not None and part.count != 0:
                self._look_at(loss, part, outputs, step)

    def _look_at(self, loss: torch.Tensor, part: Weighed, outputs: list[torch.Tensor], step: int) -> None:
        try:
            reason = doubt(loss, part.micro.size, part.count, outputs, is_cut_alike=self._is_cut_alike)
        except Exception as error:  # a graph of a kind that nobody thought of ends no training
            LOG.debug("step %d: the loss could not be looked at: %r", step, error)
            return
        if reason is not None:
            self._losses_left = 0
            LOG.warning("step %d: %s. A step is to learn from the mean over its samples", step, reason)

    def _listen(self, samples: int) -> None:
        """Note what the model returns for this micro-batch."""

        def returned(module: Any, arguments: Any, output: Any) -> None:
            self._outputs += [each for each in floating(output) if each.dim() and len(each) == samples]

        if not is_compiled_in_place(self._model) and not isinstance(self._model, torch.jit.ScriptModule):
            self._hook = self._model.register_forward_hook(returned)
