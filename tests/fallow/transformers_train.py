"""A training with Transformers' Trainer as its documentation writes one; see ``plugged`` for its task.

FIXED in the environment: by Transformers' own Trainer, in one process. Else two imports are Fallow's.
"""

import os
import sys
import time
import warnings
from typing import Any

import torch
import transformers
from torch import nn
from torch.utils.data import Dataset

from tests.fallow.plugged import BATCH, ELASTIC, EPOCHS, LIMIT, RATE, STEPS_PER_EPOCH, Diary, network, task

CAP = 4
SAVE_EVERY = 6 * STEPS_PER_EPOCH
"""Steps between two evaluations, each with a save."""


class Samples(Dataset[dict[str, torch.Tensor]]):
    """The task's, as Transformers names them; each fifth has no label that counts."""

    def __init__(self) -> None:
        self.beneath = task()

    def __len__(self) -> int:
        return len(self.beneath)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        x, y = self.beneath[number]
        return {"x": x, "labels": y if number % 5 else torch.tensor(-100)}


class Classifier(nn.Module):
    """Averages over the labels that count, of the whole batch where it is told their number."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor, labels: torch.Tensor, **told: Any) -> dict[str, torch.Tensor]:
        scores = self.body(x)
        count = told.get("num_items_in_batch")
        loss = nn.functional.cross_entropy(scores, labels, reduction="mean" if count is None else "sum")
        return {"loss": loss if count is None else loss / count, "logits": scores}


class Noting(transformers.TrainerCallback):  # type: ignore[misc]
    """Writes a line for each step."""

    def __init__(self, diary: Diary) -> None:
        self.diary, self.trainer, self.losses, self.rate = diary, None, [], 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        self.rate = self.trainer.optimizer.param_groups[0]["lr"]  # type: ignore[attr-defined]

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        done: Any = getattr(self.trainer, "committed", None)
        loss = sum(self.losses) if done is None else done.loss
        self.losses.clear()
        assert done is None or state.global_step == done.number + 1
        if state.is_world_process_zero:
            world = 1 if done is None else done.world_size
            time.sleep(float(os.environ.get("STEP_S", "0")))
            self.diary.note(state.global_step - 1, loss, world, self.rate, evaluated=len(state.log_history))


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    noting = Noting(Diary())
    if os.environ.get("FIXED"):
        from transformers import Trainer, TrainingArguments

        class Fixed(Trainer):  # type: ignore[misc]
            def training_step(self, *arguments: Any) -> Any:
                loss = super().training_step(*arguments)
                noting.losses.append(loss.item())
                return loss

        make: Any = Fixed
    else:
        from fallow.plugins.transformers import ElasticTrainer as Trainer
        from fallow.plugins.transformers import ElasticTrainingArguments as TrainingArguments

        def make(**parts: Any) -> Any:
            return Trainer(**parts, elastic=ELASTIC)

    model = Classifier()
    arguments = TrainingArguments(
        output_dir=f"{noting.diary.path}.kept",
        per_device_train_batch_size=CAP,
        gradient_accumulation_steps=BATCH // CAP,
        per_device_eval_batch_size=64,
        num_train_epochs=int(os.environ.get("EPOCHS", EPOCHS)),
        learning_rate=RATE,
        max_grad_norm=LIMIT,
        warmup_steps=20,
        lr_scheduler_type="cosine",
        eval_strategy="steps",
        eval_steps=SAVE_EVERY,
        save_strategy="steps",
        save_steps=SAVE_EVERY,
        load_best_model_at_end=True,
        logging_steps=10,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    noting.trainer = trainer = make(
        model=model,
        args=arguments,
        train_dataset=Samples(),
        eval_dataset=Samples(),
        callbacks=[noting, transformers.EarlyStoppingCallback(early_stopping_patience=EPOCHS)],
    )
    trainer.train(resume_from_checkpoint=os.environ.get("RESUME"))
    if trainer.is_world_process_zero():
        noting.diary.end(model)


if __name__ == "__main__":
    sys.exit(main())
