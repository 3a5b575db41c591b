"""Plans held against every plan there is, against published measurements and against their own bounds."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.burst.cost import NETWORKS, Network, Setting, share, widths
from advisor.burst.evaluate import evaluate, held_bytes, uniform
from advisor.burst.labels import Chosen
from advisor.burst.planner import Asked, NoPlan, plan
from fallow.burst.plan import BadPlan, Plan, read_plan
from fallow.burst.table import BadTable, Fork, LayerTable
from tests.advisor.burst.models import Drawn, every_plan

SLOW_LINK = Network(name="slow", bandwidth=2_000.0, latency_us=5.0, source="made up for tests")


def setting(seed: int, *, overlap: bool, gpus: int = 4) -> Setting:
    """Alternates links, so that sums of gradients hide in some cases and not in others."""
    network = NETWORKS["nvswitch"] if seed % 3 == 0 else replace(SLOW_LINK, bandwidth=500.0 * 4 ** (seed % 5))
    return Setting(gpus=gpus, batch=8, network=network, overlap=overlap)


def limits_of(table: LayerTable, made: Setting, asked: Asked) -> tuple[float, float]:
    """Time and GPU-time that a plan may take at most."""
    one = evaluate(table, uniform(table, 1), made)
    return math.inf, math.inf if asked.amplification is None else asked.amplification * one.gpu_time_us


def fastest(table: LayerTable, made: Setting, asked: Asked) -> float:
    """The least time of all plans within the limit on GPU-time and memory."""
    _, most = limits_of(table, made, asked)
    times = []
    for chosen in every_plan(table, made):
        cost = evaluate(table, chosen, made)
        held = made.memory_bytes is None or held_bytes(table, chosen, made) <= made.memory_bytes
        if cost.gpu_time_us <= most * (1 + 1e-9) and held:
            times.append(cost.time_us)
    return min(times, default=math.inf)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("overlap", [False, True])
def test_a_chain_is_planned_as_well_as_the_best_of_all_plans(seed: int, overlap: bool) -> None:
    table, made = Drawn(seed).chain(5), setting(seed, overlap=overlap)
    for asked in (Asked(), Asked(amplification=1.1 + seed % 4 * 0.3)):
        found = plan(table, made, asked)
        assert found.predicted.time_us == pytest.approx(fastest(table, made, asked), rel=1e-9)
        assert found.bound == pytest.approx(found.predicted.time_us, rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_branches_are_planned_as_well_as_the_best_of_some_plans(seed: int) -> None:
    compare_branches(seed, nested=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("nested", [False, True])
def test_branches_are_planned_as_well_as_the_best_of_all_plans(seed: int, nested: bool) -> None:
    compare_branches(seed, nested=nested)


def compare_branches(seed: int, *, nested: bool) -> None:
    """No plan of a forked model is faster, without a limit on GPU-time and with one."""
    table, made = Drawn(seed).forked(nested=nested), setting(seed, overlap=False, gpus=3 if nested else 4)
    for asked in (Asked(), Asked(amplification=1.3)):
        found = plan(table, made, asked)
        assert found.predicted.time_us == pytest.approx(fastest(table, made, asked), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_on_memory_is_kept_at_the_least_cost(seed: int) -> None:
    table = Drawn(seed).forked(nested=False) if seed % 2 else Drawn(seed).chain(4)
    free = setting(seed, overlap=False)
    whole = held_bytes(table, uniform(table, 1), free)
    least = held_bytes(table, uniform(table, 4), free)
    made = replace(free, memory_bytes=least + 0.4 * (whole - least))
    best = fastest(table, made, Asked())
    found = plan(table, made, Asked())
    assert found.predicted.time_us == pytest.approx(best, rel=1e-9)
    with pytest.raises(NoPlan, match="no plan keeps to"):
        plan(table, replace(free, memory_bytes=least * 0.5 - 1), Asked())


@pytest.mark.parametrize("seed", range(20))
def test_least_gpu_time_within_a_slowdown(seed: int) -> None:
    table, made = Drawn(seed).chain(5), setting(seed, overlap=bool(seed % 2))
    found = plan(table, made, Asked(slowdown=0.2))
    costs = [evaluate(table, chosen, made) for chosen in every_plan(table, made)]
    most = 1.2 * min(cost.time_us for cost in costs)
    least = min(cost.gpu_time_us for cost in costs if cost.time_us <= most)
    assert found.predicted.time_us <= most * (1 + 1e-9)
    assert found.predicted.gpu_time_us == pytest.approx(least, rel=1e-9)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from([1.2, 2.0, None]))
def test_with_branches_and_overlap_a_plan_is_never_below_its_bound(
    seed: int, gpus: int, most: float | None
) -> None:
    table = Drawn(seed).forked(nested=bool(seed % 2))
    made = setting(seed, overlap=True, gpus=gpus)
    found = plan(table, made, Asked(amplification=most))
    assert found.bound <= found.predicted.time_us * (1 + 1e-9)
    assert found.predicted.gpu_time_us <= limits_of(table, made, Asked(amplification=most))[1] * (1 + 1e-9)
    assert found.predicted.time_us <= found.uniform.time_us * (1 + 1e-9) or (
        found.uniform.gpu_time_us > found.predicted.gpu_time_us
    )
    again = evaluate(table, [Chosen(p.layer, p.first_rank, p.gpus) for p in found.placements], made)
    assert again == found.predicted


def test_equal_blocks_are_best_on_one_number_of_gpus() -> None:
    """A transformer's blocks are alike: bursts gain nothing, whatever the network."""
    block = Drawn(3).layer()
    layers = tuple(replace(block, name=f"block {number}", parameters=50_000) for number in range(12))
    table = LayerTable(model="alike", hardware="none", layers=layers)
    for name in ("nvswitch", "100gbe"):
        found = plan(table, Setting(gpus=8, batch=8, network=NETWORKS[name]), Asked())
        assert found.verdict == "uniform"
        assert len({placed.gpus for placed in found.placements}) == 1


def test_a_head_of_many_classes_stays_on_one_gpu_of_a_slow_link() -> None:
    """Its gradients would take longer to travel than the head takes to compute."""
    drawn = Drawn(1)
    body = [replace(drawn.layer(), parameters=1_000, output=100) for _ in range(4)]
    head = replace(drawn.layer(), name="head", parameters=40_000_000, output=10)
    table = LayerTable(model="classes", hardware="none", layers=(*body, head))
    made = Setting(gpus=4, batch=8, network=NETWORKS["100gbe"])
    found = plan(table, made, Asked())
    assert {placed.gpus for placed in found.placements if placed.layer == "head"} == {1}
    assert found.verdict == "bursts"


def test_only_numbers_of_gpus_that_shorten_the_largest_share_are_tried() -> None:
    made = Setting(gpus=100, batch=48, network=NETWORKS["nvswitch"])
    tried = widths(made)
    assert [share(48, gpus) for gpus in tried] == sorted(
        {share(48, gpus) for gpus in range(1, 49)}, reverse=True
    )
    assert len(tried) <= 2 * math.isqrt(48) + 1
    assert widths(replace(made, powers_of_two=True)) == (1, 2, 4, 8, 16, 32)


def test_questions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(NoPlan, match="not both"):
        Asked(amplification=2, slowdown=0.1)
    with pytest.raises(NoPlan, match="1 or more"):
        Asked(amplification=0.9)
    with pytest.raises(NoPlan, match="0 or more"):
        Asked(slowdown=float("nan"))
    table = Drawn(0).chain(2)
    with pytest.raises(BadTable, match="profile it at that batch too"):
        plan(table, Setting(gpus=2, batch=64, network=NETWORKS["nvswitch"]), Asked())


def test_a_plan_survives_its_file() -> None:
    found = plan(Drawn(5).forked(nested=True), setting(5, overlap=True), Asked(amplification=2))
    assert read_plan(found.to_json()) == found
    for text in ("", "[]", "{}", found.to_json().replace('"first_rank": 0', '"first_rank": 9', 1)):
        with pytest.raises(BadPlan):
            read_plan(text)


def test_a_plan_has_ranks_that_exist() -> None:
    found: Plan = plan(Drawn(8).forked(nested=False), setting(8, overlap=False), Asked())
    with pytest.raises(BadPlan, match="on ranks"):
        replace(found, gpus=1, placements=(replace(found.placements[0], gpus=2),))
    assert isinstance(Drawn(8).forked(nested=False).layers[1], Fork)
