"""Graph: a graph convolution names the nodes of one graph, of which each step learns from some.

After pytorch/examples, gcn/main.py at 77f55b9, which takes all nodes each step; here a sample is a node, so
that the nodes of a step are shared out while every worker holds the whole graph.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

NODES, FEATURES, KINDS, EPOCHS, BATCH = 60, 8, 3, 8, 30


class Convolution(nn.Module):
    """Two layers over a graph that it knows."""

    def __init__(self, adjacency: torch.Tensor, features: torch.Tensor):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.register_buffer("features", features)
        self.first, self.second = nn.Linear(FEATURES, 16), nn.Linear(16, KINDS)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        """Scores of ``nodes``; all nodes are computed."""
        hidden = (self.adjacency @ self.first(self.features)).relu()
        return (self.adjacency @ self.second(hidden))[nodes]


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model with its graph, its optimizer, and nodes with their kinds."""
    own = torch.Generator().manual_seed(1)
    kinds = torch.arange(NODES) % KINDS
    near = (kinds[:, None] == kinds[None]) & (torch.rand(NODES, NODES, generator=own) < 0.3)
    edges = (near | near.T | torch.eye(NODES, dtype=torch.bool)).double()
    features = torch.randn(NODES, FEATURES, generator=own, dtype=torch.float64)
    model = Convolution(edges / edges.sum(1, keepdim=True), features).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    return model, optimizer, DataLoader([(torch.tensor(n), kinds[n]) for n in range(NODES)], BATCH)


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for nodes, kinds in loader:
            loss = nn.functional.cross_entropy(model(nodes), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=11)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for nodes, kinds in batches:
            loss = nn.functional.cross_entropy(model(nodes), kinds)
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())
