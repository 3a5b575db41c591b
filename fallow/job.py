"""How a training script meets its scheduler: ``connect`` once, then ask for a trainer.

The same script runs under nobody, and then nothing here opens a socket or starts a thread.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fallow import protocol
from fallow.channel import Channel, from_environment
from fallow.memory import JobMemory
from fallow.mistakes import StateMistake
from fallow.recipe import Recipe
from fallow.trainer import Trainer


class Job:
    """This process's part in a training. ``driven`` says whether a controller decides its world size."""

    def __init__(self, channel: Channel | None, founder: bool, device: torch.device):
        self._channel = channel
        self._founder = founder
        self._trainer: Trainer | None = None
        self.device = device
        self.memory = JobMemory(device)

    @property
    def driven(self) -> bool:
        """Whether somebody may resize this training."""
        return self._channel is not None

    def elastic(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        global_batch: int,
        max_micro_batch: int,
        seed: int = 0,
        deterministic: bool = False,
        micro_batches: int | None = None,
        max_grad_norm: float | None = None,
        schedulers: Sequence[Any] = (),
        scaler: Any = None,
        state: Mapping[str, Any] | None = None,
        checkpoint: Path | str | None = None,
        allow_non_finite: bool = False,
    ) -> Trainer:
        """A trainer whose global batch is ``global_batch`` samples at any world size.

        ``max_micro_batch`` is what fits a worker's memory. ``schedulers`` are stepped once a committed
        step. ``max_grad_norm`` clips the true global gradient. ``state`` names extra objects with
        ``state_dict`` and ``load_state_dict`` to hand to joiners. ``checkpoint`` is saved on SIGUSR1 and
        resumed from, at any world size. ``allow_non_finite`` goes on when a step's loss is inf or nan.
        Raises BatchError for an impossible cut.
        """
        recipe = Recipe(
            global_batch=global_batch,
            max_micro_batch=max_micro_batch,
            seed=seed,
            deterministic=deterministic,
            micro_batches=micro_batches,
            max_grad_norm=max_grad_norm,
            schedulers=schedulers,
            scaler=scaler,
            state=state,
            checkpoint=Path(checkpoint) if checkpoint is not None else None,
            allow_non_finite=allow_non_finite,
        )
        self._trainer = Trainer(model, optimizer, recipe, self._channel, self._founder)
        return self._trainer

    def checkpoint(self) -> int | None:
        """Save the training that ``elastic`` made now, atomically, to its checkpoint path.

        Call it between steps, in every worker; one of them writes. Returns the bytes written, ``None`` in
        the others. Blocks until the file is on disk. Raises StateMistake when there is nothing to save or
        no path, OSError when it cannot be written (the old file is intact then).
        """
        if self._trainer is None:
            raise StateMistake("there is no training to save yet: call job.elastic(...) first")
        return self._trainer.save()

    def report(self, **measurements: float | int | None) -> None:
        """Tell the scheduler, e.g. ``remaining_steps=…, step_time_s=…``; nothing happens when alone."""
        if self._channel is not None:
            self._channel.report(measurements)


def connect(device: torch.device | str = "cpu", environment: Mapping[str, str] | None = None) -> Job:
    """This process's job: driven when a controller started it, alone otherwise.

    ``environment`` stands in for the process's own variables.
    """
    given = os.environ if environment is None else environment
    founder = given.get(protocol.ENV_ROLE, protocol.FOUNDER) == protocol.FOUNDER
    place = torch.device(device)
    return Job(from_environment(given, place), founder, place)
