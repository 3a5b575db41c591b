"""A small transformer that learns to continue text made by a little grammar; every loss is written down.

    python bench/elastic/text_training.py FOLDER STEPS exact|bitwise      (started by bench/elastic/whole.py)

``exact`` is the plain mode in float64, ``bitwise`` the deterministic mode in float32 with dropout. A file
FOLDER/gate holds the step up to which the training may go, so that what is to happen happens in time.
"""

import os
import random
import sys
import time
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))

import fallow

CONTEXT, WIDTH = 16, 32
NAMES, VERBS, THINGS = ("Ada", "Grace", "Alan"), ("lends", "ploughs", "frees"), ("a field", "two GPUs", "it")


def text(seed: int = 0, sentences: int = 300) -> str:
    """Sentences of a grammar of nine words."""
    chosen = random.Random(seed)
    made = [" ".join(map(chosen.choice, (NAMES, VERBS, THINGS))) for _ in range(sentences)]
    return ". ".join(made)


class Windows(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Every window of a text, and the same one character further."""

    def __init__(self, written: str):
        self.alphabet = sorted(set(written))
        self._codes = torch.tensor([self.alphabet.index(character) for character in written])

    def __len__(self) -> int:
        return len(self._codes) - CONTEXT - 1

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The window that starts at ``index``."""
        return self._codes[index : index + CONTEXT], self._codes[index + 1 : index + CONTEXT + 1]


class Transformer(nn.Module):
    """Two causal layers over characters."""

    def __init__(self, characters: int, dropout: float):
        super().__init__()
        self.embed = nn.Embedding(characters, WIDTH)
        self.place = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=dropout, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Characters ``(batch, CONTEXT)`` to scores ``(batch, characters, CONTEXT)``."""
        scores: torch.Tensor = self.head(self.body(self.embed(tokens) + self.place, mask=self.mask))
        return scores.transpose(1, 2)


def train(folder: Path, total_steps: int, mode: str) -> None:
    """Train, under whoever drives this process; a line a committed step: number, loss, world size."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = Windows(text())
    bitwise = mode == "bitwise"
    model = Transformer(len(data.alphabet), dropout=0.1 if bitwise else 0.0)
    if not bitwise:
        model = model.double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    trainer = fallow.connect().elastic(
        model, optimizer, global_batch=32, max_micro_batch=4, deterministic=bitwise
    )
    loss_of = nn.CrossEntropyLoss()
    with (folder / f"{os.environ.get('FALLOW_MEMBER', 'alone')}.losses").open("w", buffering=1) as log:
        for step, batches in trainer.steps(data, total_steps):
            while step > _gate(folder):
                time.sleep(0.005)
            for x, y in batches:
                trainer.backward(loss_of(model(x), y))
            done = trainer.step()
            if done is not None:
                log.write(f"{done.number} {done.loss.hex()} {done.world_size}\n")


def _gate(folder: Path) -> int:
    try:
        return int((folder / "gate").read_text() or 0)
    except FileNotFoundError:
        return sys.maxsize


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
