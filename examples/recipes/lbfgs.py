"""LBFGS: an optimizer that computes the loss several times a step, which is refused.

After pytorch/examples, time_sequence_prediction/train.py at 77f55b9.
"""

import torch
from torch import nn

import fallow


def elastic(job) -> None:
    """Raises Mistake before anything is trained."""
    model = nn.LSTM(1, 8)
    job.elastic(model, torch.optim.LBFGS(model.parameters(), lr=0.8), global_batch=16, max_micro_batch=4)


if __name__ == "__main__":
    elastic(fallow.connect())
