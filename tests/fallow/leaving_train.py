"""A small training in float64 whose workers write down each step that they commit: which, its loss, and when.

LEDGER is the file, STEPS how many steps, PACE_S how long each sleeps. Same samples and weights whoever
computes, so the losses are those of one worker alone to rounding.
"""

import json
import os
import time

import torch
from torch import nn

import fallow
from fallow import protocol
from tests.fallow.crew import network, task

MEMBER = os.environ.get(protocol.ENV_MEMBER, "alone")


def train(ledger: str, steps: int, pace_s: float, checkpoint: str | None = None) -> None:
    """Train for so many steps, each of which sleeps for ``pace_s``, and write them down in ``ledger``."""
    torch.set_num_threads(1)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    run = fallow.connect("cpu").elastic(
        model, optimizer, global_batch=48, max_micro_batch=12, checkpoint=checkpoint
    )
    pen = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    loss_of = nn.CrossEntropyLoss()
    for step, batches in run.steps(task(), steps):
        for x, y in batches:
            run.backward(loss_of(model(x), y))
        time.sleep(pace_s)
        done = run.step()
        if done is not None:
            entry = {"member": MEMBER, "step": step, "loss": float(done.loss), "s": time.time()}
            os.write(pen, (json.dumps({**entry, "world": run.world_size}) + "\n").encode())
    os.close(pen)


if __name__ == "__main__":
    steps, pace_s = int(os.environ.get("STEPS", "100000")), float(os.environ.get("PACE_S", "0.02"))
    train(os.environ["LEDGER"], steps, pace_s, os.environ.get("CHECKPOINT"))
