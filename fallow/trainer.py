"""The training loop's side of elasticity: exact accumulation, transactions of steps.

A step is a transaction. Gradients are summed in one go, together with the switch flag; only when that sum
has arrived everywhere is the step committed. A broken group leaves the step uncommitted: it is taken
again, with the same samples, in whatever group comes next. A resize is never counted as a retry.
How this worker comes into another group, ``membership_client`` says; where its
samples come from, ``adapters`` and below.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import torch
from torch import nn

from fallow.burst.steps import BurstSteps
from fallow.data import batch_plan
from fallow.data.adapters import Adapter, Asked, length, take_in
from fallow.data.balance import Balance
from fallow.data.batch_plan import BatchPlan
from fallow.data.feed import Feed
from fallow.data.sample_digest import NOTES, SampleDigest
from fallow.data.sampler import Order, Piece
from fallow.data.step import ONCE_EACH, OpenStep
from fallow.errors import LoopError
from fallow.first_steps import FirstSteps
from fallow.gradients import choose
from fallow.gradients.checks import checked
from fallow.gradients.reducer import MARKS, Local, Outcome, Reducer, Summed
from fallow.idle_gaps.announce import announcer
from fallow.metrics.late_steps import LateSteps
from fallow.metrics.report import Measurements, Pace, Reporter, measurements
from fallow.process_group import static
from fallow.process_group.collectives import Group, GroupBroken
from fallow.process_group.membership_client import MembershipClient
from fallow.process_group.rendezvous import Rendezvous
from fallow.requests.listener import PendingRequests
from fallow.state import rng
from fallow.state.checkpoint import PeriodicCheckpoint
from fallow.state.replica import Replica
from fallow.types import Recipe, Step


class Trainer:
    """Runs one training in this worker; made by ``Job.elastic``. ``group`` is a launcher's static world."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        recipe: Recipe,
        *,
        channel: Rendezvous | None = None,
        founder: bool = True,
        group: Group | None = None,
        reporter: Reporter | None = None,
        tell_place: Callable[[int, int], None] = lambda rank, world_size: None,
    ):
        batch_plan.check(recipe)
        self.recipe = recipe
        self._replica = Replica(model, optimizer, recipe)
        self._reporter = reporter or Reporter(None)
        keyed = recipe.deterministic or channel is not None or (group is not None and group.world_size > 1)
        self._key = recipe.seed if keyed else None
        self._seed = partial(rng.seed, self._key, device=self._replica.device)
        self._late = LateSteps(self._replica.device, recipe)
        self._keeper = PeriodicCheckpoint(
            self._replica, recipe.checkpoint, self._late.look, generators=not keyed
        )
        self._seat = MembershipClient(
            self._replica, channel, founder, group, self._keeper.keep, tell_place=tell_place
        )
        self._first = FirstSteps(self._replica, self._seat)
        self._guard = self._first.guard
        self._wishes = PendingRequests(channel, self._replica.device, self._keeper.save)
        self._sits_in: Group | None = None
        self._trainable: tuple[bool, ...] = ()
        self._reducer: Reducer = Local(model)
        self._balance = Balance(self._replica.device, recipe)
        self._digest = SampleDigest()
        self._open: OpenStep | None = None
        self._outcome: Outcome | None = None
        self._notes: tuple[float, ...] | None = None
        self._started = False
        self._order: Order | None = None
        self._total_steps: int | None = None
        self._gaps = announcer(self._replica.device)
        self._bursts = BurstSteps(model, recipe.global_batch, self._gaps)
        self._pace = Pace(world_size=0, last_end_s=time.monotonic())

    @property
    def next_step(self) -> int:
        """The step that comes next; steps below it are committed. Raises NotYetJoined, as do those below."""
        return self._seat.check_joined("next_step") and self._replica.next_step

    @property
    def world_size(self) -> int:
        """How many workers compute the current step."""
        return self._seat.check_joined("world_size") and self._seat.group.world_size

    @property
    def rank(self) -> int:
        """This worker's place among them."""
        return self._seat.check_joined("rank") and self._seat.group.rank

    @property
    def has_ended(self) -> bool:
        """Whether all steps that were asked for are done."""
        return self._started and self._replica.next_step >= (self._total_steps or 0)

    @property
    def generation(self) -> int:
        """The number of the group that computes the current step: it grows with each change; 0 when alone."""
        return self._seat.check_joined("generation") and self._seat.generation

    @property
    def warming_up(self) -> bool:
        """Whether this worker has yet to be taken in; never within ``steps``."""
        return self._seat.warming_up

    @property
    def micro_batches(self) -> int:
        """This worker's micro-batches of the step in hand: 0 for an idle worker, and between steps."""
        return 0 if self._open is None else len(self._open.mine)

    @property
    def epoch(self) -> int:
        """The epoch of the step that comes next, 0-based; 0 before ``steps``."""
        return self._seat.check_joined("epoch") and (
            0 if self._order is None else self._order.epoch(self.next_step)
        )

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of all workers together, smoothed; ``None`` until steps of this world were timed."""
        return self._pace.samples_per_s(self.recipe.global_batch)

    def steps(
        self,
        data: Any,
        total_steps: int | None = None,
        *,
        epochs: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        shuffle: bool | None = None,
        drop_last: bool | None = None,
        order: Callable[[int], Sequence[int]] | None = None,
        workers: int | None = None,
        prefetch: int | None = None,
        pin_memory: bool | None = None,
        worker_init: Callable[[int], None] | None = None,
        samples_per_epoch: int | None = None,
    ) -> Iterator[tuple[int, Iterator[Any]]]:
        """Each step still to do, with this worker's micro-batches of it; the loop body must call ``step()``.

        ``data`` is a data set that can be indexed, a stream, or a torch DataLoader, from which all but the
        batch size is taken. Train for ``total_steps`` or for so many ``epochs``. ``order`` gives an epoch's
        indices in place of the seeded shuffle. ``workers`` processes read ``prefetch`` micro-batches ahead
        each, pinned if asked. ``samples_per_epoch`` is the length of a stream that doesn't know it.

        A step whose group broke is yielded again. A joiner waits here until it is taken in, and begins with
        the step that the others do next. Raises Left when this worker has been let go, and
        DataMistake, BatchError or StateMistake before the first step for what cannot be trained on.
        """
        asked = Asked(
            collate=collate,
            shuffle=shuffle,
            drop_last=drop_last,
            order=order,
            workers=workers,
            prefetch=prefetch,
            pin_memory=pin_memory,
            worker_init=worker_init,
            samples_per_epoch=samples_per_epoch,
        )
        intake = take_in(data, asked, self.recipe.global_batch, self.recipe.seed, self._key)
        self._order = intake.order
        self._total_steps = length(total_steps, epochs, intake.order)
        kept = self._seat.driven or self.recipe.checkpoint is not None
        self._replica.know(intake.order.identity, fixed=self._started and kept)
        return self._run(intake, self._total_steps)

    def backward(self, loss: torch.Tensor, count: float | None = None) -> None:
        """Accumulate the gradient of ``loss``, the mean over the next micro-batch of this step.

        With ``count``, ``loss`` is the mean over that many items of the micro-batch (tokens, say), and the
        step's loss is the mean over all items of the global batch, whoever computed them. A micro-batch
        with ``count=0`` adds nothing. Raises LoopMistake or LossMistake.
        """
        if self._open is None:
            raise LoopError("backward() was called outside the loop over trainer.steps(...)")
        part = self._open.weigh(count)
        self._first.before_backward(loss, part, self._open.number)
        if count == 0:
            weighted = torch.zeros((), device=self._replica.device)
            self._bursts.backward_without_samples(loss)
        else:
            weighted = checked(loss, part.micro, self._open.number) * part.weight
            scaler = self.recipe.scaler
            self._bursts.backward(weighted if scaler is None else scaler.scale(weighted))
        self._reducer.end_micro_batch(part.micro.index, part.fraction, weighted.detach(), part.count)
        self._guard.keep()

    def reduce(self) -> bool:
        """Sum the step's gradients over all workers now, so that ``grad`` is the global one until ``step()``.

        For frameworks whose loops look at gradients, or clip them, between backward pass and update. False
        when the group broke: ``step()`` must be called none the less, and returns ``None``. Calling it again
        changes nothing. Raises LossMistake as ``step()`` does.
        """
        if self._open is None:
            raise LoopError("step() was called twice, or outside the loop over trainer.steps(...)")
        if self._outcome is None:
            self._guard.close()
            opened, self._open = self._open, None
            self._outcome = self._reduced(opened)
            self._open = opened
        return self._outcome.summed is not None

    def step(self) -> Step | None:
        """Sum, commit and update; ``None`` when not committed, because the group broke.

        Raises LossMistake, on every worker and before anything is updated, when the loss is not finite.
        """
        self.reduce()
        opened, self._open = self._open, None
        outcome, self._outcome = self._outcome, None
        assert opened is not None
        assert outcome is not None
        if outcome.summed is None:
            self._guard.forget()
            self._seat.recover()
            return None
        return self._commit(opened, outcome.summed, outcome.loss)

    def save(self) -> int | None:
        """Save the training as it stands; returns the bytes written, ``None`` if another rank does.

        Blocks until the file is on disk. Raises StateMistake without a path; OSError, the old file intact.
        """
        if self._open is not None:
            raise LoopError(f"step {self.next_step} is half done: save after trainer.step()")
        return self._keeper.save() if self.rank == 0 else None

    # -- one step ---------------------------------------------------------------------------------------

    def _run(self, intake: Adapter, until: int) -> Iterator[tuple[int, Iterator[Any]]]:
        feed = Feed(intake, until, self._key, self._digest)
        with closing(feed), self._keeper.listening(), self._guard.watching():
            if not self._started:
                self._start(feed)
            self._started = True
            self._cross_boundary()  # if the script left an earlier loop amid it
            while self.next_step < until:
                yield self.next_step, self._micro_batches(feed, *self._begin(feed))
                if self._open is not None:
                    raise LoopError(
                        f"step {self.next_step}: the loop went on without trainer.step(). {ONCE_EACH}"
                    )
                self._guard.check_schedulers()
                self._cross_boundary()
        self._late.look(wait=True)

    def _start(self, feed: Feed) -> None:
        """Take up a saved training, and meet the others; or warm up, and be taken in by them."""
        if self.warming_up:
            opened, pieces = self._begin(feed)
            self._open = None
            for piece in pieces:
                feed.fetch(piece)  # so that whatever reads has read before
            self._first.warm_up.compute([micro.size for micro in opened.shape.micro_batches])
            self._reducer.end_micro_batch(0, 1.0, torch.zeros((), device=self._replica.device), None)
            self._sum(opened)
            self._first.warm_up.update()
            self._seat.join()
            return
        self._keeper.resume()
        self._seat.found()
        if not self._seat.driven and self.world_size > 1:
            static.spread(self._seat.group, self._replica)

    def _begin(self, feed: Feed) -> tuple[OpenStep, tuple[Piece, ...]]:
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
            weights=self._balance.weights,
            warming_up=self.warming_up,
        )
        shape, pieces = feed.open(now, self._replica.next_step)
        self._open = OpenStep(self._replica.next_step, shape, tuple(piece.micro for piece in pieces))
        self._bursts.begin(group, shape)
        self._reducer.begin()
        self._guard.begin(self._replica.next_step)
        self._balance.start()
        self._seed(self._replica.next_step, stage=rng.Stage.BEFORE)
        return self._open, pieces

    def _micro_batches(self, feed: Feed, opened: OpenStep, pieces: Sequence[Piece]) -> Iterator[Any]:
        self._settle()
        for piece in pieces:
            opened.hand_out(piece.micro)
            self._reducer.begin_micro_batch(piece is pieces[-1])
            with self._gaps.gap("data"):
                fetched = feed.fetch(piece)
            self._seed(piece.step, piece.micro.index)
            self._first.handed_out(piece.micro.size)
            yield fetched
        self._seed(opened.number, stage=rng.Stage.AFTER)

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
        notes += [*self._digest.notes(), *self._balance.notes()]
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
        self._digest.check(summed.notes[2:], opened.number, self._seat.group, self._replica.device)
        scale = opened.scale(summed.count, summed.counted)
        loss = summed.loss * scale
        self._late.check(loss, opened.number)
        self._replica.scale(scale)
        self._seed(opened.number, stage=rng.Stage.UPDATE)
        return Outcome(summed, loss)

    def _commit(self, opened: OpenStep, summed: Summed, loss: float | torch.Tensor) -> Step:
        world_size = self.world_size
        done = self._late.step(opened.number, world_size, loss, *self._replica.update(loss))
        self._late.look()
        self._pace = self._pace.after(time.monotonic(), world_size)
        self._reporter.measured(self._pace.last_end_s, self._measure)
        self._notes = summed.notes
        self._balance.measure(opened.shape.samples(self.rank))
        self._gaps.end_step()
        self._guard.committed()
        return done

    def _cross_boundary(self) -> None:
        """Do what rode in with the sum: new shares, a save, a switch. Not before the script comes back for
        the next step: what it does after a step, to a state that it hands over, say, belongs to that one.
        """
        if self._notes is None:
            return
        (flag, save, *told), self._notes = self._notes, None
        self._gaps.begin_step()
        self._balance.learn(told[NOTES:])
        if save:
            self._keeper.follow_signal(self.rank)
        self._wishes.grant(self.rank)
        self._seat.end_step(round(flag))

    def _measure(self) -> Measurements:
        return measurements(
            self._replica.device,
            self.recipe,
            self._pace,
            next_step=self.next_step,
            total_steps=self._total_steps,
            world_size=self.world_size,
            saved_ms=self._keeper.saved_ms,
        )
