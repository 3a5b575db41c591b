"""A training that kills itself with SIGKILL at one point of the protocol, named by its environment.

CRASH is ``member/point/n``: worker ``member`` dies when it passes ``point`` for the n-th time (0-based).
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import fallow
from fallow import channel, group, protocol, seat
from tests.fallow.crew import network, task

STEPS = 60


def dying(function: Callable[..., Any], before: str | None, after: str | None) -> Callable[..., Any]:
    """``function``, with a point before and one after it."""

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if before:
            passes(before)
        result = function(*arguments, **options)
        if after:
            passes(after)
        return result

    return wrapped


_passed: dict[str, int] = {}
_crashes = [crash.split("/") for crash in os.environ.get("CRASH", "").split() if crash]


def passes(point: str) -> None:
    count = _passed.get(point, 0)
    _passed[point] = count + 1
    if [os.environ.get(protocol.ENV_MEMBER), point, str(count)] in _crashes:
        os.kill(os.getpid(), signal.SIGKILL)


def announcing(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(self: Any, key: str, value: str = "1") -> None:
        word = key.split("/", maxsplit=1)[0]
        passes(f"before-{word}")
        function(self, key, value)
        passes(f"after-{word}")

    return wrapped


def summing(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(self: Any, buffers: Any) -> None:
        passes(f"before-sum-of-{self.world_size}")
        function(self, buffers)
        passes(f"after-sum-of-{self.world_size}")

    return wrapped


def main() -> None:
    torch.set_num_threads(1)
    channel.Channel.announce = announcing(channel.Channel.announce)  # type: ignore[method-assign]
    group.connect = dying(group.connect, "before-connect", "after-connect")
    seat.send_state = dying(seat.send_state, "before-send", "after-send")
    seat.receive_state = dying(seat.receive_state, "before-receive", "after-receive")
    group.TorchGroup.all_reduce = summing(group.TorchGroup.all_reduce)  # type: ignore[method-assign]
    group.TorchGroup.send = dying(group.TorchGroup.send, "amid-send", None)  # type: ignore[method-assign]
    group.TorchGroup.start_send = dying(  # type: ignore[method-assign]
        group.TorchGroup.start_send, "before-parcel", "after-parcel"
    )

    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    job = fallow.connect()
    run = job.elastic(model, optimizer, global_batch=48, max_micro_batch=7)
    loss_of = nn.CrossEntropyLoss()
    for _, batches in run.steps(task(), STEPS):
        for x, y in batches:
            run.backward(loss_of(model(x), y))
        time.sleep(0.02)  # long enough for the joiner to come while there are steps left
        run.step()
    if run.rank == 0:
        torch.save(model.state_dict(), os.environ["OUT"])


if __name__ == "__main__":
    sys.exit(main())
