"""A training with Lightning as its documentation writes one, made elastic; see ``plugged`` for its task."""

import os
import sys
import warnings
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping
from torch import nn

from fallow.plugins.lightning import ElasticStrategy
from tests.fallow.plugged import BATCH, CAP, ELASTIC, EPOCHS, GAMMA, LIMIT, RATE, Diary, network, task


class Classifier(lightning.LightningModule):
    def __init__(self, diary: Diary) -> None:
        super().__init__()
        self.body, self.diary, self.rate = network(), diary, 0.0
        self.validated: list[int] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self.body(x), y)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("valid_loss", nn.functional.cross_entropy(self.body(batch[0]), batch[1]))

    def on_validation_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.validated.append(self.global_step)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.rate = optimizer.param_groups[0]["lr"]

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        done = self.trainer.strategy.committed
        assert self.global_step == done.number + 1, "Lightning counts the steps that were committed"
        if self.trainer.is_global_zero:
            self.diary.note(
                done.number,
                done.loss,
                done.world_size,
                self.rate,
                epoch=self.current_epoch,
                validated=self.validated,
            )

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=RATE)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, GAMMA)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    module = Classifier(Diary())
    trainer = lightning.Trainer(
        strategy=ElasticStrategy(max_micro_batch=CAP, elastic=ELASTIC, device="cpu"),
        accelerator="cpu",
        max_epochs=int(os.environ.get("EPOCHS", EPOCHS)),
        gradient_clip_val=LIMIT,
        callbacks=[EarlyStopping("valid_loss", patience=EPOCHS)],  # has a state to hand over
        check_val_every_n_epoch=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = torch.utils.data.DataLoader(task(), batch_size=BATCH, shuffle=True)
    trainer.fit(module, loader, torch.utils.data.DataLoader(task(), batch_size=64))
    if trainer.is_global_zero:
        module.diary.end(module.body)


if __name__ == "__main__":
    sys.exit(main())
