"""One step after the other: cut for the group of now, summed, committed, and the boundary behind it.

A step is a transaction. Gradients are summed in one go, together with the switch flag; only when that sum
has arrived everywhere is the step committed. A broken group leaves the step uncommitted: it is taken
again, with the same samples, in whatever group comes next. A resize is never counted as a retry.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from fallow.burst.steps import BurstSteps
from fallow.data import sample_digest
from fallow.data.balance import Balance
from fallow.data.batch_plan import BatchPlan, StepShape
from fallow.data.content_check import ContentCheck
from fallow.data.feed import Feed
from fallow.data.sample_digest import SampleDigest
from fallow.data.sampler import Piece
from fallow.data.step import OpenStep
from fallow.errors import LoopError
from fallow.first_steps import FirstSteps
from fallow.gradients import choose
from fallow.gradients.checks import checked
from fallow.gradients.reducer import MARKS, Local, Outcome, Reducer, Summed
from fallow.idle_gaps.announce import announcer
from fallow.metrics.late_steps import LateSteps
from fallow.metrics.report import Pace
from fallow.process_group.collectives import Group, GroupBroken
from fallow.process_group.membership_client import MembershipClient
from fallow.requests.listener import PendingRequests
from fallow.state import rng
from fallow.state.checkpoint import PeriodicCheckpoint
from fallow.state.replica import Replica
from fallow.types import Step

LOG = logging.getLogger("fallow")


class StepRunner:
    """Runs the steps of one training in this worker; ``key`` keys randomness.

    ``opened`` is the step in hand, ``None`` between steps.
    """

    def __init__(
        self,
        replica: Replica,
        seat: MembershipClient,
        keeper: PeriodicCheckpoint,
        *,
        late: LateSteps,
        wishes: PendingRequests,
        key: int | None,
    ):
        self.recipe = replica.recipe
        self.first = FirstSteps(replica, seat)
        self.digest, self.content = SampleDigest(), ContentCheck()
        self.opened: OpenStep | None = None
        self.pace = Pace(world_size=0, last_end_s=time.monotonic())
        self._replica, self._seat, self._keeper = replica, seat, keeper
        self._late, self._wishes = late, wishes
        self._guard = self.first.guard
        self._seed = partial(rng.seed, key, device=replica.device)
        self._sits_in: Group | None = None
        self._trainable: tuple[bool, ...] = ()
        self._reducer: Reducer = Local(replica.model)
        self._balance = Balance(replica.device, self.recipe, replica.model)
        self._outcome: Outcome | None = None
        self._notes: tuple[float, ...] | None = None
        self._gaps = announcer(replica.device)
        self._bursts = BurstSteps(replica.model, self.recipe.global_batch, self._gaps)

    def keep_all_at_work(self) -> None:
        """No worker is left without samples because it is slow. To be called before the first step."""
        self._balance.keep_all_at_work()

    def warm_up(self, feed: Feed | None) -> None:
        """What a joiner does before it is taken in: nothing of it counts. Reads only with a ``feed``."""
        opened, pieces = self.begin(feed)
        self.opened = None
        for piece in pieces:
            assert feed is not None
            try:
                feed.fetch(piece)  # so that whatever reads has read before
            except Exception as error:  # a data set that the state brings along, say: a replay buffer
                LOG.debug("a joiner could not read ahead of the state that it is handed: %r", error)
        self.first.warm_up.compute([micro.size for micro in opened.shape.micro_batches])
        self._reducer.end_micro_batch(0, 1.0, torch.zeros((), device=self._replica.device), None)
        self._sum(opened)
        self.first.warm_up.update()

    def begin(self, feed: Feed | None) -> tuple[OpenStep, tuple[Piece, ...]]:
        """Cut the step for the group we sit in now, and forget what an uncommitted one gathered."""
        group = self._seat.group
        if self._sits_in is not group:
            self._sits_in = group
            self._balance.enter(group.rank, group.world_size)
            self._reducer = self._new_reducer()
        now = BatchPlan(
            recipe=self.recipe,
            world_size=group.world_size,
            rank=group.rank,
            costs=self._balance.costs,
            warming_up=self._seat.warming_up,
        )
        shape: StepShape
        pieces: tuple[Piece, ...]
        if feed is None:
            shape, pieces = now.shape(self.recipe.global_batch), ()
        else:
            shape, pieces = feed.open(now, self._replica.next_step)
        self.opened = OpenStep(self._replica.next_step, shape, now.mine(shape))
        self._bursts.begin(group, shape)
        self._reducer.begin()
        self._guard.begin(self._replica.next_step)
        self._balance.start()
        self._seed(self._replica.next_step, stage=rng.Stage.BEFORE)
        return self.opened, pieces

    def micro_batches(self, feed: Feed, opened: OpenStep, pieces: Sequence[Piece]) -> Iterator[Any]:
        """Those of this worker, as the script asks for them."""
        self._settle()
        for piece in pieces:
            opened.hand_out(piece.micro)
            self._reducer.begin_micro_batch(piece is pieces[-1])
            with self._gaps.gap("data"):
                fetched = feed.fetch(piece)
            self._seed(piece.step, piece.micro.index)
            self.first.handed_out(piece.micro.size)
            yield fetched
        self._seed(opened.number, stage=rng.Stage.AFTER)

    def backward(self, loss: torch.Tensor, count: float | None = None) -> None:
        """Accumulate the gradient of ``loss``, the mean over the next micro-batch of this step.

        With ``count``, ``loss`` is the mean over that many items of the micro-batch (tokens, say), and the
        step's loss is the mean over all items of the global batch, whoever computed them. A micro-batch
        with ``count=0`` adds nothing. Raises LoopError or LossError.
        """
        if self.opened is None:
            raise LoopError("backward() was called outside the loop over trainer.steps(...)")
        part = self.opened.weigh(count)
        self.first.before_backward(loss, part, self.opened.number)
        if count == 0:
            weighted = torch.zeros((), device=self._replica.device)
            self._bursts.backward_without_samples(loss)
        else:
            weighted = checked(loss, part.micro, self.opened.number) * part.weight
            scaler = self.recipe.scaler
            self._bursts.backward(weighted if scaler is None else scaler.scale(weighted))
        self._reducer.end_micro_batch(part.micro.index, part.fraction, weighted.detach(), part.count)
        self._guard.keep()

    def reduce(self) -> bool:
        """Sum the step's gradients over all workers now, so that ``grad`` is the global one until ``step()``.

        For frameworks whose loops look at gradients, or clip them, between backward pass and update. False
        when the group broke: ``step()`` must be called none the less, and returns ``None``. Calling it again
        changes nothing. Raises LossError as ``step()`` does.
        """
        if self.opened is None:
            raise LoopError("step() was called twice, or outside the loop over trainer.steps(...)")
        if self._outcome is None:
            self._guard.close()
            opened, self.opened = self.opened, None
            self._outcome = self._reduced(opened)
            self.opened = opened
        return self._outcome.summed is not None

    def step(self) -> Step | None:
        """Sum, commit and update; ``None`` when not committed, because the group broke.

        Raises LossError, on every worker and before anything is updated, when the loss is not finite.
        """
        self.reduce()
        opened, self.opened = self.opened, None
        outcome, self._outcome = self._outcome, None
        assert opened is not None
        assert outcome is not None
        if outcome.summed is None:
            self._guard.forget()
            self._seat.recover()
            return None
        return self._commit(opened, outcome.summed, outcome.loss)

    def cross_boundary(self) -> None:
        """Do what rode in with the sum: new shares, a save, a switch. Not before the script comes back for
        the next step: what it does after a step, to a state that it hands over, say, belongs to that one.
        """
        if self._notes is None:
            return
        (flag, save, *numbers), self._notes = self._notes, None
        self._gaps.begin_step()
        self._balance.learn(numbers[choose.NOTES - 2 :])
        if save:
            self._keeper.follow_signal(self._seat.group.rank)
        self._wishes.grant(self._seat.group.rank)
        self._seat.end_step(round(flag))

    def _settle(self) -> None:
        """Scripts freeze and unfreeze parameters before a step's first pass: what is summed must follow. Who
        is frozen later in the step keeps the gradient it has by then, as in any other loop.
        """
        if self._trainable != self._replica.trainable():
            self._reducer = self._new_reducer()
            self._reducer.begin()

    def _new_reducer(self) -> Reducer:
        self._trainable = self._replica.trainable()
        spare = self._reducer.close()
        return choose.reducer(self._replica, self._seat.group, resized=self._seat.driven, spare=spare)

    def _sum(self, opened: OpenStep) -> Summed | None:
        """The step's exchange; ``None`` when the group broke. No traceback may outlive it: it would keep the
        broken group's sockets open, and peers would wait for us.
        """
        notes = [float(self._seat.flag()), float(self._keeper.asked)]
        notes += [*self.digest.notes(), *self.content.notes(takes_part=bool(opened.mine))]
        notes += self._balance.notes()
        try:
            with self._gaps.gap("sum"):
                summed = self._reducer.finish(opened.shape.blocks, notes, 1 + opened.number % MARKS)
            self._seat.prove()
        except GroupBroken:
            return None
        return summed

    def _reduced(self, opened: OpenStep) -> Outcome:
        opened.close()
        if opened.mine:
            opened.check_thawed(self._replica.thawed(self._trainable))
        else:
            self._settle()
        self._balance.stop()
        summed = self._sum(opened)
        if summed is None:
            self._replica.roll_back()
            return Outcome(None, 0.0)
        self.digest.check(summed.notes[2:], opened.number, self._seat.group, self._replica.device)
        self.content.check(summed.notes[2 + sample_digest.NOTES :], opened.number)
        scale = opened.scale(summed.count, summed.counted)
        loss = summed.loss * scale
        self._late.check(loss, opened.number)
        self._replica.scale(scale)
        self._seed(opened.number, stage=rng.Stage.UPDATE)
        return Outcome(summed, loss)

    def _commit(self, opened: OpenStep, summed: Summed, loss: float | torch.Tensor) -> Step:
        world_size = self._seat.group.world_size
        done = self._late.step(opened.number, world_size, loss, *self._replica.update(loss))
        self._late.look()
        self.pace = self.pace.after(time.monotonic(), world_size)
        self._notes = summed.notes
        self._balance.measure(opened.shape)
        self._gaps.end_step()
        self._guard.committed()
        return done
