"""GAN: two networks with an optimizer each, which is refused: a job is one training.

After pytorch/examples, dcgan/main.py at 77f55b9.
"""

import torch
from torch import nn

import fallow


def elastic(job) -> None:
    """Asks for a second trainer, which raises Mistake before anything is trained."""
    discriminator, generator = nn.Linear(4, 1), nn.Linear(2, 4)
    for network in (discriminator, generator):
        optimizer = torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.5, 0.999))
        job.elastic(network, optimizer, global_batch=64, max_micro_batch=16)


if __name__ == "__main__":
    elastic(fallow.connect())
