"""Distillation: a small network learns from labels and from what a larger one, which is fixed, makes of them.

After pytorch/tutorials, knowledge_distillation_tutorial. The teacher is not trained, and the
same in every worker, as the data are.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

WIDTH, KINDS, EPOCHS, BATCH, WARM = 8, 4, 5, 16, 2.0


def loss_of(scores: torch.Tensor, hints: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    """Cross-entropy, and how far the student's distribution is from the teacher's; means over the batch."""
    soft = nn.functional.kl_div(
        (scores / WARM).log_softmax(1), (hints / WARM).softmax(1), reduction="batchmean"
    )
    return 0.75 * nn.functional.cross_entropy(scores, kinds) + 0.25 * WARM**2 * soft


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader, nn.Module]:
    """The student, its optimizer, the data, and the teacher."""
    own = torch.Generator().manual_seed(1)
    x = torch.randn(64, WIDTH, generator=own, dtype=torch.float64)
    teacher = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, KINDS)).double().eval()
    for each in teacher.parameters():  # stands for one that was trained, and read from a file
        nn.init.normal_(each, std=0.3, generator=own)
    student = nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, KINDS)).double()
    data = list(zip(x, x[:, :KINDS].argmax(1), strict=True))
    return student, torch.optim.Adam(student.parameters(), lr=1e-2), DataLoader(data, BATCH), teacher


def plain(student, optimizer, loader, teacher) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for x, kinds in loader:
            with torch.no_grad():
                hints = teacher(x)
            loss = loss_of(student(x), hints, kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def elastic(job, student, optimizer, loader, teacher) -> None:
    """The same with Fallow."""
    trainer = job.elastic(student, optimizer, global_batch=BATCH, max_micro_batch=5)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for x, kinds in batches:
            with torch.no_grad():
                hints = teacher(x)
            loss = loss_of(student(x), hints, kinds)
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())
