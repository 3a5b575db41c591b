"""Whom no policy ever touches, each rule against each policy; and that without the rule they would be."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.plan import Abstain, Advice
from advisor.policies import consolidate, idle_reclaim, memory_cap, pack, right_size
from advisor.state.model import ActionClass, ClusterState, Job, Phase, Telemetry, Use
from collector.model import GpuUuid, JobKind
from tests.advisor.policies.scene import (
    GIB,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    advised,
    cluster,
    gpu,
    hog,
    idle_job,
    job,
    observed,
    touched,
    use,
)

Answers = tuple[Advice | Abstain, ...]
RULES, LIMITS = PlannerConfig(), Limits()


def reclaimed(change: Callable[[Job], Job], state: Callable[[ClusterState], ClusterState]) -> Answers:
    """An idle job on g0, long past every clock of reversible rungs."""
    victim = change(idle_job("victim", minutes=200))
    return idle_reclaim.advise(state(cluster([(victim, ("g0",))])), observed(), LIMITS, RULES)


def capped(change: Callable[[Job], Job], state: Callable[[ClusterState], ClusterState]) -> Answers:
    """A job on g0 whose own library says that it holds 60 GiB too much."""
    victim = change(job("victim", memory_held_bytes=70 * GIB))
    seen = observed(use("victim", memory_needed_bytes=8 * GIB), analysis=hog("victim"))
    return memory_cap.advise(state(cluster([(victim, ("g0",))])), seen, LIMITS, RULES)


def packed(change: Callable[[Job], Job], state: Callable[[ClusterState], ClusterState]) -> Answers:
    """Two light jobs of one user on g0 and g1."""
    victim, other = change(job("victim")), job("other")
    made = cluster([(victim, ("g0",)), (other, ("g1",))])
    return pack.advise(state(made), observed(use("victim"), use("other")), LIMITS, RULES)


def moved(change: Callable[[Job], Job], state: Callable[[ClusterState], ClusterState]) -> Answers:
    """Two halves, on g0 and g1, and a gang that waits for one whole GPU."""
    victim = change(job("victim", share=0.5, may_share=True))
    other = change(job("other", share=0.5, may_share=True))
    gang = job("gang", phase=Phase.PENDING, started_ms=None, use=Use.UNKNOWN)
    made = cluster([(victim, ("g0",)), (other, ("g1",))], gpus=(gpu("g0"), gpu("g1")), waiting=[gang])
    return consolidate.advise(state(made), observed(), LIMITS, RULES)


POLICIES = {"reclaim": reclaimed, "cap-memory": capped, "pack": packed, "consolidate": moved}


def same(value: Any) -> Any:
    return value


def with_telemetry(verdict: Telemetry) -> Callable[[ClusterState], ClusterState]:
    def change(state: ClusterState) -> ClusterState:
        gpus = {uuid: replace(each, telemetry=verdict) for uuid, each in state.gpus.items()}
        return replace(state, gpus=gpus)

    return change


def with_quota(state: ClusterState) -> ClusterState:
    projects = {name: replace(each, quota_gpus=8.0) for name, each in state.projects.items()}
    return replace(state, projects=projects)


def with_protected_gpus(state: ClusterState) -> ClusterState:
    return replace(state, gpus={uuid: replace(each, protected=True) for uuid, each in state.gpus.items()})


NEVER: dict[str, tuple[Callable[[Job], Job], Callable[[ClusterState], ClusterState]]] = {
    "in quota": (same, with_quota),
    "not preemptible": (lambda j: replace(j, preemptible=False), same),
    "inference": (lambda j: replace(j, kind=JobKind.INFERENCE), same),
    "opted out": (lambda j: replace(j, opted_out=frozenset(ActionClass)), same),
    "kept by its owner": (lambda j: replace(j, keep_until_ms=NOW_MS + HOUR_MS), same),
    "in its minimal run time": (lambda j: replace(j, started_ms=NOW_MS - 5 * MINUTE_MS), same),
    "starting up": (lambda j: replace(j, use=Use.STARTING, idle_since_ms=None), same),
    "disturbed lately": (lambda j: replace(j, acted_ms=NOW_MS - 10 * MINUTE_MS), same),
    "suspect telemetry": (same, with_telemetry(Telemetry.SUSPECT)),
    "unknown telemetry": (same, with_telemetry(Telemetry.UNKNOWN)),
    "unknown use": (lambda j: replace(j, use=Use.UNKNOWN, idle_since_ms=None), same),
    "protected by the site": (lambda j: replace(j, protected=True), same),
    "on a protected GPU": (same, with_protected_gpus),
    "attached": (lambda j: replace(j, kind=JobKind.INTERACTIVE, attached=True), same),
    "perhaps attached": (lambda j: replace(j, kind=JobKind.INTERACTIVE, attached=None), same),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_rule_against_it_the_job_would_be_touched(policy: str) -> None:
    assert touched(POLICIES[policy](same, same)), "a rule is only proven where something would happen without"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rule", NEVER)
def test_protected_job_is_never_touched(rule: str, policy: str) -> None:
    answers = POLICIES[policy](*NEVER[rule])
    assert not touched(answers), answers


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rule", [name for name in NEVER if name != "in quota"])
def test_every_refusal_says_why(rule: str, policy: str) -> None:
    for answer in POLICIES[policy](*NEVER[rule]):
        if isinstance(answer, Abstain):
            assert answer.reason and not answer.reason.endswith(".")


@pytest.mark.parametrize("policy", [idle_reclaim, memory_cap, pack, right_size])
def test_class_that_is_switched_off_says_nothing_but_that(policy: Any) -> None:
    off = Limits(modes=dict.fromkeys(ActionClass, Mode.OFF))
    state = cluster([(idle_job("idle"), ("g0",)), (job("busy", memory_held_bytes=70 * GIB), ("g1",))])
    seen = observed(use("busy", memory_needed_bytes=GIB), use("idle"), analysis=hog("busy", "g1"))
    answers = policy.advise(state, seen, off, RULES)
    assert answers and not advised(answers)
    assert all("switched off" in answer.reason for answer in answers if isinstance(answer, Abstain))


@given(
    preemptible=st.booleans(),
    kind=st.sampled_from(JobKind),
    attached=st.sampled_from([True, False, None]),
    telemetry=st.sampled_from(Telemetry),
    state_of_use=st.sampled_from(Use),
    quota=st.sampled_from([0.0, 1.0, 8.0]),
    opted_out=st.frozensets(st.sampled_from(ActionClass)),
    minutes_run=st.sampled_from([1, 20, 45, 600]),
    told=st.booleans(),
)
def test_no_mixture_of_circumstances_gets_a_protected_job_touched(
    *,
    preemptible: bool,
    kind: JobKind,
    attached: bool | None,
    telemetry: Telemetry,
    state_of_use: Use,
    quota: float,
    opted_out: frozenset[ActionClass],
    minutes_run: int,
    told: bool,
) -> None:
    started_ms = NOW_MS - minutes_run * MINUTE_MS
    idle = state_of_use is Use.IDLE
    victim = job(
        "victim",
        preemptible=preemptible,
        kind=kind,
        attached=attached,
        use=state_of_use,
        opted_out=opted_out,
        started_ms=started_ms,
        notified_ms=NOW_MS - HOUR_MS if told else None,
        idle_since_ms=max(started_ms, NOW_MS - 7 * HOUR_MS) if idle else None,
        memory_held_bytes=70 * GIB,
    )
    state = cluster([(victim, ("g0",)), (job("other"), ("g1",))], quota=quota)
    state = replace(
        state, gpus={**state.gpus, GpuUuid("g0"): replace(state.gpus[GpuUuid("g0")], telemetry=telemetry)}
    )
    seen: Observed = observed(
        use("victim", memory_needed_bytes=8 * GIB), use("other"), analysis=hog("victim")
    )
    protected = (
        not preemptible
        or kind is JobKind.INFERENCE
        or attached is True
        or (kind is JobKind.INTERACTIVE and attached is None)
        or telemetry is not Telemetry.GOOD
        or state_of_use in (Use.STARTING, Use.UNKNOWN)
        or minutes_run < 30
        or quota == 8.0
    )
    for policy, action in (
        (idle_reclaim, ActionClass.RECLAIM),
        (memory_cap, ActionClass.CAP_MEMORY),
        (pack, ActionClass.PACK),
    ):
        answers = policy.advise(state, seen, LIMITS, RULES)
        if protected or action in opted_out:
            assert "victim" not in touched(answers), answers
