"""The training loop's side of elasticity: exact accumulation, transactions of steps, switches of groups.

A step is a transaction. Gradients are summed in one go, together with the switch flag; only when that sum
has arrived everywhere is the step committed. A broken group leaves the step uncommitted: it is taken
again, with the same samples, in whatever group comes next. A resize is never counted as a retry.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from fallow import batch, checkpoint, memory, protocol, randomness
from fallow.batch import MicroBatch, StepShape
from fallow.channel import Channel, Ready
from fallow.group import Alone, Group, GroupBroken
from fallow.handover import receive_state, send_state
from fallow.pace import Pace
from fallow.reduction import Local, Plain, Reducer, Summed, Tree
from fallow.sampling import Order

RECOVERY_TIMEOUT_S = 120.0
FOUNDING_TIMEOUT_S = 600.0
REPORT_S = 1.0


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
    """What the training is, the same in every worker. ``schedulers`` are stepped once a committed step.

    ``deterministic`` asks for the same bits at any world size: ``micro_batches`` pieces a step (default:
    as few as the cap allows), summed along one tree, with randomness keyed by (seed, step, piece).
    ``checkpoint`` is where the training is saved on SIGUSR1 or ``save()``, and resumed from at the start.
    """

    global_batch: int
    max_micro_batch: int
    seed: int = 0
    deterministic: bool = False
    micro_batches: int | None = None
    max_grad_norm: float | None = None
    schedulers: Sequence[Any] = ()
    scaler: Any = None
    state: Mapping[str, Any] | None = None  # extra things with state_dict() and load_state_dict()
    checkpoint: Path | None = None


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
        self._reducer: Reducer = self._new_reducer()
        self._device = next(model.parameters()).device
        self._shape: StepShape | None = None
        self._current: MicroBatch | None = None
        self._total_steps: int | None = None
        self._pace = Pace(world_size=0, last_end_s=time.monotonic())
        self._reported_s = 0.0
        self._save_asked = False
        self._saved_buffers: dict[str, torch.Tensor] = {}

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
    ) -> Iterator[tuple[int, Iterator[Any]]]:
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
        self._total_steps = total_steps
        if not self.warming_up:
            self._resume()
        if self._channel is not None and not self.warming_up:
            self._found()
        epoch, permutation = -1, order.permutation(0)
        while self.next_step < total_steps:
            if epoch != order.epoch(self.next_step):
                epoch = order.epoch(self.next_step)
                permutation = order.permutation(epoch)
            indices = order.indices(self.next_step, permutation)
            self._shape = self._cut(len(indices))
            self._keep_buffers()
            self._reducer.begin()
            yield self.next_step, self._micro_batches(dataset, indices, collate)

    def backward(self, loss: torch.Tensor) -> None:
        """Accumulate the gradient of ``loss``, the mean over the next micro-batch of this step."""
        assert self._shape is not None
        assert self._current is not None, "backward() belongs once into the loop over a step's micro-batches"
        micro, self._current = self._current, None
        fraction = micro.size / self._shape.global_batch
        weighted = loss * fraction
        scaler = self.recipe.scaler
        (weighted if scaler is None else scaler.scale(weighted)).backward()
        self._reducer.end_micro_batch(micro.index, fraction, float(weighted.detach()))

    def step(self) -> Step | None:
        """Sum, commit and update; ``None`` when not committed (warming up, or the group broke)."""
        if self.warming_up:
            self._end_warm_up()
            return None
        assert self._shape is not None
        summed = self._sum([_block(rank) for rank in self._shape.ranks])
        if summed is None:
            self._roll_back()
            self._recover()
            return None
        grad_norm = self._update()
        self._saved_buffers = {}
        done = Step(number=self.next_step, loss=summed.loss, world_size=self.world_size, grad_norm=grad_norm)
        self.next_step += 1
        self._pace = self._pace.after(time.monotonic(), self.world_size)
        self._report()
        if self._save_asked:
            self.save()
        if summed.flag:
            self._switch(summed.flag)
        return done

    def save(self) -> int | None:
        """Save the training as it stands; returns the bytes written, ``None`` if another rank does."""
        self._save_asked = False
        if self.recipe.checkpoint is None:
            raise ValueError("this training has no checkpoint path: pass checkpoint=PATH to elastic()")
        return checkpoint.save(self.recipe.checkpoint, self._state()) if self.rank == 0 else None

    # -- one step ---------------------------------------------------------------------------------------

    def _sum(self, blocks: Sequence[tuple[int, int]]) -> Summed | None:
        """The step's exchange; ``None`` when the group broke. No traceback may outlive it: one that did would
        keep the broken group's sockets open, and peers would wait for us.
        """
        try:
            return self._reducer.finish(blocks, self._flag())
        except GroupBroken:
            return None

    def _new_reducer(self) -> Reducer:
        if self.recipe.deterministic:
            return Tree(self.model, self._group)
        return Local(self.model) if self.world_size == 1 else Plain(self.model, self._group)

    def _cut(self, samples: int) -> StepShape:
        """The shape of a step of ``samples``; ranks beyond its pieces have nothing to do."""
        recipe, world = self.recipe, self.world_size
        if not recipe.deterministic:
            shape = batch.balanced(samples, recipe.max_micro_batch, min(world, samples))
        else:
            pieces = min(samples, recipe.micro_batches or -(-samples // recipe.max_micro_batch))
            shape = batch.fixed(samples, recipe.max_micro_batch, pieces, min(world, pieces))
        idle = ((),) * (world - shape.world_size)
        return replace(shape, ranks=(*shape.ranks, *idle))

    def _micro_batches(
        self, dataset: Dataset, indices: Sequence[int], collate: Callable[[list[Any]], Any]
    ) -> Iterator[Any]:
        assert self._shape is not None
        mine = self._shape.micro_batches[:1] if self.warming_up else self._shape.ranks[self.rank]
        for micro in mine:
            self._current = micro
            self._reducer.begin_micro_batch()
            if self.recipe.deterministic:
                randomness.seed(self.recipe.seed, self.next_step, micro.index)
            yield collate([dataset[i] for i in indices[micro.start : micro.stop]])

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

    def _resume(self) -> None:
        """Take up a saved training, and listen for the signal that asks to save it."""
        if self.recipe.checkpoint is None:
            return
        state = checkpoint.load(self.recipe.checkpoint, self._device)
        if state is not None:
            self._load_state(state)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "_save_asked", True))

    def _report(self) -> None:
        """Leave the newest measurements for the scheduler, at most once in REPORT_S."""
        if self._channel is None or self._pace.last_end_s - self._reported_s < REPORT_S:
            return
        self._reported_s = self._pace.last_end_s
        used = memory.measure(self._device)
        self._channel.report(
            {
                "step": self.next_step,
                "remaining_steps": None if self._total_steps is None else self._total_steps - self.next_step,
                "world_size": self.world_size,
                "step_time_s": self._pace.step_time_s,
                "samples_per_s": self._pace.samples_per_s(self.recipe.global_batch),
                "memory_reserved_bytes": used.reserved_bytes,
                "memory_peak_bytes": used.peak_needed_bytes,
            }
        )

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
        if not self._enter(ready):
            self._recover()

    def _end_warm_up(self) -> None:
        assert self._channel is not None
        self._roll_back()
        self.optimizer.zero_grad(set_to_none=True)
        self._channel.announce(protocol.ready_key(self._channel.member))
        tried = 0
        while self.warming_up:
            ready = self._channel.next_after(tried, float("inf"), recover=False)
            tried = ready.plan.number  # if the group that is to take us in breaks, wait for the next
            self.warming_up = not self._enter(ready)

    def _switch(self, number: int) -> None:
        assert self._channel is not None
        plan = self._channel.plan(number)
        if self._channel.member not in plan.members:
            self._channel.announce(protocol.switched_key(number, self._channel.member))
            raise Left
        if not self._enter(self._channel.agreed(number, RECOVERY_TIMEOUT_S)):
            self._recover()

    def _recover(self) -> None:
        """Leave the broken group, say how far we are, and enter whatever the survivors agree on."""
        if self._channel is None:
            raise GroupBroken("the group broke and no controller is there to mend it")
        entered = False
        while not entered:
            broken = self._generation
            self._group.abort()
            self._channel.announce(protocol.lost_key(broken, self._channel.member), str(self.next_step))
            entered = self._enter(self._channel.next_after(broken, RECOVERY_TIMEOUT_S, recover=True))

    def _enter(self, ready: Ready) -> bool:
        """Become a member of an agreed group: hand over or take the state, and say so. False if it broke."""
        assert self._channel is not None
        plan = ready.plan
        if not self._hand_over(ready):
            ready.group.abort()  # frees peers that wait for us in it
            self._generation = max(self._generation, plan.number if plan.recover else 0)
            return False
        old, self._group, self._generation = self._group, ready.group, plan.number
        self._reducer = self._new_reducer()
        self._channel.announce(
            protocol.switched_key(plan.number, self._channel.member), str(time.monotonic_ns())
        )
        old.abort()
        return True

    def _hand_over(self, ready: Ready) -> bool:
        """This worker's transfers of the plan; false when the group broke."""
        assert self._channel is not None
        me = ready.plan.members.index(self._channel.member)
        try:
            for source, receiver in ready.plan.transfers:
                if source == me:
                    send_state(ready.group, receiver, self._state(), self._device)
                elif receiver == me:
                    self._load_state(receive_state(ready.group, source, self._state(), self._device))
        except GroupBroken:
            return False
        return True

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


def _block(rank: Sequence[MicroBatch]) -> tuple[int, int]:
    """The half-open range of micro-batch indices of one rank; empty when it has none."""
    return (rank[0].index, rank[-1].index + 1) if rank else (0, 0)
