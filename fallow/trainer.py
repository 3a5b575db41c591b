"""The training loop's side of elasticity: what a script calls.

How a step is computed and committed, ``step_runner`` says; how this worker comes into another group,
``membership_client``; where its samples come from, ``adapters`` and below.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import torch
from torch import nn

from fallow.data import batch_plan
from fallow.data.adapters import Adapter, Asked, length, take_in
from fallow.data.feed import Feed
from fallow.data.sampler import Order
from fallow.data.step import ONCE_EACH
from fallow.errors import LoopError
from fallow.evaluation import Evaluation, Evaluator, Metric, evaluating
from fallow.metrics.late_steps import LateSteps
from fallow.metrics.report import Measurements, Reporter, measurements
from fallow.process_group import static
from fallow.process_group.collectives import Group
from fallow.process_group.membership_client import MembershipClient
from fallow.process_group.rendezvous import Rendezvous
from fallow.requests.listener import PendingRequests
from fallow.side_sums import SideSums
from fallow.state import rng
from fallow.state.checkpoint import PeriodicCheckpoint
from fallow.state.replica import Replica
from fallow.step_runner import StepRunner
from fallow.types import Recipe, Step

LOG = logging.getLogger("fallow")


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
        self._sums = SideSums(self._replica.progress, self._replica.device, self._key)
        self._seat = MembershipClient(
            self._replica,
            channel,
            founder,
            group,
            self._keeper.keep,
            tell_place=tell_place,
            meet=self._sums.meet,
        )
        self._runner = StepRunner(
            self._replica,
            self._seat,
            self._keeper,
            late=self._late,
            wishes=PendingRequests(channel, self._replica.device, self._keeper.save),
            key=self._key,
        )
        self._started, self._came_behind, self._furthest_asked = False, False, -1
        self._order: Order | None = None
        self._total_steps: int | None = None
        self._last_epoch: int | None = None

    def keep_all_at_work(self) -> None:
        """Leave no slow worker without samples, for loops that compute a batch anyway. Before ``steps``."""
        self._runner.keep_all_at_work()

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
        opened = self._runner.opened
        return 0 if opened is None else len(opened.mine)

    @property
    def epoch(self) -> int:
        """The epoch of the step that comes next, 0-based; 0 before ``steps``; or the one of ``epochs``."""
        self._seat.check_joined("epoch")
        if self._last_epoch is not None:
            return self._replica.progress.epoch or 0
        return 0 if self._order is None else self._order.epoch(self.next_step)

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of all workers together, smoothed; ``None`` until steps of this world were timed."""
        return self._runner.pace.samples_per_s(self.recipe.global_batch)

    def epochs(self, total: int, *, start: int = 0) -> Iterator[int]:
        """Each epoch still to do of ``total``, 0-based; the body loops over ``steps(data)`` once.

        A joiner enters the epoch that the others are in, at their step, or behind its last step: what they
        do after it (``evaluate``, a scheduler, early stopping) it does with them, and nothing of epochs
        before. A training begun elsewhere goes on from epoch ``start``. Blocks until this worker has a place
        in the job. Raises LoopError, and what ``steps`` raises.
        """
        for name, number in (("total", total), ("start", start)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise LoopError(f"epochs({name}={number!r}): pass a whole number of epochs")
        if self._last_epoch is not None:
            raise LoopError("epochs() was called within epochs(): a training has one loop over its epochs")
        return self._run_epochs(total, start)

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
        batch size is taken. Train for ``total_steps`` or for so many ``epochs``; neither within the method
        ``epochs``, where these are the steps of its epoch. ``order`` gives an epoch's indices in place of the
        seeded shuffle. ``workers`` processes read ``prefetch`` micro-batches ahead each, pinned if asked.
        ``samples_per_epoch`` is the length of a stream that doesn't know it.

        A step whose group broke is yielded again. A joiner waits here until it is taken in, and begins with
        the step that the others do next. Raises Left when this worker has been let go, and
        DataError, BatchError or StateError before the first step for what cannot be trained on.
        """
        request = Asked(
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
        intake = take_in(
            data, request, self.recipe.global_batch, self.recipe.seed, self._key, device=self._replica.device
        )
        if self._last_epoch is not None and (total_steps is not None or epochs is not None):
            raise LoopError("within trainer.epochs(), steps(data) goes through one epoch: drop its number")
        self._total_steps = length(
            total_steps, epochs if self._last_epoch is None else self._last_epoch, intake.order
        )
        keeps = self._seat.driven or self.recipe.checkpoint is not None
        self._replica.know(intake.order.identity, fixed=self._order is not None and self._started and keeps)
        self._order = intake.order
        if self._last_epoch is None:
            self._check_goes_on(self._total_steps)
            return self._run(intake, self._total_steps)
        return self._run(intake, self._end_of_epoch(intake.order))

    def backward(self, loss: torch.Tensor, count: float | None = None) -> None:
        """Accumulate the gradient of ``loss``, the mean over the next micro-batch of this step.

        With ``count``, ``loss`` is the mean over that many items of the micro-batch (tokens, say), and the
        step's loss is the mean over all items of the global batch, whoever computed them. A micro-batch
        with ``count=0`` adds nothing. Raises LoopError or LossError.
        """
        self._runner.backward(loss, count)

    def reduce(self) -> bool:
        """Sum the step's gradients over all workers now, so that ``grad`` is the global one until ``step()``.

        For frameworks whose loops look at gradients, or clip them, between backward pass and update. False
        when the group broke: ``step()`` must be called none the less, and returns ``None``. Calling it again
        changes nothing. Raises LossError as ``step()`` does.
        """
        return self._runner.reduce()

    def step(self) -> Step | None:
        """Sum, commit and update; ``None`` when not committed, because the group broke.

        Raises LossError, on every worker and before anything is updated, when the loss is not finite.
        """
        done = self._runner.step()
        if done is not None:
            self._reporter.measured(self._runner.pace.last_end_s, self._measure)
        return done

    def evaluate(
        self,
        data: Any,
        metric: Metric,
        *,
        batch: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        workers: int | None = None,
    ) -> Evaluation:
        """``metric`` summed over all of ``data``, each sample once, by all workers; the same in each.

        ``metric(batch)`` gives numbers: each the sum over its batch, or one value a sample; one, or a dict of
        them. A loader's batch size is kept, else batches have ``batch`` samples (``max_micro_batch``). The
        model is in evaluation mode meanwhile, without gradients. Every worker must call it, between steps.
        Blocks. Raises DataError, LoopError, and Mistake for what are no sums.
        """
        self._check_between("evaluate()")
        size = self.recipe.max_micro_batch if batch is None else batch
        evaluator = Evaluator(
            data,
            metric,
            batch=size,
            collate=collate,
            workers=workers,
            key=self._key,
            device=self._replica.device,
        )
        with closing(evaluator), evaluating(self._replica.model):
            summed = self._sums.sum(self._seat, evaluator.told, evaluator.part)
        return evaluator.result(summed)

    def agree(self, wanted: bool) -> bool:
        """Whether any worker wants it: early stopping, say. Every worker must call it, between steps."""
        self._check_between("agree()")
        return self._sums.sum(self._seat, lambda: "agree()", lambda group: (float(wanted),))[0] > 0

    def save(self) -> int | None:
        """Save the training as it stands; returns the bytes written, ``None`` if another rank does.

        Blocks until the file is on disk. Raises StateError without a path; OSError, the old file intact.
        """
        if self._runner.opened is not None:
            raise LoopError(f"step {self.next_step} is half done: save after trainer.step()")
        return self._keeper.save() if self.rank == 0 else None

    def _run(self, intake: Adapter, until: int) -> Iterator[tuple[int, Iterator[Any]]]:
        feed = Feed(intake, until, self._key, self._runner.digest)
        with closing(feed), self._keeper.listening(), self._runner.first.guard.watching():
            if self._may_compare(intake.reader.source):
                self._runner.content.look(intake.reader, intake.order, self._key)
            self._start(feed)
            self._runner.cross_boundary()  # if the script left an earlier loop amid it
            while self.next_step < until:
                yield self.next_step, self._runner.micro_batches(feed, *self._runner.begin(feed))
                self._check_between()
                self._runner.first.guard.check_schedulers()
                self._runner.cross_boundary()
        self._late.look(wait=True)
        if self._last_epoch is not None:
            # Nobody does what comes after an epoch before all have its last step: a worker that lacked it
            # would be handed a state to which that was done, and do it again.
            self._sums.sum(self._seat, lambda: f"the end of epoch {self.epoch}", lambda group: ())
            self._replica.progress.ended = True
        else:
            self._seed(self.next_step, stage=rng.Stage.BETWEEN)  # a joiner that did none of the steps, too

    def _run_epochs(self, total: int, start: int) -> Iterator[int]:
        progress = self._replica.progress
        with self._keeper.listening():
            self._start(None)
            if progress.epoch is None:
                progress.epoch = self._replica.epoch_taken_up() or start
            self._last_epoch = total
            try:
                while progress.epoch < total:
                    self._seed(progress.epoch, stage=rng.Stage.EPOCH)
                    yield progress.epoch
                    if not progress.ended:
                        raise LoopError(
                            f"epoch {progress.epoch} ended before its steps did: go through "
                            "trainer.steps(data) once in each epoch, to its end; leave early by a break out "
                            "of both loops, in every worker"
                        )
                    progress.epoch, progress.ended = progress.epoch + 1, False
            finally:
                self._last_epoch = None
                self._total_steps = self._replica.next_step

    def _may_compare(self, source: Any) -> bool:
        """Whether others may have other samples, and all look at theirs as they were before the training."""
        handed = (self.recipe.state or {}).values()
        is_early = not self._started or self._replica.next_step == self.recipe.start_step
        several = self._seat.driven or self._seat.group.world_size > 1
        return several and (is_early or not handed) and all(part is not source for part in handed)

    def _check_goes_on(self, until: int) -> None:
        """Raises LoopError for a loop that was gone through already."""
        if until <= min(self._furthest_asked, self._replica.next_step):
            raise LoopError(
                f"steps() was called again, up to step {until}, but {self._replica.next_step} are done: its "
                "number is that of the whole training, counted from its beginning. Ask for more steps or "
                "epochs each time, or loop over trainer.epochs(n) and leave the number out"
            )
        self._furthest_asked = until
        if self._came_behind:
            self._came_behind = False
            LOG.warning(
                "this worker joined at step %d, behind its first loop over steps(): it now goes through all "
                "that the script does between its loops, validations of past epochs say, while the others "
                "wait. Loop over trainer.epochs(n), which joiners enter where the others are",
                self._replica.next_step,
            )

    def _end_of_epoch(self, order: Order) -> int:
        """The step after the last of the epoch in hand."""
        epoch, replica = self.epoch, self._replica
        first = epoch * order.steps_per_epoch
        if not replica.next_step:
            replica.next_step = first  # begun elsewhere
        if not first <= replica.next_step <= first + order.steps_per_epoch:
            raise LoopError(
                f"epoch {epoch} has the steps {first} to {first + order.steps_per_epoch - 1}, but step "
                f"{replica.next_step} comes next: pass trainer.epochs(..., start=) the epoch of start_step="
            )
        return first + order.steps_per_epoch

    def _check_between(self, call: str = "") -> None:
        """Raises LoopError within a step, NotYetJoined before there is a place."""
        self._seat.check_joined(call)
        to = f" to {call}" if call else ""
        if self._runner.opened is not None:
            raise LoopError(
                f"step {self.next_step}: the loop went on{to} without trainer.step(). {ONCE_EACH}"
            )

    def _start(self, feed: Feed | None) -> None:
        """Take up a saved training, and meet the others; or warm up, and be taken in by them. Once."""
        if self._started:
            return
        if self.warming_up:
            self._runner.warm_up(feed)
            self._seat.join()
            self._came_behind = self._replica.next_step >= (self._total_steps or 0)
        else:
            self._replica.next_step = self.recipe.start_step
            self._keeper.resume()
            self._seat.found()
            if not self._seat.driven and self.world_size > 1:
                static.spread(self._seat.group, self._replica)
        self._started = True

    def _measure(self) -> Measurements:
        return measurements(
            self._replica.device,
            self.recipe,
            self._runner.pace,
            next_step=self.next_step,
            total_steps=self._total_steps,
            world_size=self.world_size,
            saved_ms=self._keeper.saved_ms,
        )
