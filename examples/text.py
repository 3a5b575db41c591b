"""A small transformer that learns to continue text it is given; resize it by hand and watch the loss go on.

python examples/text.py                                             # alone
python -m fallow.controller --min 1 --max 4 -- examples/text.py      # elastic
"""

import argparse

import torch
from torch import nn

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
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, characters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Characters ``(batch, CONTEXT)`` to the next one's scores ``(batch, CONTEXT, characters)``."""
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        return self.head(self.body(self.embed(text) + self.place, mask=mask, is_causal=True))


class Windows(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Every window of the text, and the same one character further."""

    def __init__(self, text: str):
        self.alphabet = sorted(set(text))
        self.codes = torch.tensor([self.alphabet.index(character) for character in text])

    def __len__(self) -> int:
        return len(self.codes) - CONTEXT - 1

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.codes[index : index + CONTEXT], self.codes[index + 1 : index + CONTEXT + 1]


def main() -> None:
    """Train, and say how it goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--deterministic", action="store_true", help="the same bits at any world size")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = Windows(TEXT)
    model = NextCharacter(len(data.alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss_of = nn.CrossEntropyLoss()

    job = fallow.connect()
    trainer = job.elastic(
        model, optimizer, global_batch=64, max_micro_batch=16, deterministic=options.deterministic
    )
    for step, batches in trainer.steps(data, options.steps):
        for x, y in batches:
            trainer.backward(loss_of(model(x).flatten(0, 1), y.flatten()))
        done = trainer.step()
        if done and trainer.rank == 0 and step % 10 == 0:
            print(f"step {step:4d}   loss {done.loss:.4f}   workers {done.world_size}", flush=True)


if __name__ == "__main__":
    main()
