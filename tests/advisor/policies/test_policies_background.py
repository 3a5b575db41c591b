"""Who computes in whose idle gaps, and that it touches nothing else: no queue, no quota, no protected job."""

from dataclasses import replace

import pytest

from advisor.actions import StartBackground
from advisor.decide import decide
from advisor.planner.consent import Kind, OwnerReply, with_consent
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.plan import Abstain, Advice
from advisor.policies.background import LEAST_STEPS, advise
from advisor.state.model import ActionClass, ClusterState, IdleGaps, Job, Phase
from collector.model import GpuUuid, JobId
from tests.advisor.policies.scene import GIB, cluster, gpu, job

GAPS = IdleGaps(page="/dev/shm/page", steps=100, alone_s=1.0, gaps_s=0.4)
AUTO = Limits(modes={ActionClass.BACKGROUND: Mode.AUTO})
G0 = GpuUuid("g0")


def front(name: str = "front", gaps: IdleGaps = GAPS, at: str = "g0", **changes: object) -> Job:
    return job(name, idle_gaps={GpuUuid(at): gaps}, **changes)


def sweep(name: str = "sweep", **changes: object) -> Job:
    return replace(
        job(name, phase=Phase.PENDING, started_ms=None, memory_bytes=4 * GIB, memory_held_bytes=None),
        **changes,  # type: ignore[arg-type]
    )


def world(*waiting: Job, host: Job | None = None, **changes: object) -> ClusterState:
    made = cluster([(host or front(), ("g0",))], gpus=[gpu("g0")])
    return replace(made, background={each.id: each for each in waiting}, **changes)  # type: ignore[arg-type]


def said(state: ClusterState) -> tuple[Advice | Abstain, ...]:
    return advise(state, Observed(), AUTO, PlannerConfig())


def test_a_background_job_starts_in_the_gaps_of_its_owners_job_and_in_advise_only_says_so() -> None:
    state = world(sweep())
    (advice,) = said(state)
    step = StartBackground(job=JobId("sweep"), beside=JobId("front"), gpus=(G0,))
    assert isinstance(advice, Advice) and [replace(s, reason="") for s in advice.steps] == [step]
    assert advice.gain_gpu_hours == pytest.approx(0.4 * 0.5 * 4)
    plan = decide(state, AUTO, (advice,))
    assert approve(plan, state, AUTO).approved.steps == advice.steps
    by_default = decide(state, Limits(), (advice,))
    ruling = approve(by_default, state, Limits())
    assert not ruling.approved.steps and "mode of background is advise" in ruling.refused[0].reason


def test_it_starts_in_another_owners_gaps_once_both_share_and_leaves_no_doubt_by_whose_word() -> None:
    bobs = front(user="bob", may_share=True)
    (advice,) = said(world(sweep(may_share=True), host=bobs))
    assert isinstance(advice, Advice) and advice.risk_to == ("bob",)

    def with_words(*words: OwnerReply) -> Advice | Abstain:
        (answer,) = said(with_consent(world(sweep(), host=front(user="bob")), words))
        return answer

    yes = [OwnerReply(user=name, job=None, kind=Kind.SHARE, allowed=True, at_ms=0) for name in ("ann", "bob")]
    assert isinstance(with_words(*yes), Advice)
    for half in yes:
        assert isinstance(with_words(half), Abstain)
    no_more = OwnerReply(user="ann", job=None, kind=Kind.SHARE, allowed=False, at_ms=1)
    assert isinstance(with_words(*yes, no_more), Abstain)
    nobody_in_my_gaps = OwnerReply(user="bob", job=None, kind=Kind.BACKGROUND, allowed=False, at_ms=1)
    assert isinstance(with_words(*yes, nobody_in_my_gaps), Abstain)


@pytest.mark.parametrize(
    ("host", "waiting", "why"),
    [
        (front(user="bob"), sweep(may_share=True), "bob's, and bob has not let front share"),
        (front(user="bob", may_share=True), sweep(), "bob's, and ann has not let sweep share"),
        (front(user=None, may_share=True), sweep(may_share=True), "nobody knows whose front is"),
        (front(may_share=True), sweep(user=None, may_share=True), "nobody knows whose sweep is"),
        (front(protected=True), sweep(), "the site protects it"),
        (front(opted_out=frozenset({ActionClass.BACKGROUND})), sweep(), "wants nobody"),
        (job("front"), sweep(), "no job here announces"),
        (front(gaps=replace(GAPS, steps=LEAST_STEPS - 1)), sweep(), "not counted enough"),
        (front(gaps=replace(GAPS, gaps_s=None)), sweep(), "not counted enough"),
        (front(gaps=replace(GAPS, gaps_s=0.01)), sweep(), "1.0% of its steps"),
        (front(memory_held_bytes=75 * GIB), sweep(), "stay free"),
        (front(), sweep(memory_bytes=None), "nobody knows what memory it needs"),
        (front(), sweep(gpu_models=("NVIDIA A100",)), "another model"),
    ],
)
def test_it_waits_and_says_why(host: Job, waiting: Job, why: str) -> None:
    state = world(waiting, host=host)
    (answer,) = said(state)
    assert isinstance(answer, Abstain) and answer.job == "sweep" and why in answer.reason
    step = StartBackground(job=JobId("sweep"), beside=JobId("front"), gpus=(G0,))
    if "another model" not in why and "steps" not in why and "counted" not in why:
        ruling = approve(replace(decide(state, AUTO), steps=(step,)), state, AUTO)
        assert not ruling.approved.steps, "the guard asks again, whatever a policy says"


def test_one_at_a_time_by_priority_and_nobody_elsewhere_hears_of_it() -> None:
    state = world(sweep("late"), sweep("urgent", priority=1))
    first, second = said(state)
    assert isinstance(first, Advice) and first.job == "urgent"
    assert isinstance(second, Abstain) and "another job is in the idle gaps" in second.reason
    both = replace(first, steps=(*first.steps, replace(first.steps[0], job=JobId("late"))))  # type: ignore[type-var]
    ruling = approve(replace(decide(state, AUTO), steps=both.steps), state, AUTO)
    assert [step.job for step in ruling.approved.steps] == ["urgent"]
    free = cluster([], gpus=[gpu("g0")], quota=1)
    waits = replace(free, background={JobId("sweep"): sweep()})
    assert not decide(waits, AUTO, said(waits)).steps, "a free GPU is no idle gap"


@pytest.mark.parametrize(
    ("used_gib", "starts"), [(None, True), (60, True), (74, True), (75, False), (80, False)]
)
def test_it_starts_only_where_what_is_free_now_is_enough_for_it(used_gib: int | None, starts: bool) -> None:
    """4 GiB and 2 to spare of 80: what the foreground said that it needs may be less than what it holds."""
    used = None if used_gib is None else used_gib * GIB
    state = world(sweep())
    (answer,) = said(replace(state, gpus={G0: gpu("g0", memory_used_bytes=used)}))
    assert isinstance(answer, Advice) is starts
    assert isinstance(answer, Advice) or answer.reason.startswith(f"it needs 4 GiB, and of 80 GiB {used_gib}")
