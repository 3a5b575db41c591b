"""What an event does to the controller's view of the job: each is a pure function from view to view.

``membership`` says what to do about a view; the controller only gathers events and carries actions out.
"""

import signal
from collections.abc import Mapping
from dataclasses import replace

from fallow import protocol
from fallow.controller import membership
from fallow.controller.actions import Cancel, Kill
from fallow.controller.membership import Limits, Pending, Phase, View, Worker
from fallow.protocol import MemberId, Plan


def started(view: View, member: MemberId, founder: bool, now_ms: int) -> View:
    """A worker process was asked for."""
    worker = Worker(phase=Phase.STARTING, since_ms=now_ms, founder=founder)
    return replace(view, workers={**view.workers, member: worker})


def became_ready(view: View, member: MemberId, now_ms: int) -> View:
    """A worker has warmed up and could be taken in."""
    worker = replace(view.workers[member], phase=Phase.READY, since_ms=now_ms)
    return replace(view, workers={**view.workers, member: worker})


def pulsed(view: View, members: frozenset[MemberId], now_ms: int) -> View:
    """These workers were heard of."""
    workers = {m: replace(w, heard_ms=now_ms) if m in members else w for m, w in view.workers.items()}
    return replace(view, workers=workers)


def ended(view: View, member: MemberId, code: int, reason: str | None, now_ms: int) -> View:
    """A worker process is gone: it was let go, came to the end of the training, or failed.

    Whoever a plan lets go may come to the end of the training first, and then never says that it switched.
    Once somebody has, no plan is adopted any more, so who was let go and is gone is no member from then on.
    """
    first = view.pending
    if code == 0 and first is not None and first.plan.base == 0 and member in first.switched:
        view = adopted(view, first.plan, now_ms)  # it trained and is done before the controller looked
    worker = view.workers.get(member)
    if worker is None:
        return view
    is_unsaved = code != 0 and member == membership.saver(view)
    ended_view = replace(
        view,
        workers={m: w for m, w in view.workers.items() if m != member},
        unwanted=view.unwanted - {member},
        condemned=view.condemned - {member},
        unsaved=f"{member} {how(code, Phase.LEAVING, reason)}" if is_unsaved else view.unsaved,
    )
    if member in view.condemned:
        return ended_view
    if worker.phase is Phase.STARTING:
        return _never_trained(ended_view, worker, code, f"{member} {how(code, worker.phase, reason)}", now_ms)
    match worker.phase:
        case Phase.LEAVING:
            return ended_view
        case Phase.MEMBER if member in (membership.leavers(view) if code else membership.left(view)):
            return _without_gone(ended_view) if view.finished else ended_view
        case Phase.MEMBER if code == 0:
            rest = tuple(one for one in view.members if one != member)
            return _without_gone(replace(ended_view, finished=True, members=rest))
        case _:
            return failed(ended_view, f"{member} {how(code, worker.phase, reason)}", now_ms)


def _without_gone(view: View) -> View:
    """Without members that a committed plan lets go and that have ended."""
    gone = membership.leavers(view) - view.workers.keys()
    return replace(view, members=tuple(one for one in view.members if one not in gone))


def _never_trained(view: View, worker: Worker, code: int, what: str, now_ms: int) -> View:
    """``worker`` ended before it asked for a step. What would end so each time isn't started again."""
    if worker.founder and not view.generation:
        if code == 0:
            return replace(view, finished=True)
        if code == protocol.MISTAKE or (code > 0 and worker.heard_ms is None):
            return replace(view, over=what)
    view = failed(view, what, now_ms)
    return replace(view, over=f"{what}, as any other would") if code == protocol.MISTAKE else view


def failed(view: View, what: str, now_ms: int) -> View:
    """Something came to nothing; enough of that in a row and it is tried no more."""
    return replace(view, failures=view.failures + 1, failed_ms=now_ms, last_failure=what)


def condemned(view: View, kill: Kill, now_ms: int) -> View:
    """A worker is being killed; whether that counts as a failure, the order says."""
    view = replace(view, condemned=view.condemned | {kill.member})
    return failed(view, f"{kill.member} {kill.reason}", now_ms) if kill.failure else view


def lost(view: View, reports: Mapping[MemberId, int], now_ms: int) -> View:
    """Members of the generation told that it broke, and which step each would do next."""
    view = replace(view, lost={**view.lost, **reports})
    if view.broken_since_ms is None and membership.is_broken(view):
        return replace(view, broken_since_ms=now_ms)
    return view


def unhanded(view: View, member: MemberId, reason: str, now_ms: int) -> View:
    """A member cannot hand its state over, so nobody can be taken in. Saying it again changes nothing."""
    if view.unhanded is not None:
        return view
    what = f"{member} cannot hand the training over: {reason}"
    return failed(replace(view, unhanded=what), what, now_ms)


def published(view: View, plan: Plan, now_ms: int) -> View:
    """A plan was made known."""
    stalled, at = view.stalled, view.stalled_at
    losses = membership.losses(view)
    if plan.recover and losses:
        furthest = max(losses.values())
        stalled, at = (stalled + 1 if furthest == at else 1), furthest
    return replace(
        view,
        lost=losses,
        pending=Pending(plan=plan, published_ms=now_ms),
        next_number=plan.number + 1,
        stalled=stalled,
        stalled_at=at,
        unsaved=None,  # whoever is left saves in its place
    )


def committed(view: View) -> View:
    """All members of the pending plan are told to switch to it."""
    return replace(view, pending=replace(view.pending, committed=True) if view.pending else None)


def cancelled(view: View, cancel: Cancel, now_ms: int) -> View:
    """The pending plan was dropped."""
    view = replace(view, pending=None)
    return failed(view, cancel.reason, now_ms) if cancel.failure else view


def adopted(view: View, plan: Plan, now_ms: int) -> View:
    """Everybody has switched to the plan: it is the generation now."""
    workers = dict(view.workers)
    for member, worker in workers.items():
        if member in plan.members:
            workers[member] = replace(worker, phase=Phase.MEMBER, since_ms=now_ms)
        elif member in view.members:
            workers[member] = replace(worker, phase=Phase.LEAVING, since_ms=now_ms)
    return replace(
        view,
        generation=plan.number,
        members=plan.members,
        workers=workers,
        pending=None,
        lost={},
        broken_since_ms=None,
        adopted_ms=now_ms,
    )


def asked(view: View, target: int, spare: int | None = None) -> View:
    """Somebody wants another size: what failed before may be tried again."""
    spare_target = view.spare if spare is None else spare
    return replace(view, target=target, spare=spare_target, failures=0, settled=None, over=None)


def reseated(view: View, going: frozenset[MemberId], target: int) -> View:
    """Somebody wants ``target`` workers, and just ``going`` not to be among them."""
    present = going & view.workers.keys()
    return replace(view, target=target, unwanted=present, failures=0, settled=None, over=None)


def let_go(view: View, members: frozenset[MemberId]) -> View:
    """These workers are to leave; whoever was to leave already still is."""
    return replace(view, unwanted=view.unwanted | (members & view.workers.keys()), failures=0)


def settled(view: View, reason: str) -> View:
    """The workers that there are become those that are wanted."""
    size = max(1, len(view.members))
    return replace(
        view, target=size, spare=0, failures=0, unwanted=frozenset(), settled=reason, unhanded=None, over=None
    )


def calmed(view: View, now_ms: int, limits: Limits) -> View:
    """A generation of the wanted size that has lived for a while forgives what failed before it."""
    settled = view.pending is None and len(view.members) == view.target and view.failed_ms < view.adopted_ms
    if view.failures and settled and now_ms - view.adopted_ms > limits.steady_ms:
        return replace(view, failures=0)
    return view


def how(code: int, phase: Phase, reason: str | None) -> str:
    """How a worker ended, in words."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name} while {phase}"
    if reason:
        return f"ended with {code} while {phase}: {reason}"
    return f"ended with {code} while {phase}"
