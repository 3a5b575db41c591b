"""A training in which something goes wrong at one point of the protocol, named by its environment.

CRASH holds words like ``member/point/n`` or ``member/point/n/what``: worker ``member`` suffers ``what`` when
it passes ``point`` for the n-th time (0-based): kill (the default), stop, raise, sleep, hang or exit. A ``*``
is any worker or time. LEDGER is where the workers write down what they do, OUT where the last rank 0 leaves
the parameters.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import fallow
from fallow import protocol
from fallow.process_group import group, local_copy, membership_client, rendezvous
from fallow.process_group.collectives import Work
from fallow.state import checkpoint
from tests.fallow.crew import network, task
from tests.fallow.devices import DEVICE, NAME, moved
from tests.fallow.ledger import Ledger

STEPS = int(os.environ.get("STEPS", "45"))
PACE_S = float(os.environ.get("PACE_S", "0.02"))
MEMBER = os.environ.get(protocol.ENV_MEMBER, "alone")


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
    for member, where, when, *what in _crashes:
        if member in (MEMBER, "*") and where == point and when in (str(count), "*"):
            suffers(what[0] if what else "kill")


def suffers(what: str) -> None:
    match what:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise ValueError(f"sample 17 of {MEMBER} is spoiled")
        case "sleep":
            time.sleep(3)
        case "hang":
            time.sleep(10_000)
        case "exit":
            sys.exit(3)
        case _:
            raise AssertionError(what)


def announcing(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(self: Any, key: str, value: str = "1") -> None:
        word = key.split("/", maxsplit=1)[0]
        passes(f"before-{word}")
        function(self, key, value)
        passes(f"after-{word}")

    return wrapped


@dataclass
class Summing:
    """A sum that was begun."""

    work: Work
    world_size: int

    def wait(self) -> None:
        self.work.wait()
        passes(f"after-sum-of-{self.world_size}")


def summing(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(self: Any, *arguments: Any) -> Summing:
        passes(f"before-sum-of-{self.world_size}")
        return Summing(function(self, *arguments), self.world_size)

    return wrapped


def main() -> None:
    torch.set_num_threads(1)
    rendezvous.Rendezvous.announce = announcing(rendezvous.Rendezvous.announce)  # type: ignore[method-assign]
    group.connect = dying(group.connect, "before-connect", "after-connect")
    membership_client.send_state = dying(membership_client.send_state, "before-send", "after-send")
    membership_client.receive_state = dying(
        membership_client.receive_state, "before-receive", "after-receive"
    )
    group.TorchGroup.start_all_reduce = summing(  # type: ignore[method-assign]
        group.TorchGroup.start_all_reduce
    )
    group.TorchGroup.start_send = dying(  # type: ignore[method-assign]
        group.TorchGroup.start_send, "before-parcel", "after-parcel"
    )
    group.TorchGroup.send = dying(group.TorchGroup.send, "amid-send", None)  # type: ignore[method-assign]

    group.TorchGroup.receive = dying(  # type: ignore[method-assign]
        group.TorchGroup.receive, "amid-hear", None
    )
    checkpoint.save = dying(checkpoint.save, "before-save", "after-save")
    local_copy.read = dying(local_copy.read, "before-read", "after-read")
    membership_client.Proof.check = dying(membership_client.Proof.check, "before-proof", "after-proof")  # type: ignore[method-assign]

    membership_client.MembershipClient.join = dying(  # type: ignore[method-assign]
        membership_client.MembershipClient.join, "warm-up", None
    )
    passes("start")
    model = moved(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    job = fallow.connect(NAME)
    run = job.elastic(
        model,
        optimizer,
        global_batch=48,
        max_micro_batch=7,
        deterministic="DETERMINISTIC" in os.environ,
        checkpoint=os.environ.get("CHECKPOINT"),
    )
    ledger = Ledger(os.environ["LEDGER"], MEMBER) if "LEDGER" in os.environ else None
    loss_of = nn.CrossEntropyLoss()
    for step, batches in run.steps(task(numbered=True), STEPS):
        ids: list[int] = []
        for x, y, number in batches:
            ids += number.tolist()
            run.backward(loss_of(model(x.to(DEVICE)), y.to(DEVICE)))
        passes("amid-step")
        time.sleep(PACE_S)  # long enough for the joiner to come while there are steps left
        generation = run.generation
        if ledger:
            ledger.part(step, generation, ids)
        done = run.step()
        if done is not None and ledger:
            ledger.commit(step, generation, done.loss)
    passes("end")
    if run.rank == 0 and "OUT" in os.environ:
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, os.environ["OUT"])


if __name__ == "__main__":
    sys.exit(main())
