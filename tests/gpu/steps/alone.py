"""Trainings by ``fallow`` alone against plain loops: the same losses, also after a save and a resume."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fallow
from tests.gpu import place
from tests.gpu.answers import Figure, at_most, is_so

STEPS, BATCH = (4, 12) if place.dry else (12, 36)
EXACT, LOOSE = 1e-5, 1e-3
"""Relative: sums in another order, and sums in fewer bits (AMP) or fused kernels (compiled)."""
WAYS: Mapping[str, float] = {
    "plain": EXACT,
    "AMP with a scaler": LOOSE,
    "bf16": LOOSE,
    "compiled": LOOSE,
    "BatchNorm and dropout": EXACT,
    "fused Adam": EXACT,
    "deterministic, 3 micro-batches": EXACT,
    "loader of 2 processes, pinned": EXACT,
}
BEYOND_DRY = ("AMP with a scaler", "bf16", "compiled", "fused Adam", "loader of 2 processes, pinned")
"""What the pretend device does not know."""


def main() -> dict[str, Any]:
    """Each way, then a resume bit by bit."""
    figures: list[Figure] = []
    for way, bar in WAYS.items():
        if not (place.dry and way in BEYOND_DRY):
            wanted, found = _losses(way, elastic=False), _losses(way, elastic=True)
            off = max(
                abs(one - other) / max(abs(one), 1e-9) for one, other in zip(wanted, found, strict=True)
            )
            figures.append(at_most(f"{way}: losses beside a plain loop's, off by", off, bar))
    return {"figures": [*figures, *_resumed()]}


def _network(torch: Any, *, norm: bool = True, dropout: float = 0.0) -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Dropout(dropout)]
    if norm:
        layers.insert(1, torch.nn.BatchNorm1d(64))
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 4)).to(place.torch_device())


def _data(torch: Any) -> Any:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(BATCH * STEPS * 2, 16, generator=generator)
    return torch.utils.data.TensorDataset(x, torch.randint(0, 4, (len(x),), generator=generator))


def _losses(way: str, *, elastic: bool) -> list[float]:
    torch, device = place.torch(), place.torch_device()
    dropout = 0.2 if "dropout" in way else 0.0
    net = _network(torch, norm=dropout > 0, dropout=dropout)
    forward = torch.compile(net) if way == "compiled" else net
    fused = way == "fused Adam"
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, **({"fused": True} if fused else {}))
    amp = way in ("AMP with a scaler", "bf16")
    kind = torch.bfloat16 if way == "bf16" else torch.float16
    scaler = torch.amp.GradScaler("cuda") if way == "AMP with a scaler" else None
    ahead = way.startswith("loader")

    def loss(x: Any, y: Any) -> Any:
        with torch.autocast("cuda", dtype=kind, enabled=amp):
            return torch.nn.functional.cross_entropy(forward(x.to(device)), y.to(device))

    parts = 3 if way.startswith("deterministic") else 1
    if elastic:
        job = fallow.connect(device=str(device))
        exact = {"deterministic": True, "micro_batches": parts} if parts > 1 else {}
        trainer = job.elastic(
            net, optimizer, global_batch=BATCH, max_micro_batch=BATCH, scaler=scaler, **exact
        )
        found = []
        for step, batches in trainer.steps(
            _data(torch), STEPS, shuffle=False, workers=2 if ahead else None, pin_memory=ahead or None
        ):
            for x, y in batches:
                _draw_as(torch, way, step)
                trainer.backward(loss(x, y))
            done = trainer.step()
            assert done is not None
            found.append(done.loss)
        return found
    found = []
    loader = torch.utils.data.DataLoader(
        _data(torch), batch_size=BATCH, num_workers=2 if ahead else 0, pin_memory=ahead
    )
    for step, (x, y) in zip(range(STEPS), loader, strict=False):
        optimizer.zero_grad()
        value = 0.0
        for inputs, wanted in zip(x.chunk(parts), y.chunk(parts), strict=True):
            _draw_as(torch, way, step)
            part = loss(inputs, wanted) * (len(inputs) / len(x))
            (part if scaler is None else scaler.scale(part)).backward()
            value += float(part.detach().item())
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        found.append(value)
    return found


def _draw_as(torch: Any, way: str, step: int) -> None:
    """The numbers of dropout are a step's own here, so that both loops draw the same ones."""
    if "dropout" in way:
        torch.manual_seed(1000 + step)


def _resumed() -> list[Figure]:
    """Deterministic with 3 micro-batches: through, and in two runs with a save between; dropout and all."""
    with tempfile.TemporaryDirectory() as folder:
        whole = _weights(None, STEPS)
        path = Path(folder) / "saved"
        _weights(path, STEPS // 2)
        again = _weights(path, STEPS)
    same = all(one.equal(other) for one, other in zip(whole, again, strict=True))
    return [is_so("deterministic: the same bits after a save and a resume", same, True)]


def _weights(path: Path | None, steps: int) -> list[Any]:
    torch, device = place.torch(), place.torch_device()
    net = _network(torch, dropout=0.2)
    job = fallow.connect(device=str(device))
    trainer = job.elastic(
        net,
        torch.optim.AdamW(net.parameters()),
        global_batch=12,
        max_micro_batch=4,
        deterministic=True,
        micro_batches=3,
        checkpoint=path,
    )
    for _, batches in trainer.steps(_data(torch), steps):
        for x, y in batches:
            trainer.backward(torch.nn.functional.cross_entropy(net(x.to(device)), y.to(device)))
        trainer.step()
    if path is not None and not path.exists():
        job.checkpoint()
    return [parameter.detach().cpu() for parameter in net.parameters()]
