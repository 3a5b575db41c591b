"""What every worker holds a whole copy of: the model, its optimizer and whatever else a step changes.

A replica can be gathered into one state and take one up, whether it goes to a joiner or to a disk; it can be
updated, and it can be put back to where an uncommitted step began. Nothing here communicates.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from fallow.recipe import Recipe


class Replica:
    """One worker's copy of the training, ready to compute step ``next_step``."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe):
        self.model = model
        self.optimizer = optimizer
        self.recipe = recipe
        self.next_step = 0
        self.device = next(model.parameters()).device
        self._saved_buffers: dict[str, torch.Tensor] = {}

    def state(self) -> dict[str, Any]:
        """Everything that a joiner or a resumed training needs; the tensors are the live ones."""
        recipe = self.recipe
        return {
            "step": self.next_step,
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "schedulers": [scheduler.state_dict() for scheduler in recipe.schedulers],
            "scaler": recipe.scaler.state_dict() if recipe.scaler is not None else None,
            "extra": {name: part.state_dict() for name, part in (recipe.state or {}).items()},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Become the training that ``state()`` was taken from."""
        recipe = self.recipe
        self.next_step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for scheduler, part in zip(recipe.schedulers, state["schedulers"], strict=True):
            scheduler.load_state_dict(part)
        if recipe.scaler is not None:
            recipe.scaler.load_state_dict(state["scaler"])
        for name, part in (recipe.state or {}).items():
            part.load_state_dict(state["extra"][name])

    def keep_buffers(self) -> None:
        """Running statistics change in the forward pass, before the step is committed: keep a way back."""
        self._saved_buffers = {name: value.clone() for name, value in self.model.named_buffers()}

    def roll_back(self) -> None:
        """Buffers stand where ``keep_buffers`` saw them; safe when it was never called."""
        for name, value in self.model.named_buffers():
            if name in self._saved_buffers:
                value.copy_(self._saved_buffers[name])

    def update(self, scale: float = 1.0) -> float | None:
        """Commit the gradients in ``grad``, times ``scale``; returns their norm when the recipe clips it."""
        if scale != 1.0:
            torch._foreach_mul_([p.grad for p in self.model.parameters() if p.grad is not None], scale)
        scaler, limit = self.recipe.scaler, self.recipe.max_grad_norm
        norm = None
        if limit is not None:
            if scaler is not None:
                scaler.unscale_(self.optimizer)
            norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        if scaler is not None:
            scaler.step(self.optimizer)
            scaler.update()
        else:
            self.optimizer.step()
        for scheduler in self.recipe.schedulers:
            scheduler.step()
        self._saved_buffers = {}
        self.next_step += 1
        return norm
