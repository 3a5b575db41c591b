"""A training with Accelerate as its documentation writes one, made elastic; see ``plugged`` for its task."""

import os
import sys

import torch
from torch import nn

from fallow.plugins.accelerate import ElasticAccelerator
from tests.fallow.plugged import BATCH, CAP, ELASTIC, EPOCHS, GAMMA, LIMIT, RATE, Diary, network, task


def main() -> None:
    torch.set_num_threads(1)
    epochs = int(os.environ.get("EPOCHS", EPOCHS))
    accelerator = ElasticAccelerator(max_micro_batch=CAP, epochs=epochs, elastic=ELASTIC, cpu=True)
    model, diary = network(), Diary()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, GAMMA)
    loader = torch.utils.data.DataLoader(task(), batch_size=BATCH, shuffle=True)
    loader, model, optimizer, scheduler = accelerator.prepare(loader, model, optimizer, scheduler)
    entered = []
    for epoch in accelerator.epochs():
        entered.append(epoch)
        for x, y in loader:
            with accelerator.accumulate(model):
                rate = optimizer.param_groups[0]["lr"]
                accelerator.backward(nn.functional.cross_entropy(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), LIMIT)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients and not optimizer.step_was_skipped and accelerator.is_main_process:
                done = accelerator.committed
                if done is not None:
                    diary.note(done.number, done.loss, done.world_size, rate)
    assert entered == sorted(set(entered)), "no epoch is begun twice"
    if accelerator.is_main_process:
        diary.end(model)


if __name__ == "__main__":
    sys.exit(main())
