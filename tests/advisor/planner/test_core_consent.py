"""What owners allow: whose word holds, what a state makes of it, and what the guard does with it."""

from dataclasses import replace

import pytest

from advisor.actions import Action, Cancel, Move, Notify, Pause, ReleaseMemory, Requeue, Resize, Start
from advisor.planner.consent import Held, Kind, Origin, OwnerReply, holding, in_force, with_consent, withdrawn
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan, Rule
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Phase, Placement, Project, Telemetry
from collector.model import JobId

NOW_MS = 10 * 3_600_000
AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO))
FOREIGN = Job(
    id=JobId("pid:1"),
    project="guests",
    user="anna",
    phase=Phase.RUNNING,
    attached=False,
    started_ms=0,
    memory_held_bytes=8 << 30,
)
OURS = replace(FOREIGN, id=JobId("fallow:1"), preemptible=True, checkpointable=True, max_gpus=4)


def word(
    kind: Kind = Kind.PAUSE,
    allowed: bool | None = True,
    *,
    job: str | None = None,
    user: str = "anna",
    until_ms: int | None = None,
) -> OwnerReply:
    named = None if job is None else JobId(job)
    return OwnerReply(user=user, job=named, kind=kind, allowed=allowed, at_ms=1, until_ms=until_ms)


def world(job: Job) -> ClusterState:
    gpus = {
        f"n/{at}": Gpu(uuid=f"n/{at}", node="n", telemetry=Telemetry.GOOD, memory_bytes=40 << 30)
        for at in range(4)
    }
    return ClusterState(
        as_of_ms=NOW_MS,
        gpus=gpus,
        projects={"guests": Project(name="guests")},
        jobs={job.id: job},
        placements={job.id: Placement(gpus=("n/0", "n/1"))},
    )


def refused_by(job: Job, step: Action, *words: OwnerReply) -> Rule | None:
    state = with_consent(world(job), words)
    ruling = approve(Plan(as_of_ms=NOW_MS, steps=(step,)), state, AUTO)
    return ruling.refused[0].rule if ruling.refused else None


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ((), None),
        ((word(),), True),
        ((word(allowed=False),), False),
        ((word(), word(allowed=False)), False),
        ((word(allowed=False), word()), True),
        ((word(allowed=False), word(job="pid:1")), True),
        ((word(job="pid:1"), word(allowed=False)), True),
        ((word(allowed=False), word(job="pid:1"), word(allowed=None, job="pid:1")), False),
        ((word(), word(allowed=None)), None),
        ((word(until_ms=NOW_MS),), None),
        ((word(until_ms=NOW_MS + 1),), True),
        ((word(job="pid:2"),), None),
        ((word(user="bo"),), None),
        ((word(Kind.SHARE),), None),
    ],
    ids=range(14),
)
def test_the_last_word_on_the_job_goes_before_the_last_word_on_all(
    words: tuple[OwnerReply, ...], allowed: bool | None
) -> None:
    found = in_force(words, FOREIGN, NOW_MS).get(Kind.PAUSE)
    assert (None if found is None else found.allowed) is allowed


PAUSE, REQUEUE = Pause(job=FOREIGN.id), Requeue(job=OURS.id)


@pytest.mark.parametrize(
    ("job", "step", "words", "rule"),
    [
        (FOREIGN, PAUSE, (), Rule.NOT_PREEMPTIBLE),
        (FOREIGN, PAUSE, (word(),), None),
        (FOREIGN, PAUSE, (word(Kind.RESTART),), Rule.OPTED_OUT),
        (
            replace(FOREIGN, preemptible=True, checkpointable=True),
            PAUSE,
            (word(allowed=False),),
            Rule.OPTED_OUT,
        ),
        (replace(FOREIGN, protected=True), PAUSE, (word(),), Rule.PROTECTED),
        (replace(FOREIGN, opted_out=frozenset({ActionClass.RECLAIM})), PAUSE, (word(),), Rule.OPTED_OUT),
        (replace(FOREIGN, keep_until_ms=NOW_MS + 1), PAUSE, (word(),), Rule.KEPT),
        (OURS, Pause(job=OURS.id), (), None),
        (OURS, Pause(job=OURS.id), (word(allowed=False),), Rule.OPTED_OUT),
        (OURS, REQUEUE, (word(allowed=False),), None),
        (OURS, REQUEUE, (word(Kind.RESTART, False),), Rule.OPTED_OUT),
        (OURS, Move(job=OURS.id, gpus=("n/2", "n/3")), (word(Kind.RESTART, False),), Rule.OPTED_OUT),
        (OURS, Resize(job=OURS.id, gpus=("n/0",)), (word(Kind.RESIZE, False),), Rule.OPTED_OUT),
        (OURS, Resize(job=OURS.id, gpus=("n/0",)), (word(allowed=False),), None),
        (OURS, ReleaseMemory(job=OURS.id, frees_bytes=1), (word(Kind.RELEASE, False),), Rule.OPTED_OUT),
        (OURS, Notify(job=OURS.id, message=""), tuple(word(each, False) for each in Kind), None),
        (OURS, Cancel(job=OURS.id), tuple(word(each, False) for each in Kind), Rule.NOT_PREEMPTIBLE),
        (replace(OURS, preemptible=False), REQUEUE, (), Rule.NOT_PREEMPTIBLE),
        (replace(OURS, preemptible=False), REQUEUE, (word(Kind.RESTART),), None),
        (
            replace(OURS, preemptible=False, checkpointable=False),
            REQUEUE,
            (word(Kind.RESTART),),
            Rule.NOT_PREEMPTIBLE,
        ),
        (
            replace(OURS, preemptible=False, opted_out=frozenset(ActionClass)),
            REQUEUE,
            (word(Kind.RESTART),),
            Rule.NOT_PREEMPTIBLE,
        ),
    ],
    ids=range(21),
)
def test_the_guard_takes_the_narrowest_word(
    job: Job, step: Action, words: tuple[OwnerReply, ...], rule: Rule | None
) -> None:
    assert refused_by(job, step, *words) is rule


def test_who_says_nothing_is_as_before() -> None:
    state = world(FOREIGN)
    assert with_consent(state, [word(user="bo")]) is state


def test_sharing_is_allowed_and_withdrawn() -> None:
    assert with_consent(world(FOREIGN), [word(Kind.SHARE)]).jobs[FOREIGN.id].may_share
    shares = replace(FOREIGN, may_share=True)
    assert not with_consent(world(shares), [word(Kind.SHARE, False)]).jobs[FOREIGN.id].may_share


@pytest.mark.parametrize(
    ("step", "words", "stopped"),
    [
        (PAUSE, [word(allowed=False)], True),
        (PAUSE, [word(allowed=False, job="pid:2")], False),
        (PAUSE, [word(Kind.RESTART, False)], False),
        (PAUSE, [word()], False),
        (Cancel(job=FOREIGN.id), [word(allowed=False)], False),
        (Cancel(job=FOREIGN.id), [word(allowed=False), word(Kind.RESTART, False)], True),
        (Start(job=FOREIGN.id, gpus=("n/0",)), [word(each, False) for each in Kind], False),
        (Notify(job=FOREIGN.id, message=""), [word(each, False) for each in Kind], False),
    ],
    ids=range(8),
)
def test_a_step_that_was_planned_stops_at_a_no(step: Action, words: list[OwnerReply], stopped: bool) -> None:
    assert (withdrawn(step, "anna", words, NOW_MS) is not None) is stopped


def test_what_holds_names_whose_word_it_is() -> None:
    held = {each.kind: each for each in holding(OURS, [word(allowed=False, until_ms=NOW_MS + 5)], NOW_MS)}
    assert held[Kind.PAUSE] == Held(
        kind=Kind.PAUSE, allowed=False, origin=Origin.OWNER, at_ms=1, until_ms=NOW_MS + 5, for_all=True
    )
    assert (held[Kind.RESTART].allowed, held[Kind.RESTART].origin) == (True, Origin.SUBMISSION)
    foreign = {each.kind: each.origin for each in holding(FOREIGN, [], NOW_MS)}
    assert foreign[Kind.PAUSE] is Origin.NOBODY
    listed = replace(FOREIGN, preemptible=True, checkpointable=True)
    assert {each.kind: each.origin for each in holding(listed, [], NOW_MS)}[Kind.PAUSE] is Origin.SITE
