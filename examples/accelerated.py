"""A recurrent network learns to foretell a wave, with Hugging Face Accelerate; resize it by hand.

    pip install accelerate
    python examples/accelerated.py                                                   # alone
    torchrun --standalone --nproc-per-node 2 examples/accelerated.py                 # two workers
    python -m fallow.controller --min 1 --max 4 -- examples/accelerated.py           # elastic

The loop is Accelerate's own. Two lines differ: which accelerator is made, and how epochs are counted.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from fallow.plugins.accelerate import ElasticAccelerator

LENGTH = 40


class Waves(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Sums of two sines with noise, and where each goes next."""

    def __init__(self, samples: int):
        generator = torch.Generator().manual_seed(0)
        speed, phase = torch.rand(2, samples, 2, 1, generator=generator)
        time_ = torch.arange(LENGTH + 1)
        waves = torch.sin(time_ * (0.2 + 0.4 * speed) + 6.28 * phase).sum(1)
        self.waves = waves + 0.02 * torch.randn(waves.shape, generator=generator)

    def __len__(self) -> int:
        return len(self.waves)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.waves[index, :-1, None], self.waves[index, 1:, None]


class Forecast(nn.Module):
    """A GRU that says the next value at every place."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.memory = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        """Waves ``(batch, LENGTH, 1)`` to the values one further on."""
        return self.head(self.memory(wave)[0])


def options() -> argparse.Namespace:
    """What can be asked for on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=60, help="of 32 steps each")
    parser.add_argument("--deterministic", action="store_true", help="the same bits at any world size")
    parser.add_argument("--cpu", action="store_true", help="even where there is a GPU")
    parser.add_argument("--checkpoint", metavar="PATH", help="go on from here, and save here on SIGUSR1")
    parser.add_argument("--save", metavar="PATH", help="write the trained model here")
    parser.add_argument("--pause", type=float, default=0.0, metavar="S", help="sleep so long after each step")
    return parser.parse_args()


def main() -> None:
    """Train, and say how it goes."""
    asked = options()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums depend on the number of threads, and runs are to be compared

    elastic = {"deterministic": asked.deterministic, "checkpoint": asked.checkpoint}
    accelerator = ElasticAccelerator(max_micro_batch=16, epochs=asked.epochs, elastic=elastic, cpu=asked.cpu)
    model = Forecast()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    loader = DataLoader(Waves(2048), batch_size=64, shuffle=True)
    loader, model, optimizer, scheduler = accelerator.prepare(loader, model, optimizer, scheduler)
    for epoch in accelerator.epochs():
        for wave, following in loader:
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.mse_loss(model(wave), following))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients and not optimizer.step_was_skipped:
                tell(epoch, accelerator)
                time.sleep(asked.pause)
    if asked.save and accelerator.is_main_process:
        torch.save(model.state_dict(), asked.save)


def tell(epoch: int, accelerator: ElasticAccelerator) -> None:
    """A line for every tenth step."""
    done, speed = accelerator.committed, accelerator.trainer.samples_per_s
    if accelerator.is_main_process and done and done.number % 10 == 0:
        pace = f"{speed:6.0f} samples/s" if speed else ""
        line = f"step {done.number:5d}   loss {done.loss:.6f}   workers {done.world_size}   {pace}"
        print(f"{line}   epoch {epoch}", flush=True)


if __name__ == "__main__":
    main()
