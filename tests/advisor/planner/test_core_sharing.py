"""Fair shares, memory of use, goodput and placing: the arithmetic, in small cases that one can do by hand."""

from dataclasses import replace

import pytest

from advisor.actions import Move, Pause, Resize, Resume, Start
from advisor.planner.fair_share import UsageSample, charging, fair_shares, remembered, water_fill
from advisor.planner.limits import Lending, Limits
from advisor.planner.placement import Board, shrunk
from advisor.planner.throughput import amplification, growth_pays, hoped, remaining_s_of, speedup, step_s
from advisor.planner.transition import StepError, replay, transition
from advisor.state.model import ClusterState, Gpu, Job, Phase, Placement, Profile, Project, Usage

HOUR_MS = 3_600_000
GIB = 1024**3


def cluster(projects: list[Project], wants: dict[str, int], gpus: int = 12, **more: object) -> ClusterState:
    return ClusterState(
        as_of_ms=0,
        gpus={f"g{at:02d}": Gpu(uuid=f"g{at:02d}", node=f"n{at // 4}") for at in range(gpus)},
        projects={project.name: project for project in projects},
        jobs={
            f"{name}{at}": Job(id=f"{name}{at}", project=name) for name, n in wants.items() for at in range(n)
        },
        **more,
    )


def fair(
    projects: list[Project], wants: dict[str, int], limits: Limits | None = None, **more: object
) -> dict:
    shares = fair_shares(cluster(projects, wants, **more), limits or Limits(usage_weight=0.0))
    return {name: round(value, 6) for name, value in shares.fair_gpus.items()}


def test_nobody_gets_more_than_he_asks_for() -> None:
    assert fair([Project(name="a", quota_gpus=8), Project(name="b", quota_gpus=4)], {"a": 2, "b": 20}) == {
        "a": 2,
        "b": 10,
    }


def test_surplus_goes_by_weight_and_what_one_cannot_take_goes_on() -> None:
    projects = [Project(name="a", weight=3), Project(name="b", weight=1), Project(name="c", weight=2)]
    assert fair(projects, {"a": 20, "b": 20, "c": 20}) == {"a": 6, "b": 2, "c": 4}
    assert fair(projects, {"a": 2, "b": 20, "c": 20}) == {"a": 2, "b": 3, "c": 7}, "3.33 and 6.67"


def test_what_is_lent_to_jobs_goes_where_many_ask() -> None:
    by_job = Limits(lending=Lending.JOBS, usage_weight=0.0)
    gang = Job(id="gang", project="few", min_gpus=8, max_gpus=8)
    state = cluster([Project(name="few"), Project(name="many")], {"many": 9})
    state = replace(state, jobs={**state.jobs, "gang": gang})
    shares = fair_shares(state, by_job)
    assert dict(shares.fair_gpus) == pytest.approx({"few": 3, "many": 9}), "nine jobs to one: not 6 and 6"
    quotas = [Project(name="few", quota_gpus=8), Project(name="many")]
    shares = fair_shares(replace(state, projects={each.name: each for each in quotas}), by_job)
    assert shares.fair_gpus["few"] == 8, "nobody's guarantee is touched"
    heavy = [Project(name="a", weight=3), Project(name="b")]
    assert fair(heavy, {"a": 20, "b": 20}, by_job) == {"a": 9, "b": 3}, "weights still count"
    guaranteed = [Project(name="a", quota_gpus=4), Project(name="b")]
    assert fair(guaranteed, {"a": 8, "b": 12}, by_job) == {"a": 6, "b": 6}, "4 of 8 lie beyond a's quota"


def test_a_higher_priority_has_the_surplus_first() -> None:
    projects = [Project(name="a", priority=1), Project(name="b", quota_gpus=2), Project(name="c")]
    assert fair(projects, {"a": 7, "b": 20, "c": 20}) == {"a": 7, "b": 4, "c": 1}, "3.5 and 1.5"


def test_a_department_divides_what_it_deserves() -> None:
    projects = [
        Project(name="house", quota_gpus=8),
        Project(name="a", parent="house", quota_gpus=1),
        Project(name="b", parent="house"),
        Project(name="out", quota_gpus=4),
    ]
    assert fair(projects, {"a": 9, "b": 9, "out": 9}) == {"house": 8, "a": 5, "b": 3, "out": 4}, "4.5 and 3.5"


def test_guarantees_shrink_in_proportion_when_gpus_broke() -> None:
    projects = [Project(name="a", quota_gpus=8), Project(name="b", quota_gpus=4)]
    assert fair(projects, {"a": 8, "b": 8}, gpus=6) == {"a": 4, "b": 2}


def test_who_used_more_than_his_part_gets_less_of_the_surplus() -> None:
    projects = [Project(name="a"), Project(name="b")]
    usage = {"a": Usage(allocated_ratio=0.75), "b": Usage(allocated_ratio=0.25)}
    shares = fair(projects, {"a": 12, "b": 12}, Limits(usage_weight=1.0), usage=usage)
    assert shares == {"a": 3, "b": 9}  # weights 0.5 + (0.5 - 0.75) and 0.5 + (0.5 - 0.25)


def test_held_idle_hours_can_be_charged_again() -> None:
    projects = [Project(name="a"), Project(name="b")]
    usage = {"a": Usage(allocated_ratio=0.5, held_idle_ratio=0.25), "b": Usage(allocated_ratio=0.5)}
    assert fair(projects, {"a": 12, "b": 12}, Limits(), usage=usage) == {"a": 6, "b": 6}
    charged = fair(projects, {"a": 12, "b": 12}, Limits(idle_surcharge=1.0), usage=usage)
    assert charged == {"a": 4, "b": 8}


def test_who_left_most_idle_would_lose_most_were_idle_hours_charged() -> None:
    projects = {
        each.name: each
        for each in (
            Project(name="house"),
            Project(name="a", parent="house"),
            Project(name="b", parent="house"),
            Project(name="out"),
            Project(name="first", priority=1),
        )
    }
    usage = {
        "a": Usage(allocated_ratio=0.25, held_idle_ratio=0.25),
        "b": Usage(allocated_ratio=0.25),
        "out": Usage(allocated_ratio=0.5),
    }
    found = {each.project: each for each in charging(projects, usage, Limits())}
    parts = {name: (round(each.part, 6), round(each.part_charged, 6)) for name, each in found.items()}
    assert parts == {
        "house": (0.5, 0.333333),
        "out": (0.5, 0.666667),
        "a": (0.25, 0.133333),
        "b": (0.25, 0.2),
        "first": (1.0, 1.0),
    }, "a house answers for its own; who comes first has all that his priority is lent"
    assert next(iter(found)) == "house", "who would lose most stands first"


def test_what_was_used_a_half_life_ago_counts_half() -> None:
    limits = Limits(half_life_s=3600.0, window_s=86_400.0)
    samples = [
        UsageSample(at_ms=0, allocated_gpus=12, held_idle_gpus=0, capacity_gpus=12),
        UsageSample(at_ms=HOUR_MS, allocated_gpus=0, held_idle_gpus=0, capacity_gpus=12),
    ]
    assert remembered(samples, HOUR_MS, limits).allocated_ratio == pytest.approx(1 / 3)
    assert remembered(samples, 26 * HOUR_MS, limits) == Usage()
    assert remembered([], 0, limits) == Usage()


def test_water_fills_to_one_level() -> None:
    assert water_fill(10, [1, 100, 100], [1, 1, 1]) == [1, 4.5, 4.5]
    assert water_fill(10, [2, 3], [1, 1]) == [2, 3]
    assert water_fill(0, [2, 3], [1, 1]) == [0, 0]


PROFILE = Profile(step_s={1: 8.0, 2: 4.0, 8: 2.0}, steps_left=100.0, resize_s=1.0)


def test_between_two_measurements_lies_a_straight_line_in_log_log() -> None:
    assert step_s(PROFILE, 4) == pytest.approx((4 * 2) ** 0.5)
    assert step_s(PROFILE, 9) is None
    assert speedup(PROFILE, 1, 8) == 4
    assert amplification(PROFILE, 8, 1) == 2


@pytest.mark.parametrize(
    ("changes", "pays"),
    [
        ({}, True),
        ({"steps_left": 1.0}, False),  # 8 s are left, and a resize costs 1 s: fewer than ten
        ({"resize_s": 200.0}, False),
        ({"step_s": {1: 8.0, 2: 7.5}}, False),  # 1.07 times as fast
        ({"step_s": {1: 8.0, 2: 4.0, 8: 1.99}, "steps_left": None}, True),
        ({"step_s": {1: 8.0}}, None),
    ],
)
def test_growth_pays_or_not(changes: dict, pays: bool | None) -> None:
    from dataclasses import replace

    job = Job(id="j", project="p", max_gpus=8, profile=replace(PROFILE, **changes))
    assert growth_pays(job, 1, 2, Limits()) is pays


def test_gpu_time_may_double_and_no_more() -> None:
    job = Job(id="j", project="p", max_gpus=8, profile=Profile(step_s={1: 8.0, 8: 2.01}, steps_left=1e6))
    assert growth_pays(job, 1, 8, Limits()) is False
    assert remaining_s_of(job, 1) == 8e6


def test_hope_goes_on_as_the_last_two_sizes_did_and_perfectly_from_one() -> None:
    assert hoped(Profile(step_s={2: 4.0}), 4).step_s == pytest.approx({2: 4.0, 4: 2.0})
    assert hoped(Profile(step_s={1: 9.0, 2: 4.0, 4: 3.0}), 8).step_s[8] == pytest.approx(3.0 * 3 / 4)
    assert hoped(Profile(step_s={2: 4.0}), 4).step_s[2] == 4.0, "what was measured stays"


def test_a_gang_lies_on_the_fullest_node_that_holds_it_else_on_the_fewest() -> None:
    state = cluster([], {"a": 2})
    board = Board(state)
    job = Job(id="x", project="p")
    board.occupy(job, Placement(gpus=("g00", "g01")))
    assert board.find(job, 2) == ("g02", "g03")
    assert board.find(job, 3) == ("g04", "g05", "g06")
    assert board.find(job, 6) == ("g04", "g05", "g06", "g07", "g02", "g03")
    assert board.find(job, 10) is not None
    assert board.find(job, 11) is None


def test_a_gang_never_mixes_kinds_of_gpu() -> None:
    gpus = {f"g{at}": Gpu(uuid=f"g{at}", node="n", model="A" if at < 2 else "B") for at in range(4)}
    state = ClusterState(as_of_ms=0, gpus=gpus)
    assert Board(state).find(Job(id="x", project="p"), 3) is None
    assert Board(state).find(Job(id="x", project="p", gpu_models=("B",)), 2) == ("g2", "g3")


def test_a_shrunk_job_keeps_the_node_where_it_has_most() -> None:
    state = cluster([], {})
    assert shrunk(state, ("g00", "g04", "g05", "g06"), 3) == ("g04", "g05", "g06")
    assert shrunk(state, ("g00", "g01", "g04", "g05"), 1) == ("g00",)


def fractions(**changes: object) -> ClusterState:
    one = Job(id="one", project="p", user="ann", share=0.5, memory_bytes=20 * GIB)
    two = Job(id="two", project="p", user="bob", share=0.5, memory_bytes=20 * GIB)
    gpus = {
        "g": Gpu(uuid="g", node="n", memory_bytes=42 * GIB),
        "h": Gpu(uuid="h", node="n", memory_bytes=40 * GIB),
    }
    return ClusterState(as_of_ms=0, gpus=gpus, jobs={"one": one, "two": two})


def test_memory_of_neighbours_leaves_two_gib() -> None:
    both = (Start(job="one", gpus=("g",), share=0.5), Start(job="two", gpus=("g",), share=0.5))
    assert set(replay(fractions(), both).placements) == {"one", "two"}
    with pytest.raises(StepError, match="less 2 GiB"):
        replay(fractions(), (both[0], Move(job="one", gpus=("h",)), Start(job="two", gpus=("h",), share=0.5)))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Start(job="ghost", gpus=("g00",)), "there is no such job"),
        (Start(job="a0", gpus=("g00", "g01")), "runs on 1 to 1 GPUs, not on 2"),
        (Start(job="a0", gpus=("nowhere",)), "there is no such GPU"),
        (Start(job="a0", gpus=("g00",), share=1.5), "a share is above 0 and at most 1"),
        (Start(job="a0", gpus=()), "runs on 1 to 1 GPUs, not on 0"),
        (Pause(job="a0"), "the job is pending, and must be running"),
        (Resume(job="a0", gpus=("g00",)), "the job is pending, and must be paused"),
        (Resize(job="a0", gpus=("g00",)), "the job is pending, and must be running"),
    ],
)
def test_an_impossible_step_is_named(step: object, message: str) -> None:
    with pytest.raises(StepError, match=message):
        transition(cluster([], {"a": 1}), step)


def test_a_paused_job_comes_back_to_the_node_that_holds_its_state() -> None:
    state = replay(cluster([], {"a": 1}), (Start(job="a0", gpus=("g00",)), Pause(job="a0")))
    assert state.jobs["a0"].phase is Phase.PAUSED
    with pytest.raises(StepError, match="its state lies in the memory of n0"):
        transition(state, Resume(job="a0", gpus=("g04",)))
    assert transition(state, Resume(job="a0", gpus=("g01",))).placements["a0"].gpus == ("g01",)
