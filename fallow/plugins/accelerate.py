"""Hugging Face Accelerate, elastic: an ``Accelerator`` whose workers come and go between two steps.

    accelerator = ElasticAccelerator(max_micro_batch=32, epochs=3)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for epoch in accelerator.epochs():
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(loss_fn(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()

The loader's batch size is the global batch, whatever the world size. Accelerate itself sees one process;
the sum over workers is made in the ``backward`` of a step's last micro-batch, as DDP makes it, and a step
whose group broke looks to the loop like one that a gradient scaler skipped: nothing is updated, and the
loader yields its micro-batches again. Seams: ``prepare_*``, ``backward``, ``accumulate`` and
``AcceleratedOptimizer`` (accelerate 1.15, accelerator.py and optimizer.py).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import accelerate
import torch
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.utils import GradientAccumulationPlugin, send_to_device

import fallow
from fallow.errors import Mistake
from fallow.plugins.single import single_process
from fallow.trainer import Trainer
from fallow.types import Step


class ElasticAccelerator(accelerate.Accelerator):  # type: ignore[misc]
    """An ``accelerate.Accelerator`` for one model, one optimizer and the loader that is prepared first.

    ``max_micro_batch`` is what fits a worker's memory; train for ``total_steps`` global batches or so many
    ``epochs``. ``elastic`` holds further arguments of ``Job.elastic`` (``deterministic``, ``checkpoint``, …).
    Everything else is Accelerate's own; what it would do over processes (``gather``, sharded validation)
    happens within this one. Raises Mistake for what cannot be elastic.
    """

    def __init__(
        self,
        *,
        max_micro_batch: int,
        total_steps: int | None = None,
        epochs: int | None = None,
        elastic: dict[str, Any] | None = None,
        cpu: bool = False,
        **options: Any,
    ):
        if options.pop("gradient_accumulation_steps", 1) != 1 or "gradient_accumulation_plugin" in options:
            raise Mistake(
                "ElasticAccelerator accumulates by itself: the loader's batch size is the global batch, cut "
                "by max_micro_batch. Drop gradient_accumulation_steps, and multiply the batch size by it"
            )
        self._job = fallow.connect("cuda" if torch.cuda.is_available() and not cpu else "cpu")
        if self._job.device.type == "cuda":
            torch.cuda.set_device(self._job.device)
        self._asked = {"max_micro_batch": max_micro_batch, **(elastic or {})}
        self._total_steps, self._epochs = total_steps, epochs
        self._model: torch.nn.Module | None = None
        self._optimizer: ElasticOptimizer | None = None
        self._loader: ElasticLoader | None = None
        self._schedules: list[Any] = []
        accumulation = GradientAccumulationPlugin(num_steps=1, adjust_scheduler=False)
        with single_process():
            super().__init__(cpu=cpu, gradient_accumulation_plugin=accumulation, **options)
        if self.num_processes != 1:
            raise Mistake(
                f"Accelerate had formed a world of {self.num_processes} processes before ElasticAccelerator "
                "was made: make it first, and start the script with python, torchrun or fallow.controller"
            )
        self._stand_at(int(os.environ.get("RANK", "0")))

    @property
    def trainer(self) -> Trainer:
        """The trainer beneath: world size, rank, epoch, samples a second. Raises Mistake before training."""
        if self._loader is None or self._loader.trainer is None:
            raise Mistake("nothing is trained yet: iterate over the prepared loader first")
        return self._loader.trainer

    @property
    def committed(self) -> Step | None:
        """The step that ended last, with its loss over the whole global batch; ``None`` before the first."""
        return None if self._optimizer is None else self._optimizer.committed

    @property
    def total_steps(self) -> int:
        """Global batches of the whole training."""
        if self._total_steps is not None or self._epochs is None or self._loader is None:
            return self._total_steps or 0
        return self._epochs * len(self._loader)

    def epochs(self) -> Iterator[int]:
        """The epochs still to do, in a resumed or joining worker too; ``range`` would begin anew there."""
        if self._loader is None:
            raise Mistake("prepare() the loader before epochs()")
        return self._loader.epochs()

    def prepare_model(self, model: torch.nn.Module, *arguments: Any, **options: Any) -> Any:
        """Accelerate's own; the first model is the one that is trained."""
        prepared = super().prepare_model(model, *arguments, **options)
        self._model = self._model if self._model is not None else prepared
        return prepared

    def prepare_optimizer(
        self, optimizer: torch.optim.Optimizer, device_placement: bool | None = None
    ) -> Any:
        """The one optimizer, whose ``step`` ends a global batch."""
        if self._optimizer is not None:
            if optimizer is self._optimizer:
                return optimizer
            raise Mistake("ElasticAccelerator trains with one optimizer: use parameter groups instead")
        placed = self.device_placement if device_placement is None else device_placement
        self._optimizer = ElasticOptimizer(optimizer, self, placed, self.scaler)
        self._optimizers.append(self._optimizer)
        return self._optimizer

    def prepare_scheduler(self, scheduler: Any) -> Any:
        """Accelerate's own, handed to joiners."""
        prepared = super().prepare_scheduler(scheduler)
        self._schedules.append(prepared)
        return prepared

    def prepare_data_loader(self, data_loader: Any, *arguments: Any, **options: Any) -> Any:
        """The first loader is trained on; others are Accelerate's, read whole by every worker."""
        if self._loader is None:
            self._loader = ElasticLoader(data_loader, self)
        elif data_loader is not self._loader:
            return super().prepare_data_loader(data_loader, *arguments, **options)
        return self._loader

    @contextmanager
    def accumulate(self, *models: torch.nn.Module) -> Iterator[None]:
        """Nothing to arrange: the loader has said whether this micro-batch is the step's last."""
        yield

    def backward(self, loss: torch.Tensor, count: float | None = None, **options: Any) -> None:
        """Accumulate; after a step's last micro-batch, sum over all workers.

        ``loss`` is the mean over the micro-batch, or over ``count`` items of it (tokens, say).
        """
        if options:
            raise Mistake(f"backward() cannot take {', '.join(options)} in an elastic training")
        if self._loader is None:
            raise Mistake("backward() needs a prepared loader to iterate over")
        self._loader.backward(loss, count)

    def load_state(self, *arguments: Any, **options: Any) -> NoReturn:
        """Not here: it would not bring back which samples come next. Raises Mistake."""
        raise Mistake(
            "an elastic training resumes from its own checkpoint, at any world size: pass "
            "elastic={'checkpoint': PATH}, and save with SIGUSR1 or accelerator.checkpoint()"
        )

    def checkpoint(self) -> int | None:
        """Save the training, between two steps; see ``Job.checkpoint``."""
        return self._job.checkpoint()

    def _begin(self, loader: "ElasticLoader") -> tuple[Trainer, Iterator[Any]]:
        """Once everything is prepared: the trainer beneath and its steps."""
        if self._model is None or self._optimizer is None:
            raise Mistake("prepare() the model and its optimizer before iterating over the loader")
        trainer = self._job.elastic(
            self._model,
            self._optimizer.optimizer,
            global_batch=loader.global_batch,
            scaler=self.scaler,
            state={f"scheduler {at}": part for at, part in enumerate(self._schedules)},
            **self._asked,
        )
        trainer.keep_all_at_work()
        return trainer, trainer.steps(loader.source, self._total_steps, epochs=self._epochs)

    def _stand_at(self, rank: int) -> None:
        """Tell Accelerate who prints, logs and saves. Its state is one for all of its objects."""
        accelerate.PartialState().process_index = rank
        accelerate.PartialState().local_process_index = rank


class ElasticLoader:
    """Yields this worker's micro-batches, step after step; its length is counted in steps."""

    def __init__(self, source: Any, accelerator: ElasticAccelerator):
        batch = getattr(source, "batch_size", None) or getattr(source.batch_sampler, "batch_size", None)
        if batch is None:
            raise Mistake("the loader has no batch size to be the global batch: make it with batch_size=")
        self.source = source
        self.global_batch: int = batch
        self.trainer: Trainer | None = None
        self._accelerator = accelerator
        self._steps: Iterator[Any] = iter(())
        self._next: tuple[int, Iterator[Any]] | None = None
        self._counted = False

    @property
    def dataset(self) -> Any:
        """The data set beneath."""
        return self.source.dataset

    @property
    def batch_size(self) -> int:
        """Samples of a step, over all workers."""
        return self.global_batch

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Any]:
        trainer = self._started()
        self._next = self._next or next(self._steps, None)  # a joiner is taken in, amid an epoch or not
        entered_in = trainer.epoch
        while trainer.epoch == entered_in:
            step, self._next = self._next or next(self._steps, None), None
            if step is None:
                return
            yield from self._bodies(trainer, step[1])

    def epochs(self) -> Iterator[int]:
        """The epoch of the next step, until all steps are done."""
        trainer = self._started()
        if self._next is None:
            self._next = next(self._steps, None)  # takes up a checkpoint, and meets the others
        while self._next is not None or trainer.next_step < self._accelerator.total_steps:
            yield trainer.epoch

    def backward(self, loss: torch.Tensor, count: float | None) -> None:
        """The backward pass of the micro-batch in hand; the last of a step sums."""
        if self.trainer is None:
            raise Mistake("backward() needs a micro-batch of the prepared loader in hand")
        if self._counted:
            self.trainer.backward(loss, count)
        if self._accelerator.sync_gradients:
            self.trainer.reduce()

    def _started(self) -> Trainer:
        if self.trainer is None:
            self.trainer, self._steps = self._accelerator._begin(self)
        return self.trainer

    def _bodies(self, trainer: Trainer, batches: Iterator[Any]) -> Iterator[Any]:
        """The micro-batches of one step; a worker without any gets one whose loss isn't counted, so that the
        loop's body clips, updates and schedules there too.
        """
        accelerator = self._accelerator
        accelerator._stand_at(trainer.rank)
        count = trainer.micro_batches
        self._counted = count > 0
        if not self._counted:
            batches = iter([self._any_batch()])
        for at, batch in enumerate(batches, start=1):
            accelerator.sync_gradients = at >= count
            yield send_to_device(batch, accelerator.device, non_blocking=accelerator.non_blocking)

    def _any_batch(self) -> Any:
        dataset, limit = self.source.dataset, self._accelerator._asked["max_micro_batch"]
        samples = zip(range(min(limit, self.global_batch)), dataset, strict=False)
        return self.source.collate_fn([sample for _, sample in samples])


class ElasticOptimizer(AcceleratedOptimizer):  # type: ignore[misc]
    """An optimizer whose ``step`` commits a global batch, and does nothing before its last micro-batch."""

    def __init__(self, optimizer: Any, accelerator: ElasticAccelerator, placed: bool, scaler: Any):
        super().__init__(optimizer, device_placement=placed, scaler=scaler)
        self._accelerator = accelerator
        self._last: Step | None = None
        self._has_stepped = False
        self.committed: Step | None = None

    def step(self, closure: Any = None) -> None:
        """Commit: update, and follow a resize if one is due. Raises Mistake for a closure."""
        if closure is not None:
            raise Mistake("an elastic step cannot be computed by a closure")
        if not self.gradient_state.sync_gradients:
            return
        done = self._accelerator.trainer.step()
        self._last, self._has_stepped = done, True
        self.committed = done or self.committed

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Nothing: every step begins without gradients, and those of its earlier micro-batches must stay."""

    @property
    def step_was_skipped(self) -> bool:
        """Whether nothing was updated: an overflow, or a step that will be taken again."""
        return self._has_stepped and (self._last is None or self._last.skipped)
