"""Trainings that each use one more part of torch, as a user writes them, and the same as a plain torch loop.

The plain loop computes each global batch in one forward pass, on one worker, without any of our code. Run as
a script (under torchrun, say) every training is done in turn, and what this rank learned is saved to OUT.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import fallow
from fallow.data.sampler import Order
from fallow.job import Job
from tests.fallow.devices import DEVICE, NAME, moved

GLOBAL_BATCH = 48
STEPS = 20 if NAME == "cpu" else 8  # of 331 samples, seven a pass: nearly three passes, or one and a step
Learned = dict[str, Any]


def samples(count: int = 331) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 12, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 4, (count,), generator=generator)
    return list(zip(x, y, strict=True))


def sentences(count: int = 331) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens and targets of very different lengths, padded; -100 is no target. Some have none at all."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, 11, (count, 9), generator=generator)
    targets = torch.randint(0, 11, (count, 9), generator=generator)
    lengths = torch.randint(0, 10, (count,), generator=generator)
    targets[torch.arange(9)[None] >= lengths[:, None]] = -100
    return list(zip(tokens, targets, strict=True))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 4)
    ).double()  # fmt: skip


def tied() -> nn.Module:
    model = network()
    model[2].weight = model[0].weight  # type: ignore[index]
    model.register_parameter("unused", nn.Parameter(torch.zeros(3, dtype=torch.float64)))
    return model


def half_frozen() -> nn.Module:
    model = network()
    for parameter in list(model.parameters())[:2]:
        parameter.requires_grad_(False)
    return model


class Language(nn.Module):
    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11)
        self.double()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embedding(tokens).cumsum(1)))


class Average:
    """The script's own running average of the weights: a state that nobody can guess."""

    def __init__(self, model: nn.Module):
        self.values = [parameter.detach().clone() for parameter in model.parameters()]

    def update(self, model: nn.Module) -> None:
        for value, parameter in zip(self.values, model.parameters(), strict=True):
            value.lerp_(parameter.detach(), 0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values = state["values"]


Optimize = Callable[[nn.Module], torch.optim.Optimizer]


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def in_groups(model: nn.Module) -> torch.optim.Optimizer:
    first, *rest = model.parameters()
    return torch.optim.SGD(
        [{"params": [first], "lr": 0.2}, {"params": rest, "lr": 0.05, "weight_decay": 0.1}], momentum=0.9
    )


def mean_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), y)


def token_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training; ``options`` goes to elastic(), given the optimizer, ``feeding`` to steps()."""

    build: Callable[[], nn.Module] = network
    optimize: Optimize = adamw
    loss: Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor] = mean_loss
    data: Callable[[], Any] = samples
    options: Callable[[torch.optim.Optimizer], dict[str, Any]] = lambda optimizer: {}
    feeding: dict[str, Any] = field(default_factory=dict)
    before_step: Callable[[int, nn.Module], None] = lambda step, model: None
    before_update: Callable[[int, nn.Module], None] = lambda step, model: None
    after_update: Callable[[int, nn.Module], None] = lambda step, model: None
    counts: bool = False
    averages: bool = False
    infinite_steps: tuple[int, ...] = ()
    cap: int = 7
    sleep_s: float = 0.0


def thaw(step: int, model: nn.Module) -> None:
    if step >= 6:
        model.requires_grad_(True)


def freeze(step: int, model: nn.Module) -> None:
    next(model.parameters()).requires_grad_(step < 6)


def scaler() -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=4)


def weighted_order(epoch: int) -> list[int]:
    generator = torch.Generator().manual_seed(epoch)
    return torch.multinomial(torch.arange(1.0, 332.0), 200, replacement=True, generator=generator).tolist()


def clamp(model: nn.Module) -> None:
    nn.utils.clip_grad_value_(model.parameters(), 0.01)


scheduler = torch.optim.lr_scheduler
CASES: dict[str, Case] = {
    "plain": Case(),
    "largest-micro-batch": Case(cap=1000),
    "one-sample-micro-batches": Case(cap=1),
    "schedulers": Case(
        options=lambda optimizer: {
            "schedulers": [
                scheduler.LinearLR(optimizer, total_iters=5),
                scheduler.CosineAnnealingLR(optimizer, STEPS),
            ]
        }
    ),
    "plateau": Case(
        options=lambda optimizer: {
            "schedulers": [scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.05)]
        }
    ),
    "clipping": Case(options=lambda optimizer: {"max_grad_norm": 0.1}),
    "gradient-hook": Case(options=lambda optimizer: {"on_gradient": clamp}),
    "scaler": Case(options=lambda optimizer: {"scaler": scaler()}, infinite_steps=(3, 9)),
    "scaler-and-clipping": Case(
        options=lambda optimizer: {"scaler": scaler(), "max_grad_norm": 0.1}, infinite_steps=(2,)
    ),
    "tied-and-unused": Case(build=tied),
    "parameter-groups": Case(optimize=in_groups),
    "frozen-layer": Case(build=half_frozen),
    "thawing-on-the-way": Case(build=half_frozen, before_step=thaw),
    "freezing-on-the-way": Case(before_step=freeze, optimize=in_groups),
    "freezing-before-an-update": Case(before_update=freeze, optimize=in_groups),
    "freezing-after-an-update": Case(after_update=freeze, optimize=in_groups),
    "counted-tokens": Case(build=Language, loss=token_loss, data=sentences, counts=True),
    "counted-tokens-scaled-and-clipped": Case(
        build=Language,
        loss=token_loss,
        data=sentences,
        counts=True,
        options=lambda optimizer: {"scaler": scaler(), "max_grad_norm": 0.05},
    ),
    "rmsprop": Case(optimize=lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5)),
    "extra-state": Case(averages=True),
    "weighted-sampling": Case(feeding={"order": weighted_order}),
    "in-order-without-the-rest": Case(feeding={"shuffle": False, "drop_last": True}),
    "balanced-by-speed": Case(options=lambda optimizer: {"balance_by_speed": True}, sleep_s=1e-3),
}


BITWISE = (
    "plain",
    "counted-tokens",
    "balanced-by-speed",
    "thawing-on-the-way",
    "freezing-before-an-update",
    "schedulers",
)
"""Those that are also done in the deterministic mode."""


def elastic(case: Case, job: Job, **overrides: Any) -> Learned:
    """The training under fallow, as a user would write it."""
    model = moved(case.build())
    optimizer = case.optimize(model)
    average = Average(model)
    options = {"state": {"average": average}, "max_micro_batch": case.cap} | case.options(optimizer)
    trainer = job.elastic(model, optimizer, global_batch=GLOBAL_BATCH, **options | overrides)
    learned: Learned = {"losses": {}, "norms": {}, "skipped": [], "sizes": []}
    for step, batches in trainer.steps(case.data(), STEPS, **case.feeding):
        case.before_step(step, model)
        size = 0
        for x, y in batches:
            size += len(y)
            time.sleep(case.sleep_s * len(y) * (1 + 2 * trainer.rank))  # the higher the rank, the slower
            count = int((y != -100).sum()) if case.counts else None
            loss = case.loss(model, x.to(DEVICE), y.to(DEVICE))
            if step in case.infinite_steps and trainer.rank == trainer.world_size - 1:
                loss = loss * float("inf")
            trainer.backward(loss, count=count)
        case.before_update(step, model)
        done = trainer.step()
        if done is None:
            continue
        case.after_update(step, model)
        average.update(model)
        learned["sizes"].append(size)
        learned["losses"][step] = done.loss
        learned["norms"][step] = done.grad_norm
        learned["skipped"] += [step] * done.skipped
    learned["parameters"] = {name: value.clone().cpu() for name, value in model.state_dict().items()}
    learned["average"] = [value.cpu() for value in average.values] if case.averages else []
    learned["scale"] = options["scaler"].get_scale() if "scaler" in options else None
    return learned


def plain(case: Case) -> Learned:
    """The same without fallow: one forward and backward pass over each whole global batch."""
    model = case.build()
    optimizer = case.optimize(model)
    options = case.options(optimizer)
    scaler, limit = options.get("scaler"), options.get("max_grad_norm")
    average, data = Average(model), case.data()
    learned: Learned = {"losses": {}, "norms": {}, "skipped": []}
    for step, indices in enumerate(global_batches(case, len(data))):
        case.before_step(step, model)
        rows = [data[index] for index in indices]
        x, y = torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])
        optimizer.zero_grad()
        loss = case.loss(model, x, y)
        learned["losses"][step] = loss.item()
        if step in case.infinite_steps:
            loss = loss * float("inf")
        (scaler.scale(loss) if scaler else loss).backward()
        case.before_update(step, model)
        if scaler:
            scaler.unscale_(optimizer)
        if "on_gradient" in options:
            options["on_gradient"](model)
        if limit is not None:
            learned["norms"][step] = float(nn.utils.clip_grad_norm_(model.parameters(), limit))
        if scaler:
            scaler.step(optimizer)
            scaler.update()
            learned["skipped"] += [step] * (step in case.infinite_steps)
        else:
            optimizer.step()
        for schedule in options.get("schedulers", ()):
            if isinstance(schedule, scheduler_of_plateaus):
                schedule.step(learned["losses"][step])
            else:
                schedule.step()
        average.update(model)
        case.after_update(step, model)
    learned["parameters"] = dict(model.state_dict())
    learned["average"] = average.values if case.averages else []
    learned["scale"] = scaler.get_scale() if scaler else None
    return learned


scheduler_of_plateaus = scheduler.ReduceLROnPlateau


def global_batches(case: Case, count: int) -> Iterable[list[int]]:
    """The samples of each step, by the rule that ``sampler`` states, worked out without the trainer."""
    order = Order(samples=count, global_batch=GLOBAL_BATCH, seed=0)
    step = epoch = 0
    while step < STEPS:
        if "order" in case.feeding:
            visited = case.feeding["order"](epoch)
        elif case.feeding.get("shuffle") is False:
            visited = list(range(count))
        else:
            visited = torch.as_tensor(order.permutation(epoch)).tolist()
        for start in range(0, len(visited), GLOBAL_BATCH):
            batch = visited[start : start + GLOBAL_BATCH]
            if step < STEPS and not (case.feeding.get("drop_last") and len(batch) < GLOBAL_BATCH):
                yield batch
                step += 1
        epoch += 1


def tried() -> dict[str, Case]:
    """All of them, or those that can be tried on the device; the others are skipped aloud."""
    return {name: case for name, case in CASES.items() if NAME == "cpu" or not name.count("scale")}


def as_rank(variables: dict[str, str]) -> None:
    """``main`` of a process that was forked, with what torchrun would say to it."""
    os.environ.update(variables)
    main()


def main() -> None:
    torch.set_num_threads(1)
    job = fallow.connect(NAME)
    learned = {name: elastic(case, job) for name, case in tried().items()}
    again = {name: elastic(CASES[name], job, deterministic=True) for name in BITWISE}
    torch.save(
        {"plain": learned, "deterministic": again}, f"{os.environ['OUT']}.{os.environ.get('RANK', '0')}"
    )


if __name__ == "__main__":
    sys.exit(main())
