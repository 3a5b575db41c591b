"""Reinforcement learning: a Q-network with a replay buffer and a target network learns to walk to a goal.

After pytorch/tutorials, reinforcement_q_learning. Every worker plays the same episode, with chance that is
keyed to the step, so all have the same buffer; a joiner is handed it, and the target network, in ``state=``.
What a step learns from is drawn by the samples' own numbers: a data set whose items are drawn when read.
"""

from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import fallow

STEPS, BATCH, CELLS, FADE, KEEP = 16, 16, 9, 0.9, 0.95


class Buffer(Dataset):
    """What was played lately; item ``n`` is drawn from it by the number ``n``."""

    def __init__(self) -> None:
        self.played: deque[list[float]] = deque(maxlen=200)

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, number: int) -> torch.Tensor:
        own = torch.Generator().manual_seed(number)
        at = int(torch.randint(len(self.played), (), generator=own))
        return torch.tensor(self.played[at], dtype=torch.float64)

    def state_dict(self) -> dict:
        return {"played": list(self.played)}

    def load_state_dict(self, state: dict) -> None:
        self.played.clear()
        self.played.extend(state["played"])


def seen(cells: torch.Tensor) -> torch.Tensor:
    """What the network sees of cells."""
    return nn.functional.one_hot(cells.long(), CELLS).double()


def play(network: nn.Module, buffer: Buffer, step: int) -> None:
    """An episode of ten moves on a line of cells, whose last one pays."""
    own = torch.Generator().manual_seed(step)
    cell = 0
    for _ in range(10):
        explores, guess = torch.rand(2, generator=own).tolist()
        with torch.no_grad():
            best = int(network(seen(torch.tensor(cell))).argmax())
        move = int(guess < 0.6) if explores < 0.4 else best
        after = min(max(cell + (1 if move else -1), 0), CELLS - 1)
        buffer.played.append([cell, move, float(after == CELLS - 1), after])
        cell = after


def loss_of(network: nn.Module, target: nn.Module, moves: torch.Tensor) -> torch.Tensor:
    """Huber's, of what a move was worth and what it was thought to be."""
    cell, move, paid, after = moves.T
    worth = network(seen(cell)).gather(1, move.long()[:, None]).squeeze(1)
    with torch.no_grad():
        expected = paid + FADE * target(seen(after)).amax(1) * (1 - paid)
    return nn.functional.smooth_l1_loss(worth, expected)


def clip(network: nn.Module) -> None:
    """Keep gradients from being too large."""
    nn.utils.clip_grad_value_(network.parameters(), 100)


def follow(target: nn.Module, network: nn.Module) -> None:
    """Move the target a little towards the network."""
    with torch.no_grad():
        for late, new in zip(target.parameters(), network.parameters(), strict=True):
            late.mul_(KEEP).add_(new, alpha=1 - KEEP)


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader, nn.Module]:
    """The network, its optimizer, the buffer, and the target network."""
    network, target = (
        nn.Sequential(nn.Linear(CELLS, 16), nn.ReLU(), nn.Linear(16, 2)).double() for _ in "nt"
    )
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, amsgrad=True)
    return network, optimizer, DataLoader(Buffer(), BATCH), target


def plain(network, optimizer, loader, target) -> None:
    """The loop as everybody writes it."""
    buffer, moves = loader.dataset, iter(loader)
    for step in range(STEPS):
        play(network, buffer, step)
        loss = loss_of(network, target, next(moves))
        optimizer.zero_grad()
        loss.backward()
        clip(network)
        optimizer.step()
        follow(target, network)


def elastic(job, network, optimizer, loader, target) -> None:
    """The same with Fallow."""
    buffer = loader.dataset
    more = {"on_gradient": clip, "state": {"buffer": buffer, "target": target}}
    trainer = job.elastic(network, optimizer, global_batch=BATCH, max_micro_batch=5, **more)
    for step, batches in trainer.steps(loader, STEPS):
        if len(buffer.played) == 10 * step:  # not when a step is taken again
            play(network, buffer, step)
        for moves in batches:
            trainer.backward(loss_of(network, target, moves))
        if trainer.step():
            follow(target, network)


if __name__ == "__main__":
    elastic(fallow.connect(), *build())
