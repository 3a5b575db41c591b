"""Shares by measured speed: close to the best split, changed only when it pays, and in every worker alike."""

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.data.batch_plan import BatchPlan, even_split
from fallow.data.costs import Cost
from fallow.data.shares import FIRST_TRIAL, WINDOW_STEPS, NoSplit, Speeds, even, split
from fallow.types import Recipe

pytestmark = pytest.mark.quick

SECONDS = st.floats(min_value=1e-4, max_value=1.0)
COST = st.builds(
    Cost,
    fixed_s=st.just(0.0) | SECONDS,
    unit_s=SECONDS,
    least=st.integers(0, 1),
    most=st.none() | st.integers(1, 9),
)
STEPS = 100


def cost(fixed_ms: float, unit_ms: float) -> Cost:
    return Cost(fixed_s=fixed_ms / 1000, unit_s=unit_ms / 1000)


def longest(counts: Sequence[int], costs: Sequence[Cost]) -> float:
    """The step's time: a rank without samples is not waited for."""
    return max(c.fixed_s + c.unit_s * n if n else 0.0 for c, n in zip(costs, counts, strict=True))


def shares(speeds: Speeds, total: int) -> tuple[int, ...]:
    if speeds.costs is None:
        return even_split(total, speeds.world_size)
    return split(total, speeds.costs)


def trained(
    total: int, costs: Sequence[Cost], steps: int = STEPS, noise: float = 0.0, speeds: Speeds | None = None
) -> Speeds:
    """After so many steps; as in the trainer, a step's times are known one step later."""
    speeds = speeds or even(len(costs))
    chance = random.Random(3)
    under_way: tuple[tuple[int, ...], list[float]] | None = None
    for _ in range(steps):
        counts = shares(speeds, total)
        took = [c.seconds(n) * (1 + chance.gauss(0, noise)) for c, n in zip(costs, counts, strict=True)]
        if under_way is not None:
            speeds = speeds.after(*under_way)
        under_way = counts, took
    return speeds


@given(st.integers(1, 6), st.lists(COST, min_size=1, max_size=3))
@settings(max_examples=25)
def test_the_split_is_the_best_of_all_splits_within_the_limits(total: int, costs: list[Cost]) -> None:
    allowed = [
        counts
        for counts in product(range(total + 1), repeat=len(costs))
        if sum(counts) == total
        and all(
            c.least <= n <= (total if c.most is None else c.most) for c, n in zip(costs, counts, strict=True)
        )
    ]
    if not allowed:
        with pytest.raises(NoSplit, match=f"which has {total}"):
            split(total, costs)
        return
    counts = split(total, costs)
    assert counts in allowed
    assert longest(counts, costs) == pytest.approx(min(longest(each, costs) for each in allowed))


def best(total: int, costs: Sequence[Cost]) -> float:
    """The least possible time: each sample goes where one more takes the shortest. Exact, as times grow."""
    ends = [(c.seconds(1), rank, 1) for rank, c in enumerate(costs)]
    heapq.heapify(ends)
    for _ in range(total - 1):
        _, rank, count = ends[0]
        heapq.heapreplace(ends, (costs[rank].seconds(count + 1), rank, count + 1))
    counts = [count - 1 for _, _, count in sorted(ends, key=lambda end: end[1])]
    counts[ends[0][1]] += 1
    return longest(counts, costs)


def mixes() -> Iterator[tuple[int, list[Cost]]]:
    """Global batches and workers: equal, up to twice or 20 times as slow, in all or in the samples only."""
    fast = cost(17, 2.7)
    yield 32, [fast, fast, fast, cost(34, 5.4)]
    yield 32, [fast, fast, fast, cost(17 / 0.3, 2.7 / 0.3)]
    yield 256, [cost(10, 0.5), cost(10, 0.5), cost(10, 50)]
    chance = random.Random(1)
    for _ in range(17):
        fixed_ms, unit_ms = chance.uniform(1, 30), chance.uniform(0.2, 5)
        costs = []
        for _ in range(chance.randint(2, 8)):
            slower = chance.choice([1, 1, 1, chance.uniform(1, 2), chance.uniform(2, 20)])
            costs.append(cost(fixed_ms * chance.choice([1, slower]), unit_ms * slower))
        yield chance.choice([16, 32, 48, 64, 128, 256]), costs


def above_best(total: int, costs: Sequence[Cost], noise: float) -> float:
    speeds = trained(total, costs, noise=noise)
    return longest(shares(replace(speeds, is_trial=False), total), costs) / best(total, costs)


def test_without_noise_shares_settle_within_3_percent_of_the_best_split() -> None:
    ratios = [above_best(*mix, 0.0) for mix in mixes()]
    assert len(ratios) == 20
    assert max(ratios) <= 1.03


def test_with_5_percent_noise_the_median_is_within_1_percent_and_the_worst_within_10() -> None:
    ratios = [above_best(*mix, 0.05) for mix in mixes()]
    assert median(ratios) <= 1.01
    assert max(ratios) <= 1.10


def test_a_worker_of_half_the_speed_makes_the_step_shorter_than_it_is_without_it() -> None:
    fast, half = cost(17, 2.7), cost(34, 5.4)
    settled = shares(trained(32, [fast, fast, fast, half]), 32)
    assert settled == (
        10,
        10,
        10,
        2,
    )  # 44.0 and 44.8 ms; with 3 the half one takes 50.2, alone three take 46.7


def test_a_worker_that_only_makes_the_step_longer_gets_nothing() -> None:
    fast, slow = cost(17, 2.7), cost(17 / 0.3, 2.7 / 0.3)  # 65.7 ms for one sample, where three take 46.7
    assert shares(trained(32, [fast, fast, fast, slow]), 32)[3] == 0


def test_a_worker_without_samples_is_tried_for_one_step_and_works_again_once_it_is_fast() -> None:
    fast, slow = cost(17, 2.7), cost(17 / 0.3, 2.7 / 0.3)
    rested = trained(16, [fast, slow], 60)  # 60.2 ms for all of them, 65.7 for the slow one's first
    assert shares(rested, 16) == (16, 0)
    tried = []
    for _ in range(FIRST_TRIAL * WINDOW_STEPS):
        rested = trained(16, [fast, slow], 2, speeds=rested)  # the second step's times are dropped
        tried += [shares(rested, 16)] if rested.is_trial else []
    assert tried == [(15, 1)]
    speeds = trained(16, [fast, fast], (2 * FIRST_TRIAL + 5) * WINDOW_STEPS, speeds=rested)
    assert shares(speeds, 16) == (8, 8)


def test_where_everybody_must_work_everybody_does() -> None:
    costs = [cost(10, 1), cost(1000, 1000)]
    assert shares(trained(32, costs, speeds=even(2, least=1)), 32) == (31, 1)
    assert shares(trained(32, costs, speeds=even(2, least=1, most=20)), 32) == (20, 12)


@given(st.lists(SECONDS, min_size=1, max_size=8))
@settings(max_examples=20)
def test_steady_speeds_lead_to_rest(seconds: list[float]) -> None:
    costs = [Cost(fixed_s=0, unit_s=each, least=1) for each in seconds]
    settled = trained(64, costs, speeds=even(len(costs), least=1))
    assert trained(64, costs, 50, speeds=settled).settled == settled.settled


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS), max_size=60))
def test_whatever_is_measured_all_samples_are_shared_out(steps: list[tuple[float, ...]]) -> None:
    speeds = even(3)
    for step in steps:
        counts = shares(speeds, 20)
        assert sum(counts) == 20
        speeds = speeds.after(counts, [s if n else 0.0 for s, n in zip(step, counts, strict=True)])


def test_nothing_changes_before_enough_steps_were_seen() -> None:
    assert trained(33, [cost(0, 1), cost(0, 2)], WINDOW_STEPS).settled is None
    assert shares(trained(33, [cost(0, 1), cost(0, 2)], WINDOW_STEPS + 1), 33) == (22, 11)


def test_small_differences_are_left_alone() -> None:
    assert trained(32, [cost(0, 1), cost(0, 1.02)]).settled is None


def test_a_few_slow_steps_among_many_are_left_alone() -> None:
    speeds = even(2)
    for step in [(0.16, 0.16)] * 7 + [(0.16, 5.0)] * 3:
        speeds = speeds.after((16, 16), step)
    assert speeds.histories
    assert speeds.settled is None


def test_steps_in_which_somebody_measured_nothing_do_not_count() -> None:
    speeds = even(2)
    for _ in range(100):
        speeds = speeds.after((16, 16), (0.16, 0.0))
    assert speeds == even(2)


def test_the_smaller_last_step_of_an_epoch_does_not_count() -> None:
    speeds = even(2)
    for _ in range(WINDOW_STEPS - 1):
        speeds = speeds.after((17, 16), (0.17, 0.32)).after((3, 2), (0.9, 0.1))
    assert speeds.settled is None
    assert shares(speeds.after((17, 16), (0.17, 0.32)), 33) == (22, 11)


def test_a_worker_that_grew_fast_again_gets_its_share_back() -> None:
    slow = trained(32, [cost(0, 10), cost(0, 30)])
    assert shares(slow, 32) == (24, 8)
    assert shares(trained(32, [cost(0, 10), cost(0, 10)], speeds=slow), 32) == (16, 16)


@pytest.mark.parametrize(
    ("deterministic", "keeps_all", "expected"), [(False, False, 0), (False, True, 1), (True, False, 2)]
)
def test_a_far_too_slow_worker_gets_no_samples_unless_everybody_must_have_some(
    caplog: pytest.LogCaptureFixture, deterministic: bool, keeps_all: bool, expected: int
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from fallow.data.balance import Balance

    recipe = Recipe(global_batch=32, max_micro_batch=2, balance_by_speed=True, deterministic=deterministic)
    balance = Balance(torch.device("cpu"), recipe, torch.nn.Linear(1, 1))
    if keeps_all:
        balance.keep_all_at_work()
    balance.enter(1, 2)
    for _ in range(3 * WINDOW_STEPS):
        shape = BatchPlan(recipe=recipe, world_size=2, costs=balance.costs).shape(32)
        balance.start()
        balance.stop()
        balance.notes()
        fast, slow = shape.samples(0), shape.samples(1)
        balance.measure(shape)
        balance.notes()
        balance.learn(
            [0.001 * fast, 10 + 0.1 * slow if slow else 0.0]
        )  # s; all of them take the fast one 32 ms
    assert shape.samples(1) == expected
    told = [record for record in caplog.records if "rank 1 of 2 gets no samples" in record.message]
    assert len(told) == (expected == 0)
