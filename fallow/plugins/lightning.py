"""Lightning, elastic: a strategy whose workers come and go between two steps.

    trainer = lightning.Trainer(strategy=ElasticStrategy(max_micro_batch=32), max_epochs=3)
    trainer.fit(module, DataLoader(dataset, batch_size=256, shuffle=True))

The training loader's batch size is the global batch, whatever the world size, and one batch of Lightning's
loop is one step: ``global_step``, epochs, schedulers, validation intervals and progress mean the same in
every world. The micro-batches of a step run within ``optimizer_step``, which returns when the step is
committed, so that a broken group or a resize never shows in the loop; a worker that joins takes up the loop's
counters and goes on amid the same batch. Seams: ``Strategy.process_dataloader``, ``training_step``,
``backward`` and ``optimizer_step`` (lightning 2.6, pytorch/strategies/strategy.py and
pytorch/loops/optimization/automatic.py).
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.trainer import call
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning.pytorch.utilities.rank_zero import rank_zero_only

import fallow
from fallow.errors import Mistake
from fallow.process_group.membership_client import Left
from fallow.trainer import Trainer
from fallow.types import Step


class ElasticStrategy(SingleDeviceStrategy):  # type: ignore[misc]
    """Trains one module with one optimizer; Lightning itself sees a single device.

    ``max_micro_batch`` is what fits a worker's memory. ``elastic`` holds further arguments of ``Job.elastic``
    (``deterministic``, ``checkpoint``, …). Each worker runs whole validations. ``training_step`` is called
    for each micro-batch; in its dict, ``count`` says of how many items (tokens, say) the loss is the mean.
    Hooks that get the training batch get a ``StepBatch`` in its place. Raises Mistake, when training starts,
    for what cannot be elastic.
    """

    strategy_name = "fallow"

    def __init__(
        self,
        *,
        max_micro_batch: int,
        device: str | None = None,
        elastic: dict[str, Any] | None = None,
        **options: Any,
    ):
        self._job = fallow.connect(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        super().__init__(device=self._job.device, **options)
        self.cluster_environment = LightningEnvironment()  # whoever launched us, Lightning forms no world
        self._asked = {"max_micro_batch": max_micro_batch, **(elastic or {})}
        self._source: Any = None
        self._trainer: Trainer | None = None
        self._steps: Iterator[Any] = iter(())
        self._micro_batch: Any = None
        self._arguments: tuple[Any, ...] = ()
        self._count: float | None = None
        self._counted = False
        self.committed: Step | None = None
        self._stand_at(int(os.environ.get("RANK", "0")))

    @property
    def trainer(self) -> Trainer:
        """The trainer beneath: world size, rank, samples a second. Raises Mistake before training."""
        if self._trainer is None:
            raise Mistake("nothing is trained yet: call Trainer.fit first")
        return self._trainer

    @property
    def is_global_zero(self) -> bool:
        """Whether this worker logs and saves; it may change with every resize."""
        return bool(self.global_rank == 0)

    def process_dataloader(self, dataloader: Any) -> Any:
        """The training loader gives way to one that only counts steps; others are read whole."""
        if not self.lightning_module.trainer.training:
            return dataloader
        if not isinstance(dataloader, torch.utils.data.DataLoader):
            raise Mistake(
                f"ElasticStrategy trains from a torch DataLoader, not from {type(dataloader).__name__}"
            )
        self._source = dataloader
        return StepCounter(dataloader)

    def on_train_start(self) -> None:
        """Make the trainer beneath, once Lightning has everything. Raises Mistake."""
        self._check()
        module = self.lightning_module
        optimizer: Any = LightningUpdate(self.optimizers[0], self._update)
        self._trainer = self._job.elastic(
            module,
            optimizer,
            global_batch=self._source.batch_size,
            state={"lightning": Progress(module.trainer)},
            **{"allow_non_finite": self._scale() is not None, **self._asked},
        )
        self._trainer.keep_all_at_work()
        self._steps = self._trainer.steps(self._source, _total_steps(module.trainer, self._source))

    def on_train_end(self) -> None:
        """End the loader processes, if any."""
        close: Callable[[], None] | None = getattr(self._steps, "close", None)
        if close is not None:
            close()

    def batch_to_device(self, batch: Any, *arguments: Any, **options: Any) -> Any:
        """Lightning's own; a step has nothing to move before its micro-batches come."""
        return (
            batch if isinstance(batch, StepBatch) else super().batch_to_device(batch, *arguments, **options)
        )

    def training_step(self, *arguments: Any, **options: Any) -> Any:
        """The module's ``training_step`` on the micro-batch in hand."""
        self._arguments = arguments
        output = super().training_step(self._micro_batch, *arguments[1:], **options)
        self._count = output.get("count") if isinstance(output, dict) else None
        return output

    def backward(self, closure_loss: Any, optimizer: Any, *arguments: Any, **options: Any) -> Any:
        """Accumulate the gradient of one micro-batch, with Lightning's hooks and loss scaling around it."""
        self.pre_backward(closure_loss)
        loss = self.precision_plugin.pre_backward(closure_loss, self.lightning_module)
        if self._counted:
            self.trainer.backward(loss, self._count)
        loss = self.precision_plugin.post_backward(loss, self.lightning_module)
        self.post_backward(loss)
        return loss

    def optimizer_step(
        self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **options: Any
    ) -> Any:
        """Take the next step until it is committed. Raises Left when this worker is let go."""
        while True:
            step = next(self._steps, None)
            if step is None:
                raise Left  # taken in after the last step: nothing is left to do
            loss = self._accumulate(step[1], closure, optimizer)
            scale = self._scale() or 1.0
            done = self.trainer.step()
            if done is not None:
                # read only if it must be: on a GPU that waits
                self.committed = done if scale == 1.0 else replace(done, loss=done.loss / scale)
                return loss

    # -- one step ---------------------------------------------------------------------------------------

    def _accumulate(self, batches: Iterator[Any], closure: Callable[[], Any], optimizer: Any) -> Any:
        """All micro-batches of this worker; one without any computes one that isn't counted, so that
        Lightning's loop has its result. Lightning's closure is good for one of them.
        """
        trainer = self.trainer
        self._stand_at(trainer.rank)
        self._counted = trainer.micro_batches > 0
        loss = None
        for at, batch in enumerate(batches if self._counted else [self._any_batch()]):
            self._micro_batch = self._on_device(batch)
            if at == 0:
                loss = closure()
            else:
                output = call._call_strategy_hook(
                    self.lightning_module.trainer, "training_step", *self._arguments
                )
                self.backward(output["loss"] if isinstance(output, dict) else output, optimizer)
        self._micro_batch = None
        return loss

    def _update(self) -> None:
        """Lightning's update with the summed gradient: its hooks, clipping and unscaling come first."""
        optimizer, module = self.optimizers[0], self.lightning_module
        no_loss = torch.zeros(())  # Lightning asks for the loss of a backward pass that was made already
        self.precision_plugin.optimizer_step(optimizer, model=module, closure=lambda: no_loss)

    def _on_device(self, batch: Any) -> Any:
        module = self.lightning_module
        batch = module._on_before_batch_transfer(self.precision_plugin.convert_input(batch), dataloader_idx=0)
        batch = super().batch_to_device(batch, dataloader_idx=0)
        results = module.trainer._results
        if results is not None:
            results.batch, results.batch_size = batch, None  # self.log() weighs by it
        return batch

    def _any_batch(self) -> Any:
        limit = min(self._asked["max_micro_batch"], self._source.batch_size)
        samples = zip(range(limit), self._source.dataset, strict=False)
        return self._source.collate_fn([sample for _, sample in samples])

    def _scale(self) -> float | None:
        scaler = getattr(self.precision_plugin, "scaler", None)
        return None if scaler is None else float(scaler.get_scale())

    def _stand_at(self, rank: int) -> None:
        self.global_rank = rank_zero_only.rank = rank

    def _check(self) -> None:
        module, source = self.lightning_module, self._source
        trainer = module.trainer
        refused = {
            "it optimizes manually": not module.automatic_optimization,
            f"it has {len(self.optimizers)} optimizers": len(self.optimizers) != 1,
            "accumulate_grad_batches isn't 1; multiply the loader's batch size by it": (
                trainer.accumulate_grad_batches != 1
            ),
            "its training loader has no batch_size": source.batch_size is None,
            "it limits the training batches of an epoch": trainer.num_training_batches != _length(source),
            "it overrides on_before_batch_transfer; use the loader's collate function": is_overridden(
                "on_before_batch_transfer", module
            ),
            "it goes on from ckpt_path; give ElasticStrategy elastic={'checkpoint': PATH} to resume, at any "
            "world size": trainer.global_step > 0,
        }
        reasons = [reason for reason, holds in refused.items() if holds]
        if reasons:
            raise Mistake(f"ElasticStrategy cannot train this: {'; '.join(reasons)}")


class StepBatch:
    """Stands in Lightning's loop for a whole step, whose micro-batches come within it."""


class StepCounter:
    """A loader as long as ``source`` that reads nothing."""

    def __init__(self, source: Any):
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __iter__(self) -> Iterator[StepBatch]:
        while True:  # Lightning stops at the epoch's last step, wherever in the epoch this worker came in
            yield StepBatch()


class LightningUpdate:
    """An optimizer, but for ``step``, which Lightning takes with its hooks."""

    def __init__(self, optimizer: torch.optim.Optimizer, update: Callable[[], None]):
        self._optimizer = optimizer
        self._update = update

    def step(self) -> None:
        """Update with the gradients as they are."""
        self._update()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


class Progress:
    """Where Lightning's loop stands, and what its parts know, as a joiner takes them up."""

    def __init__(self, trainer: Any):
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """The loop amid a batch, schedulers, callbacks, loss scale and what the module adds."""
        trainer, checkpoint = self._trainer, dict[str, Any]()
        trainer.lightning_module.on_save_checkpoint(checkpoint)
        return {
            "loop": trainer.fit_loop.state_dict(),
            "schedulers": [part.scheduler.state_dict() for part in trainer.lr_scheduler_configs],
            "callbacks": [callback.state_dict() for callback in trainer.callbacks],
            "precision": trainer.precision_plugin.state_dict(),
            "module": checkpoint,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Stand there, without what Lightning does when it restarts from a file."""
        trainer, loop = self._trainer, self._trainer.fit_loop
        loop.load_state_dict(state["loop"])
        loop.restarting = False
        epoch = loop.epoch_loop
        for part in (loop, epoch, epoch.automatic_optimization, epoch.val_loop):
            part.on_iteration_done()
        for config, scheduler in zip(trainer.lr_scheduler_configs, state["schedulers"], strict=True):
            config.scheduler.load_state_dict(scheduler)
        for callback, own in zip(trainer.callbacks, state["callbacks"], strict=True):
            callback.load_state_dict(own)
        trainer.precision_plugin.load_state_dict(state["precision"])
        trainer.lightning_module.on_load_checkpoint(state["module"])


def _length(source: Any) -> float:
    try:
        return len(source)
    except TypeError:
        return float("inf")


def _total_steps(trainer: Any, source: Any) -> int:
    by_epochs = -1 if trainer.max_epochs in (None, -1) else trainer.max_epochs * _length(source)
    limits = [limit for limit in (trainer.max_steps, by_epochs) if 0 <= limit < float("inf")]
    if not limits:
        raise Mistake("an elastic training needs an end: pass max_epochs or max_steps to the Trainer")
    return int(min(limits))
