"""Speeds that nothing measured: from a job's layers, corrected by what was measured, and told as such."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.burst.cost import NETWORKS, Setting
from advisor.burst.evaluate import evaluate, uniform
from advisor.burst.speeds import predicted_step_s
from advisor.decide import decide
from advisor.jobs.model import Elasticity
from advisor.jobs.predicted import completed
from advisor.jobs.with_snapshot import waiting_job
from advisor.planner.limits import Limits, Mode
from advisor.state.model import ActionClass, Profile
from fallow.burst.table import Layer, LayerTable, Timing
from tests.advisor.jobs.job_store_world import submission
from tests.advisor.jobs.test_background import waiting
from tests.advisor.policies.scene import cluster, gpu, job

TIMINGS = tuple(Timing(batch, us / 3, us * 2 / 3) for batch, us in ((4, 260.0), (8, 480.0), (16, 900.0)))
TABLE = LayerTable(
    model="fat head",
    hardware="made up for tests",
    layers=(
        Layer(name="body", timings=TIMINGS, parameters=10_000, output=1000),
        Layer(name="head", timings=TIMINGS, parameters=40_000_000, output=1000),
    ),
)
sizes = st.dictionaries(st.integers(1, 8), st.floats(0.01, 10), max_size=6)


def test_a_prediction_is_the_planners_time_for_one_number_of_gpus() -> None:
    network = NETWORKS["pcie"]
    speeds = predicted_step_s(TABLE, 1, 8, network)
    assert sorted(speeds) == [1, 2, 3, 4, 5], "on more GPUs one would have fewer samples than were measured"
    setting = Setting(gpus=2, batch=16, network=network)
    assert speeds[2] == pytest.approx(evaluate(TABLE, uniform(TABLE, 2), setting).time_us / 1e6)
    assert speeds[2] > speeds[1], "the head's gradients travel longer than two GPUs save"


def test_micro_batches_are_gone_through_one_after_the_other_as_the_trainer_splits_them() -> None:
    """By the table: a batch of 4 takes 260 us in each of two layers, of 8 480 us, of 16 900 us."""
    network = replace(NETWORKS["pcie"], bandwidth=1e12, latency_us=0.0)
    assert predicted_step_s(TABLE, 1, 1, network)[1] == pytest.approx(2 * 900e-6)
    by_fours = predicted_step_s(TABLE, 1, 8, network, 4)
    assert by_fours[1] == pytest.approx(4 * 2 * 260e-6)
    assert by_fours[2] == pytest.approx(2 * 2 * 260e-6)
    assert by_fours[4] == pytest.approx(2 * 260e-6)
    # Three GPUs have at most 6 samples each, two micro-batches of 3; six have 3: fewer than were measured.
    assert sorted(by_fours) == [1, 2, 4, 5]


def test_gradients_travel_once_a_step_during_the_last_micro_batch() -> None:
    network = NETWORKS["pcie"]
    whole, split = (predicted_step_s(TABLE, 2, 2, network, most)[2] for most in (8, 4))
    setting = Setting(gpus=2, batch=8, network=network)
    last = evaluate(TABLE, uniform(TABLE, 2), setting).time_us / 1e6
    assert split == pytest.approx(last + 2 * 260e-6) and whole == predicted_step_s(TABLE, 2, 2, network)[2]


@given(measured=sizes, predicted=sizes)
def test_a_measurement_always_wins_and_corrects_the_others(
    measured: dict[int, float], predicted: dict[int, float]
) -> None:
    step_s, guessed = completed(measured, predicted)
    assert {n: step_s[n] for n in measured} == measured and guessed.isdisjoint(measured)
    assert set(step_s) == set(measured) | guessed
    assert not measured or all(not min(measured) < n < max(measured) for n in guessed)
    both = measured.keys() & predicted.keys()
    if len(both) == 1:
        (size,) = both
        ratio = measured[size] / predicted[size]
        assert all(step_s[n] == pytest.approx(predicted[n] * ratio) for n in guessed)


def test_a_job_that_waits_has_its_predicted_speeds_and_is_given_what_they_say() -> None:
    wanted = submission(
        mobility=Elasticity.ELASTIC, min_gpus=1, max_gpus=4, step_s_predicted={1: 1.0, 2: 0.55, 4: 0.52}
    )
    profile = waiting_job(replace(waiting(), submission=wanted)).profile
    assert profile is not None and profile.predicted == {1, 2, 4}
    elastic = job("e", min_gpus=1, max_gpus=4, profile=profile)
    state = cluster([(elastic, ("g0",))], gpus=[gpu(f"g{n}") for n in range(4)])
    auto = Limits(modes={ActionClass.RESIZE: Mode.AUTO})
    (step,) = decide(state, auto).steps
    assert len(step.gpus) == 3, "on 4 it would take more than twice the GPU time"  # type: ignore[union-attr]
    assert step.reason.endswith(
        "on 3 it is 1.88 times as fast as on 1 (predicted from its layers, not measured)"
    )
    known = replace(elastic, profile=Profile(step_s={1: 1.0, 2: 0.55}))
    (step,) = decide(replace(state, jobs={elastic.id: known}), auto).steps
    assert "predicted" not in step.reason
