"""Whatever a training script can get wrong is said at once: what, where, and what to do instead."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.data.batch_plan import BatchError  # noqa: E402
from fallow.errors import LoopError, LossError, Mistake, StateError  # noqa: E402
from fallow.job import Job  # noqa: E402
from fallow.trainer import Trainer  # noqa: E402
from tests.fallow.combinations import samples  # noqa: E402

pytestmark = pytest.mark.quick

nn = torch.nn


def network() -> "torch.nn.Module":
    return nn.Linear(12, 4).double()


def alone() -> Job:
    return fallow.connect(environment={})


def elastic(**options: Any) -> tuple["torch.nn.Module", Trainer]:
    model = options.pop("model", None) or network()
    optimizer = options.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.1)
    asked = {"global_batch": 8, "max_micro_batch": 4, **options}
    return model, alone().elastic(model, optimizer, **asked)


def loss_of(model: "torch.nn.Module", batch: Any) -> "torch.Tensor":
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


# -- loops ----------------------------------------------------------------------------------------------


def backward_twice(model: "torch.nn.Module", trainer: Trainer) -> None:
    for _, batches in trainer.steps(samples(), 3):
        for batch in batches:
            trainer.backward(loss_of(model, batch))
            trainer.backward(loss_of(model, batch))


def backward_after_the_loop(model: "torch.nn.Module", trainer: Trainer) -> None:
    for _, batches in trainer.steps(samples(), 3):
        for batch in batches:
            trainer.backward(loss_of(model, batch))
        trainer.step()
    trainer.backward(loss_of(model, batch))


def no_backward(model: "torch.nn.Module", trainer: Trainer) -> None:
    for _, batches in trainer.steps(samples(), 3):
        for batch in batches:
            loss_of(model, batch).backward()
        trainer.step()


def half_a_step(model: "torch.nn.Module", trainer: Trainer) -> None:
    for _, batches in trainer.steps(samples(), 3):
        trainer.backward(loss_of(model, next(batches)))
        trainer.step()


def forgotten_step(model: "torch.nn.Module", trainer: Trainer) -> None:
    for _, batches in trainer.steps(samples(), 3):
        for batch in batches:
            trainer.backward(loss_of(model, batch))


def step_twice(model: "torch.nn.Module", trainer: Trainer) -> None:
    for _, batches in trainer.steps(samples(), 3):
        for batch in batches:
            trainer.backward(loss_of(model, batch))
        trainer.step()
        trainer.step()


def step_in_the_inner_loop(model: "torch.nn.Module", trainer: Trainer) -> None:
    for _, batches in trainer.steps(samples(), 3):
        for batch in batches:
            trainer.backward(loss_of(model, batch))
            trainer.step()


LOOPS: list[tuple[Callable[..., None], str]] = [
    (backward_twice, r"step 0: backward\(\) was called without a micro-batch in hand \(1 of 2 had theirs\)"),
    (backward_after_the_loop, r"backward\(\) was called outside the loop over trainer.steps"),
    (no_backward, r"step 0: micro-batch 0 \(samples 0 to 3 of the global batch\) had no backward\(\)"),
    (half_a_step, r"step 0: step\(\) was called after 1 of this worker's 2 micro-batches"),
    (forgotten_step, r"step 0: the loop went on without trainer.step\(\)"),
    (step_twice, r"step\(\) was called twice, or outside the loop"),
    (step_in_the_inner_loop, r"step 0: step\(\) was called after 1 of this worker's 2 micro-batches"),
]


@pytest.mark.parametrize(("loop", "message"), LOOPS, ids=[loop.__name__ for loop, _ in LOOPS])
def test_a_loop_out_of_order_is_stopped_where_it_went_wrong(loop: Callable[..., None], message: str) -> None:
    with pytest.raises(LoopError, match=message):
        loop(*elastic())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "either total_steps or epochs"),
        ({"total_steps": 3, "epochs": 1}, "either total_steps or epochs"),
        ({"total_steps": -1}, "cannot train for -1 steps"),
        ({"total_steps": 2.5}, "cannot train for 2.5 steps"),
        ({"epochs": True}, "cannot train for True steps"),
    ],
)
def test_a_length_that_is_none_is_said(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(LoopError, match=message):
        elastic()[1].steps(samples(), **asked)


def test_epochs_are_counted_in_steps() -> None:
    model, trainer = elastic()
    epochs = []
    for _, batches in trainer.steps(samples(20), epochs=2):
        epochs.append(trainer.epoch)
        for batch in batches:
            trainer.backward(loss_of(model, batch))
        trainer.step()
    assert epochs == [0, 0, 0, 1, 1, 1]
    assert trainer.samples_per_s is not None
    assert trainer.samples_per_s > 0


def go_on(model: "torch.nn.Module", trainer: Trainer, data: Any, until: int) -> list[float]:
    losses = []
    for step, batches in trainer.steps(data, 10):
        for batch in batches:
            trainer.backward(loss_of(model, batch))
        losses.append(trainer.step().loss)
        if step + 1 == until:
            break
    return losses


def test_a_loop_that_was_left_is_gone_on_with_where_it_stood(tmp_path: Path) -> None:
    whole = go_on(*elastic(model=seeded()), samples(), 10)
    model, trainer = elastic(model=seeded(), checkpoint=tmp_path / "state.pt")
    losses = go_on(model, trainer, samples(), 3)
    trainer.save()
    losses += go_on(model, trainer, samples(), 6)  # not from the checkpoint of step 3 again
    assert losses + go_on(model, trainer, samples(), 10) == whole
    with pytest.raises(LoopError, match=r"called again with other data .*'samples': 20"):
        trainer.steps(samples(20), 20)


def seeded() -> "torch.nn.Module":
    torch.manual_seed(3)
    return network()


@pytest.mark.parametrize("options", [{}, {"deterministic": True}])
def test_who_thaws_in_the_middle_of_a_step_is_told_so(options: dict[str, Any]) -> None:
    """Beside others nobody's gradients would be added to theirs."""
    model, trainer = elastic(**options)
    first = next(model.parameters()).requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for _, batches in trainer.steps(samples(), 2):
        for batch in batches:
            first.requires_grad_(True)
            trainer.backward(loss_of(model, batch))
        with pytest.raises(LoopError, match=r"step 0: .*weight became trainable during the step"):
            trainer.step()
        break
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


# -- losses ---------------------------------------------------------------------------------------------


def train(
    loss: Callable[[Any, Any], Any], count: Callable[[Any], Any] = lambda batch: None, **options: Any
) -> Any:
    model, trainer = elastic(**options)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        for _, batches in trainer.steps(samples(), 2):
            for batch in batches:
                trainer.backward(loss(model, batch), count=count(batch))
            trainer.step()
    finally:
        unchanged = all(torch.equal(before[name], value) for name, value in model.state_dict().items())
        train.unchanged = unchanged  # type: ignore[attr-defined]


LOSSES: list[tuple[str, Callable[[Any, Any], Any], str]] = [
    (
        "not-reduced",
        lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1], reduction="none"),
        r"shape \(4,\)",
    ),
    ("a-float", lambda m, b: loss_of(m, b).item(), "has 'float'"),
    ("detached", lambda m, b: loss_of(m, b).detach(), "depends on no trainable parameter"),
    (
        "nan",
        lambda m, b: loss_of(m, b) * float("nan"),
        "step 0: the loss over the global batch is nan; nothing was",
    ),
    ("inf", lambda m, b: loss_of(m, b) + float("inf"), "the loss over the global batch is inf"),
]


@pytest.mark.parametrize(("name", "loss", "message"), LOSSES, ids=[name for name, *_ in LOSSES])
def test_a_loss_that_cannot_be_trained_on_is_said_before_anything_is_updated(
    name: str, loss: Callable[[Any, Any], Any], message: str
) -> None:
    with pytest.raises(LossError, match=message):
        train(loss)
    assert train.unchanged  # type: ignore[attr-defined]


def test_a_scaler_that_is_switched_off_guards_against_no_loss() -> None:
    with pytest.raises(LossError, match="the loss over the global batch is nan; nothing was updated"):
        train(
            lambda model, batch: loss_of(model, batch) * float("nan"),
            scaler=torch.amp.GradScaler("cpu", enabled=False),
        )
    assert train.unchanged  # type: ignore[attr-defined]


def test_a_loss_that_is_not_finite_is_taken_when_that_is_asked_for() -> None:
    train(lambda model, batch: loss_of(model, batch) * float("nan"), allow_non_finite=True)
    assert not train.unchanged  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (lambda batch: -1, "count=-1 is no number of items"),
        (lambda batch: float("nan"), "count=nan is no number of items"),
        (lambda batch: 0, "the counts of all micro-batches sum to 0"),
        (lambda batch: None if batch[1][0] > 1 else 3, "a count for some micro-batches and none for others"),
    ],
)
def test_a_count_that_makes_no_sense_is_said(count: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(LossError, match=message):
        train(loss_of, count, global_batch=100, max_micro_batch=1)


# -- recipes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"global_batch": 0}, "global_batch=0: a number of samples or pieces is a whole number, at least 1"),
        ({"global_batch": -8}, "global_batch=-8"),
        ({"global_batch": 8.0}, "global_batch=8.0"),
        ({"global_batch": True}, "global_batch=True"),
        ({"max_micro_batch": 0}, "max_micro_batch=0"),
        ({"max_micro_batch": None}, "max_micro_batch=None"),
        ({"deterministic": True, "micro_batches": 1}, "needs 2 to 8 micro-batches, not 1"),
        ({"deterministic": True, "micro_batches": 9}, "needs 2 to 8 micro-batches, not 9"),
        ({"micro_batches": 4}, "which only deterministic=True does"),
    ],
)
def test_a_batch_that_cannot_be_cut_is_said_when_it_is_asked_for(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BatchError, match=message):
        elastic(**options)


def test_a_cap_above_the_batch_is_no_mistake() -> None:
    trainer = elastic(max_micro_batch=1000)[1]
    _, batches = next(trainer.steps(samples(), 1))
    assert [len(batch[1]) for batch in batches] == [8]


def test_models_and_optimizers_that_do_not_fit_are_said() -> None:
    with pytest.raises(Mistake, match="a model without parameters"):
        elastic(model=nn.ReLU(), optimizer=torch.optim.SGD(network().parameters(), lr=0.1))
    with pytest.raises(Mistake, match="holds 2 parameters that are not the model's"):
        elastic(optimizer=torch.optim.SGD(network().parameters(), lr=0.1))
    model = network()
    with pytest.raises(Mistake, match="LBFGS computes the loss several times"):
        elastic(model=model, optimizer=torch.optim.LBFGS(model.parameters()))
    with pytest.raises(Mistake, match=r"the model is on meta, but this job was connected for cpu"):
        elastic(model=nn.Linear(2, 2, device="meta"))


def test_a_save_that_was_asked_for_and_fails_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    model, trainer = elastic(checkpoint=tmp_path / "state.pt")
    done = []
    for step, batches in trainer.steps(samples(), 3):
        for batch in batches:
            trainer.backward(loss_of(model, batch))
        if step == 0:
            (tmp_path / "state.pt").mkdir()  # nothing can be renamed to it now
            os.kill(os.getpid(), signal.SIGUSR1)
        done.append(trainer.step())
    assert len(done) == 3
    assert "step 1: asked to save the training, but could not: " in caplog.text


def test_the_scripts_own_signal_handler_comes_back(tmp_path: Path) -> None:
    def own(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGUSR1, own)
    try:
        model, trainer = elastic(checkpoint=tmp_path / "state.pt")
        for _, batches in trainer.steps(samples(), 1):
            assert signal.getsignal(signal.SIGUSR1) is not own
            for batch in batches:
                trainer.backward(loss_of(model, batch))
            trainer.step()
        assert signal.getsignal(signal.SIGUSR1) is own
    finally:
        signal.signal(signal.SIGUSR1, before)


# -- reports --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"loss": torch.zeros(1)}, r"use .item\(\) on a tensor"),
        ({"Step": 3}, "name measurements in small letters"),
        ({"phase": "warm-up"}, "a measurement is a number"),
    ],
)
def test_a_report_of_no_figure_is_said_even_when_alone(told: dict[str, Any], message: str) -> None:
    with pytest.raises(Mistake, match=message):
        alone().report(**told)


def test_every_mistake_is_a_mistake() -> None:
    assert all(issubclass(kind, Mistake) for kind in (LoopError, LossError, StateError))
