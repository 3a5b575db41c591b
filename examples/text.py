"""A small transformer learns to continue a text; resize it by hand and watch the loss go on.

    python examples/text.py                                                          # alone
    torchrun --standalone --nproc-per-node 2 examples/text.py                        # two workers
    python -m fallow.controller --min 1 --max 4 -- examples/text.py                  # elastic

The five lines that made it elastic are marked.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import Dataset

import fallow

TEXT = (
    "the field that is left fallow rests for a season and bears again; "
    "the machine that is left fallow only rusts, so plough it or lend it. "
) * 40
CONTEXT = 32


class NextCharacter(nn.Module):
    """Two transformer layers over characters."""

    def __init__(self, characters: int, width: int = 64):
        super().__init__()
        self.embed = nn.Embedding(characters, width)
        self.place = nn.Parameter(torch.zeros(CONTEXT, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Characters ``(batch, CONTEXT)`` to the next one's scores ``(batch, CONTEXT, characters)``."""
        return self.head(self.body(self.embed(text) + self.place, mask=self.mask, is_causal=True))


class Windows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Every window of the text, and the same one character further."""

    def __init__(self, text: str):
        self.alphabet = sorted(set(text))
        self.codes = torch.tensor([self.alphabet.index(character) for character in text])

    def __len__(self) -> int:
        return len(self.codes) - CONTEXT - 1

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.codes[index : index + CONTEXT], self.codes[index + 1 : index + CONTEXT + 1]


def options() -> argparse.Namespace:
    """What can be asked for on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--deterministic", action="store_true", help="the same bits at any world size")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint", metavar="PATH", help="go on from here, and save here on SIGUSR1")
    parser.add_argument("--save", metavar="PATH", help="write the trained model here")
    parser.add_argument("--pause", type=float, default=0.0, metavar="S", help="sleep so long after each step")
    return parser.parse_args()


def main() -> None:
    """Train, and say how it goes."""
    asked = options()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums depend on the number of threads, and runs are to be compared

    job = fallow.connect(asked.device)  # 1
    data = Windows(TEXT)
    model = NextCharacter(len(data.alphabet)).to(job.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    trainer = job.elastic(  # 2
        model,
        optimizer,
        global_batch=64,
        max_micro_batch=16,
        deterministic=asked.deterministic,
        checkpoint=asked.checkpoint,
    )
    for step, batches in trainer.steps(data, asked.steps):  # 3
        for text, following in batches:
            scores = model(text.to(job.device))
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), following.to(job.device).flatten())
            trainer.backward(loss)  # 4
        done = trainer.step()  # 5
        if done and trainer.rank == 0 and step % 10 == 0:
            speed = f"{trainer.samples_per_s:6.0f} samples/s" if trainer.samples_per_s else ""
            print(f"step {step:5d}   loss {done.loss:.6f}   workers {done.world_size}   {speed}", flush=True)
        time.sleep(asked.pause)
    if asked.save and trainer.rank == 0:
        torch.save(model.state_dict(), asked.save)


if __name__ == "__main__":
    main()
