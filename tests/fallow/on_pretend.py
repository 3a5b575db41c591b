"""A script for test_pretend: what trainings on the pretend device came to, as one JSON line by name.

TEST_DEVICE=pretend python -m tests.fallow.on_pretend FOLDER trainings waits
"""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fallow
from fallow.burst.profile import profile
from fallow.burst.table import every_layer
from fallow.errors import LossError
from fallow.gradients import choose
from fallow.idle_gaps import hooks
from fallow.idle_gaps import page as pages
from fallow.idle_gaps.gate import Gate
from fallow.process_group import chunks
from fallow.process_group.collectives import Group
from fallow.process_group.state_transfer import receive_state, send_state
from fallow.state import checkpoint
from tests.fallow import devices, pretend
from tests.fallow.crew import Outcome, run, training, until_resized
from tests.fallow.ranks import together

STEPS = 6
WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "alone, clipped": {"max_grad_norm": 1.0},
    "in a world of one that may grow": {"driven": True},
    "the same, clipped": {"driven": True, "max_grad_norm": 1.0},
    "alone, deterministic": {"deterministic": True},
    "deterministic, in a world of one that may grow": {"driven": True, "deterministic": True},
    "alone, deterministic, with buffers of each kind": {"deterministic": True, "build": "busy"},
    "alone, deterministic, with losses that are counted": {"deterministic": True, "counts": True},
}


def network() -> nn.Module:
    """One with everything that is more than a matrix: running statistics, dropout, a table, a counter."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    net.register_buffer("mask", torch.tril(torch.ones(3, 3, dtype=torch.bool)))
    return net


class Busy(nn.Module):
    """Changes a buffer of each kind, as modules do: within, or by a new one in its place; some not in each
    step, one of another shape for a while.
    """

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("still", torch.full((2, 2), float("nan")))
        self.register_buffer("seldom", torch.ones(3))
        self.register_buffer("grows", torch.ones(1))
        self.register_buffer("seen", torch.zeros(8, dtype=torch.bool))
        self.register_buffer("bins", torch.zeros(4, dtype=torch.int32))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        self.seen[self.passes % 8] = True
        self.bins += (x.detach() > 0).sum(0)
        self.count = self.count + len(x)
        if self.passes % 5 == 0:
            self.seldom += x.detach().amax()
        self.grows = torch.ones(2 if self.passes == 3 else 1, device=x.device) * self.passes
        return x


def busy() -> nn.Module:
    """One that changes buffers, has a table that only some rows get a gradient of, and a tail of float32."""
    return nn.Sequential(Busy(), *network())


def weights(y: torch.Tensor) -> float:
    """Of the classes of a micro-batch: a count that is no whole number, so its sums are rounded."""
    return float(torch.tensor([0.1, 1.7])[y].sum())


def task() -> torch.utils.data.Dataset[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(160, 4, generator=generator)
    return torch.utils.data.TensorDataset(x, torch.randint(0, 2, (160,), generator=generator))


def train(
    device: str,
    *,
    driven: bool = False,
    cap: int = 8,
    build: str = "network",
    counts: bool = False,
    **options: Any,
) -> tuple[list[str], list[int]]:
    """The losses of a training, exactly, and a sum over each part of its state; and each step's waits."""
    own = choose.reducer
    if driven:  # as under a controller, which would take processes

        def resized(*arguments: Any, **named: Any) -> Any:
            return own(*arguments, **{**named, "resized": True})

        choose.reducer = resized
    try:
        net = {"network": network, "busy": busy}[build]().to(device)
        trainer = fallow.connect(device, environment={}).elastic(
            net, torch.optim.AdamW(net.parameters()), global_batch=16, max_micro_batch=cap, seed=3, **options
        )
        learned, waits = [], []
        for _, batches in trainer.steps(task(), STEPS):
            pretend.waits.clear()
            for x, y in batches:
                loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
                trainer.backward(loss, count=weights(y) if counts else None)
            done = trainer.step()
            assert done is not None
            learned.append(done)
            assert "scaler" in options or not done.skipped  # known: no wait to read it
            waits.append(len(pretend.waits))
    finally:
        choose.reducer = own
    state = {name: value.cpu() for name, value in net.state_dict().items()}
    told = [f"{step.loss.hex()} {step.skipped}" for step in learned]
    told += [f"{step.grad_norm:.4g}" for step in learned if step.grad_norm is not None]  # no foreach there
    return told + [float(value.double().sum()).hex() for value in state.values()], waits


def plain(cap: int) -> list[int]:
    """Waits a step of the loop that everybody writes, and reads no loss in."""
    net = network().to(pretend.NAME)
    optimizer = torch.optim.AdamW(net.parameters())
    waits = []
    for start in range(0, 16 * STEPS, 16):
        pretend.waits.clear()
        optimizer.zero_grad()
        for first in range(start, start + 16, cap):
            x, y = torch.utils.data.default_collate([task()[at] for at in range(first, first + cap)])
            loss = nn.functional.cross_entropy(net(x.to(pretend.NAME)), y.to(pretend.NAME)) * (cap / 16)
            loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        waits.append(len(pretend.waits))
    return waits


def trainings(names: Iterable[str] = WAYS) -> list[dict[str, Any]]:
    """Each way on both devices, to the bit."""
    return [
        {"name": name, "cpu": train("cpu", **WAYS[name])[0], "pretend": train(pretend.NAME, **WAYS[name])[0]}
        for name in names
    ]


class Scaler:
    """Scales as AMP's does where the optimizer asks the device: nothing of it waits but ``get_scale``."""

    def __init__(self) -> None:
        self._scale: torch.Tensor | None = None

    def is_enabled(self) -> bool:
        return True

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        if self._scale is None:
            self._scale = torch.full((), 8.0, device=loss.device)
        return loss * self._scale

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    def update(self) -> None: ...

    def _get_scale_async(self) -> torch.Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        return 8.0 if self._scale is None else float(self._scale)

    def state_dict(self) -> dict[str, Any]:
        return {}


def waits() -> list[dict[str, Any]]:
    """How often a step waits, once a training has begun, beyond what a plain loop waits, by micro-batches."""
    found = []
    for name, way in (WAYS | {"alone, with a scaler": {"scaler": Scaler()}}).items():
        for cap in (16, 8, 4):
            beyond = [
                ours - theirs
                for ours, theirs in zip(train(pretend.NAME, cap=cap, **way)[1], plain(cap), strict=True)
            ]
            found.append({"name": name, "micro_batches": 16 // cap, "beyond": max(beyond[2:])})
    return found


def not_finite(path: Path, *, deterministic: bool) -> dict[str, Any]:
    """A training alone whose losses are nan from step 3 on: the step it ends at, why, and what is saved."""
    net = network().to(pretend.NAME)
    trainer = fallow.connect(pretend.NAME, environment={}).elastic(
        net,
        torch.optim.AdamW(net.parameters()),
        global_batch=16,
        max_micro_batch=8,
        checkpoint=path,
        deterministic=deterministic,
    )
    step = -1
    try:
        for step, batches in trainer.steps(task(), 20):
            for x, y in batches:
                loss = nn.functional.cross_entropy(net(x.to(pretend.NAME)), y.to(pretend.NAME))
                trainer.backward(loss * (float("nan") if step >= 3 else 1.0))
            trainer.step()
            if step in (1, 3):
                trainer.save()
    except LossError as mistake:
        return {
            "ended": step,
            "why": str(mistake),
            "saved": checkpoint.load(path, torch.device("cpu"))["step"],
        }
    raise AssertionError("it trained on")


class Average:
    """A state of the script's own, which lies where the model does."""

    def __init__(self, net: nn.Module):
        self.values = [parameter.detach().clone() for parameter in net.parameters()]

    def update(self, net: nn.Module) -> None:
        for value, parameter in zip(self.values, net.parameters(), strict=True):
            value.lerp_(parameter.detach(), 0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values = state["values"]


def resumed(path: Path) -> dict[str, Any]:
    """One that was saved after step 4 and resumed, there and on the CPU, beside one that never stopped."""

    def go(until: int, path: Path | None, device: str = pretend.NAME) -> dict[str, Any]:
        net = network().to(device)
        optimizer, average, waits = torch.optim.AdamW(net.parameters()), Average(net), []
        trainer = fallow.connect(device, environment={}).elastic(
            net, optimizer, global_batch=16, max_micro_batch=8, checkpoint=path, state={"average": average}
        )
        for _, batches in trainer.steps(task(), until):
            pretend.waits.clear()
            for x, y in batches:
                trainer.backward(nn.functional.cross_entropy(net(x.to(device)), y.to(device)))
            trainer.step()
            average.update(net)
            waits.append(len(pretend.waits))
        if path is not None:
            trainer.save()
        return {
            "parameters": [value.cpu().tolist() for value in net.state_dict().values()],
            "average": [value.cpu().tolist() for value in average.values],
            "steps lie on": sorted({state["step"].device.type for state in optimizer.state.values()}),
            "beyond": max(waits[2:]) - max(plain(8)[2:]),
        }

    go(4, path)
    saved = path.read_bytes()
    found = {"resumed": go(9, path), "unstopped": go(9, None)}
    path.write_bytes(saved)
    on_cpu = go(9, path, "cpu")
    del on_cpu["beyond"]  # it waits for nothing there
    return found | {"resumed on the CPU": on_cpu}


def handed() -> dict[str, Any]:
    """A state handed along a chain of three: what arrived, where it lies, and whether it filled the twins."""
    device = torch.device(pretend.NAME)
    elements = chunks.PIECE_BYTES // 4 * 2 + 12_345  # more than two pieces, and no multiple of one

    def state(seed: int) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(seed)
        large = torch.randn(elements, generator=generator)
        on_device = {"large": large, "turned": large[:1_000_000].view(1000, 1000).t(), "apart": large[::2]}
        on_device |= {"mask": large[:999] > 0, "half": large[:100_000].half(), "single": large[7]}
        moved = {name: value.to(device) for name, value in on_device.items()}
        return {"step": 7, "on the CPU": large[:9], **moved, "tied": moved["large"]}

    twins = {rank: state(2) for rank in (1, 2)}

    def work(group: Group) -> Any:
        if group.rank == 0:
            return send_state(group, 1, state(1), device)
        return receive_state(group, group.rank - 1, twins[group.rank], device, 2 if group.rank == 1 else None)

    sent, *received = together(3, work, device)
    errors = [str(each) for each in (sent, *received) if isinstance(each, BaseException)]
    if errors:
        return {"errors": errors}
    wanted = state(1)
    names = [name for name, value in wanted.items() if isinstance(value, torch.Tensor)]
    return {
        "errors": [],
        "bytes": sent,
        "wrong": [n for each in received for n in names if not torch.equal(each[n].cpu(), wanted[n].cpu())],
        "elsewhere": [n for each in received for n in names if each[n].device != wanted[n].device],
        "not in place": [
            name
            for rank, each in enumerate(received, 1)
            for name in ("large", "turned", "apart", "half")
            if each[name].data_ptr() != twins[rank][name].data_ptr()
        ],
    }


def resized(steps: int, sizes: dict[int, int]) -> dict[str, Any]:
    """A training that has so many workers from each step on, beside one on the CPU that stays alone."""
    done = run(training(steps, after_step=until_resized(sizes)), 1, sizes)
    reference = Outcome()
    training(steps, device="cpu")({}, reference)
    assert reference.parameters is not None
    return {
        "exit_code": done.exit_code,
        "journal": done.journal,
        "worlds": sorted({step.world_size for outcome in done.outcomes for step in outcome.steps}),
        "finished": len(done.finished),
        "furthest": max(
            float((value - reference.parameters[name]).abs().max())
            for outcome in done.finished
            for name, value in (outcome.parameters or {}).items()
        ),
    }


def profiled() -> dict[str, Any]:
    """A model's layers, profiled at two batches, and what the host waited for meanwhile."""
    layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)).to(devices.NAME)
    pretend.waits.clear()
    table = profile(layers, torch.randn(6), (2, 1))
    times = [(t.forward_us, t.backward_us) for layer in every_layer(table.layers) for t in layer.timings]
    return {"times": times, "waits": list(pretend.waits)}


def gated(path: Path) -> dict[str, Any]:
    """A background job with layers on the device, which is not the current one, and one on the CPU beside
    it: how long each is taken to last, and whether the page says amid a layer that the device works.
    """
    with pages.create(path) as page:
        page.allow(is_allowed=True)
        page.end_step(alone_s=None, recent_s=None, share=1.0)
        page.open_gap(50.0)
        gate = Gate(page)
        layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).to(pretend.NAME)
        beside = nn.Linear(4, 4)
        take_away = hooks.put(gate)
        try:
            for _ in range(6):
                layers(torch.zeros(2, 4).to(pretend.NAME))
                beside(torch.zeros(2, 4))
            layers[0](torch.zeros(2, 4).to(pretend.NAME))
            gate.end_piece()
            works = page._whole[pages.PIECE_BEGAN] != 0
        finally:
            take_away()
    names = [("layer", id(layer)) for layer in (*layers, beside)]
    return {"lasts_s": [gate.usual_s(name) for name in names], "works": works}


def main() -> None:
    torch.set_num_threads(1)
    assert devices.NAME == pretend.NAME
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    parts: dict[str, Callable[[], Any]] = {
        "trainings": trainings,
        "waits": waits,
        "handed": handed,
        "profiled": profiled,
        "gated": lambda: gated(folder / "page"),
        "one-training": lambda: trainings(["alone"]),
        "resized": lambda: resized(24, {2: 3, 10: 2}),
        "resized-once": lambda: resized(12, {2: 2}),
        "not-finite": lambda: [
            not_finite(folder / f"{word}.pt", deterministic=word == "tree") for word in ("plain", "tree")
        ],
        "resumed": lambda: resumed(folder / "resumed.pt"),
    }
    print(json.dumps({name: parts[name]() for name in names}))


if __name__ == "__main__":
    sys.exit(main())
