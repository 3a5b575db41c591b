"""Hugging Face Transformers' ``Trainer``, elastic: two lines of a script change, its imports.

    from fallow.plugins.transformers import ElasticTrainer as Trainer
    from fallow.plugins.transformers import ElasticTrainingArguments as TrainingArguments

What inherits from Transformers' is made elastic by the classes before it, TRL's for example:
``class Mine(Elastic, SFTTrainer)`` and ``class MyConfig(ElasticArguments, SFTConfig)``.

The global batch is ``per_device_train_batch_size * gradient_accumulation_steps``, whatever the world size:
what one process would train on. A micro-batch has at most ``per_device_train_batch_size`` samples.
Transformers' loop sees one batch a step, within which this worker's micro-batches are computed, summed and
committed; a step whose group broke is taken again there, so the loop never sees it. A joiner is handed the
loop's state and begins at the step that the others do next. Seams: ``get_train_dataloader``,
``training_step``, ``_init_training_state``, ``_prepare_for_training``, ``_save_checkpoint`` (transformers
5.24, trainer.py).
"""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from accelerate import PartialState
from accelerate.data_loader import SeedableRandomSampler
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler

import fallow
from fallow.errors import Mistake
from fallow.plugins.single import single_process
from fallow.trainer import Trainer
from fallow.types import Step

IMPORTS = (
    "from fallow.plugins.transformers import ElasticTrainer as Trainer, "
    "ElasticTrainingArguments as TrainingArguments"
)


_BEFORE: Any = object
"""The class that comes before Transformers' in a class of both, whose methods it calls as its parent's."""


class ElasticArguments(_BEFORE):  # type: ignore[misc]
    """Before ``TrainingArguments`` or its like: no fixed world is formed of the launcher's variables."""

    @property
    def _setup_devices(self) -> torch.device:
        if "_elastic_device" not in self.__dict__:
            with single_process():
                found = super()._setup_devices
            # A worker has one GPU: of several, Transformers would split each micro-batch over all it sees.
            self._n_gpu: int = min(getattr(self, "_n_gpu", 0), 1)
            self.__dict__["_elastic_device"] = found
            _stand_at(int(os.environ.get("RANK", "0")))
        device: torch.device = self.__dict__["_elastic_device"]
        return device


class Elastic(_BEFORE):  # type: ignore[misc]
    """Before ``Trainer``, or a class of its kind (TRL's SFTTrainer): workers come and go between two steps.

    ``elastic`` holds further arguments of ``Job.elastic`` (``deterministic``, ``checkpoint`` and others).
    Every worker evaluates on all of its evaluation set; rank 0 saves, in Transformers' own format, which
    ``resume_from_checkpoint`` takes up at any world size. Callbacks that end the training early must decide
    alike in all workers. ``on_pre_optimizer_step`` comes after the update. Raises Mistake for what cannot be
    elastic.
    """

    def __init__(self, *arguments: Any, elastic: dict[str, Any] | None = None, **options: Any):
        # Before Transformers asks for the device: a worker's GPU is the one that the controller gave it.
        self._job = fallow.connect("cuda" if torch.cuda.is_available() else "cpu")
        with single_process():
            super().__init__(*arguments, **options)
        if not isinstance(self.args, ElasticArguments):
            raise Mistake(
                "TrainingArguments forms a fixed world of the launcher's variables: make them by "
                f"ElasticTrainingArguments, which takes the same. {IMPORTS}"
            )
        self._elastic_options = elastic or {}
        self._elastic: Trainer | None = None
        self._done: Step | None = None
        self._handed: tuple[Any, float, int] | None = None
        self._steps: _Steps | None = None

    @property
    def elastic(self) -> Trainer:
        """The trainer beneath: world size, rank, samples a second. Raises Mistake before training."""
        if self._elastic is None:
            raise Mistake("nothing is trained yet: call train() first")
        return self._elastic

    @property
    def committed(self) -> Step | None:
        """The step that ended last, with its loss over the global batch; ``None`` before the first."""
        return self._done

    def train(self, *arguments: Any, **options: Any) -> Any:
        """As Transformers'. A process trains once: a job is one training."""
        self._check()
        accumulated = self.args.gradient_accumulation_steps
        self._global_batch = self._train_batch_size * accumulated
        self.args.gradient_accumulation_steps = 1  # the loop is given whole steps
        try:
            return super().train(*arguments, **options)
        finally:
            self.args.gradient_accumulation_steps = accumulated

    def get_train_dataloader(self) -> "_Steps":  # noqa: D102 - Transformers' own
        self._steps = _Steps(super().get_train_dataloader(), self._global_batch)
        return self._steps

    def get_total_train_batch_size(self, args: Any) -> Any:  # noqa: D102
        return self._global_batch

    def _init_training_state(self, max_steps: int, *arguments: Any) -> tuple[int, int]:
        """As Transformers', and then where the others are: known when this worker has been taken in."""
        per_epoch, _, resume, _ = arguments
        super()._init_training_state(max_steps, *arguments)
        self._prepared = super()._prepare_for_training(max_steps, self._steps, resume)
        self._tr_loss = torch.tensor(0.0, device=self.args.device)
        self._total_loss_scalar, self._globalstep_last_logged = 0.0, self.state.global_step
        self._begin(max_steps)
        # What a joiner was handed, ``train`` begins anew behind this.
        self._handed = (self._tr_loss, self._total_loss_scalar, self._globalstep_last_logged)
        return self.state.global_step // per_epoch, 0

    def _prepare_for_training(self, *arguments: Any) -> Any:
        return self._prepared

    def _begin(self, max_steps: int) -> None:
        """Once all that is trained is there: the trainer beneath, and its first step."""
        assert self._steps is not None
        parts: dict[str, Any] = self.__dict__
        self._updates = _Updates(parts["optimizer"])
        parts["optimizer"] = self.callback_handler.optimizer = self._updates
        scaler = self.accelerator.scaler
        options = {
            "max_micro_batch": self._train_batch_size,
            "max_grad_norm": self.args.max_grad_norm,
            "seed": self.args.seed,
            "start_step": self.state.global_step,
            **self._elastic_options,
        }
        state = {**(options.pop("state", None) or {}), "scheduler": self.lr_scheduler, "loop": _Loop(self)}
        self._elastic = self._job.elastic(
            self.model,
            self._updates.beneath,
            global_batch=self._global_batch,
            scaler=scaler,
            state=state,
            **options,
        )
        self._steps.begin(self._elastic, max_steps)
        self._stand_at(self._elastic.rank)

    def _run_epoch(self, *arguments: Any, **options: Any) -> None:
        if self._handed is not None:
            (self._tr_loss, self._total_loss_scalar, self._globalstep_last_logged), self._handed = (
                self._handed,
                None,
            )
        # Steps of this epoch that others did are not skipped by reading them: the loader begins behind them.
        super()._run_epoch(*arguments, **{**options, "resume_from_checkpoint": None})

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> Any:  # noqa: D102
        found = next(epoch_iterator, None)
        return ([] if found is None else [found]), None

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """A whole step: this worker's micro-batches, the sum, the update. Returns the global batch's loss."""
        assert self._steps is not None
        trainer, batches = self.elastic, inputs
        while True:
            self._stand_at(trainer.rank)
            model.train()
            for batch in batches:
                trainer.backward(*self._loss_of(model, batch))
            self._done = trainer.step()
            if self._done is not None:
                break
            batches = self._steps.again()
        self._updates.beneath_accelerate._is_overflow = self._done.skipped
        return torch.tensor(self._done.loss, device=self.args.device)

    def _stand_at(self, rank: int) -> None:
        """Who logs and saves may change with a resize: callbacks look at the state."""
        _stand_at(rank)
        self.state.is_world_process_zero = self.is_world_process_zero()
        self.state.is_local_process_zero = self.is_local_process_zero()

    def _loss_of(self, model: Any, batch: Any) -> tuple[torch.Tensor, float | None]:
        """A micro-batch's loss, and of how many items it is the mean where Transformers counts them."""
        batch = self._prepare_inputs(batch)
        items = self._get_num_items_in_batch([batch], self.args.device)
        with self.compute_loss_context_manager():
            loss = self.compute_loss(model, batch, num_items_in_batch=items)
        return loss, None if items is None else float(items)

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted: what the loop sees is a step, not its tokens."""
        return 0

    def _track_num_input_tokens(self, inputs: Any) -> None:
        """Not counted: a worker sees its own part alone."""

    def _clip_grad_norm(self, model: Any) -> Any:
        return self._done.grad_norm if self._done is not None else None

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        return grad_norm

    def _maybe_log_save_evaluate(self, *arguments: Any, **options: Any) -> None:
        assert self._steps is not None
        if self.args.max_steps < 0 or self._steps.has_length:
            self.state.epoch = self.state.global_step / len(self._steps)  # a joiner counts from where it came
        super()._maybe_log_save_evaluate(*arguments, **options)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """By rank 0; others go on when it is on disk, and then know as well which is the best one."""
        if self.args.should_save:
            super()._save_checkpoint(model, trial)
            self.elastic.agree(False)
        else:
            self.elastic.agree(False)
            super()._save_checkpoint(model, trial)

    def _save_rng_state(self, output_dir: str) -> None:
        if self.args.should_save:
            super()._save_rng_state(output_dir)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Nothing: chance is keyed to the samples, or goes on as the script seeded it."""

    def _finalize_training(self, *arguments: Any) -> Any:
        assert self._steps is not None
        self._steps.end()
        return super()._finalize_training(*arguments)

    def _check(self) -> None:
        refused = {
            "auto_find_batch_size": self.args.auto_find_batch_size,
            "a train_sampling_strategy other than random and sequential": (
                self.args.train_sampling_strategy not in ("random", "sequential")
            ),
            "DeepSpeed": self.is_deepspeed_enabled,
            "FSDP": self.is_fsdp_enabled,
            "sync_each_batch": bool(
                (self.args.accelerator_config.gradient_accumulation_kwargs or {}).get("sync_each_batch")
            ),
            "NEFTune's noise, which is drawn for a whole micro-batch": self.neftune_noise_alpha is not None,
            "several optimizers": isinstance(self.optimizer, (list, tuple)),
        }
        reasons = [reason for reason, holds in refused.items() if holds]
        if reasons:
            raise Mistake(f"ElasticTrainer cannot train with {'; '.join(reasons)}")


class ElasticTrainingArguments(ElasticArguments, transformers.TrainingArguments):  # type: ignore[misc]
    """``TrainingArguments`` of a worker."""


class ElasticTrainer(Elastic, transformers.Trainer):  # type: ignore[misc]
    """A ``transformers.Trainer`` whose workers come and go between two steps; see ``Elastic``."""


class _Steps:
    """Stands for the loader in Transformers' loop: each of its batches is a step's micro-batches."""

    def __init__(self, source: DataLoader[Any], global_batch: int):
        self.source, self.batch_size = source, global_batch
        self.dataset: Any = source.dataset
        self.sampler: Any = getattr(source.batch_sampler, "sampler", None)
        self.is_stream = isinstance(self.dataset, IterableDataset)
        self.has_length = not self.is_stream
        self._steps: Iterator[Any] = iter(())
        self._next: Any = None
        self._trainer: Trainer | None = None
        if not self.is_stream and type(self.sampler) not in (SeedableRandomSampler, SequentialSampler):
            raise Mistake(
                f"ElasticTrainer cannot follow {type(self.sampler).__name__}: leave the sampler to "
                "Transformers, or train with job.elastic and order="
            )

    def __len__(self) -> int:
        if self.is_stream:
            raise TypeError("a stream's steps are not counted")
        samples, drops = len(self.dataset), self.source.drop_last
        return samples // self.batch_size if drops else -(-samples // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        trainer = self._trainer
        assert trainer is not None
        self._next = self._next or next(self._steps, None)
        entered_in = trainer.epoch
        while self._next is not None:
            (_, batches), self._next = self._next, None
            yield batches
            if trainer.epoch != entered_in or trainer.has_ended:
                return
            self._next = next(self._steps, None)

    def begin(self, trainer: Trainer, total_steps: int) -> None:
        """Meet the others, or begin: the first step is at hand afterwards."""
        source, is_stream = self.source, self.is_stream
        self._trainer = trainer
        self._steps = trainer.steps(
            self.dataset,
            total_steps,
            collate=source.collate_fn,
            order=None if is_stream else self._order,
            drop_last=None if is_stream else source.drop_last,
            workers=source.num_workers,
            prefetch=source.prefetch_factor,
            pin_memory=source.pin_memory and torch.cuda.is_available(),
        )
        self._next = next(self._steps, None)

    def again(self) -> Iterator[Any]:
        """The micro-batches of the step that broke, as they are cut now."""
        batches: Iterator[Any] = next(self._steps)[1]
        return batches

    def end(self) -> None:
        """Nothing more is trained; after the last step, all that was under way is there."""
        if self._trainer is not None and self._trainer.has_ended:
            next(self._steps, None)
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()

    def _order(self, epoch: int) -> list[int]:
        """As Accelerate draws it for one process."""
        if isinstance(self.sampler, SeedableRandomSampler):
            self.sampler.set_epoch(epoch)
        return list(self.sampler)


class _Updates:
    """An optimizer whose update was made within the step already."""

    def __init__(self, prepared: Any):
        self.beneath_accelerate, self.beneath = prepared, prepared.optimizer

    def step(self, closure: Any = None) -> None:
        """Made; torch's schedulers look whether it was called."""
        self.beneath_accelerate._opt_called = self.beneath._opt_called = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Every step begins without gradients."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath_accelerate, name)


class _Loop:
    """Where Transformers' loop stands, as a joiner takes it up."""

    def __init__(self, trainer: Any):
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        return {
            "state": dataclasses.asdict(trainer.state),
            "callbacks": [_state_of(each) for each in trainer.callback_handler.callbacks],
            "loss": (
                float(trainer._tr_loss),
                trainer._total_loss_scalar,
                trainer._globalstep_last_logged,
            ),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        trainer = self._trainer
        own = trainer.state
        for name, value in state["state"].items():
            if name not in ("is_local_process_zero", "is_world_process_zero"):
                setattr(own, name, value)
        loss, total, logged = state["loss"]
        trainer._tr_loss = torch.tensor(loss, device=trainer.args.device)
        trainer._total_loss_scalar, trainer._globalstep_last_logged = total, logged
        for callback, known in zip(trainer.callback_handler.callbacks, state["callbacks"], strict=True):
            for name, value in (known or {}).get("attributes", {}).items():
                setattr(callback, name, value)


def _state_of(callback: Any) -> Any:
    return callback.state() if hasattr(callback, "state") else None


def _stand_at(rank: int) -> None:
    """Tell Accelerate who prints, logs and saves. Its state is one for all of its objects."""
    state = PartialState()
    state.process_index = state.local_process_index = rank
