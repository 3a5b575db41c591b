"""Language: a causal transformer with tied weights reads one long text, with a schedule of its own by step.

After karpathy/nanoGPT, train.py at 3adf61e. It draws places of the text from torch's global chance; here a
place is drawn by the sample's number, so that each is read once, in whichever worker.
"""

import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import fallow

WORDS, WIDTH, LENGTH, STEPS, BATCH, WARMUP, LR = 24, 16, 10, 18, 12, 4, 1e-2


class Places(Dataset):
    """Pieces of a text that repeats itself, and the word behind each of their words."""

    text = (torch.arange(400) * torch.arange(400) // 7) % WORDS

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        own = torch.Generator().manual_seed(number)
        at = int(torch.randint(len(self.text) - LENGTH, (), generator=own))
        return self.text[at : at + LENGTH], self.text[at + 1 : at + LENGTH + 1]


class Block(nn.Module):
    """Attention to what came before, and a network of each word."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.each = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``(batch, LENGTH, WIDTH)`` to the same."""
        query, key, value = self.mix(self.before(x)).chunk(3, 2)
        x = x + self.out(nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True))
        return x + self.each(self.behind(x))


class Model(nn.Module):
    """Two blocks, which are computed again in the backward pass to save memory."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """``(batch, LENGTH)`` to scores ``(batch, LENGTH, WORDS)``."""
        x = self.words(words) + self.places.weight
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def rate(step: int) -> float:
    """It rises, then falls as a cosine."""
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    return LR * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))))


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, its optimizer with weight decay for matrices alone, and the data."""
    model = Model().double()
    matrices = [each for each in model.parameters() if each.dim() > 1]
    others = [each for each in model.parameters() if each.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return model, torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95)), DataLoader(Places(), BATCH)


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it."""
    for step, (words, following) in enumerate(loader):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        loss = nn.functional.cross_entropy(model(words).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5, max_grad_norm=1.0)
    for step, batches in trainer.steps(loader, STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        for words, following in batches:
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), following.flatten())
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())
