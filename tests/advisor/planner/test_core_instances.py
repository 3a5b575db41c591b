"""A part of a GPU on devices that MIG has cut: the smallest free instance that holds it, alone and whole."""

from dataclasses import replace

import pytest

from advisor.actions import Resume, Start
from advisor.decide import decide
from advisor.jobs.gpu_sharing import Device, Mps, terms
from advisor.jobs.model import Sharing, Submission
from advisor.planner.limits import Limits
from advisor.planner.placement import Board
from advisor.planner.quota import allocated, capacity_gpus, quota_cover
from advisor.planner.transition import replay
from advisor.state.model import ClusterState, Gpu, Job, Phase, Placement, Project, Telemetry

GIB = 1 << 30
KINDS = {"1g": (1, 10), "2g": (2, 20), "3g": (3, 40), "4g": (4, 40)}


def instance(name: str, node: str = "n") -> Gpu:
    """``2g-a`` is an instance of two sevenths."""
    parts, gib = KINDS[name.split("-", maxsplit=1)[0]]
    return Gpu(
        uuid=f"MIG-{name}",
        node=node,
        model=f"H100 MIG {name.split('-', maxsplit=1)[0]}.{gib}gb",
        memory_bytes=gib * GIB,
        part_of_device=parts / 7,
        telemetry=Telemetry.GOOD,
    )


def whole(name: str) -> Gpu:
    return Gpu(uuid=name, node="n", model="H100", memory_bytes=80 * GIB, telemetry=Telemetry.GOOD)


def world(*gpus: Gpu, **projects: Project) -> ClusterState:
    return ClusterState(
        as_of_ms=10**9,
        gpus={gpu.uuid: gpu for gpu in gpus},
        projects=projects or {"p": Project(name="p")},
    )


def wish(share: float, gib: int | None = None, **more: object) -> Job:
    memory = None if gib is None else gib * GIB
    plain = Job(id="j", project="p", user="ann", share=share, memory_bytes=memory, preemptible=True)
    return replace(plain, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("share", "gib", "there", "chosen"),
    [
        (0.25, None, ("4g-a", "1g-a", "2g-a", "3g-a"), "MIG-2g-a"),
        (0.1, None, ("3g-a", "1g-a"), "MIG-1g-a"),
        (0.1, 15, ("3g-a", "1g-a", "2g-a"), "MIG-2g-a"),
        (0.25, 30, ("4g-a", "2g-a", "3g-a"), "MIG-3g-a"),
        (0.5, None, ("3g-a", "4g-a"), "MIG-4g-a"),
        (0.5, None, ("3g-a", "whole"), "whole"),
        (0.25, None, ("whole", "2g-a"), "MIG-2g-a"),
        (0.5, None, ("3g-a",), None),
        (0.1, 60, ("3g-a", "whole"), "whole"),
    ],
)
def test_a_share_goes_to_the_smallest_instance_that_holds_it(
    share: float, gib: int | None, there: tuple[str, ...], chosen: str | None
) -> None:
    gpus = [whole(name) if name == "whole" else instance(name) for name in there]
    found = Board(world(*gpus)).find(wish(share, gib), 1)
    assert found == (None if chosen is None else (chosen,))


def test_an_instance_is_held_whole_and_two_shares_never_meet_on_it() -> None:
    state = world(instance("2g-a"), instance("3g-a"))
    jobs = {f"j{n}": replace(wish(0.25, may_share=True), id=f"j{n}", submitted_ms=n) for n in range(3)}
    plan = decide(replace(state, jobs=jobs), Limits())
    started = {step.job: (step.gpus, step.share) for step in plan.steps if isinstance(step, Start)}
    assert started == {"j0": (("MIG-2g-a",), 1.0), "j1": (("MIG-3g-a",), 1.0)}
    assert replay(replace(state, jobs=jobs), plan.steps).placements["j0"] == Placement(gpus=("MIG-2g-a",))


def test_a_paused_share_comes_back_to_the_whole_of_its_instance() -> None:
    job = wish(0.25, phase=Phase.PAUSED, paused_on=("MIG-2g-a",))
    plan = decide(replace(world(instance("2g-a")), jobs={"j": job}), Limits())
    assert plan.steps[0] == Resume(job="j", gpus=("MIG-2g-a",), share=1.0, reason=plan.steps[0].reason)


def test_an_instance_that_is_more_than_the_projects_limit_is_not_given() -> None:
    state = replace(world(instance("3g-a"), p=Project(name="p", limit_gpus=0.4)), jobs={"j": wish(0.25)})
    plan = decide(state, Limits())
    assert plan.steps == () and plan.refused[0].rule == "limit"


def test_an_instance_counts_as_its_part_of_a_device() -> None:
    """A quota of half a device covers 3 of its 7 parts, and capacity is one device, not three."""
    state = world(
        *map(instance, ("3g-a", "2g-a", "2g-b")), p=Project(name="p", quota_gpus=0.5, limit_gpus=0.5)
    )
    state = replace(state, jobs={"j": wish(0.4), "k": replace(wish(0.25), id="k")})
    plan = decide(state, Limits())
    assert [step.gpus for step in plan.steps if isinstance(step, Start)] == [("MIG-3g-a",)]
    assert [(each.job, each.rule) for each in plan.refused] == [("k", "limit")]
    after = replay(state, plan.steps)
    assert allocated(after) == {"p": pytest.approx(3 / 7)}
    assert capacity_gpus(after) == pytest.approx(1.0)
    assert quota_cover(after).gpus(after.jobs["j"]) == pytest.approx(3 / 7)


def test_a_share_that_no_instance_holds_is_told_so() -> None:
    plan = decide(replace(world(instance("1g-a")), jobs={"j": wish(0.5)}), Limits())
    assert plan.refused[0].rule == "never-fits" and "50% of 1 GPU of one kind" in plan.refused[0].reason


def gang(least: int, **more: object) -> Job:
    return wish(1.0, min_gpus=least, max_gpus=least, **more)


ALL_SEVEN = tuple(instance(f"1g-{at}") for at in range(7))
FOUR = tuple(whole(f"w{at}") for at in range(4))


@pytest.mark.parametrize(
    ("there", "job", "chosen"),
    [
        (ALL_SEVEN + FOUR, gang(4), ("w0", "w1", "w2", "w3")),
        (ALL_SEVEN + FOUR, gang(1), ("w0",)),
        (ALL_SEVEN + FOUR, gang(1, gpu_models=("H100 MIG 1g.10gb",)), ("MIG-1g-0",)),
        (ALL_SEVEN + FOUR, gang(1, gpu_models=("H100", "H100 MIG 1g.10gb")), ("w0",)),
        (ALL_SEVEN + FOUR, gang(2, gpu_models=("H100 MIG 1g.10gb",)), None),
        (ALL_SEVEN, gang(1), ("MIG-1g-0",)),
        (ALL_SEVEN, gang(2), None),
        (ALL_SEVEN, wish(0.1, min_gpus=2, max_gpus=2), None),
    ],
)
def test_who_asks_for_whole_gpus_gets_devices_and_never_two_instances(
    there: tuple[Gpu, ...], job: Job, chosen: tuple[str, ...] | None
) -> None:
    plan = decide(replace(world(*there), jobs={"j": job}), Limits())
    assert [step.gpus for step in plan.steps if isinstance(step, Start)] == ([chosen] if chosen else [])
    if chosen is None:
        assert plan.refused[0].rule == "never-fits"
    if chosen is None and job.share == 1:
        assert "MIG instances are given one to a job" in plan.refused[0].reason


def test_while_the_devices_are_away_nobody_gets_an_instance_in_their_place() -> None:
    broken = tuple(replace(gpu, healthy=False) for gpu in FOUR)
    plan = decide(replace(world(*ALL_SEVEN, *broken), jobs={"j": gang(1)}), Limits())
    assert plan.steps == () and plan.refused[0].rule == "never-fits"


@pytest.mark.parametrize("there", [ALL_SEVEN, ALL_SEVEN + FOUR])
def test_an_elastic_job_on_an_instance_stays_on_one(there: tuple[Gpu, ...]) -> None:
    named = wish(1.0, min_gpus=1, max_gpus=4, gpu_models=("H100 MIG 1g.10gb",))
    plan = decide(replace(world(*there), jobs={"j": named}), Limits())
    assert [step.gpus for step in plan.steps if isinstance(step, Start)] == [("MIG-1g-0",)]


def test_the_lease_says_which_instance_and_how_much_of_a_gpu_it_is() -> None:
    asked = Submission(command=("x",), user="ann", project="p", share=0.25)
    device = Device(uuid="MIG-2g-a", memory_bytes=20 * GIB, is_instance=True, part_of_device=2 / 7)
    found = terms(asked, 1.0, (device,), (), Mps())
    assert found.sharing is Sharing.MIG and found.memory_bytes is None
    assert (
        "25% of a GPU" in found.sentences[0]
        and "MIG-2g-a" in found.sentences[0]
        and "29%" in found.sentences[0]
    )
