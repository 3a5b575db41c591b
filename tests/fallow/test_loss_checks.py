"""A loss that is no mean over the samples of its micro-batch is told of once, with what to do about it."""

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

import fallow  # noqa: E402
from fallow.gradients.loss_checks import doubt  # noqa: E402

pytestmark = pytest.mark.quick

CLASSES, SAMPLES = 4, 10
Loss = Callable[[Any, Any, Any], Any]
WEIGHT = torch.tensor([1.0, 2.0, 3.0, 4.0]).double()


def dice(out: Any, x: Any, y: Any) -> Any:
    p, t = out.softmax(1)[:, 1], (y == 1).double()
    return 1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1)


def contrast(out: Any, x: Any, y: Any) -> Any:
    z = F.normalize(out, dim=1)
    return F.cross_entropy(z @ z.T / 0.1, torch.arange(len(z)))


def ignoring(out: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(out, y.where(y != 0, torch.tensor(-100)))


def masked(out: Any, x: Any, y: Any) -> Any:
    chosen = (y > 0).double()
    return (F.cross_entropy(out, y, reduction="none") * chosen).sum() / chosen.sum()


def vae(out: Any, x: Any, y: Any) -> Any:
    rebuilt = F.binary_cross_entropy(out.sigmoid(), x[:, :CLASSES].sigmoid(), reduction="sum")
    return rebuilt - 0.5 * torch.sum(1 + out - out.pow(2) - out.exp())


DOUBTED: dict[str, tuple[Loss, str]] = {
    "sum": (lambda out, x, y: F.cross_entropy(out, y, reduction="sum"), "use reduction='mean'"),
    "own sum": (lambda out, x, y: out.pow(2).sum(), "is a sum over its micro-batch, so it grows"),
    "half a sum": (lambda out, x, y: 0.3 * out.pow(2).sum(), "divided by 3.33"),
    "vae": (vae, "is a sum over its micro-batch"),
    "weights": (
        lambda out, x, y: F.cross_entropy(out, y, weight=WEIGHT),
        r"count=weight\[targets\]\.sum\(\)",
    ),
    "ignored": (ignoring, r"count=int\(\(targets != -100\)\.sum\(\)\)"),
    "masked": (masked, r"divided by 7\. If that is the number of items .*count="),
    "dice": (dice, "depends on others of its micro-batch"),
    "contrast": (contrast, "depends on others of its micro-batch"),
}
TRUSTED: dict[str, Loss] = {
    "mean": lambda out, x, y: F.cross_entropy(out, y),
    "smoothed": lambda out, x, y: F.cross_entropy(out, y, label_smoothing=0.1),
    "penalty": lambda out, x, y: F.cross_entropy(out, y) + 0.01 * PENALIZED.pow(2).sum(),
    "divided": lambda out, x, y: out.pow(2).sum() / len(out),
    "by items": lambda out, x, y: 0.5 * out.pow(2).sum() / out.numel(),
    "squares": lambda out, x, y: F.mse_loss(out, x[:, :CLASSES]),
    "two": lambda out, x, y: 0.5 * F.cross_entropy(out, y) + F.l1_loss(out, x[:, :CLASSES]),
    "batchmean": lambda out, x, y: F.kl_div(
        out.log_softmax(1), x[:, :CLASSES].softmax(1), reduction="batchmean"
    ),
    "each": lambda out, x, y: F.cross_entropy(out, y, reduction="none").mean(),
    "linear": lambda out, x, y: out.mean(),
}
PENALIZED = nn.Parameter(torch.ones(3).double())


def made() -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(SAMPLES, 12, generator=generator, dtype=torch.float64)
    return nn.Linear(12, CLASSES).double(), x, torch.arange(SAMPLES) % CLASSES


def test_each_kind_of_loss_is_told_apart() -> None:
    model, x, y = made()
    for name, (loss, message) in DOUBTED.items():
        out = model(x)
        said = doubt(loss(out, x, y), SAMPLES, None, [out])
        assert said is not None, name
        assert re.search(message, said), (name, said)
    for name, loss in TRUSTED.items():
        out = model(x)
        assert doubt(loss(out, x, y), SAMPLES, None, [out]) is None, name
    for name, count in {"weights": 24.0, "ignored": 7, "masked": 7}.items():
        out = model(x)
        assert doubt(DOUBTED[name][0](out, x, y), SAMPLES, count, [out]) is None, name
    out = model(x)
    assert "grows with it" in (doubt(DOUBTED["sum"][0](out, x, y), SAMPLES, 10, [out]) or "")


def train(loss: Loss, *, checked: bool = True, deterministic: bool = False) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, CLASSES)
    ).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    _, x, y = made()
    if not checked:
        for _ in range(5):
            optimizer.zero_grad()
            loss(model(x), x, y).backward()
            optimizer.step()
        return model.state_dict()
    trainer = fallow.connect(environment={}).elastic(
        model, optimizer, global_batch=SAMPLES, max_micro_batch=SAMPLES, deterministic=deterministic
    )
    data = torch.utils.data.TensorDataset(x, y)
    for _, batches in trainer.steps(data, 5, shuffle=False):
        for a, b in batches:
            trainer.backward(loss(model(a), a, b))
        trainer.step()
    return model.state_dict()


def test_a_doubt_is_said_once_and_changes_no_bit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "fallow")
    for loss in (TRUSTED["mean"], dice, ignoring):
        caplog.clear()
        mine, plain = train(loss), train(loss, checked=False)
        assert all(torch.equal(value, plain[name]) for name, value in mine.items())
        said = [record for record in caplog.records if "micro-batch" in record.getMessage()]
        assert len(said) == (loss is not TRUSTED["mean"])


def test_who_does_what_the_warning_says_is_warned_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """A contrastive loss over a fixed number of samples, cut alike in every world."""
    caplog.set_level(logging.WARNING, "fallow")
    train(contrast)
    assert any("deterministic=True" in record.getMessage() for record in caplog.records)
    caplog.clear()
    train(contrast, deterministic=True)
    assert not caplog.records
    train(DOUBTED["sum"][0], deterministic=True)
    assert any("is a sum over its micro-batch" in record.getMessage() for record in caplog.records)
