"""Translation: an encoder and a decoder turn sentences around; padding counts for nothing in the loss.

After pytorch/examples, language_translation/main.py at 77f55b9. The mean is one over the words of the whole
batch, so each piece says how many it had.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import fallow

WORDS, BEGIN, PAD, WIDTH, EPOCHS, BATCH = 14, 1, 0, 16, 4, 15


def sentence(number: int) -> torch.Tensor:
    """3 to 7 words from 2 on."""
    own = torch.Generator().manual_seed(number)
    return torch.randint(2, WORDS, (3 + number % 5,), generator=own)


def padded(sentences: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Sentences, what the decoder is given, and what it has to say: the sentence turned around."""
    turned = [each.flip(0) for each in sentences]
    given = [torch.cat([torch.tensor([BEGIN]), each[:-1]]) for each in turned]
    return tuple(pad_sequence(part, batch_first=True) for part in (sentences, given, turned))


class Translator(nn.Module):
    """One layer each."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.randn(8, WIDTH) / 4)
        self.body = nn.Transformer(WIDTH, 2, 1, 1, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """``(batch, length)`` twice, to the scores ``(batch, length, WORDS)``."""
        length = source.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        empty = source == PAD
        seen, said = self.source(source) + self.places[:length], self.target(given) + self.places[:length]
        found = self.body(
            seen,
            said,
            tgt_mask=mask,
            src_key_padding_mask=empty,
            tgt_key_padding_mask=given == PAD,
            memory_key_padding_mask=empty,
        )
        return self.head(found)


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, its optimizer and the data."""
    model = Translator().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, DataLoader([sentence(n) for n in range(60)], BATCH, collate_fn=padded)


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for source, given, turned in loader:
            scores = model(source, given)
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), turned.flatten(), ignore_index=PAD)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=4)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for source, given, turned in batches:
            scores = model(source, given)
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), turned.flatten(), ignore_index=PAD)
            trainer.backward(loss, count=int((turned != PAD).sum()))
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())
