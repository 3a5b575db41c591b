"""Messages in any order, on a busy machine: delays drawn from a seed before every word to or from the store.

FALLOW_SEEDS asks for more seeds than the few of every day.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch import nn  # noqa: E402

from fallow import protocol  # noqa: E402
from fallow.controller.controller import Controller  # noqa: E402
from fallow.job import Job  # noqa: E402
from fallow.process_group.rendezvous import Rendezvous, client  # noqa: E402
from fallow.protocol import MemberId  # noqa: E402
from fallow.secret import inherited  # noqa: E402
from tests.fallow.crew import LIMITS, SEEDING, Outcome, ThreadWorker, Train, network, task  # noqa: E402

SEEDS = int(os.environ.get("FALLOW_SEEDS", "3"))
STEPS = 30
DEADLINE_S = 60
CPU = torch.device("cpu")


class LateDoor:
    """A store whose every operation waits first, as the seed says: mostly not at all, at times long."""

    def __init__(self, address: str, order: random.Random):
        self._store, self._order = client(address), order

    def set(self, key: str, value: bytes, /) -> None:
        self._dawdle()
        self._store.set(key, value)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes, /) -> bytes:
        self._dawdle()
        return bytes(self._store.compare_set(key, expected, desired))

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        self._dawdle()
        self._store.wait(keys, timeout)

    def _dawdle(self) -> None:
        time.sleep(self._order.choice((0.0, 0.0, 0.001, 0.004, 0.015)))


def late_training(seed: int, deterministic: bool) -> Train:
    """A training as a user would write it, over a store whose words come late."""

    def train(environment: Mapping[str, str], outcome: Outcome) -> None:
        member = MemberId(environment[protocol.ENV_MEMBER])
        order = random.Random(f"{seed} {member}")
        channel = Rendezvous(
            environment[protocol.ENV_STORE],
            member,
            CPU,
            inherited(environment),
            open_door=lambda address: LateDoor(address, random.Random(order.random())),
        )
        job = Job(channel, environment[protocol.ENV_ROLE] == protocol.FOUNDER, CPU, None)
        fill(job, outcome, deterministic)

    return train


def fill(job: Job, outcome: Outcome, deterministic: bool) -> None:
    with SEEDING:
        model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    trainer = job.elastic(model, optimizer, global_batch=48, max_micro_batch=8, deterministic=deterministic)
    loss_of = nn.CrossEntropyLoss()
    for _, batches in trainer.steps(task(), STEPS):
        for x, y in batches:
            trainer.backward(loss_of(model(x), y))
        time.sleep(0.004)
        done = trainer.step()
        if done is not None:
            outcome.steps.append(done)
    outcome.parameters = {name: value.clone() for name, value in model.state_dict().items()}


@pytest.fixture(scope="module", autouse=True)
def load() -> Iterator[None]:
    """Other people's processes, busy all the while."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "deterministic"])
def reference(request: pytest.FixtureRequest) -> tuple[bool, Outcome]:
    alone = Outcome()
    fill(Job(None, True, CPU, None), alone, request.param)
    return request.param, alone


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_comes_first_the_same_is_learned(seed: int, reference: tuple[bool, Outcome]) -> None:
    deterministic, alone = reference
    wishes = random.Random(seed)
    train, workers = late_training(seed, deterministic), []
    lines: list[str] = []

    def spawn(environment: Mapping[str, str]) -> ThreadWorker:
        workers.append(ThreadWorker(train, environment))
        return workers[-1]

    deadline_s = time.monotonic() + DEADLINE_S

    def poll(controller: Controller) -> None:
        assert time.monotonic() < deadline_s, (seed, controller.journal)
        if controller.view.generation and wishes.random() < 0.02:
            if wishes.random() < 0.3 and len(controller.view.members) > 1:
                controller.release(wishes.choice(controller.view.members))
            else:
                controller.resize(wishes.randint(1, 4))

    controller = Controller(
        spawn, workers=wishes.randint(1, 3), maximum=4, spare=seed % 2, limits=LIMITS, tell=lines.append
    )
    assert controller.run(poll) == 0, (controller.exit_reason, controller.journal)
    finished = [worker.outcome for worker in workers if worker.outcome.parameters is not None]
    assert finished
    assert not [line for line in lines if "recovers" in line], "nobody died, so nobody needs to recover"
    for outcome in finished:
        assert outcome.parameters is not None
        assert alone.parameters is not None
        for name, value in alone.parameters.items():
            if deterministic:
                assert torch.equal(outcome.parameters[name], value), (seed, name)
            else:
                assert torch.allclose(outcome.parameters[name], value, rtol=0, atol=1e-12), (seed, name)
    for worker in workers:
        numbers = [step.number for step in worker.outcome.steps]
        assert numbers == sorted(set(numbers)), "no step twice"
