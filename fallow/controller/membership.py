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

from fallow.controller.actions import Action, Adopt, Cancel, Commit, GiveUp, Kill, Publish, Settle, Start
from fallow.protocol import MemberId, Plan


class Phase(StrEnum):
    """Where a worker stands. STARTING ─► READY ─► MEMBER ─► LEAVING; founders go from STARTING to MEMBER."""

    STARTING = "starting"
    READY = "ready"
    MEMBER = "member"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker process as the controller sees it.

    ``heard_ms`` is when its pulse last changed; ``None`` before the first, when none is due.
    """

    phase: Phase
    since_ms: int
    founder: bool = False
    heard_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A plan that was published and is not yet adopted; ``lost`` as in ``View``, but for its own group.

    ``switching_ms`` is when the first member was seen to have switched: until then all may be in a long step.
    """

    plan: Plan
    published_ms: int
    connected: frozenset[MemberId] = frozenset()
    refused: Mapping[MemberId, str] = field(default_factory=dict)
    committed: bool = False
    switched: frozenset[MemberId] = frozenset()
    lost: Mapping[MemberId, int] = field(default_factory=dict)
    switching_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that is known at one instant. ``workers`` holds living processes only.

    ``generation`` is 0 before the first group. ``lost`` maps members that saw it break to the step they
    would do next, and gathers until a plan is adopted. ``spare`` workers are kept warm beside the members;
    ``room`` is how many more can be placed (``None``: any number). ``failures`` counts, without a steady
    stretch between them, workers that failed and changes that came to nothing. ``stalled`` counts
    recoveries in a row at one step, ``stalled_at``. ``unwanted`` are workers to let go whatever their rank,
    ``condemned`` those that are being killed. ``settled`` says why the wanted size was given up, ``unhanded``
    why it has to be: the state could not be handed to who was to join.
    ``finished`` says that some member has reached the end; such members are in ``members`` no more. ``over``
    says why nobody is to be started any more: it would end as the last one did.
    ``stopping`` asks all to leave; ``unsaved`` says how whoever was to save them ended before it had.
    """

    target: int
    generation: int = 0
    members: tuple[MemberId, ...] = ()
    workers: Mapping[MemberId, Worker] = field(default_factory=dict)
    pending: Pending | None = None
    lost: Mapping[MemberId, int] = field(default_factory=dict)
    broken_since_ms: int | None = None
    next_number: int = 1
    spare: int = 0
    room: int | None = None
    failures: int = 0
    failed_ms: int = 0
    last_failure: str | None = None
    adopted_ms: int = 0
    stalled: int = 0
    stalled_at: int | None = None
    unwanted: frozenset[MemberId] = frozenset()
    condemned: frozenset[MemberId] = frozenset()
    settled: str | None = None
    unhanded: str | None = None
    finished: bool = False
    over: str | None = None
    stopping: bool = False
    unsaved: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long each stage may take before it is given up, in milliseconds, and how often things may fail.

    ``start_ms`` is for joiners, and only for those of whom nothing is heard: who tokenizes for an hour isn't
    stuck, and a script that isn't elastic never says anything.
    ``connect_ms`` is more than workers take to give up NCCL by themselves (``group.NCCL_TIMEOUT``) and say
    why; gloo they give up within 10 s.
    ``switch_ms`` counts from the first member's switch, and covers handing the state over. ``report_ms`` is
    for a member that is alive and doesn't come to the end of its step, ``silence_ms`` for a process that
    doesn't even pulse: stopped, or out of reach; ``idle_silence_ms`` for one that is ready and only waits.
    Joiners that are ready wait ``gather_ms`` for slower ones,
    so that one pause takes all in. A generation of the wanted size that lived for ``steady_ms`` clears
    failures.
    """

    start_ms: int = 600_000
    connect_ms: int = 75_000
    switch_ms: int = 600_000
    report_ms: int = 1_200_000
    silence_ms: int = 30_000
    idle_silence_ms: int = 5_000
    leave_ms: int = 60_000
    gather_ms: int = 2_000
    steady_ms: int = 10_000
    failures: int = 5
    stalled: int = 10


def decide(view: View, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    """What to do next; empty while there is nothing to do but wait."""
    stuck = _stuck(view, now_ms, limits)
    if stuck:
        return stuck
    if is_broken(view):
        return _recover(view, now_ms, limits)
    if view.finished:
        return ()
    if view.pending is not None:
        return _advance(view, view.pending, now_ms, limits)
    if view.generation == 0:
        return _first_group(view, limits)
    if view.stopping:
        return (_next_plan(view, (), ()),) if view.members else ()
    return _resize(view, now_ms, limits)


def losses(view: View) -> Mapping[MemberId, int]:
    """Who saw the generation or its successor break, and the step each would do next."""
    return {**view.lost, **(view.pending.lost if view.pending is not None else {})}


def holders(view: View) -> tuple[MemberId, ...]:
    """Living workers that hold the training state, in rank order; a joiner counts once it has switched."""
    candidates = list(view.members)
    if view.pending is not None:
        plan, switched = view.pending.plan, view.pending.switched
        candidates += [member for member in plan.members if plan.base == 0 or member in switched]
    leaving = {m for m, w in view.workers.items() if w.phase is Phase.LEAVING} | left(view)
    return tuple(m for m in dict.fromkeys(candidates) if m in view.workers and m not in leaving)


def is_broken(view: View) -> bool:
    """Whether the members must regroup before another step can be done.

    Whoever a committed plan lets go may end as it likes: if that broke a step, the others report it.
    """
    pending, involved = view.pending, set(view.members) - leavers(view)
    if pending is not None and (pending.plan.recover or _is_founding(pending)):
        involved = set(pending.plan.members)
    is_lost = bool(losses(view).keys() & view.workers.keys()) or _is_left_unsaved(view)
    return is_lost or not involved <= view.workers.keys()


def leavers(view: View) -> set[MemberId]:
    """Members that a committed plan lets go."""
    pending = view.pending
    if pending is None or not pending.committed or pending.plan.recover:
        return set()
    return set(view.members) - set(pending.plan.members)


def saver(view: View) -> MemberId | None:
    """Who saves the training while a committed plan lets all go, until it has; ``None`` at other times."""
    pending = view.pending
    if pending is None or pending.plan.members or pending.plan.recover or not pending.committed:
        return None
    first = view.members[0] if view.members else None
    return None if first in pending.switched else first


def _is_left_unsaved(view: View) -> bool:
    """Whether the one that was to save is gone before it had, and others that hold the state are there."""
    first = saver(view)
    others = set(view.members) & view.workers.keys() - left(view)
    return first is not None and first not in view.workers and bool(others)


def is_whole(view: View, pending: Pending) -> bool:
    """Whether all members of a pending plan live, and none saw its group break."""
    return _alive(view, pending.plan.members) and not pending.lost


def left(view: View) -> set[MemberId]:
    """Members that a committed plan lets go and that have gone: they hold the state no more."""
    return leavers(view) & (view.pending.switched if view.pending is not None else frozenset())


def _is_founding(pending: Pending) -> bool:
    """Whether the first group is being joined: its members hold no generation to fall back to."""
    return pending.plan.base == 0 and not pending.plan.recover and pending.committed


def _stuck(view: View, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    """Whom to end because nothing is heard of them; never the last ones that hold the training state."""
    late = {
        member: f"still {worker.phase} after {(now_ms - worker.since_ms) / 1000:.0f} s"
        for member, worker in view.workers.items()
        if now_ms - worker.since_ms > _allowed_ms(worker, limits)
    }
    silent = {
        member: f"silent for {(now_ms - worker.heard_ms) / 1000:.0f} s: stopped, or out of reach"
        for member, worker in view.workers.items()
        if worker.heard_ms is not None and now_ms - worker.heard_ms > _silence_ms(worker, limits)
    }
    holding = set(holders(view))
    if holding and holding <= silent.keys() and not view.finished:
        silent = {member: reason for member, reason in silent.items() if member not in holding}
    doomed = {member: reason for member, reason in {**late, **silent}.items() if member not in view.condemned}
    return tuple(Kill(member, reason) for member, reason in doomed.items())


def _allowed_ms(worker: Worker, limits: Limits) -> float:
    """How long a worker may be what it is."""
    if worker.phase is Phase.LEAVING:
        return limits.leave_ms
    waited_for = worker.phase is Phase.STARTING and not worker.founder and worker.heard_ms is None
    return limits.start_ms if waited_for else float("inf")


def _silence_ms(worker: Worker, limits: Limits) -> int:
    waits = worker.phase is Phase.READY and not worker.founder
    return min(limits.silence_ms, limits.idle_silence_ms) if waits else limits.silence_ms


def _recover(view: View, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    pending = view.pending
    if pending is not None and pending.plan.recover and is_whole(view, pending):
        return _advance(view, pending, now_ms, limits)
    survivors = holders(view)
    if not survivors:
        return (GiveUp(_reason("no worker that holds the training state is left alive", view)),)
    if view.stalled >= limits.stalled:
        return (GiveUp(_reason(f"step {view.stalled_at} broke {view.stalled} times in a row", view)),)
    step_of = _steps(view)
    unaware = [member for member in survivors if member not in step_of]
    if unaware:
        waited = now_ms - (view.broken_since_ms if view.broken_since_ms is not None else now_ms)
        if waited <= limits.report_ms:
            return ()
        return tuple(Kill(member, "did not notice that its group broke") for member in unaware)
    drop = (Cancel(pending.plan, "a member was lost"),) if pending and not pending.committed else ()
    plan = _recovery_plan(view, survivors)
    if plan.receivers and view.unhanded is not None:  # they cannot be brought up, and the others can go on
        behind = (member for member in plan.receivers if member not in view.condemned)
        return tuple(Kill(member, "the state cannot be handed to it", failure=False) for member in behind)
    return (*drop, Publish(plan))


def _steps(view: View) -> Mapping[MemberId, int]:
    """The step each would do next, as last told; what a member said before it switched is told no more."""
    if view.pending is None:
        return view.lost
    switched = view.pending.switched
    return {**{m: step for m, step in view.lost.items() if m not in switched}, **view.pending.lost}


def _recovery_plan(view: View, survivors: tuple[MemberId, ...]) -> Plan:
    step_of = _steps(view)
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
    if pending.committed:
        return _see_through(view, pending, now_ms, limits)
    if not _alive(view, plan.members):
        return (Cancel(plan, "a member of the new group died"),)
    if view.stopping and plan.members and not plan.recover:
        return (Cancel(plan, "the training is asked to stop"),)
    if pending.refused:
        member, reason = next(iter(pending.refused.items()))
        return _drop(view, plan, (member,), f"could not connect: {reason}")
    if pending.connected >= set(plan.members):
        return (Commit(plan),)
    if now_ms - pending.published_ms > limits.connect_ms:
        late = tuple(m for m in plan.members if m not in pending.connected)
        return _drop(view, plan, late, f"did not connect within {limits.connect_ms / 1000:g} s")
    return ()


def _see_through(view: View, pending: Pending, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    """A committed plan ends adopted, or with the death of whoever keeps the others waiting."""
    late = [member for member in pending.plan.members if member not in pending.switched]
    staying = (set(view.members) & view.workers.keys()) - pending.switched
    if not late and (pending.plan.members or not staying):
        return (Adopt(pending.plan),)
    if pending.switching_ms is None or now_ms - pending.switching_ms <= limits.switch_ms:
        return ()
    return tuple(Kill(member, "did not switch to the new group") for member in late)


def _drop(view: View, plan: Plan, late: tuple[MemberId, ...], reason: str) -> tuple[Action, ...]:
    """Cancel, and end who is to blame: joiners, who hold nothing; members only when nobody trains now."""
    joiners = tuple(member for member in late if member not in view.members)
    blamed = joiners
    if plan.recover or not view.generation:
        blamed = (joiners or late)[: len(plan.members) - 1]
    cancel = Cancel(plan, f"{', '.join(late)} {reason}", failure=not blamed)
    return (cancel, *(Kill(member, reason) for member in blamed))


def _alive(view: View, members: tuple[MemberId, ...]) -> bool:
    return all(member in view.workers for member in members)


def _first_group(view: View, limits: Limits) -> tuple[Action, ...]:
    if view.over is not None:
        return (GiveUp(view.over),)
    if view.failures >= limits.failures:
        return (GiveUp(_reason(f"{view.failures} starts in a row failed", view)),)
    unwelcome = view.unwanted - view.condemned
    if unwelcome:
        return tuple(Kill(member, "not needed any more", failure=False) for member in sorted(unwelcome))
    founders = tuple(m for m, worker in view.workers.items() if worker.founder and m not in view.unwanted)
    ready = tuple(member for member in founders if view.workers[member].phase is Phase.READY)
    short = view.target - len(founders)
    room = short if view.room is None else min(short, view.room)
    # one that says nothing may be no elastic script at all: it is started once, not once more for each resize
    if room > 0 and all(view.workers[member].heard_ms is not None for member in founders):
        return (Start(room, True),)
    if len(ready) < len(founders) or not founders:
        return ()  # with fewer than wanted it begins all the same: more room may come later
    return (Publish(Plan(number=view.next_number, base=0, members=ready, receivers=ready[1:])),)


def _resize(view: View, now_ms: int, limits: Limits) -> tuple[Action, ...]:
    """Let go, take in, start: one plan does all that can be done now."""
    if view.unhanded is not None:
        return (Settle(view.unhanded),)
    staying = tuple(member for member in view.members if member not in view.unwanted)[: view.target]
    excluded = view.unwanted | view.condemned
    ready = tuple(m for m, w in view.workers.items() if w.phase is Phase.READY and m not in excluded)
    missing = view.target - len(staying)
    joiners = ready[:missing]
    if len(joiners) == missing and (missing or len(staying) < len(view.members)):
        carrier = staying or view.members[:1]  # somebody must bring the state along, and leaves later
        return (_next_plan(view, carrier + joiners, joiners),)
    waited_ms = max((now_ms - view.workers[member].since_ms for member in joiners), default=0)
    if staying and (len(staying) < len(view.members) or waited_ms > limits.gather_ms):
        return (_next_plan(view, staying + joiners, joiners),)
    return _staff(view, missing, ready, limits)


def _staff(view: View, missing: int, ready: tuple[MemberId, ...], limits: Limits) -> tuple[Action, ...]:
    """Start who is missing, spares included; end who is not a member and not needed."""
    starting = sum(w.phase is Phase.STARTING and m not in view.unwanted for m, w in view.workers.items())
    unwelcome = view.unwanted - view.condemned
    idle = [m for m, w in view.workers.items() if w.phase in (Phase.STARTING, Phase.READY) and m in unwelcome]
    surplus = (*ready[missing + view.spare :], *idle) if not starting else tuple(idle)
    if surplus:
        return tuple(Kill(member, "not needed any more", failure=False) for member in surplus)
    short = missing + view.spare - len(ready) - starting
    short = short if view.room is None else min(short, view.room)
    if short <= 0:
        return ()
    if view.over is not None:
        return (Settle(view.over),)
    if view.failures >= limits.failures:
        return (Settle(_reason(f"{view.failures} attempts in a row failed", view)),)
    return (Start(short, False),)


def _next_plan(view: View, members: tuple[MemberId, ...], joiners: tuple[MemberId, ...]) -> Publish:
    return Publish(Plan(number=view.next_number, base=view.generation, members=members, receivers=joiners))


def _reason(what: str, view: View) -> str:
    return f"{what}; the last: {view.last_failure}" if view.last_failure else what
