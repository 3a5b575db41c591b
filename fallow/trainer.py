"""The training loop's side of elasticity: exact accumulation, transactions of steps.

A step is a transaction. Gradients are summed in one go, together with the switch flag; only when that sum
has arrived everywhere is the step committed. A broken group leaves the step uncommitted: it is taken
again, with the same samples, in whatever group comes next. A resize is never counted as a retry.
How this worker comes into another group, ``seat`` says.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from fallow import batch, checkpoint, memory, randomness
from fallow.batch import MicroBatch, StepShape
from fallow.channel import Channel
from fallow.feeding import Dataset, Feed
from fallow.group import Group, GroupBroken
from fallow.mistakes import LoopMistake, LossMistake, StateMistake
from fallow.open_step import ONCE_EACH, OpenStep
from fallow.pace import Pace
from fallow.recipe import Recipe, Step
from fallow.reduction import Local, Plain, Reducer, Summed, Tree
from fallow.replica import Replica
from fallow.sampling import Order
from fallow.seat import Seat

REPORT_S = 1.0
NOTES = 2
"""What a worker adds to a step's sum: the number of the plan to switch to, and whether to save."""


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
        self.recipe = recipe
        self._replica = Replica(model, optimizer, recipe)
        self._seat = Seat(self._replica, channel, founder)
        self._reduced_in: Group = self._seat.group
        self._reducer: Reducer = self._new_reducer()
        self._open: OpenStep | None = None
        self._total_steps: int | None = None
        self._pace = Pace(world_size=0, last_end_s=time.monotonic())
        self._reported_s = 0.0
        self._save_asked = False

    @property
    def next_step(self) -> int:
        """The step that comes next; steps below it are committed."""
        return self._replica.next_step

    @property
    def warming_up(self) -> bool:
        """Whether this worker has yet to be taken in: what it computes now is thrown away."""
        return self._seat.warming_up

    @property
    def world_size(self) -> int:
        """How many workers compute the current step."""
        return self._seat.group.world_size

    @property
    def rank(self) -> int:
        """This worker's place among them."""
        return self._seat.group.rank

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
        feed = Feed(dataset, collate)
        self._total_steps = total_steps
        if not self.warming_up:
            self._resume()
            self._seat.found()
        epoch, permutation = -1, order.permutation(0)
        while self.next_step < total_steps:
            if epoch != order.epoch(self.next_step):
                epoch = order.epoch(self.next_step)
                permutation = order.permutation(epoch)
            indices = order.indices(self.next_step, permutation)
            yield self.next_step, self._micro_batches(feed, indices, self._begin(len(indices)))
            if self._open is not None:
                raise LoopMistake(
                    f"step {self.next_step}: the loop went on without trainer.step(). {ONCE_EACH}"
                )

    def backward(self, loss: torch.Tensor, count: float | None = None) -> None:
        """Accumulate the gradient of ``loss``, the mean over the next micro-batch of this step.

        With ``count``, ``loss`` is the mean over that many items of the micro-batch (tokens, say), and the
        step's loss is the mean over all items of the global batch, whoever computed them. A micro-batch
        with ``count=0`` adds nothing. Raises LoopMistake or LossMistake.
        """
        if self._open is None:
            raise LoopMistake("backward() was called outside the loop over trainer.steps(...)")
        part = self._open.weigh(count)
        if count == 0:
            weighted = torch.zeros((), device=self._replica.device)
        else:
            weighted = check_loss(loss, part.micro, self._open.number) * part.weight
            scaler = self.recipe.scaler
            (weighted if scaler is None else scaler.scale(weighted)).backward()
        self._reducer.end_micro_batch(part.micro.index, part.fraction, weighted.detach(), part.count)

    def step(self) -> Step | None:
        """Sum, commit and update; ``None`` when not committed (warming up, or the group broke).

        Raises LossMistake, on every worker and before anything is updated, when the loss is not finite.
        """
        if self._open is None:
            raise LoopMistake("step() was called twice, or outside the loop over trainer.steps(...)")
        opened, self._open = self._open, None
        opened.close()
        if self.warming_up:
            self._replica.roll_back()
            self._replica.optimizer.zero_grad(set_to_none=True)
            self._seat.join()
            return None
        summed = self._sum([_block(rank) for rank in opened.shape.ranks])
        if summed is None:
            self._replica.roll_back()
            self._seat.recover()
            return None
        return self._commit(opened, summed)

    def save(self) -> int | None:
        """Save the training as it stands; returns the bytes written, ``None`` if another rank does."""
        self._save_asked = False
        if self.recipe.checkpoint is None:
            raise StateMistake("this training has no checkpoint path: pass checkpoint=PATH to job.elastic()")
        return checkpoint.save(self.recipe.checkpoint, self._replica.state()) if self.rank == 0 else None

    # -- one step ---------------------------------------------------------------------------------------

    def _begin(self, samples: int) -> OpenStep:
        """Cut the step for the group we sit in now, and forget what an uncommitted one gathered."""
        if self._reduced_in is not self._seat.group:
            self._reduced_in = self._seat.group
            self._reducer = self._new_reducer()
        shape = self._cut(samples)
        mine = shape.micro_batches[:1] if self.warming_up else shape.ranks[self.rank]
        self._open = OpenStep(self.next_step, shape, mine)
        if self._seat.driven:
            self._replica.keep_buffers()
        self._reducer.begin()
        return self._open

    def _commit(self, opened: OpenStep, summed: Summed) -> Step:
        scale = opened.scale(summed.count)
        loss = summed.loss * scale
        if not (math.isfinite(loss) or self.recipe.scaler is not None or self.recipe.allow_non_finite):
            raise LossMistake(
                f"step {opened.number}: the loss over the global batch is {loss}; nothing was updated. Look "
                "at the learning rate and at this step's samples, or pass allow_non_finite=True to go on"
            )
        world_size = self.world_size
        grad_norm = self._replica.update(scale)
        done = Step(number=opened.number, loss=loss, world_size=world_size, grad_norm=grad_norm)
        self._pace = self._pace.after(time.monotonic(), world_size)
        self._report()
        flag, save = (round(note) for note in summed.notes)
        if save:
            self.save()
        if flag:
            self._seat.switch(flag)
        return done

    def _sum(self, blocks: Sequence[tuple[int, int]]) -> Summed | None:
        """The step's exchange; ``None`` when the group broke. No traceback may outlive it: one that did would
        keep the broken group's sockets open, and peers would wait for us.
        """
        try:
            return self._reducer.finish(blocks, [self._seat.flag(), self._save_asked])
        except GroupBroken:
            return None

    def _new_reducer(self) -> Reducer:
        model, group = self._replica.model, self._seat.group
        if self.recipe.deterministic:
            return Tree(model, group, NOTES)
        return Local(model) if group.world_size == 1 else Plain(model, group, NOTES)

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

    def _micro_batches(self, feed: Feed, indices: Sequence[int], opened: OpenStep) -> Iterator[Any]:
        for micro, fetch in feed.micro_batches(indices, opened.mine):
            opened.hand_out(micro)
            self._reducer.begin_micro_batch()
            if self.recipe.deterministic:
                randomness.seed(self.recipe.seed, opened.number, micro.index)
            yield fetch()

    def _resume(self) -> None:
        """Take up a saved training, and listen for the signal that asks to save it."""
        if self.recipe.checkpoint is None:
            return
        state = checkpoint.load(self.recipe.checkpoint, self._replica.device)
        if state is not None:
            self._replica.load(state)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "_save_asked", True))

    def _report(self) -> None:
        """Leave the newest measurements for the scheduler, at most once in REPORT_S."""
        if not self._seat.driven or self._pace.last_end_s - self._reported_s < REPORT_S:
            return
        self._reported_s = self._pace.last_end_s
        used = memory.measure(self._replica.device)
        self._seat.report(
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


def _block(rank: Sequence[MicroBatch]) -> tuple[int, int]:
    """The half-open range of micro-batch indices of one rank; empty when it has none."""
    return (rank[0].index, rank[-1].index + 1) if rank else (0, 0)


def check_loss(loss: torch.Tensor, micro: MicroBatch, step: int) -> torch.Tensor:
    """``loss`` if it is a scalar that hangs on a parameter. Raises LossMistake."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        found = f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(type(loss).__name__)
        raise LossMistake(
            f"step {step}, micro-batch {micro.index}: the loss must be one number, the mean over the "
            f"micro-batch, but has {found}. Use reduction='mean' or loss.mean()"
        )
    if not loss.requires_grad:
        raise LossMistake(
            f"step {step}, micro-batch {micro.index}: the loss depends on no trainable parameter. Look for "
            "no_grad(), detach(), item() or a wholly frozen model on its way"
        )
    return loss
