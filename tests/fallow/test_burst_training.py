"""A training by burst plans, resized and with ranks that die: losses and end are those of one rank."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from fallow import burst
from fallow.data.batch_plan import BatchError
from fallow.errors import Mistake
from fallow.job import connect
from tests.fallow.burst_train import BATCH, PLACED, STEPS, built, every_plan, train
from tests.fallow.crew import Outcome, run, until_resized
from tests.fallow.driven import Kill, Resize, drive

SCRIPT = Path(__file__).with_name("burst_train.py")


@pytest.fixture(scope="module")
def alone() -> Outcome:
    """One worker, without plans."""
    outcome = Outcome()
    outcome.parameters = train({}, [], lambda done, by_plan: outcome.steps.append(done))
    return outcome


def check_end(state: dict[str, torch.Tensor], alone: Outcome) -> None:
    assert alone.parameters is not None
    for name, value in alone.parameters.items():
        torch.testing.assert_close(state[name], value, rtol=1e-10, atol=1e-12)


def test_resized_it_goes_on_by_the_plan_of_each_size(alone: Outcome) -> None:
    by_plan_in: set[int] = set()
    script = {4: 4, 11: 3, 18: 1, 22: 2}

    def trained(environment: dict[str, str], outcome: Outcome) -> None:
        def note(done: object, by_plan: bool) -> None:
            outcome.steps.append(done)  # type: ignore[arg-type]
            if by_plan:
                by_plan_in.add(done.world_size)  # type: ignore[attr-defined]

        outcome.parameters = train(environment, every_plan(), note, after_step=until_resized(script))

    ended = run(trained, workers=2, script=script)  # type: ignore[arg-type]
    assert ended.exit_code == 0, [ended.journal, *(each.error for each in ended.outcomes)]
    assert by_plan_in == {2, 3, 4}
    losses = {step.number: step.loss for step in alone.steps}
    for outcome in ended.outcomes:
        for step in outcome.steps:
            assert step.loss == pytest.approx(losses[step.number], rel=1e-11)
    for outcome in ended.finished:
        assert outcome.parameters is not None
        check_end(outcome.parameters, alone)


def test_ranks_that_are_killed_cost_the_step_in_flight(alone: Outcome, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def lines() -> list[list[float]]:
        return [json.loads(line) for file in tmp_path.glob("out.*[0-9]") for line in file.open()]

    ended = drive(
        [str(SCRIPT)],
        [Kill(3, 2), Resize(6, 4), Kill(11, 0), Kill(17, 1), Resize(22, 2)],
        lambda: int(max((line[0] for line in lines()), default=-1)),
        workers=3,
        variables={"OUT": str(out), "PACE_S": "0.05"},
    )
    assert ended.exit_code == 0, ended.journal
    losses = {step.number: step.loss for step in alone.steps}
    assert {line[0] for line in lines()} == set(range(STEPS)), "every step was committed"
    for number, loss, _, _ in lines():
        assert loss == pytest.approx(losses[int(number)], rel=1e-11)
    assert {line[3] for line in lines() if line[2]} >= {2, 4}, "by plans, too"
    (end, *_) = [torch.load(file) for file in tmp_path.glob("out.*.pt")]
    check_end(end, alone)


@pytest.mark.quick
def test_what_cannot_be_is_refused_with_what_to_do() -> None:
    model = burst.module(built(), every_plan(), nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(Mistake, match="deterministic=True sums gradients in one order"):
        connect(environment={}).elastic(
            model, optimizer, global_batch=BATCH, max_micro_batch=BATCH, deterministic=True
        )


def test_a_rank_with_two_micro_batches_is_told_the_cap(alone: Outcome) -> None:
    def trained(environment: dict[str, str], outcome: Outcome) -> None:
        train(environment, every_plan(), lambda done, by_plan: None, max_micro_batch=20)

    ended = run(trained, workers=2)  # type: ignore[arg-type]
    assert ended.exit_code != 0
    errors = [each.error for each in ended.outcomes if each.error is not None]
    assert any(isinstance(each, BatchError) and "give max_micro_batch=24" in str(each) for each in errors), (
        errors
    )
    assert PLACED[2]
