"""The turns that a job's course is made of: launch, save, halt, rest, end. Pure."""

from dataclasses import replace
from typing import assert_never

from advisor.jobs.model import ExitReason, Sharing
from service.launcher import model, world
from service.launcher.model import Exit, Lease, Phase, StateMachine, Transition

LEFTOVERS_S = 5.0
"""For what workers left behind, from asking it to end to killing it."""
GENTLE_S = 60.0
"""The same under MPS, where a killed client takes its neighbours along."""
FIRST_REST_S, LONGEST_REST_S = 1.0, 60.0
"""Before a restart; doubled each time."""
STOPPED = 75
"""EX_TEMPFAIL: what ``fallow.controller`` ends with when it was stopped, and scripts that saved may."""
TIME_IS_UP = 124
"""As timeout(1) ends."""
# As a shell reports SIGTERM.
CANCELLED = 143


def done(course: StateMachine, failed: str | None, *actions: model.Action) -> Transition:
    """The directive in hand is carried out, or was not because of ``failed``."""
    return Transition(course=replace(handled(course), failed=failed), actions=(*actions, model.Announce()))


def handled(course: StateMachine) -> StateMachine:
    """The directive in hand is the newest that was handled, and its proof what can be shown."""
    doing = course.doing
    if doing is None:
        return course
    return replace(course, doing=None, acknowledged=doing.number, proof=doing.proof)


def launched(course: StateMachine, lease: Lease) -> Transition:
    """Start the workers on ``lease``."""
    size = world.count(course.terms.workers, len(lease.gpus))
    started = replace(
        course,
        phase=Phase.STARTING,
        lease=lease,
        launch=course.launch + 1,
        alive=frozenset(range(size)),
        pids=(),
        code=0,
        then=None,
        saved=False,
        until_s=None,
    )
    return Transition(course=started, actions=(model.Start(), model.Announce()))


def saving(course: StateMachine, after: model.Next, now_s: float, text: str) -> Transition:
    """Have the job save itself, and say what follows when it has; it may take its grace."""
    until_s = now_s + course.terms.grace_s
    course = replace(course, phase=Phase.SAVING, then=after, saved=False, until_s=until_s)
    return Transition(course=course, actions=(model.Notify(text=text), model.Save()))


def back(course: StateMachine) -> StateMachine:
    """The job goes on as before."""
    return replace(course, phase=Phase.RUNNING, then=None, saved=False, until_s=None)


def halted(
    course: StateMachine, after: model.Next | None, now_s: float, *actions: model.Action
) -> Transition:
    """Ask the workers to end, and say what follows."""
    until_s = now_s + course.terms.grace_s
    course = replace(course, phase=Phase.ENDING, then=after, until_s=until_s)
    return Transition(course=course, actions=(*actions, model.End()))


def swept(course: StateMachine, *actions: model.Action) -> Transition:
    """End whatever the workers left."""
    gentle = course.lease is not None and course.lease.sharing is Sharing.MPS
    course = replace(course, phase=Phase.SWEEPING, until_s=None)
    return Transition(
        course=course, actions=(*actions, model.Sweep(patience_s=GENTLE_S if gentle else LEFTOVERS_S))
    )


def entered(course: StateMachine, after: model.Next) -> Transition:
    """What follows, now that nothing of the job lives."""
    free = replace(course, lease=None, then=None)
    match after:
        case model.Pause():
            return done(replace(free, phase=Phase.PAUSED), None, model.Notify(text="paused"))
        case model.Requeue():
            return done(replace(free, phase=Phase.WAITING), None, model.Notify(text="back in the queue"))
        case model.Restart(lease=lease):
            return launched(course, lease)
        case Exit():
            return _ended(free, after)
        case _:
            assert_never(after)


def ended_by_itself(course: StateMachine, now_s: float, *actions: model.Action) -> Transition:
    """The workers ended and nobody had asked them to: the end, or another start."""
    over = _verdict(course, now_s)
    if over.exit_reason is not ExitReason.FAILED or course.restarted >= course.terms.restarts:
        turn = entered(course, over)
        return Transition(course=turn.course, actions=actions + turn.actions)
    rest_s = min(LONGEST_REST_S, FIRST_REST_S * 2**course.restarted)
    number = course.restarted + 1
    text = f"{over.why}; starting again in {rest_s:g} s ({number} of {course.terms.restarts})"
    resting = replace(course, phase=Phase.RESTING, restarted=number, until_s=now_s + rest_s, then=None)
    return Transition(course=resting, actions=(*actions, model.Notify(text=text), model.Announce()))


def ran_s(course: StateMachine, now_s: float) -> float:
    """How long its workers have run, all launches together."""
    return course.ran_s + (0.0 if course.since_s is None else now_s - course.since_s)


def is_ended_by_user(course: StateMachine, now_s: float) -> bool:
    """Whether the user asked it to end lately: a Ctrl-C that it survived doesn't count for ever."""
    return course.asked is not None and now_s - course.asked_s <= course.terms.grace_s


def how(code: int) -> str:
    """A worker's end in words."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"


def _verdict(course: StateMachine, now_s: float) -> Exit:
    if course.code == 0:
        return Exit(exit_reason=ExitReason.DONE, code=0)
    if is_ended_by_user(course, now_s):
        return Exit(exit_reason=ExitReason.CANCELLED, code=course.code, why=f"ended by signal {course.asked}")
    return Exit(exit_reason=ExitReason.FAILED, code=course.code, why=f"a worker {how(course.code)}")


def _ended(course: StateMachine, over: Exit) -> Transition:
    code = course.code if course.code and over.code != TIME_IS_UP else over.code
    failed = over.why if over.exit_reason is ExitReason.FAILED else None
    course = replace(
        handled(course),
        phase=Phase.ENDED,
        over=replace(over, code=code),
        failed=failed,
        until_s=None,
    )
    notices = () if failed is None else (model.Notify(text=failed),)
    return Transition(course=course, actions=(*notices, model.Announce(), model.Leave(code=code)))
