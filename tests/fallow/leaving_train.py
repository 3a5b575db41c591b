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

STEPS = int(os.environ.get("STEPS", "100000"))
PACE_S = float(os.environ.get("PACE_S", "0.02"))
MEMBER = os.environ.get(protocol.ENV_MEMBER, "alone")


def main() -> None:
    torch.set_num_threads(1)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    checkpoint = os.environ.get("CHECKPOINT")
    run = fallow.connect("cpu").elastic(
        model, optimizer, global_batch=48, max_micro_batch=12, checkpoint=checkpoint
    )
    ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    loss_of = nn.CrossEntropyLoss()
    for step, batches in run.steps(task(), STEPS):
        for x, y in batches:
            run.backward(loss_of(model(x), y))
        time.sleep(PACE_S)
        done = run.step()
        if done is not None:
            entry = {"member": MEMBER, "step": step, "loss": float(done.loss), "s": time.time()}
            os.write(ledger, (json.dumps({**entry, "world": run.world_size}) + "\n").encode())


if __name__ == "__main__":
    main()
