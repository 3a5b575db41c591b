"""Language: a small transformer continues sentences of different lengths; only real tokens count.

After pytorch/examples, word_language_model/main.py at 77f55b9, with sentences that are padded in place of one
long text. The mean over tokens is one over those of the whole batch, so each piece says how many it had.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import fallow

WORDS, EPOCHS, BATCH, PAD = 20, 4, 16, -100


class Transformer(nn.Module):
    """One causal layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """``(batch, length)`` to the scores of each next word ``(batch, length, WORDS)``."""
        mask = torch.full((words.shape[1],) * 2, float("-inf"), dtype=torch.float64).triu(1)
        return self.head(self.layer(self.embed(words), src_mask=mask, is_causal=True))


def sentence(number: int) -> torch.Tensor:
    """Words that count up, from anywhere, 4 to 11 of them."""
    return (torch.arange(4 + number % 8) * (1 + number % 3) + number) % WORDS


def shifted(sentences: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch's words, and the next ones; PAD where there is none."""
    words = pad_sequence([each[:-1] for each in sentences], batch_first=True)
    return words, pad_sequence([each[1:] for each in sentences], batch_first=True, padding_value=PAD)


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, its optimizer and the data."""
    model = Transformer().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return model, optimizer, DataLoader([sentence(n) for n in range(64)], BATCH, collate_fn=shifted)


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for words, following in loader:
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5, max_grad_norm=0.25)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for words, following in batches:
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), following.flatten())
            trainer.backward(loss, count=int((following != PAD).sum()))
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())
