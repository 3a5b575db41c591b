"""Who takes part in a training, decided as a pure function of what is known: ``decide(view, now)``.

The controller gathers a ``View``, asks, and carries the actions out; it holds no rule of its own. That makes
every race a row in a table of tests. No store, no processes, no clock in this file.

The life of a change:

    resize asked ─► Start ─► all ready ─► Publish(plan) ─► all connected ─► Commit ─► all switched ─► Adopt
                                              │ one fails or is late
                                              └► Cancel, try again with a new number
    a member dies ─► survivors report ─► Publish(recover plan: survivors, the furthest is the source) ─► …
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fallow.protocol import MemberId, Plan


class Phase(StrEnum):
    """Where a worker stands. STARTING ─► READY ─► MEMBER ─► LEAVING; founders go from STARTING to MEMBER."""

    STARTING = "starting"
    READY = "ready"
    MEMBER = "member"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker process as the controller sees it."""

    phase: Phase
    since_ms: int
    founder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A plan that was published and is not yet adopted; ``lost`` as in ``View``, but for its own group."""

    plan: Plan
    published_ms: int
    connected: frozenset[MemberId] = frozenset()
    refused: Mapping[MemberId, str] = field(default_factory=dict)
    committed: bool = False
    switched: frozenset[MemberId] = frozenset()
    lost: Mapping[MemberId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that is known at one instant. ``workers`` holds living processes only.

    ``generation`` is 0 before the first group. ``lost`` maps members that saw it break to the step they
    would do next, and gathers until a plan is adopted. ``failed_starts`` counts the workers in a row that
    ended before they were ready. ``finished`` says that some member has reached the end of the training.
    """

    target: int
    generation: int = 0
    members: tuple[MemberId, ...] = ()
    workers: Mapping[MemberId, Worker] = field(default_factory=dict)
    pending: Pending | None = None
    lost: Mapping[MemberId, int] = field(default_factory=dict)
    broken_since_ms: int | None = None
    next_number: int = 1
    failed_starts: int = 0
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long each stage may take before it is given up, in milliseconds, and how often a start may fail."""

    start_ms: int = 120_000
    connect_ms: int = 10_000
    switch_ms: int = 60_000
    report_ms: int = 30_000
    failed_starts: int = 3


@dataclass(frozen=True, slots=True)
class Start:
    """Start ``count`` workers; founders when there is no generation to join."""

    count: int
    founder: bool


@dataclass(frozen=True, slots=True)
class Publish:
    """Make the plan known to everybody in it."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Commit:
    """Everybody is connected: the members may switch at their next step boundary."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Cancel:
    """The plan is dropped; members of the generation it departs from lose nothing."""

    plan: Plan
    reason: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """Everybody has switched: the plan is the generation now."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Kill:
    """This worker doesn't answer; it must not be allowed to wake up later."""

    member: MemberId
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The training cannot go on."""

    reason: str


Action = Start | Publish | Commit | Cancel | Adopt | Kill | GiveUp


def decide(view: View, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    """What to do next; empty while there is nothing to do but wait."""
    if view.finished:
        return ()
    slow = _overdue_starters(view, now_ms, limits)
    if slow:
        return slow
    if _is_broken(view):
        return _recover(view, now_ms, limits)
    if view.pending is not None:
        return _advance(view, view.pending, now_ms, limits)
    if view.generation == 0:
        return _found(view, limits)
    return _resize(view, limits)


def losses(view: View) -> Mapping[MemberId, int]:
    """Who saw the generation or its successor break, and the step each would do next."""
    return {**view.lost, **(view.pending.lost if view.pending is not None else {})}


def _is_broken(view: View) -> bool:
    pending, involved = view.pending, set(view.members)
    if pending is not None and (pending.plan.recover or _is_founding(pending)):
        involved = set(pending.plan.members)
    return bool(losses(view)) or any(member not in view.workers for member in involved)


def _is_founding(pending: Pending) -> bool:
    """Whether the first group is being joined: its members hold no generation to fall back to."""
    return pending.plan.base == 0 and not pending.plan.recover and pending.committed


def _overdue_starters(view: View, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    return tuple(
        Kill(member, f"not ready after {limits.start_ms / 1000:g} s")
        for member, worker in view.workers.items()
        if worker.phase is Phase.STARTING and now_ms - worker.since_ms > limits.start_ms
    )


def _recover(view: View, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    pending = view.pending
    if pending is not None and pending.plan.recover and _is_whole(view, pending):
        return _advance(view, pending, now_ms, limits)
    survivors = _survivors(view)
    if not survivors:
        return (GiveUp("no worker that holds the training state is left alive"),)
    step_of = losses(view)
    silent = [member for member in survivors if member not in step_of]
    if silent:
        waited = now_ms - (view.broken_since_ms if view.broken_since_ms is not None else now_ms)
        if waited <= limits.report_ms:
            return ()
        return tuple(Kill(member, "did not notice that its group broke") for member in silent)
    drop = (Cancel(pending.plan, "a member was lost"),) if pending and not pending.committed else ()
    return (*drop, Publish(_recovery_plan(view, survivors)))


def _is_whole(view: View, pending: Pending) -> bool:
    return _alive(view, pending.plan.members) and not pending.lost


def _survivors(view: View) -> tuple[MemberId, ...]:
    """Living members that hold the training state, in rank order; a joiner counts once it has switched."""
    known = list(view.members)
    if view.pending is not None:
        plan, switched = view.pending.plan, view.pending.switched
        known += [member for member in plan.members if plan.base == 0 or member in switched]
    leaving = {m for m, w in view.workers.items() if w.phase is Phase.LEAVING}
    return tuple(m for m in dict.fromkeys(known) if m in view.workers and m not in leaving)


def _recovery_plan(view: View, survivors: tuple[MemberId, ...]) -> Plan:
    step_of = losses(view)
    furthest = max(step_of[member] for member in survivors)
    behind = tuple(member for member in survivors if step_of[member] < furthest)
    return Plan(
        number=view.next_number,
        base=view.generation,
        members=survivors,
        receivers=behind if view.generation else survivors[1:],
        recover=True,
    )


def _advance(view: View, pending: Pending, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    plan = pending.plan
    waited = now_ms - pending.published_ms
    if pending.committed:
        if _switched(view, pending):
            return (Adopt(plan),)
        late = [m for m in plan.members if m not in pending.switched]
        if waited > limits.switch_ms + limits.connect_ms:
            return tuple(Kill(member, "did not switch to the new group") for member in late)
        return ()
    if not _alive(view, plan.members):
        return (Cancel(plan, "a member of the new group died"),)
    if pending.refused:
        member, reason = next(iter(pending.refused.items()))
        return (Cancel(plan, f"{member} could not connect: {reason}"), Kill(member, "could not connect"))
    if pending.connected >= set(plan.members):
        return (Commit(plan),)
    if waited > limits.connect_ms:
        return _cancel_late(view, pending)
    return ()


def _cancel_late(view: View, pending: Pending) -> tuple[Action, ...]:
    late = [m for m in pending.plan.members if m not in pending.connected]
    joiners = [m for m in late if m not in view.members]
    kills = tuple(Kill(member, "did not connect in time") for member in joiners or late[:1])
    return (Cancel(pending.plan, f"{', '.join(late)} did not connect in time"), *kills)


def _switched(view: View, pending: Pending) -> bool:
    return all(member in pending.switched for member in pending.plan.members)


def _alive(view: View, members: tuple[MemberId, ...]) -> bool:
    return all(member in view.workers for member in members)


def _found(view: View, limits: Limits) -> tuple[Action, ...]:
    if view.failed_starts >= limits.failed_starts:
        return (GiveUp(f"{view.failed_starts} workers in a row ended before they were ready to train"),)
    founders = tuple(member for member, worker in view.workers.items() if worker.founder)
    ready = tuple(member for member in founders if view.workers[member].phase is Phase.READY)
    if len(founders) < view.target:
        return (Start(view.target - len(founders), True),)
    if len(ready) < len(founders):
        return ()
    return (Publish(Plan(number=view.next_number, base=0, members=ready, receivers=ready[1:])),)


def _resize(view: View, limits: Limits) -> tuple[Action, ...]:
    if len(view.members) > view.target:
        return (_next_plan(view, view.members[: view.target], ()),)
    missing = view.target - len(view.members)
    if missing == 0:
        return ()
    ready = tuple(m for m, w in view.workers.items() if w.phase is Phase.READY)
    starting = sum(w.phase is Phase.STARTING for w in view.workers.values())
    if len(ready) >= missing:
        joiners = ready[:missing]
        return (_next_plan(view, view.members + joiners, joiners),)
    short = missing - len(ready) - starting
    hopeless = view.failed_starts >= limits.failed_starts
    return (Start(short, False),) if short > 0 and not hopeless else ()


def _next_plan(view: View, members: tuple[MemberId, ...], joiners: tuple[MemberId, ...]) -> Publish:
    return Publish(Plan(number=view.next_number, base=view.generation, members=members, receivers=joiners))
