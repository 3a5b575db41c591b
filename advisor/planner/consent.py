"""What owners allow with their own jobs, and what of it holds: the narrower of the words there are. Pure.

Three may speak about a job: the site (``[consent]`` of its configuration, the modes, ``[protect]``), whoever
submitted it (the flags of ``fallow run``), and its owner at any later time (``fallow consent``). A *no* of
anybody holds, whoever says yes beside it. Where the owner says nothing, the others' word stands; where they
say nothing, the owner's yes is enough, because it is the owner's job.

An owner's words are about one job or about all of the owner's; the one about the job goes before, and of two
about the same the later. A word whose time is over says nothing. Nobody consents to being ended: that is the
administrator's switch, and it asks for consent to be stopped at all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from advisor.actions import Action, Cancel, Move, Pause, ReleaseMemory, Requeue, Resize
from advisor.state.model import ActionClass, ClusterState, Job, ProjectName, is_submitted
from collector.model import JobId


class Kind(StrEnum):
    """What can be done to a running job, as its owner thinks of it.

    PAUSE: off its GPUs and back, nothing lost. RESTART: stopped after saving, going on later or elsewhere.
    RESIZE: more or fewer GPUs while it runs. RELEASE: its library gives cached memory back. SHARE: others
    beside it on one GPU. BACKGROUND: background jobs in its idle gaps.
    """

    PAUSE = "pause"
    RESTART = "restart"
    RESIZE = "resize"
    RELEASE = "release"
    SHARE = "share"
    BACKGROUND = ActionClass.BACKGROUND.value


class Origin(StrEnum):
    """Whose word holds. NOBODY spoke: then nothing is done."""

    OWNER = "owner"
    SUBMISSION = "submission"
    SITE = "site"
    NOBODY = "nobody"


VERBS: Mapping[Kind, tuple[str, ...]] = {
    Kind.PAUSE: ("pause",),
    Kind.RESTART: ("requeue", "move"),
    Kind.RESIZE: ("resize",),
    Kind.RELEASE: ("release-memory",),
    Kind.SHARE: (),
    Kind.BACKGROUND: (),
}
"""The steps of each kind, by verb as ``Job.withheld`` names them."""

REFUSED: Mapping[Kind, ActionClass] = {
    Kind.RESIZE: ActionClass.RESIZE,
    Kind.BACKGROUND: ActionClass.BACKGROUND,
}
"""Classes of action that a *no* to a kind refuses."""

STOPPING = (Kind.PAUSE, Kind.RESTART)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReply:
    """What ``user`` said at ``at_ms``; ``job`` ``None``: of all jobs of that user.

    ``allowed`` ``None`` takes back what was said before, ``until_ms`` ``None`` holds until something else is
    said.
    """

    user: str
    job: JobId | None
    kind: Kind
    allowed: bool | None
    at_ms: int
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What holds of one job: whether ``kind`` may be done, by whose word, said when and until when."""

    kind: Kind
    allowed: bool
    origin: Origin
    at_ms: int | None = None
    until_ms: int | None = None
    for_all: bool = False


def kind_of(step: Action) -> Kind | None:
    """What a step asks consent for; ``None`` for one about which no owner is asked."""
    match step:
        case Pause():
            return Kind.PAUSE
        case Requeue() | Move():
            return Kind.RESTART
        case Resize():
            return Kind.RESIZE
        case ReleaseMemory():
            return Kind.RELEASE
        case _:
            return None


def words_of(rows: Iterable[Mapping[str, object]]) -> tuple[OwnerReply, ...]:
    """The rows of the query ``consents``."""
    return tuple(_reply(row) for row in rows)


def in_force(words: Iterable[OwnerReply], job: Job, now_ms: int) -> dict[Kind, OwnerReply]:
    """The word of the job's owner that holds for each kind; ``words`` stand in the order of their saying.

    When each was said is not asked: a clock that was set back must not silence a no.
    """
    general: dict[Kind, OwnerReply] = {}
    special: dict[Kind, OwnerReply] = {}
    for reply in words:
        if reply.user != job.user or reply.job not in (None, job.id):
            continue
        if reply.until_ms is None or reply.until_ms > now_ms:
            (general if reply.job is None else special)[reply.kind] = reply
    return {
        each.kind: each
        for result in (general, special)
        for each in result.values()
        if each.allowed is not None
    }


def with_consent(state: ClusterState, words: Sequence[OwnerReply]) -> ClusterState:
    """The state with what owners said of their jobs; a job whose owner said nothing is as it was."""
    by_user: defaultdict[str, list[OwnerReply]] = defaultdict(list)
    for reply in words:
        by_user[reply.user].append(reply)
    jobs, background = [
        {
            id: (job, replies)
            for id, job in each.items()
            if job.user is not None
            and job.user in by_user
            and (replies := in_force(by_user[job.user], job, state.as_of_ms))
        }
        for each in (state.jobs, state.background)
    ]
    if not jobs and not background:
        return state
    changed = {id: _with_replies(*each) for id, each in jobs.items()}
    # A background job is asked for one thing alone: to share a GPU. It leaves whatever its owner says.
    sharing = {
        id: replace(job, may_share=_allowed(Kind.SHARE, job, replies.get(Kind.SHARE)))
        for id, (job, replies) in background.items()
    }
    return replace(state, jobs={**state.jobs, **changed}, background={**state.background, **sharing})


def holding(job: Job, words: Sequence[OwnerReply], now_ms: int) -> tuple[Held, ...]:
    """What holds of a job, kind by kind; ``job`` as it is without its owner's later words."""
    replies = in_force(words, job, now_ms)
    return tuple(_holding(kind, job, replies.get(kind)) for kind in Kind)


def withdrawn(step: Action, user: str | None, words: Sequence[OwnerReply], now_ms: int) -> str | None:
    """Why a step must not be done although it was planned: its job's owner has said no since.

    Ending a job asks for consent to be stopped at all.
    """
    replies = in_force(words, Job(id=step.job, project=ProjectName(""), user=user), now_ms)
    kind = kind_of(step)
    kinds = STOPPING if isinstance(step, Cancel) else () if kind is None else (kind,)
    if kinds and all(each in replies and replies[each].allowed is False for each in kinds):
        return refusal(kinds[0], user)
    return None


def refusal(kind: Kind, user: str | None) -> str:
    """The sentence for whoever is kept from doing it."""
    return f"its owner{f' {user}' if user else ''} does not allow it ({kind.value})"


def _with_replies(job: Job, replies: Mapping[Kind, OwnerReply]) -> Job:
    """The job as its owner wants it: what is withheld is named, and what is allowed counts as consent."""
    allowed = {kind: _allowed(kind, job, replies.get(kind)) for kind in Kind}
    no = {kind for kind, reply in replies.items() if reply.allowed is False}
    no |= {kind for kind in STOPPING if not allowed[kind] and any(allowed[each] for each in STOPPING)}
    withheld = {verb: refusal(kind, job.user) for kind in Kind if kind in no for verb in VERBS[kind]}
    outside = not is_submitted(job.id) and allowed[Kind.PAUSE]
    return replace(
        job,
        preemptible=any(allowed[kind] for kind in STOPPING),
        checkpointable=job.checkpointable or outside,
        may_share=allowed[Kind.SHARE],
        opted_out=job.opted_out | {REFUSED[kind] for kind in no if kind in REFUSED},
        withheld={**job.withheld, **withheld},
    )


def _allowed(kind: Kind, job: Job, reply: OwnerReply | None) -> bool:
    """Whether it may be done, by the owner's word or, without one, by the site's and the submission's.

    A job that Fallow launched and that can neither save itself nor be resized cannot be stopped by consent.
    """
    if reply is None or reply.allowed is None:
        return _before(kind, job)
    if kind in STOPPING and (frozenset(ActionClass) <= job.opted_out or _is_rigid(job)):
        return False
    return reply.allowed


def _is_rigid(job: Job) -> bool:
    return is_submitted(job.id) and not job.checkpointable


def _before(kind: Kind, job: Job) -> bool:
    if job.manager is not None and kind in STOPPING:
        return kind is Kind.PAUSE and job.preemptible and job.checkpointable
    match kind:
        case Kind.PAUSE | Kind.RESTART:
            return job.preemptible and (is_submitted(job.id) or kind is not Kind.PAUSE or job.checkpointable)
        case Kind.RESIZE:
            return job.elastic and ActionClass.RESIZE not in job.opted_out
        case Kind.RELEASE:
            return "release-memory" not in job.cannot
        case Kind.SHARE:
            return job.may_share or job.share < 1
        case Kind.BACKGROUND:
            return bool(job.idle_gaps) and ActionClass.BACKGROUND not in job.opted_out


def _holding(kind: Kind, job: Job, reply: OwnerReply | None) -> Held:
    allowed = _allowed(kind, job, reply)
    if reply is not None:
        return Held(
            kind=kind,
            allowed=allowed,
            origin=Origin.OWNER,
            at_ms=reply.at_ms,
            until_ms=reply.until_ms,
            for_all=reply.job is None,
        )
    if is_submitted(job.id) or kind.value in job.allowed_in_job:
        return Held(kind=kind, allowed=allowed, origin=Origin.SUBMISSION)
    return Held(kind=kind, allowed=allowed, origin=Origin.SITE if allowed else Origin.NOBODY)


def _reply(row: Mapping[str, object]) -> OwnerReply:
    job, until_ms, allowed = row["job"], row["until_ms"], row["allowed"]
    return OwnerReply(
        user=str(row["user_name"]),
        job=None if job is None else JobId(str(job)),
        kind=Kind(str(row["kind"])),
        allowed=None if allowed is None else bool(allowed),
        at_ms=int(str(row["at_ms"])),
        until_ms=None if until_ms is None else int(str(until_ms)),
    )
