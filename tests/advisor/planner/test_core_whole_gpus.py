"""Fair shares in whole GPUs: sums stay, nobody is a GPU away, and the one left over goes round."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.actions import Requeue
from advisor.decide import decide
from advisor.planner.fair_share import UsageSample, fair_shares, remembered
from advisor.planner.limits import Limits
from advisor.planner.transition import replay
from advisor.planner.whole_gpus import Part, whole_shares
from advisor.state.model import ClusterState, Gpu, Job, Phase, Placement, Project, Telemetry

HOUR_MS = 3_600_000
SLACK = 1e-6
FREE = Limits(actions_per_hour=None, min_runtime_s=0.0, cooldown_s=0.0)


def part(name: str, gpus: float, **more: object) -> Part:
    return Part(name=name, gpus=gpus, **{"least": 0.0, "most": 9.0, "is_whole": True, **more})


def gang(name: str, **more: object) -> Job:
    return Job(id=name, project=name, min_gpus=3, max_gpus=3, preemptible=True, attached=False, **more)


@pytest.mark.parametrize(
    ("parts", "shares"),
    [
        ([part("a", 8 / 3), part("b", 8 / 3), part("c", 8 / 3)], [3, 3, 2]),
        ([part("a", 16 / 3), part("b", 8 / 3)], [5, 3]),
        ([part("a", 2.5), part("b", 1.5, priority=1)], [2, 2]),
        ([part("a", 2.5), part("b", 1.5, allocated_gpus=2.0)], [2, 2]),
        ([part("a", 2.5), part("b", 1.5, allocated_gpus=1.0)], [3, 1]),
        ([part("a", 2.5), part("b", 1.5, waits_since_ms=5.0)], [2, 2]),
        ([part("a", 2.6, allocated_gpus=3.0), part("b", 1.4), part("c", 4.0)], [3, 1, 4]),
        ([part("a", 2.4, allocated_gpus=3.0), part("b", 1.6)], [3, 1]),  # 0.4 + 0.25 keeps it
        ([part("a", 2.3, allocated_gpus=3.0), part("b", 1.7)], [2, 2]),  # 0.3 + 0.25 does not
        ([part("a", 0.5, is_whole=False), part("b", 0.5, is_whole=False)], [0.5, 0.5]),
        ([part("a", 2.5, is_whole=False), part("b", 2.75), part("c", 2.75)], [2.5, 3, 2.5]),
        ([part("a", 2.7, least=2.5), part("b", 1.3)], [3, 1]),
        ([part("a", 2.4, least=2.4), part("b", 1.6)], [2.4, 1.6]),  # a's quota is no whole number
        ([part("a", 1.5, most=1.5), part("b", 2.5)], [1.5, 2.5]),
    ],
)
def test_the_gpu_left_over_goes_to_the_largest_remainder(parts: list[Part], shares: list[float]) -> None:
    assert whole_shares(parts) == pytest.approx(shares)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5), st.integers(0, 6), st.booleans()), min_size=1),
    st.integers(1, 64),
)
def test_sums_stay_and_nobody_is_a_whole_gpu_away(
    asked: list[tuple[int, int, int, bool]], capacity: int
) -> None:
    projects = {
        f"p{at:02d}": Project(name=f"p{at:02d}", weight=weight, quota_gpus=quota)
        for at, (_, weight, quota, _) in enumerate(asked)
    }
    jobs = {
        f"p{at:02d}/{number}": Job(
            id=f"p{at:02d}/{number}", project=f"p{at:02d}", share=0.5 if halves else 1.0, submitted_ms=number
        )
        for at, (count, _, _, halves) in enumerate(asked)
        for number in range(count)
    }
    gpus = {f"g{at:02d}": Gpu(uuid=f"g{at:02d}", node="n") for at in range(capacity)}
    shares = fair_shares(ClusterState(as_of_ms=0, gpus=gpus, projects=projects, jobs=jobs), FREE)
    wanted, fair = shares.demand_gpus, shares.fair_gpus
    assert sum(fair.values()) == pytest.approx(min(capacity, sum(wanted.values())))
    assert all(fair[name] <= wanted[name] + SLACK for name in wanted)
    assert all(abs(fair[name] - exact) < 1 for name, exact in shares.exact_gpus.items())
    if sum(min(projects[name].quota_gpus, wanted[name]) for name in projects) <= capacity:
        assert all(fair[n] >= min(projects[n].quota_gpus, wanted[n]) - SLACK for n in projects)
    if not any(halves for *_, halves in asked):
        assert all(abs(share - round(share)) < SLACK for share in fair.values())


def test_among_equals_the_gpu_over_goes_round_within_days_and_not_each_hour() -> None:
    """Three projects with a gang of three each on eight GPUs, for four weeks: each runs two thirds of it."""
    names = ("a", "b", "c")
    state = ClusterState(
        as_of_ms=0,
        gpus={f"g{at}": Gpu(uuid=f"g{at}", node="n", telemetry=Telemetry.GOOD) for at in range(8)},
        projects={name: Project(name=name) for name in names},
        jobs={name: gang(name, submitted_ms=at) for at, name in enumerate(names)},
    )
    samples: dict[str, list[UsageSample]] = {name: [] for name in names}
    moved, ran = 0, dict.fromkeys(names, 0)
    for hour in range(0, 4 * 168, 2):
        now_ms = hour * HOUR_MS
        usage = {name: remembered(samples[name], now_ms, FREE) for name in names}
        state = replace(state, as_of_ms=now_ms, usage=usage, actions=())
        steps = decide(state, FREE).steps
        moved += sum(isinstance(step, Requeue) for step in steps)
        state = replay(state, steps)
        for name in names:
            size = len(state.placements[name].gpus) if name in state.placements else 0
            ran[name] += bool(size)
            samples[name].append(
                UsageSample(at_ms=now_ms, allocated_gpus=size, held_idle_gpus=0.0, capacity_gpus=8.0)
            )
    assert all(0.6 <= hours / (2 * 168) <= 0.74 for hours in ran.values()), ran
    assert moved <= 56, f"{moved} times in 28 days: more than twice a day"


def test_a_job_larger_than_an_exact_share_is_told_of_the_rounding() -> None:
    gpus = {f"g{at}": Gpu(uuid=f"g{at}", node="n") for at in range(8)}
    running = {name: gang(name, phase=Phase.RUNNING) for name in "ab"}
    waits = gang("c")
    state = ClusterState(
        as_of_ms=0,
        gpus=gpus,
        jobs={**running, "c": waits},
        placements={
            "a": Placement(gpus=("g0", "g1", "g2")),
            "b": Placement(gpus=("g3", "g4", "g5")),
        },
    )
    (refusal,) = decide(state, FREE).refused
    assert "c has 0 of its fair share of 2 GPUs (2.67 before rounding to whole GPUs)" in refusal.reason
