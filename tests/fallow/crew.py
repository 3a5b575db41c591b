"""A training whose workers are threads of the test: the real controller, store, groups and trainer.

Threads start at once where processes would import torch first, so many trainings fit into a test.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import fallow
from fallow.controller.controller import Controller
from fallow.controller.membership import Limits
from fallow.trainer import Trainer
from fallow.types import Step
from tests.fallow.devices import NAME, moved

PATIENT_MS = 240_000
"""Less than pytest waits for a test, so that the journal says what did not come."""
LIMITS = Limits(
    start_ms=PATIENT_MS,
    connect_ms=PATIENT_MS,
    switch_ms=PATIENT_MS,
    report_ms=PATIENT_MS,
    silence_ms=PATIENT_MS,
    idle_silence_ms=PATIENT_MS,
    gather_ms=PATIENT_MS,
)
"""Nobody is given up for being late: a thread cannot be killed and would live on beside its replacement, and
whoever is late here waits for a processor. Joiners are taken in together."""


def task(
    samples: int = 331, seed: int = 1, *, numbered: bool = False
) -> torch.utils.data.Dataset[tuple[torch.Tensor, ...]]:
    """A small classification data set in float64; ``numbered`` adds each sample's index to it."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 12, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 4, (samples,), generator=generator)
    return torch.utils.data.TensorDataset(x, y, *([torch.arange(samples)] if numbered else []))


SEEDING = threading.Lock()  # the global generator is shared by all threads


def network(seed: int = 0) -> nn.Module:
    """A small network in float64 with a tied weight, a frozen layer and a parameter nobody uses."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 4)
    ).double()
    model[2].weight = model[0].weight
    model[4].bias.requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.zeros(3, dtype=torch.float64)))
    return model


@dataclass
class Outcome:
    """What one worker saw: its committed steps, and its final parameters when it stayed to the end."""

    steps: list[Step] = field(default_factory=list)
    parameters: dict[str, torch.Tensor] | None = None
    error: BaseException | None = None


Train = Callable[[Mapping[str, str], Outcome], None]


def noisy_network(seed: int = 0) -> nn.Module:
    """A small float32 network with everything that depends on order: BatchNorm and dropout."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 4)
    )  # fmt: skip


def training(
    total_steps: int,
    build: Callable[[], nn.Module] = network,
    *,
    each_step: Callable[[], None] = lambda: None,
    schedule: bool = True,
    after_step: Callable[[Trainer], None] = lambda trainer: None,
    device: str = NAME,
    **recipe: Any,
) -> Train:
    """A training function as a user would write it."""
    asked = {"global_batch": 48, "max_micro_batch": 7, "max_grad_norm": 1.0, **recipe}

    def train(environment: Mapping[str, str], outcome: Outcome) -> None:
        with SEEDING:
            model = moved(build(), device)
        dtype = next(model.parameters()).dtype
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total_steps)] if schedule else []
        job = fallow.connect(device, environment=environment)
        trainer = job.elastic(model, optimizer, schedulers=schedules, **asked)
        loss_of = nn.CrossEntropyLoss()
        for _, batches in trainer.steps(task(), total_steps):
            for x, y in batches:
                trainer.backward(loss_of(model(x.to(device, dtype)), y.to(device)))
            done = trainer.step()
            if done is not None:
                outcome.steps.append(done)
                each_step()
                after_step(trainer)
        outcome.parameters = {name: value.clone().cpu() for name, value in model.state_dict().items()}

    return train


def until_resized(worlds: Mapping[int, int]) -> Callable[[Trainer], None]:
    """For ``after_step``: behind a step of ``run``'s script, rank 0 waits until that change is agreed.

    It comes with the next step then. A training of milliseconds may else end before its joiner has come.
    """

    def wait(trainer: Trainer) -> None:
        asked = [world for step, world in worlds.items() if step < trainer.next_step]
        while asked and trainer.rank == 0 and trainer.world_size != asked[-1] and not trainer._seat.flag():
            time.sleep(0.001)

    return wait


class ThreadWorker:
    """A worker as the controller sees one; exit code 0 after a normal end or a requested leave, else 1."""

    def __init__(self, train: Train, environment: Mapping[str, str]):
        self.outcome = Outcome()
        self._code: int | None = None
        self._train, self._environment = train, environment
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        return self._code

    def terminate(self) -> None:
        pass

    def kill(self) -> None:
        pass

    def wait(self, timeout: float | None = None) -> int:
        self._thread.join(timeout)
        return self._code if self._code is not None else -1

    def _run(self) -> None:
        try:
            self._train(self._environment, self.outcome)
            self._code = 0
        except SystemExit:
            self._code = 0
        except BaseException as error:
            self.outcome.error = error
            self._code = 1


@dataclass
class Run:
    """A finished training: what each worker saw, and the controller's journal."""

    outcomes: list[Outcome]
    journal: list[str]
    exit_code: int

    @property
    def finished(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.parameters is not None]


def run(train: Train, workers: int, script: Mapping[int, int] | None = None, maximum: int = 4) -> Run:
    """Run to the end; ``script`` maps a step, once it was committed anywhere, to the world asked for then.

    The next world is asked for when the last one was reached.
    """
    started: list[ThreadWorker] = []

    def spawn(environment: Mapping[str, str]) -> ThreadWorker:
        started.append(ThreadWorker(train, environment))
        return started[-1]

    asked = dict(script or {})

    def poll(controller: Controller) -> None:
        furthest = max((len(w.outcome.steps) and w.outcome.steps[-1].number for w in started), default=0)
        reached = len(controller.view.members) == controller.view.target
        due = [step for step in asked if step <= furthest] if reached else []
        for step in due[:1]:
            controller.resize(asked.pop(step))

    controller = Controller(spawn, workers=workers, maximum=maximum, limits=LIMITS)
    code = controller.run(poll)
    return Run([worker.outcome for worker in started], controller.journal, code)
