"""A resized training learns what a fixed one learns, to the rounding of float64."""

import time
from collections.abc import Mapping
from statistics import median

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.trainer import Trainer  # noqa: E402
from tests.fallow.crew import (  # noqa: E402
    SEEDING,
    Outcome,
    Train,
    network,
    noisy_network,
    run,
    task,
    training,
    until_resized,
)
from tests.fallow.devices import NAME, moved  # noqa: E402

TOLERANCE = 1e-12


def alone(total_steps: int) -> Outcome:
    return taken(training(total_steps))


def taken(train: Train) -> Outcome:
    outcome = Outcome()
    train({}, outcome)
    return outcome


def assert_same_training(outcome: Outcome, reference: Outcome) -> None:
    assert outcome.parameters is not None
    assert reference.parameters is not None
    for name, value in reference.parameters.items():
        assert torch.allclose(outcome.parameters[name], value, rtol=0, atol=TOLERANCE), name
    losses = {step.number: step.loss for step in reference.steps}
    for step in outcome.steps:
        assert step.loss == pytest.approx(losses[step.number], abs=TOLERANCE)
        assert step.grad_norm == pytest.approx(reference.steps[step.number].grad_norm, abs=TOLERANCE)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_a_driven_training_of_any_world_size_equals_one_alone(world: int) -> None:
    reference = alone(20)
    done = run(training(20), world)
    assert done.exit_code == 0, done.journal
    assert len(done.finished) == world
    for outcome in done.finished:
        assert [step.number for step in outcome.steps] == list(range(20))
        assert_same_training(outcome, reference)


def test_a_training_resized_up_and_down_equals_one_alone() -> None:
    steps = 28
    worlds = {3: 3, 10: 2, 15: 4, 20: 1}
    done = run(training(steps, after_step=until_resized(worlds)), 1, worlds)
    assert done.exit_code == 0, done.journal
    reference = alone(steps)
    assert done.finished
    seen = {step.world_size for outcome in done.outcomes for step in outcome.steps}
    assert seen == {1, 2, 3, 4}, done.journal
    for outcome in done.finished:
        assert_same_training(outcome, reference)


def test_shares_by_speed_change_nothing_that_is_learned_however_it_is_resized() -> None:
    worlds = {8: 3, 20: 1, 30: 4}
    done = run(training(45, balance_by_speed=True, after_step=until_resized(worlds)), 2, worlds)
    assert done.exit_code == 0, done.journal
    reference = alone(45)
    assert done.finished
    for outcome in done.finished:
        assert_same_training(outcome, reference)


@pytest.mark.slow
@pytest.mark.parametrize(("slow", "fixed_s", "least", "most"), [(2, 0.002, 1, 12), (0, 0.1, 0, 0)])
def test_a_worker_that_sleeps_at_each_sample_gets_the_share_that_shortens_the_step(
    slow: int, fixed_s: float, least: int, most: int
) -> None:
    """Two workers of 2 ms and 1 ms a sample, one of 4 ms a sample. By hand, of 48 samples in a step: 21, 22
    and 5, in 24 ms; and 24, 24 and none, in 26 ms, where even one sample of it would take 104. A rank 0
    without samples resizes the job as any other.
    """
    sizes: dict[int, dict[int, int]] = {}
    worlds = {45: 2}
    wait = until_resized(worlds)

    def train(environment: Mapping[str, str], outcome: Outcome) -> None:
        with SEEDING:
            model = moved(network())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        job = fallow.connect(NAME, environment=environment)
        options = {"max_micro_batch": 48, "max_grad_norm": 1.0, "balance_by_speed": bool(environment)}
        trainer = job.elastic(model, optimizer, global_batch=48, **options)
        for step, batches in trainer.steps(task(480), 60):
            of_step = sizes.setdefault(step, {})
            of_step[trainer.rank] = 0
            for x, y in batches:
                of_step[trainer.rank] += len(y)
                if environment:
                    is_slow = trainer.rank == slow
                    time.sleep((fixed_s if is_slow else 0.002) + (0.004 if is_slow else 0.001) * len(y))
                trainer.backward(torch.nn.functional.cross_entropy(model(x.to(NAME)), y.to(NAME)))
            done = trainer.step()
            assert done is not None
            outcome.steps.append(done)
            if environment:
                wait(trainer)
        outcome.parameters = {name: value.clone().cpu() for name, value in model.state_dict().items()}

    reference = taken(train)
    sizes.clear()
    done = run(train, 3, worlds)
    assert done.exit_code == 0, done.journal
    assert len(done.finished) == 2
    for outcome in done.finished:
        assert_same_training(outcome, reference)
    assert [sum(of_step.values()) for of_step in sizes.values()] == [48] * 60
    assert sizes[0] == {0: 16, 1: 16, 2: 16}
    assert least <= median(sizes[step][slow] for step in range(26, 46)) <= most, sizes
    assert done.finished[0].steps[-1].world_size == 2


class Average:
    """A state of the script's own, changed after each step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def state_dict(self) -> dict[str, list[float]]:
        return {"losses": list(self.losses)}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        self.losses = list(state["losses"])


def test_what_the_script_does_after_a_step_is_handed_over_with_that_step() -> None:
    averages: list[Average] = []
    worlds = {3: 3, 9: 2, 14: 4}
    wait = until_resized(worlds)

    def train(environment: object, outcome: Outcome) -> None:
        average = Average()
        averages.append(average)

        def after(trainer: Trainer) -> None:
            average.losses.append(outcome.steps[-1].loss)
            wait(trainer)

        training(24, state={"average": average}, after_step=after)(environment, outcome)  # type: ignore[arg-type]

    done = run(train, 1, worlds)
    assert done.exit_code == 0, done.journal
    reference = [step.loss for step in alone(24).steps]
    for average, outcome in zip(averages, done.outcomes, strict=True):
        if outcome.parameters is not None:
            assert average.losses == pytest.approx(reference, abs=TOLERANCE)


def test_alone_opens_no_store_and_starts_no_thread() -> None:
    import threading

    before = set(threading.enumerate())
    outcome = alone(5)
    assert not set(threading.enumerate()) - before
    assert [step.world_size for step in outcome.steps] == [1] * 5


RESIZES = {3: 3, 10: 2, 15: 4, 20: 1}


def bitwise(steps: int, **recipe: object) -> Train:
    # Threads share torch's global generator; dropout is tried with processes.
    return training(steps, build=lambda: without_dropout(noisy_network()), deterministic=True, **recipe)


def without_dropout(model: "torch.nn.Module") -> "torch.nn.Module":
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return model


@pytest.mark.parametrize("world", [2, 3, 4])
def test_the_deterministic_mode_gives_the_same_bits_for_any_world_size(world: int) -> None:
    reference = taken(bitwise(15))
    done = run(bitwise(15), world)
    assert done.exit_code == 0, done.journal
    assert len(done.finished) == world
    for outcome in done.finished:
        assert_same_bits(outcome, reference)


def test_the_deterministic_mode_gives_the_same_bits_whatever_the_resizes() -> None:
    reference = taken(bitwise(28))
    done = run(bitwise(28, after_step=until_resized(RESIZES)), 1, RESIZES)
    assert done.exit_code == 0, done.journal
    assert {step.world_size for outcome in done.outcomes for step in outcome.steps} == {1, 2, 3, 4}
    for outcome in done.finished:
        assert_same_bits(outcome, reference)


def test_the_plain_mode_does_not_which_shows_that_the_test_can_tell() -> None:
    reference = taken(training(15, build=lambda: without_dropout(noisy_network())))
    done = run(training(15, build=lambda: without_dropout(noisy_network())), 3)
    assert any(
        not torch.equal(value, reference.parameters[name])
        for name, value in done.finished[0].parameters.items()
    )


def assert_same_bits(outcome: Outcome, reference: Outcome) -> None:
    assert outcome.parameters is not None
    assert reference.parameters is not None
    for name, value in reference.parameters.items():
        assert torch.equal(outcome.parameters[name], value), name
    losses = {step.number: step.loss for step in reference.steps}
    assert all(step.loss == losses[step.number] for step in outcome.steps)
