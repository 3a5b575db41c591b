"""The training loop's side of elasticity: exact accumulation, transactions of steps, switches of groups.

A step is a transaction. Gradients are summed in one go, together with the switch flag; only when that sum
has arrived everywhere is the step committed. A broken group leaves the step uncommitted: it is taken
again, with the same samples, in whatever group comes next. A resize is never counted as a retry.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from fallow import batch as batches
from fallow import protocol
from fallow.channel import Channel, Ready
from fallow.gradients import GradientBuffers
from fallow.group import Alone, Group, GroupBroken
from fallow.handover import receive_state, send_state
from fallow.sampling import Order

RECOVERY_TIMEOUT_S = 120.0
FOUNDING_TIMEOUT_S = 600.0
_EXTRAS = 2  # switch flag, sum of losses


class Left(SystemExit):
    """This worker was asked to leave and its work went on without it: the process ends with exit code 0."""

    def __init__(self) -> None:
        super().__init__(0)


class Dataset(Protocol):
    """A map-style data set."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A committed step: the mean loss over the global batch, and in how many workers it was computed."""

    number: int
    loss: float
    world_size: int
    grad_norm: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What the training is, the same in every worker. ``schedulers`` are stepped once a committed step."""

    global_batch: int
    max_micro_batch: int
    seed: int = 0
    max_grad_norm: float | None = None
    schedulers: Sequence[Any] = ()
    scaler: Any = None
    state: Mapping[str, Any] | None = None  # extra things with state_dict() and load_state_dict()


class Trainer:
    """Runs one training in this worker; made by ``Job.elastic``."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        recipe: Recipe,
        channel: Channel | None,
        founder: bool,
    ):
        self.model = model
        self.optimizer = optimizer
        self.recipe = recipe
        self.next_step = 0
        self.warming_up = channel is not None and not founder
        self._channel = channel
        self._generation = 0
        self._group: Group = Alone()
        self._buffers: GradientBuffers | None = None
        self._device = next(model.parameters()).device
        self._pending_flag = 0
        self._loss_sum = 0.0
        self._last: Step | None = None
        self._step_samples = 0
        self._saved_buffers: dict[str, torch.Tensor] = {}
        self._sizes: list[int] = []

    @property
    def world_size(self) -> int:
        """How many workers compute the current step."""
        return self._group.world_size

    @property
    def rank(self) -> int:
        """This worker's place among them."""
        return self._group.rank

    def steps(
        self,
        dataset: Dataset,
        total_steps: int,
        *,
        collate: Callable[[list[Any]], Any] | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> Iterator[tuple[int, list[Any]]]:
        """Each step still to do, with this worker's micro-batches of it; the loop body must call ``step()``.

        A step whose group broke is yielded again. A joiner gets one step to warm up, whose result is
        thrown away (``warming_up`` is true meanwhile). Raises Left when this worker has been let go.
        """
        order = Order(
            samples=len(dataset),
            global_batch=self.recipe.global_batch,
            seed=self.recipe.seed,
            shuffle=shuffle,
            drop_last=drop_last,
        )
        collate = collate or torch.utils.data.default_collate
        if self._channel is not None and not self.warming_up:
            self._found()
        epoch, permutation = -1, order.permutation(0)
        while self.next_step < total_steps:
            if epoch != order.epoch(self.next_step):
                epoch = order.epoch(self.next_step)
                permutation = order.permutation(epoch)
            indices = order.indices(self.next_step, permutation)
            yield self.next_step, self._load(dataset, indices, collate)

    def backward(self, loss: torch.Tensor) -> None:
        """Accumulate the gradient of ``loss``, the mean over the next micro-batch of this step."""
        size = self._sizes.pop(0)
        weighted = loss * (size / self._step_samples)
        self._loss_sum += float(weighted.detach())
        if self.recipe.scaler is not None:
            weighted = self.recipe.scaler.scale(weighted)
        weighted.backward()

    def step(self) -> Step | None:
        """Sum, commit and update; ``None`` when not committed (warming up, or the group broke)."""
        if self.warming_up:
            self._end_warm_up()
            return None
        flag = self._flag()
        try:
            summed_flag, loss = self._sum(flag)
        except GroupBroken:
            self._recover()
            return None
        grad_norm = self._update()
        self._saved_buffers = {}
        done = Step(number=self.next_step, loss=loss, world_size=self.world_size, grad_norm=grad_norm)
        self.next_step += 1
        if summed_flag:
            self._switch(summed_flag)
        return done

    # -- one step ---------------------------------------------------------------------------------------

    def _load(
        self, dataset: Dataset, indices: Sequence[int], collate: Callable[[list[Any]], Any]
    ) -> list[Any]:
        self._step_samples = len(indices)
        self._loss_sum = 0.0
        self._keep_buffers()
        if self._buffers is None:
            self.optimizer.zero_grad(set_to_none=True)
        else:
            self._buffers.prepare()
        world = min(self.world_size, len(indices))
        shape = batches.balanced(len(indices), self.recipe.max_micro_batch, world)
        mine = shape.ranks[self.rank] if self.rank < world else ()
        if self.warming_up:
            mine = shape.ranks[0][:1]
        self._sizes = [micro.size for micro in mine]
        return [collate([dataset[i] for i in indices[micro.start : micro.stop]]) for micro in mine]

    def _sum(self, flag: int) -> tuple[int, float]:
        if self._buffers is None:
            return flag, self._loss_sum
        self._buffers.collect([float(flag), self._loss_sum])
        self._group.all_reduce(self._buffers.flat)
        summed_flag, loss = self._buffers.spread()
        return round(summed_flag), loss

    def _update(self) -> float | None:
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
        return norm

    def _keep_buffers(self) -> None:
        """Running statistics change in the forward pass, before the step is committed: keep a way back."""
        if self._channel is not None:
            self._saved_buffers = {name: value.clone() for name, value in self.model.named_buffers()}

    def _roll_back(self) -> None:
        for name, value in self.model.named_buffers():
            if name in self._saved_buffers:
                value.copy_(self._saved_buffers[name])

    # -- membership -------------------------------------------------------------------------------------

    def _flag(self) -> int:
        """Rank 0 raises the number of the plan to switch to; the others learn it from the sum."""
        if self._channel is None:
            return 0
        ready = self._channel.newest(self._generation)
        return ready.plan.number if ready is not None and self.rank == 0 and not ready.plan.recover else 0

    def _found(self) -> None:
        assert self._channel is not None
        self._channel.announce(protocol.ready_key(self._channel.member))
        ready = self._channel.next_after(0, FOUNDING_TIMEOUT_S, recover=False)
        try:
            self._enter(ready)
        except GroupBroken:
            self._recover()

    def _end_warm_up(self) -> None:
        assert self._channel is not None
        self._roll_back()
        self.optimizer.zero_grad(set_to_none=True)
        self._channel.announce(protocol.ready_key(self._channel.member))
        self._enter(self._channel.next_after(0, float("inf"), recover=False))
        self.warming_up = False

    def _switch(self, number: int) -> None:
        assert self._channel is not None
        plan = self._channel.plan(number)
        if self._channel.member not in plan.members:
            self._channel.announce(protocol.switched_key(number, self._channel.member))
            raise Left
        try:
            self._enter(self._channel.agreed(number, RECOVERY_TIMEOUT_S))
        except GroupBroken:
            self._recover()

    def _recover(self) -> None:
        if self._channel is None:
            raise GroupBroken("the group broke and no controller is there to mend it")
        self._roll_back()
        while True:
            broken = self._generation
            self._group.abort()
            self._channel.announce(protocol.lost_key(broken, self._channel.member), str(self.next_step))
            try:
                self._enter(self._channel.next_after(broken, RECOVERY_TIMEOUT_S, recover=True))
                return
            except GroupBroken:
                continue

    def _enter(self, ready: Ready) -> None:
        """Become a member of an agreed group: hand over or take the state, then report."""
        assert self._channel is not None
        old, plan = self._group, ready.plan
        me = plan.members.index(self._channel.member)
        for source, receiver in plan.transfers:
            if source == me:
                send_state(ready.group, receiver, self._state(), self._device)
            elif receiver == me:
                self._load_state(receive_state(ready.group, source, self._state(), self._device))
        self._group, self._generation = ready.group, plan.number
        parameters = self.model.parameters()
        self._buffers = GradientBuffers(parameters, _EXTRAS) if self.world_size > 1 else None
        self._channel.announce(
            protocol.switched_key(plan.number, self._channel.member), str(time.monotonic_ns())
        )
        old.abort()

    # -- state ------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        recipe = self.recipe
        return {
            "step": self.next_step,
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "schedulers": [scheduler.state_dict() for scheduler in recipe.schedulers],
            "scaler": recipe.scaler.state_dict() if recipe.scaler is not None else None,
            "extra": {name: part.state_dict() for name, part in (recipe.state or {}).items()},
        }

    def _load_state(self, state: Mapping[str, Any]) -> None:
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
