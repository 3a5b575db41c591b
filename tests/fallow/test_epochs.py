"""Epochs, evaluations and decisions that all workers take together, alone and in fixed worlds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

import fallow  # noqa: E402
from fallow.errors import DataError, LoopError, Mistake  # noqa: E402
from fallow.job import Job  # noqa: E402
from fallow.process_group.collectives import Group  # noqa: E402
from fallow.trainer import Trainer  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

pytestmark = pytest.mark.quick
nn = torch.nn
GENERATOR = torch.Generator().manual_seed(1)
X = torch.randn(50, 4, generator=GENERATOR, dtype=torch.float64)
Y = X.sum(1, keepdim=True) + 0.1 * torch.randn(50, 1, generator=GENERATOR, dtype=torch.float64)
DATA = TensorDataset(X, Y)
HELD_OUT = TensorDataset(X[:23] + 0.5, Y[:23])
BATCH = 16  # of 50 samples: 4 steps an epoch, the last of two samples


def made(group: Group | None = None, **recipe: Any) -> tuple[Any, Any, Trainer]:
    """A model of the same weights in every worker, its optimizer and a trainer."""
    model = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.0)).double()
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    job = Job(None, True, CPU, group)
    asked = {"global_batch": BATCH, "max_micro_batch": 5, **recipe}
    if "schedule" in asked:
        asked["state"] = {"schedule": asked.pop("schedule")(optimizer)}
    return model, optimizer, job.elastic(model, optimizer, **asked)


def go(trainer: Trainer, model: Any, data: Any = DATA) -> int:
    """The steps of one epoch; how many there were."""
    done = 0
    for _, batches in trainer.steps(data):
        for x, y in batches:
            trainer.backward(nn.functional.mse_loss(model(x), y))
        assert trainer.step() is not None
        done += 1
    return done


def errors(model: Any) -> Callable[[Any], dict[str, Any]]:
    def metric(batch: Any) -> dict[str, Any]:
        x, y = batch
        off = (model(x) - y).squeeze(1)
        return {"square": off.square(), "far": (off.abs() > 1).sum(), "seen": len(x)}

    return metric


def curve(group: Group | None, **recipe: Any) -> list[tuple[float, float, float]]:
    """The learning rate of each epoch, and its evaluation, of a training with a schedule by epoch."""
    model, optimizer, trainer = made(
        group, schedule=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5), **recipe
    )
    schedule = trainer.recipe.state["schedule"]  # type: ignore[index]
    told = []
    for epoch in trainer.epochs(3):
        assert trainer.epoch == epoch == len(told)
        assert go(trainer, model) == 4
        found = trainer.evaluate(HELD_OUT, errors(model))
        assert found.samples == found.sums["seen"] == 23
        told.append((optimizer.param_groups[0]["lr"], found.mean("square"), found.sums["far"]))
        schedule.step()
    return told


def plain() -> list[tuple[float, float, float]]:
    """The same by hand, in the order that the library's seed gives."""
    from fallow.data.sampler import Order

    model, optimizer, _ = made()
    order = Order(samples=50, global_batch=BATCH, seed=0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    told = []
    for epoch in range(3):
        visited = torch.as_tensor(order.permutation(epoch))
        for start in range(0, 50, BATCH):
            at = visited[start : start + BATCH]
            optimizer.zero_grad()
            nn.functional.mse_loss(model(X[at]), Y[at]).backward()
            optimizer.step()
        with torch.no_grad():
            off = model(HELD_OUT.tensors[0]) - HELD_OUT.tensors[1]
        far = float((off.abs() > 1).sum())
        told.append((optimizer.param_groups[0]["lr"], float(off.square().mean()), far))
        schedule.step()
    return told


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_epochs_with_evaluation_and_a_schedule_are_those_of_a_plain_loop_in_every_world(world: int) -> None:
    expected = plain()
    results = [curve(None)] if world == 1 else together(world, curve)
    for result in results:
        assert isinstance(result, list), result
        for mine, theirs in zip(result, expected, strict=True):
            assert mine == pytest.approx(theirs, rel=1e-12)
    assert all(result == results[0] for result in results), "the same bits in every worker"


def test_an_evaluation_has_the_same_bits_in_every_world_however_it_divides() -> None:
    def work(group: Group | None) -> dict[str, float]:
        model, _, trainer = made(group)
        return dict(trainer.evaluate(HELD_OUT, errors(model), batch=4).sums)

    alone = work(None)
    for world in (2, 3, 5, 8):  # six batches: some workers of eight have none
        assert together(world, work) == [alone] * world


def test_a_loaders_batches_are_kept_and_one_number_has_a_name(tmp_path: Path) -> None:
    model, _, trainer = made()
    sizes: list[int] = []

    def metric(batch: Any) -> float:
        assert not model.training
        assert not torch.is_grad_enabled()
        sizes.append(len(batch[0]))
        return float(len(batch[0]))

    model.train()
    model[1].eval()
    found = trainer.evaluate(DataLoader(HELD_OUT, batch_size=10, shuffle=True), metric)
    assert (found.mean(), found.sums, sizes) == (1.0, {"value": 23.0}, [10, 10, 3])
    assert model.training
    assert not model[1].training, "each part is put back as it was"


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        (lambda batch: batch[0], "'value' has shape .5, 4. for a batch of 5 samples"),
        (lambda batch: torch.ones(3), "'value' has shape .3,. for a batch of 5 samples"),
        (lambda batch: "a", "'value' is a str"),
        (lambda batch: {}, r"gave \[\] for a batch"),
        (lambda batch: {str(float(batch[0][0, 0])): 1}, "the same names each time"),
    ],
)
def test_a_metric_that_gives_no_sums_is_told_so(metric: Any, says: str) -> None:
    _, _, trainer = made()
    with pytest.raises(Mistake, match=says):
        trainer.evaluate(HELD_OUT, metric)


class Endless(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(10))


def test_a_stream_without_a_length_cannot_be_shared_out() -> None:
    with pytest.raises(DataError, match="a stream without a length: give it a __len__"):
        made()[2].evaluate(Endless(), len)


def test_infinities_and_nan_of_a_metric_stay_what_they_are() -> None:
    def told(values: list[float]) -> float:
        left = iter(values)
        return made()[2].evaluate(torch.zeros(len(values), 1), lambda batch: next(left), batch=1).mean()

    assert told([float("inf"), 1.0]) == float("inf")
    assert str(told([float("inf"), -float("inf")])) == "nan"
    assert str(told([float("nan"), 1.0])) == "nan"


def test_all_agree_when_one_wants_it_and_stop_at_the_same_epoch() -> None:
    def work(group: Group) -> tuple[int, bool]:
        model, _, trainer = made(group)
        assert not trainer.agree(False)
        for epoch in trainer.epochs(10):
            go(trainer, model)
            if trainer.agree(trainer.rank == 1 and epoch == 2):
                break
        return trainer.next_step, trainer.has_ended

    assert together(3, work) == [(12, True)] * 3


def test_workers_that_sum_other_things_are_told_so_and_none_hangs() -> None:
    def work(group: Group) -> None:
        model, _, trainer = made(group)
        data = TensorDataset(X[: 20 + group.rank], Y[: 20 + group.rank])
        trainer.evaluate(data, errors(model))

    told = together(2, work)
    assert all(isinstance(each, LoopError) and "are at something else" in str(each) for each in told)
    assert "evaluate() of 20 samples for square, far, seen" in str(told[0])


def test_a_training_begun_elsewhere_goes_on_from_its_step_or_epoch() -> None:
    model, _, trainer = made(start_step=8)
    numbers = []
    for step, batches in trainer.steps(DATA, epochs=3):
        numbers.append(step)
        for x, y in batches:
            trainer.backward(nn.functional.mse_loss(model(x), y))
        trainer.step()
    assert numbers == [8, 9, 10, 11]
    for options, start in (({}, 2), ({"start_step": 8}, 2), ({"start_step": 9}, 2)):
        model, _, trainer = made(**options)
        seen = [(epoch, go(trainer, model)) for epoch in trainer.epochs(4, start=start)]
        assert seen == [(2, 3 if options.get("start_step") == 9 else 4), (3, 4)]
    model, _, trainer = made(start_step=9)
    with pytest.raises(LoopError, match="epoch 0 has the steps 0 to 3, but step 9 comes next: pass"):
        next(iter([go(trainer, model) for _ in trainer.epochs(4)]))
    with pytest.raises(Mistake, match="start_step=-1 is no number of steps"):
        made(start_step=-1)


def test_a_loop_over_steps_that_were_done_is_named_and_one_that_goes_further_is_not() -> None:
    model, _, trainer = made()

    def steps(epochs: int) -> int:
        done = 0
        for _, batches in trainer.steps(DATA, epochs=epochs):
            for x, y in batches:
                trainer.backward(nn.functional.mse_loss(model(x), y))
            trainer.step()
            done += 1
        return done

    assert [steps(1), steps(2)] == [4, 4]
    with pytest.raises(LoopError, match=r"up to step 8, but 8 are done: its number is that of the whole"):
        steps(2)
    assert steps(3) == 4


def test_a_loop_that_is_no_loop_over_an_epochs_steps_is_named() -> None:
    model, _, trainer = made()
    with pytest.raises(LoopError, match="epoch 0 ended before its steps did"):
        list(trainer.epochs(2))
    with pytest.raises(LoopError, match=r"epochs\(total=-1\): pass a whole number"):
        trainer.epochs(-1)
    with pytest.raises(LoopError, match="goes through one epoch: drop its number"):
        for _ in made()[2].epochs(2):
            trainer = made()[2]
            for _ in trainer.epochs(1):
                trainer.steps(DATA, epochs=1)
    model, _, trainer = made()
    for _ in trainer.epochs(1):
        with pytest.raises(LoopError, match=r"epochs\(\) was called within epochs"):
            trainer.epochs(1)
        for _, batches in trainer.steps(DATA):
            for x, y in batches:
                trainer.backward(nn.functional.mse_loss(model(x), y))
            with pytest.raises(LoopError, match=r"went on to evaluate\(\) without trainer\.step"):
                trainer.evaluate(HELD_OUT, errors(model))
            trainer.step()


@pytest.mark.parametrize(("after_evaluation", "expected"), [(True, [2]), (False, [1, 2])])
def test_what_is_saved_after_an_epochs_steps_goes_on_with_the_next_one(
    tmp_path: Path, after_evaluation: bool, expected: list[int]
) -> None:
    """Saved by a signal at the last step's boundary, what follows the epoch is still to be done."""
    path = tmp_path / "state.pt"
    model, _, trainer = made(checkpoint=path)
    for epoch in trainer.epochs(3):
        if epoch == 1 and not after_evaluation:
            for step, batches in trainer.steps(DATA):
                for x, y in batches:
                    trainer.backward(nn.functional.mse_loss(model(x), y))
                trainer.step()
                if step == 7:
                    trainer.save()
        else:
            go(trainer, model)
        if epoch == 1:
            if after_evaluation:
                trainer.save()
            break
    model, _, trainer = made(checkpoint=path)
    seen = [(epoch, go(trainer, model)) for epoch in trainer.epochs(3)]
    assert [epoch for epoch, _ in seen] == expected
    assert seen[0] == ((2, 4) if after_evaluation else (1, 0))


def test_a_training_that_was_saved_by_a_loop_over_steps_goes_on_in_epochs(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    model, _, trainer = made(checkpoint=path)
    for _, batches in trainer.steps(DATA, 6):
        for x, y in batches:
            trainer.backward(nn.functional.mse_loss(model(x), y))
        trainer.step()
    trainer.save()
    model, _, trainer = made(checkpoint=path)
    assert [(epoch, go(trainer, model)) for epoch in trainer.epochs(3)] == [(1, 2), (2, 4)]


def test_alone_epochs_learn_the_very_bits_of_a_loop_over_steps_and_draw_nothing() -> None:
    model, _, trainer = made()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    for _ in trainer.epochs(3):
        go(trainer, model)
        trainer.evaluate(HELD_OUT, errors(model))
    assert torch.equal(torch.get_rng_state(), before)
    other, _, trainer = made()
    for _, batches in trainer.steps(DATA, epochs=3):
        for x, y in batches:
            trainer.backward(nn.functional.mse_loss(other(x), y))
        trainer.step()
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)
    assert fallow.connect(environment={}).is_main


def test_early_stopping_waits_for_a_better_value_and_goes_on_where_it_was() -> None:
    stopping = fallow.EarlyStopping(patience=2, least_gain=0.1)
    told = [(stopping.should_stop(value), stopping.is_best) for value in (1.0, 0.95, 0.5, float("nan"))]
    assert told == [(False, True), (False, False), (False, True), (False, False)]
    other = fallow.EarlyStopping(patience=2, least_gain=0.1)
    other.load_state_dict(stopping.state_dict())
    assert other.best == 0.5
    assert other.should_stop(0.45)
    for wrong in (0, True, 1.5):
        with pytest.raises(Mistake, match="how many values may come"):
            fallow.EarlyStopping(wrong)  # type: ignore[arg-type]
