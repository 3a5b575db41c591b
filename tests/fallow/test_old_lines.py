"""Lines of a plain loop that a script still has are named in its first step, alike in every world."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch import nn  # noqa: E402

import fallow  # noqa: E402
from fallow.errors import LoopError  # noqa: E402
from tests.fallow.combinations import samples  # noqa: E402

pytestmark = pytest.mark.quick

Line = Callable[[Any, Any, Any], object]
INSIDE: dict[str, tuple[Line, str]] = {
    "zero_grad": (lambda m, o, s: o.zero_grad(), r"step 0: the script called optimizer\.zero_grad\(\)"),
    "model_zero_grad": (lambda m, o, s: m.zero_grad(), "step 0: gradients of this step were cleared"),
    "step": (lambda m, o, s: o.step(), r"step 0: the script called optimizer\.step\(\)"),
    "clip": (
        lambda m, o, s: nn.utils.clip_grad_norm_(m.parameters(), 0.01),
        r"step 0: gradients were changed .*Drop clip_grad_norm_\(\)",
    ),
    "another_loss": (
        lambda m, o, s: (0.1 * m.weight.pow(2).sum()).backward(),
        r"step 0: gradients were changed .*add the loss of another backward\(\)",
    ),
    "scheduler": (lambda m, o, s: s.step(), "step 0: a scheduler .* was stepped by the script as well"),
}
AFTER: dict[str, tuple[Line, str]] = {
    "step": (lambda m, o, s: o.step(), r"between two steps: the script called optimizer\.step\(\)"),
    "scheduler": (lambda m, o, s: s.step(), "between two steps: a scheduler .* stepped by the script"),
}


class Loop:
    """A training of two micro-batches a step, with a line too many."""

    def __init__(self, **options: Any):
        self.model = nn.Linear(12, 4).double()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)
        self.trainer = fallow.connect(environment={}).elastic(
            self.model,
            self.optimizer,
            global_batch=8,
            max_micro_batch=4,
            schedulers=[self.scheduler],
            **options,
        )

    def run(self, before: Line | None = None, inside: Line | None = None, after: Line | None = None) -> None:
        parts = (self.model, self.optimizer, self.scheduler)
        for _, batches in self.trainer.steps(samples(), 5):
            if before is not None:
                before(*parts)
            for x, y in batches:
                self.trainer.backward(nn.functional.cross_entropy(self.model(x), y))
                if inside is not None:
                    inside(*parts)
            self.trainer.step()
            if after is not None:
                after(*parts)


@pytest.mark.parametrize("options", [{}, {"deterministic": True}], ids=["plain", "deterministic"])
def test_what_the_old_loop_did_within_a_step_is_named(options: dict[str, Any]) -> None:
    for name, (line, message) in INSIDE.items():
        loop = Loop(**options)
        before = loop.model.weight.detach().clone()
        if name in {"model_zero_grad", "clip"} and options:
            continue  # gradients lie elsewhere there, so the line changes nothing
        with pytest.raises(LoopError, match=message):
            loop.run(inside=line)
        assert torch.equal(loop.model.weight, before), name


def test_what_it_did_after_one_is_named() -> None:
    for line, message in AFTER.values():
        with pytest.raises(LoopError, match=message):
            Loop().run(after=line)


def test_clearing_where_nothing_is_to_clear_is_no_fault() -> None:
    loop = Loop()
    own = loop.optimizer.zero_grad
    loop.run(before=lambda m, o, s: o.zero_grad(), after=lambda m, o, s: o.zero_grad())
    assert loop.optimizer.zero_grad == own
    loop.optimizer.step()  # after the loop it is the script's own again
    assert loop.trainer.next_step == 5


def test_a_gradient_may_be_looked_at_and_one_that_is_summed_may_be_changed() -> None:
    loop = Loop()
    for _, batches in loop.trainer.steps(samples(), 2):
        for x, y in batches:
            loop.trainer.backward(nn.functional.cross_entropy(loop.model(x), y))
            assert loop.model.weight.grad.norm() > 0
        loop.trainer.reduce()
        nn.utils.clip_grad_norm_(loop.model.parameters(), 0.01)
        loop.trainer.step()
