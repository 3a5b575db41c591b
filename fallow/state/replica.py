"""What every worker holds a whole copy of: the model, its optimizer and whatever else a step changes.

A replica can be gathered into one state and take one up, whether it goes to a joiner or to a disk; it can be
updated, and it can be put back to where an uncommitted step began. Nothing here communicates.

Takes up what an optimizer keeps beside the parameters, in the very dtypes that it was kept in.

``Optimizer.load_state_dict`` casts floating state to its parameter's dtype (torch 2.13, ``step`` excepted).
NAdam and ASGD keep float32 numbers for float64 parameters, others wide moments for narrow ones: cast, a
joiner would go on with other roundings than those who handed over.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from fallow.data.sampler import Order
from fallow.errors import LoopError, Mistake, StateError
from fallow.process_group.state_transfer import check_portable
from fallow.state import buffers, rng
from fallow.state.buffers import Buffers
from fallow.state.progress import Progress
from fallow.transfers import if_known
from fallow.types import Recipe


def take_up(optimizer: torch.optim.Optimizer, values: Mapping[str, Any]) -> None:
    """Load ``values``, the state of such an optimizer. Raises what ``load_state_dict`` raises."""
    optimizer.load_state_dict(values)
    numbers = [number for group in values["param_groups"] for number in group["params"]]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in zip(numbers, parameters, strict=True):
        if number in values["state"]:
            mine = optimizer.state[parameter]
            mine.update(_uncast(mine, values["state"][number]))


def _uncast(now: Any, saved: Any) -> Any:
    """``now``, with the tensors of ``saved`` where they are of another dtype, on the device of ``now``."""
    if isinstance(saved, torch.Tensor):
        cast = isinstance(now, torch.Tensor) and now.dtype != saved.dtype
        return saved.to(now.device) if cast else now
    if isinstance(saved, dict) and isinstance(now, dict):
        return {key: _uncast(value, saved[key]) if key in saved else value for key, value in now.items()}
    if type(saved) in (list, tuple) and isinstance(now, list | tuple) and len(saved) == len(now):
        return type(saved)([_uncast(mine, theirs) for mine, theirs in zip(now, saved, strict=True)])
    return now


Identity = dict[str, int | float | bool | None]


class Replica:
    """One worker's copy of the training, ready to compute step ``next_step``."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe):
        self.model = model
        self.optimizer = optimizer
        self.recipe = recipe
        self.next_step = 0
        self.progress = Progress()
        self._taken_up: Identity = {}
        self.identity: Identity = _identity(recipe)
        self._has_updated = False
        self.is_updating = False
        self._bare: nn.Module = getattr(model, "_orig_mod", model)  # compiled or not, the same names
        self._parameters = list(model.parameters())
        _check(self._parameters, optimizer)
        self.device: torch.device = self._parameters[0].device

    @cached_property
    def buffers(self) -> Buffers:
        """What forward passes change, as the model is when somebody asks first."""
        return Buffers(self.model)

    def know(self, data: Identity, *, fixed: bool) -> None:
        """What a step's number means is part of the training's state, so it cannot change on the way."""
        identity = self.identity
        if fixed and any(identity[name] != data[name] for name in data):
            raise LoopError(
                f"steps() was called again with other data ({data}; before: {identity}), but who joins or "
                "resumes has seen only one: make one data set of both, or give the epochs with order="
            )
        self.identity |= data
        self._check_identity(self._taken_up)

    def epoch_taken_up(self) -> int | None:
        """The epoch of the step that comes next, as far as a state that was taken up tells."""
        samples, drops = self._taken_up.get("samples"), self._taken_up.get("drop_last")
        if not self.next_step or not isinstance(samples, int):
            return None
        order = Order(
            samples=samples,
            global_batch=self.recipe.global_batch,
            seed=0,
            drop_last=bool(drops),
            shuffle=False,
        )
        return order.epoch(self.next_step)

    @property
    def schedulers(self) -> tuple[Any, ...]:
        """Those that are stepped once a committed step."""
        return tuple(self.recipe.schedulers)

    def gradients(self) -> list[torch.Tensor | None]:
        """Of each parameter, in the model's order, as they are."""
        return [parameter.grad for parameter in self._parameters]

    def trainable(self) -> tuple[bool, ...]:
        """Which parameters are trained now; scripts freeze and unfreeze on the way."""
        return tuple([parameter.requires_grad for parameter in self._parameters])

    def thawed(self, before: tuple[bool, ...]) -> list[str]:
        """Which of those that were not trainable ``before`` are now, and have a gradient; their names."""
        if self.trainable() == before:  # in nearly every step, and to go by names takes long
            return []
        pairs = zip(before, self._bare.named_parameters(), strict=True)
        return [
            name for was, (name, each) in pairs if each.requires_grad and not was and each.grad is not None
        ]

    def state(self, *, generators: bool = False) -> dict[str, Any]:
        """Everything that a joiner or a resumed training needs; the tensors are the live ones.

        ``generators`` adds the global random generators, for trainings whose randomness isn't keyed.
        """
        recipe = self.recipe
        model = dict(self._bare.state_dict())
        return {
            "step": self.next_step,
            "identity": dict(self.identity),
            "progress": self.progress.state(),
            "model": model,
            "buffers": buffers.beside(self._bare, model),
            "frozen": [name for name, p in self._bare.named_parameters() if not p.requires_grad],
            "optimizer": self.optimizer.state_dict(),
            "schedulers": [scheduler.state_dict() for scheduler in recipe.schedulers],
            "scaler": recipe.scaler.state_dict() if recipe.scaler is not None else None,
            "extra": {name: part.state_dict() for name, part in (recipe.state or {}).items()},
            "generators": rng.snapshot(self.device) if generators else None,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Become the training that ``state()`` was taken from. Raises StateError if it was another's."""
        recipe = self.recipe
        self._taken_up = dict(state["identity"])
        self._check_identity(self._taken_up)
        try:
            if not _lies_in(state["model"], self._bare.state_dict()):
                buffers.part(self._bare, state["model"])
                self._bare.load_state_dict(state["model"])
            buffers.take_up(self._bare, state.get("buffers", {}))  # saved since November 2026
            take_up(self.optimizer, state["optimizer"])
            for scheduler, part in zip(recipe.schedulers, state["schedulers"], strict=True):
                scheduler.load_state_dict(part)
            if recipe.scaler is not None and state["scaler"] is not None:
                recipe.scaler.load_state_dict(state["scaler"])
            for name, part in (recipe.state or {}).items():
                part.load_state_dict(state["extra"][name])
        except (RuntimeError, ValueError, KeyError) as error:
            raise StateError(
                f"a state of step {state['step']} does not fit this training: {error}. The model, optimizer, "
                "schedulers and state= must be built as they were there; what the script changes on the way "
                "(added parameter groups, say) must be done before elastic(), or depend on the step alone"
            ) from error
        frozen = set(state["frozen"])
        for name, parameter in self._bare.named_parameters():
            parameter.requires_grad_(name not in frozen)
        if state["generators"] is not None:
            rng.restore(state["generators"], self.device)
        self.next_step = state["step"]
        if "progress" in state:  # an older checkpoint has none
            self.progress.load(state["progress"])

    def roll_back(self) -> None:
        """Buffers stand where the step began: they change in the forward pass, before it is committed."""
        self.buffers.rewind()

    def warm_up(self) -> None:
        """Take a throw-away step with the gradients that are there, in a replica that waits for its state.

        The optimizer makes its own state, of the shapes that are about to arrive: they are then received
        where they are to stay, in memory that was used before. Fresh memory costs more than the network.
        """
        with self._updating():
            self.optimizer.step()
        self.roll_back()

    def clear_gradients(self) -> None:
        """Each trainable parameter has a gradient of zeros afterwards, unless it has one already."""
        for parameter in self._parameters:
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def forget_gradients(self) -> None:
        """No parameter has a gradient afterwards."""
        with self._updating():
            self.optimizer.zero_grad(set_to_none=True)

    def scale(self, by: float) -> None:
        """Multiply all gradients."""
        if by != 1.0:
            torch._foreach_mul_([p.grad for p in self._parameters if p.grad is not None], by)

    def update(self, loss: float | torch.Tensor) -> tuple[float | torch.Tensor | None, bool | torch.Tensor]:
        """Commit the gradients in ``grad``.

        Returns their norm, if the recipe clips it, and whether the scaler made the optimizer skip the step:
        as tensors where the device has yet to compute them.
        """
        norm = self._shape_gradients()
        with self._updating():
            skipped = self._step_optimizer()
        for scheduler in self.recipe.schedulers:
            if isinstance(scheduler, ReduceLROnPlateau):
                scheduler.step(float(loss))
            else:
                scheduler.step()
        self.next_step += 1
        if not self._has_updated:
            self._has_updated = True
            check_portable({"optimizer": self.optimizer.state_dict()})  # its state is made in its first step
        return norm, skipped

    @contextmanager
    def _updating(self) -> Iterator[None]:
        """What is done to the optimizer meanwhile, the library does."""
        self.is_updating = True
        try:
            yield
        finally:
            self.is_updating = False

    def _shape_gradients(self) -> float | torch.Tensor | None:
        """What happens to the true global gradient before it is used: the script's hook, then clipping."""
        recipe = self.recipe
        if recipe.scaler is not None and (recipe.max_grad_norm is not None or recipe.on_gradient is not None):
            recipe.scaler.unscale_(self.optimizer)
        if recipe.on_gradient is not None:
            recipe.on_gradient(self.model)
        if recipe.max_grad_norm is None:
            return None
        return if_known(nn.utils.clip_grad_norm_(self._parameters, recipe.max_grad_norm))

    def _step_optimizer(self) -> bool | torch.Tensor:
        scaler = self.recipe.scaler
        if scaler is None:
            self.optimizer.step()
            return False
        before = _scale(scaler)
        scaler.step(self.optimizer)
        scaler.update()
        return _scale(scaler) < before  # it backs off exactly when it skipped

    def _check_identity(self, theirs: Identity) -> None:
        differing = [
            f"{name} is {self.identity[name]} here and was {theirs[name]} there"
            for name in self.identity.keys() & theirs.keys()
            if self.identity[name] != theirs[name]
        ]
        if differing:
            raise StateError(
                f"a state was made by another recipe: {'; '.join(sorted(differing))}. Which samples a step "
                "has depends on these, so the training cannot go on from it: set them back, or start anew"
            )


def _scale(scaler: Any) -> float | torch.Tensor:
    """Its scale as it is now; ``get_scale`` would wait for the device."""
    getter = getattr(scaler, "_get_scale_async", None)  # torch 2.11 to 2.13; other scalers may not have it
    scale = None if getter is None else getter()
    return float(scaler.get_scale()) if scale is None else if_known(scale.clone())


def _lies_in(values: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether ``values`` is nothing but the very tensors of ``own``: they were received in place."""
    return values.keys() == own.keys() and all(
        isinstance(value, torch.Tensor)
        and isinstance(own[name], torch.Tensor)
        and value.untyped_storage().data_ptr() == own[name].untyped_storage().data_ptr()
        and (value.storage_offset(), value.stride()) == (own[name].storage_offset(), own[name].stride())
        for name, value in values.items()
    )


def _identity(recipe: Recipe) -> Identity:
    identity: Identity = {
        "global_batch": recipe.global_batch,
        "seed": recipe.seed,
        "deterministic": recipe.deterministic,
    }
    if recipe.deterministic:
        pieces = recipe.micro_batches or -(-recipe.global_batch // recipe.max_micro_batch)
        identity["micro_batches"] = pieces
    return identity


def _check(parameters: list[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
    if not parameters:
        raise Mistake("elastic() got a model without parameters: there is nothing to train")
    devices = sorted({str(parameter.device) for parameter in parameters})
    if len(devices) > 1:
        raise Mistake(
            f"the model lies on {', '.join(devices)}: a worker trains on one device; move it to job.device"
        )
    ids = {id(parameter) for parameter in parameters}
    parameters_used = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    strangers = sum(id(parameter) not in ids for parameter in parameters_used)
    if strangers:
        raise Mistake(
            f"the optimizer holds {strangers} parameters that are not the model's, so workers would drift "
            "apart: make it from model.parameters(), after the model was moved or changed"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise Mistake("LBFGS computes the loss several times a step, which elastic training cannot repeat")
