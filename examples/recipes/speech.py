"""Speech: a recurrent network reads spoken digits from spectrograms of different lengths, by CTC.

After pytorch/tutorials, speech_command_classification_with_torchaudio_tutorial, with tones in place of
recordings and CTC in place of one label. Plain torch.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import fallow

BANDS, DIGITS, EPOCHS, BATCH = 12, 5, 4, 16


def utterance(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A spectrogram ``(frames, BANDS)`` of two to four digits, and the digits, from 1; 0 is CTC's blank."""
    own = torch.Generator().manual_seed(number)
    digits = torch.randint(1, DIGITS + 1, (2 + number % 3,), generator=own)
    frames = [0.1 * torch.randn(3 + number % 2, BANDS, generator=own, dtype=torch.float64) for _ in digits]
    for digit, spoken in zip(digits.tolist(), frames, strict=True):
        spoken[:, 2 * digit : 2 * digit + 2] += 1
    return torch.cat(frames), digits


def padded(utterances: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, ...]:
    """Sounds and digits of a batch, each padded to its longest, and both lengths."""
    sounds, digits = zip(*utterances, strict=True)
    lengths = [torch.tensor([len(each) for each in part]) for part in (sounds, digits)]
    return pad_sequence(sounds, batch_first=True), pad_sequence(digits, batch_first=True), *lengths


class Reader(nn.Module):
    """Scores of each digit in each frame."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.GRU(BANDS, 16, batch_first=True)
        self.head = nn.Linear(16, DIGITS + 1)

    def forward(self, sounds: torch.Tensor) -> torch.Tensor:
        """``(batch, frames, BANDS)`` to log-probabilities ``(frames, batch, digits)``."""
        return self.head(self.body(sounds)[0]).log_softmax(2).transpose(0, 1)


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, its optimizer and the data."""
    model = Reader().double()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return model, optimizer, DataLoader([utterance(n) for n in range(64)], BATCH, collate_fn=padded)


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for sounds, digits, frames, lengths in loader:
            loss = nn.functional.ctc_loss(model(sounds), digits, frames, lengths)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for sounds, digits, frames, lengths in batches:
            loss = nn.functional.ctc_loss(model(sounds), digits, frames, lengths)
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())
