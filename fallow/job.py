"""How a training script meets its scheduler: ``connect`` once, then ask for a trainer.

The same script runs under nobody, and then nothing here opens a socket or starts a thread. Under a launcher
that is no controller (``fallow run`` of a fixed world) it listens, as ``requests.listener`` says.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fallow import protocol, refusals
from fallow.burst.bursts import BurstModule
from fallow.errors import Mistake, NotYetJoined, StateError
from fallow.metrics.report import Reporter
from fallow.process_group import static, variables
from fallow.process_group.collectives import Group
from fallow.process_group.group import check_backend
from fallow.process_group.rendezvous import Rendezvous, from_environment
from fallow.process_group.state_transfer import check_portable
from fallow.requests.listener import listen
from fallow.requests.memory import JobMemory, keep_to_share
from fallow.state.checkpoint import check_holdable
from fallow.trainer import Trainer
from fallow.types import Recipe


class Job:
    """This process's part in a training. ``driven`` says whether a controller decides its world size."""

    def __init__(
        self,
        channel: Rendezvous | None,
        founder: bool,
        device: torch.device,
        group: Group | None,
        tell_place: Callable[[int, int], None] = lambda rank, world_size: None,
    ):
        self._channel = channel
        self._founder = founder
        self._group = group
        self._tell_place = tell_place
        self._reporter = Reporter(channel.report if channel is not None else None)
        self._trainer: Trainer | None = None
        self.device = device
        self.memory = JobMemory(device)

    @property
    def driven(self) -> bool:
        """Whether somebody may resize this training."""
        return self._channel is not None

    @property
    def is_main(self) -> bool:
        """Whether this worker does what is done once in the whole job: saving, printing, once an epoch.

        True in exactly one worker at any time; in which, may change with a resize, so ask each time. Raises
        NotYetJoined where this worker has no place in the job yet: ask within ``steps``, or after it.
        """
        if self._trainer is not None:
            return self._trainer.rank == 0
        if self.driven:
            raise NotYetJoined("job.is_main")
        return self._group is None or self._group.rank == 0

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
        balance_by_speed: bool = False,
        max_grad_norm: float | None = None,
        on_gradient: Callable[[Any], None] | None = None,
        schedulers: Sequence[Any] = (),
        scaler: Any = None,
        state: Mapping[str, Any] | None = None,
        checkpoint: Path | str | None = None,
        allow_non_finite: bool = False,
        start_step: int = 0,
    ) -> Trainer:
        """A trainer whose global batch is ``global_batch`` samples at any world size.

        ``max_micro_batch`` is what fits a worker's memory. ``deterministic`` asks for the same bits at any
        world size: ``micro_batches`` pieces a step (default: as few as the cap allows), summed along one
        tree. ``balance_by_speed`` gives slower workers smaller shares, or none. ``max_grad_norm`` clips the
        true global gradient (0 and ``None``: not at all); before that, ``on_gradient(model)`` may look at it
        or change it. ``schedulers`` are stepped once a committed step. ``state`` names extra objects with
        ``state_dict`` and ``load_state_dict`` to hand to joiners. ``checkpoint`` is saved on SIGUSR1 or
        ``checkpoint()``, and resumed from, at any world size. ``allow_non_finite`` goes on when a step's loss
        is inf or nan. ``start_step``: a training that was begun elsewhere has done so many steps; what was
        saved at ``checkpoint`` wins. Raises BatchError for an impossible cut, Mistake for a model or
        optimizer that cannot be trained, StateError for a state that could not be handed over or saved.
        """
        recipe = Recipe(
            global_batch=global_batch,
            max_micro_batch=max_micro_batch,
            seed=seed,
            deterministic=deterministic,
            micro_batches=micro_batches,
            balance_by_speed=balance_by_speed,
            max_grad_norm=refusals.norm_limit(max_grad_norm),
            on_gradient=on_gradient,
            schedulers=tuple(schedulers),
            scaler=scaler,
            state=state,
            checkpoint=Path(checkpoint) if checkpoint is not None else None,
            allow_non_finite=allow_non_finite,
            start_step=refusals.step_number(start_step),
        )
        self._check(model, optimizer)
        if deterministic and isinstance(model, BurstModule):
            raise Mistake(
                "deterministic=True sums gradients in one order for any number of workers, which layers on "
                "different workers cannot keep: leave it out, or train without bursts"
            )
        trainer = self._make_trainer(model, optimizer, recipe)
        self._check_state(model, optimizer, recipe)
        self._trainer = trainer
        return trainer

    def checkpoint(self) -> int | None:
        """Save the training that ``elastic`` made now, atomically, to its checkpoint path.

        Call it between steps, in every worker; one of them writes. Returns the bytes written, ``None`` in
        the others. Blocks until the file is on disk. Raises StateError when there is nothing to save or
        no path, OSError when it cannot be written (the old file is intact then).
        """
        if self._trainer is None:
            raise StateError("there is no training to save yet: call job.elastic(...) first")
        return self._trainer.save()

    def report(self, **measurements: float | int | None) -> None:
        """Tell the scheduler, e.g. ``remaining_steps=…, tokens_per_s=…``; nothing happens when alone.

        Step time, samples a second, remaining steps and memory are measured and reported without it; what
        is told here stays in every later report and wins. Raises Mistake for what is no figure.
        """
        self._reporter.tell(measurements)

    def _make_trainer(self, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe) -> Trainer:
        return Trainer(
            model,
            optimizer,
            recipe,
            channel=self._channel,
            founder=self._founder,
            group=self._group,
            reporter=self._reporter,
            tell_place=self._tell_place,
        )

    def _check_state(self, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe) -> None:
        """Say now what would only come up amid the training, when somebody joins or it is saved."""
        is_handed_over = self.driven or self._group is not None
        if not is_handed_over and recipe.checkpoint is None:
            return
        parts = {
            "model": _state_dict(model),
            "optimizer": _state_dict(optimizer),
            "schedulers": [_state_dict(scheduler) for scheduler in recipe.schedulers],
            "scaler": None if recipe.scaler is None else _state_dict(recipe.scaler),
            "state": {name: _state_dict(part) for name, part in (recipe.state or {}).items()},
        }
        if is_handed_over:
            check_portable(parts)
        if recipe.checkpoint is not None:
            for name, part in parts.items():
                check_holdable(part, name)

    def _check(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if self._trainer is not None and (self.driven or not self._trainer.has_ended):
            raise Mistake(
                "elastic() was called a second time, but a job is one training: start another job for the "
                "other, or train both as parts of one model"
            )
        refusals.check_model(model)
        refusals.check_optimizer(optimizer)
        device = next((parameter.device for parameter in model.parameters()), self.device)
        if device.type != self.device.type:
            raise Mistake(
                f"the model is on {device}, but this job was connected for {self.device}: call "
                f"fallow.connect({device.type!r}), and move the model to job.device"
            )


def _state_dict(part: Any) -> Any:
    """What it tells now. One that cannot tell yet is asked again when it has to, and fails then."""
    try:
        return part.state_dict()
    except Exception:
        return None


def connect(device: torch.device | str = "cpu", environment: Mapping[str, str] | None = None) -> Job:
    """This process's job: driven when a controller started it, in a fixed world under torchrun, else alone.

    ``device`` is where the model will be; a GPU without a number is the one for this process, and
    ``job.device`` says which. ``environment`` stands in for the process's own variables. Under torchrun it
    blocks until all workers have come. Raises Mistake for variables that make no sense.
    """
    settings = os.environ if environment is None else environment
    founder = settings.get(protocol.ENV_ROLE, protocol.FOUNDER) == protocol.FOUNDER
    check_backend(settings)
    place = static.place(device, settings)
    channel = from_environment(settings, place)
    if channel is None:
        listen(settings)
    else:
        keep_to_share(settings)
    group = static.from_environment(settings, place) if channel is None else None
    tell_place = partial(variables.follow, os.environ if environment is None else {})
    return Job(channel, founder, place, group, tell_place)
