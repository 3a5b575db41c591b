"""A resized training learns what a fixed one learns, to the rounding of float64."""

import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from tests.fallow.crew import Outcome, run, training  # noqa: E402

TOLERANCE = 1e-12


def alone(total_steps: int) -> Outcome:
    outcome = Outcome()
    training(total_steps)({}, outcome)
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
    steps = 120
    done = run(training(steps, each_step=lambda: time.sleep(0.005)), 1, {10: 3, 40: 2, 60: 4, 80: 1})
    assert done.exit_code == 0, done.journal
    reference = alone(steps)
    assert done.finished
    worlds = {step.world_size for outcome in done.outcomes for step in outcome.steps}
    assert {1, 3} <= worlds, done.journal
    for outcome in done.finished:
        assert_same_training(outcome, reference)


def test_alone_opens_no_store_and_starts_no_thread() -> None:
    import threading

    before = threading.active_count()
    outcome = alone(5)
    assert threading.active_count() == before
    assert [step.world_size for step in outcome.steps] == [1] * 5
