"""A job's course in its launcher: what each event makes of it, and what is then to be done. Pure.

The rules that keep other people's work safe stand here: nothing is ever done twice (a directive's number is
taken once), a job that can't save is neither paused nor resized, one that didn't save in its grace goes on,
and devices are said to be free only after everything that ran on them has ended.
"""

from dataclasses import replace
from typing import assert_never

from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    ExitReason,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
)
from collector.model import GpuUuid
from service.launcher import fitness, model, turns
from service.launcher.model import Exit, Lease, Phase, StateMachine, Transition

ENDERS = (1, 2, 3, 15)
"""SIGHUP, SIGINT, SIGQUIT, SIGTERM: who sends one of these to a job wants its end."""
IDLE = (Phase.WAITING, Phase.RUNNING, Phase.RESTING, Phase.PAUSED)
"""Where the next directive can be taken up."""
EMPTY = (Phase.WAITING, Phase.RESTING, Phase.PAUSED)
"""Where nothing of the job lives."""
TURNED_AWAY = 1
"""As ``fallow run`` ends when its submission is refused."""
LIMITED = (Phase.RUNNING, Phase.CHANGING, Phase.RELEASING, Phase.SAVING)
"""Where its time limit can end it."""


def begin(terms: model.Terms) -> StateMachine:
    """A submitted job that waits."""
    return StateMachine(terms=terms)


def step(course: StateMachine, event: model.Event, now_s: float) -> Transition:
    """The course after an event. An event that has no meaning where the course stands changes nothing."""
    if course.phase is Phase.ENDED:
        return Transition(course=course)
    turn = _happened(course, event, now_s)
    while turn.course.phase in IDLE and turn.course.doing is None and turn.course.queue:
        first, *later = turn.course.queue
        doing = replace(turn.course, queue=tuple(later), doing=first)
        why = fitness.objection(first)
        refused = model.Notify(text=f"not done: {why}")
        transition = _take(doing, first, now_s) if why is None else turns.done(doing, why, refused)
        turn = Transition(course=transition.course, actions=turn.actions + transition.actions)
    return turn


def wakes_s(course: StateMachine) -> float | None:
    """When it wants to hear of the time again; ``None``: never."""
    times = [] if course.until_s is None else [course.until_s]
    if course.terms.limit_s is not None and course.since_s is not None and course.phase in LIMITED:
        times.append(course.since_s + max(0.0, course.terms.limit_s - course.ran_s))
    return min(times, default=None)


def _happened(course: StateMachine, event: model.Event, now_s: float) -> Transition:
    match event:
        case model.NewCommand(directive=command):
            return _commanded(course, command, now_s)
        case model.Signalled(number=number):
            return _signalled(course, number, now_s)
        case model.Resubmitted(text=text):
            return _anew(course, text)
        case model.TurnedAway(why=why):
            refused = Exit(exit_reason=ExitReason.FAILED, code=TURNED_AWAY, why=why)
            empty = course.phase in EMPTY
            return turns.entered(replace(course, code=0), refused) if empty else Transition(course=course)
        case model.Leased(number=number, proof=proof):
            fits = number == course.acknowledged and not course.proof
            return Transition(course=replace(course, proof=proof) if fits else course)
        case model.Disowned():
            over = Exit(
                exit_reason=ExitReason.CANCELLED, code=turns.CANCELLED, why="the service has ended this job"
            )
            return _stopped(course, over, now_s)
        case model.Tick():
            return _ticked(course, now_s)
        case model.Saved() | model.Unsaved() | model.Reallocated() | model.MemoryReleased():
            return _answered(course, event, now_s)
        case model.Started() | model.NotStarted() | model.WorkerEnded() | model.Swept():
            return _lived(course, event, now_s)
        case _:
            assert_never(event)


# -- directives --------------------------------------------------------------------------------------------


def _commanded(course: StateMachine, command: Command, now_s: float) -> Transition:
    pending = course.queue if course.doing is None else (course.doing, *course.queue)
    if command.number <= max(course.acknowledged, *(each.number for each in pending), 0):
        return Transition(course=course)
    match command:
        case CancelCommand(reason=reason):
            over = Exit(
                exit_reason=ExitReason.CANCELLED, code=turns.CANCELLED, why=f"stopped{_with_reason(reason)}"
            )
            return _stopped(replace(course, doing=command, queue=()), over, now_s)
        case (
            StartCommand()
            | ResumeCommand()
            | ReallocateCommand()
            | PauseCommand()
            | ReleaseMemoryCommand()
            | RequeueCommand()
            | NotifyCommand()
        ):
            return Transition(course=replace(course, queue=(*course.queue, command)))
        case _:
            assert_never(command)


def _take(course: StateMachine, command: Command, now_s: float) -> Transition:
    phase = course.phase
    match command:
        case NotifyCommand(message=message):
            return turns.done(course, None, model.Notify(text=message))
        case StartCommand() if phase is Phase.WAITING:
            return turns.launched(course, model.lease_of(command))
        case ResumeCommand() if phase is Phase.PAUSED:
            return turns.launched(course, model.lease_of(command))
        case StartCommand() | ResumeCommand():
            return turns.done(course, f"the job is {phase.value}: it has not asked for devices")
        case ReleaseMemoryCommand() if phase is Phase.RUNNING:
            releasing = replace(course, phase=Phase.RELEASING)
            return Transition(course=releasing, actions=(model.ReleaseMemory(),))
        case ReleaseMemoryCommand():
            return turns.done(course, f"the job is {phase.value}: it holds no memory")
        case ReallocateCommand() | PauseCommand() | RequeueCommand() if (
            course.terms.mobility is Elasticity.RIGID and not _in_gaps(course)
        ):
            why = "the job can neither be resized nor checkpointed; it only runs to its end"
            return turns.done(course, why)
        case ReallocateCommand():
            return _reshaped(course, model.lease_of(command), command.reason, now_s)
        case PauseCommand():
            return _leave(course, model.Pause(), f"pausing{_with_reason(command.reason)}", now_s)
        case RequeueCommand():
            return _leave(
                course, model.Requeue(), f"going back to the queue{_with_reason(command.reason)}", now_s
            )
        case CancelCommand():
            raise AssertionError("Cancel is carried out at once, never queued")
        case _:
            assert_never(command)


def _reshaped(course: StateMachine, lease: Lease, reason: str, now_s: float) -> Transition:
    """In place where only the devices change and the job is elastic, else saved and started again."""
    if course.phase is Phase.RESTING:
        return turns.done(replace(course, lease=lease), None)
    if course.phase is not Phase.RUNNING or course.lease is None:
        return turns.done(course, f"the job is {course.phase.value}: there is nothing to resize")
    count = len(lease.gpus)
    text = f"changing to {count} GPU{'' if count == 1 else 's'}{_with_reason(reason)}"
    if course.terms.mobility is Elasticity.ELASTIC and lease.settings == course.lease.settings:
        actions = (model.Notify(text=text), model.Reallocate(gpus=lease.gpus))
        return Transition(course=replace(course, phase=Phase.CHANGING), actions=actions)
    return turns.saving(course, model.Restart(lease=lease), now_s, text)


def _leave(course: StateMachine, after: model.Next, text: str, now_s: float) -> Transition:
    """Give the devices up: at once where nothing runs, else after the job has saved itself."""
    if course.phase is Phase.RUNNING and _in_gaps(course):
        # Its gate is shut, so it comes to no place where it could save itself when it is asked to.
        return turns.halted(replace(course, saved=True), after, now_s, model.Notify(text=text))
    if course.phase is Phase.RUNNING:
        return turns.saving(course, after, now_s, text)
    if course.phase is Phase.WAITING and isinstance(after, model.Pause):
        return turns.done(course, "the job waits in the queue: there is nothing to pause")
    return turns.entered(course, after)


def _in_gaps(course: StateMachine) -> bool:
    """Whether it runs as a background job, which may be sent back to its queue whatever it has saved."""
    return course.lease is not None and bool(course.lease.page)


def _anew(course: StateMachine, text: str) -> Transition:
    """Wait in the queue as a new job, where nothing of it lives; what it ran and failed before counts on.

    The numbers of directives begin again with it.
    """
    if course.phase not in EMPTY:
        return Transition(course=course)
    anew = StateMachine(
        terms=course.terms, launch=course.launch, restarted=course.restarted, ran_s=course.ran_s
    )
    return Transition(course=anew, actions=(model.Notify(text=text), model.Announce()))


def _stopped(course: StateMachine, over: Exit, now_s: float) -> Transition:
    """End it for good, wherever it stands."""
    if course.phase in EMPTY:
        turn = turns.entered(replace(course, code=0), over)
        return Transition(course=turn.course, actions=(model.Notify(text=over.why), *turn.actions))
    if course.phase in (Phase.ENDING, Phase.SWEEPING):
        return Transition(course=replace(course, then=over))
    return turns.halted(course, over, now_s, model.Notify(text=over.why))


# -- workers -----------------------------------------------------------------------------------------------


def _lived(
    course: StateMachine,
    event: model.Started | model.NotStarted | model.WorkerEnded | model.Swept,
    now_s: float,
) -> Transition:
    match event:
        case model.Started(pids=pids) if course.phase is Phase.STARTING:
            begun = replace(course, phase=Phase.RUNNING, pids=pids, since_s=now_s)
            return turns.done(begun, None)
        case model.NotStarted(why=why, code=turns.STOPPED) if course.phase is Phase.STARTING:
            waiting = replace(course, phase=Phase.WAITING, lease=None, alive=frozenset())
            return turns.done(waiting, why, model.Notify(text=why))
        case model.NotStarted(why=why, code=code) if course.phase in (Phase.STARTING, Phase.ENDING):
            over = Exit(exit_reason=ExitReason.FAILED, code=code, why=why)
            then = course.then if isinstance(course.then, Exit) else over
            return turns.swept(replace(course, then=then))
        case model.WorkerEnded(worker=worker, code=code) if worker in course.alive:
            return _worker_ended(course, worker, code)
        case model.Swept(by_force=by_force) if course.phase not in EMPTY:
            return _swept(course, by_force, now_s)
        case _:
            return Transition(course=course)


def _worker_ended(course: StateMachine, worker: int, code: int) -> Transition:
    """The last one's end, or the first one's failure, is the launch's: nothing of it may linger."""
    alive = course.alive - {worker}
    ended = replace(course, alive=alive, code=course.code or code, pids=course.pids if alive else ())
    goes_on = alive and (code == 0 or course.phase is Phase.ENDING)
    return Transition(course=ended) if goes_on or course.phase is Phase.SWEEPING else turns.swept(ended)


def _swept(course: StateMachine, by_force: bool, now_s: float) -> Transition:
    """Nothing lives any more: what was to follow does, if the job was ready for it."""
    killed = by_force and course.alive and course.code == 0
    began = course.since_s is not None
    course = replace(
        course,
        alive=frozenset(),
        pids=(),
        code=-9 if killed else course.code,
        ran_s=turns.ran_s(course, now_s),
        since_s=None,
    )
    if isinstance(course.then, Exit):
        return turns.entered(course, course.then)
    ready = course.saved or (course.code in (0, turns.STOPPED) and not turns.is_ended_by_user(course, now_s))
    if course.then is not None and ready:
        return turns.entered(course, course.then)
    if course.doing is None or not began:
        return turns.ended_by_itself(course, now_s)  # a start that is still to be answered stays so
    why = f"the job {turns.how(course.code)} before that was done"
    failed = turns.done(course, why)
    return turns.ended_by_itself(failed.course, now_s, *failed.actions)


def _answered(
    course: StateMachine,
    event: model.Saved | model.Unsaved | model.Reallocated | model.MemoryReleased,
    now_s: float,
) -> Transition:
    match event:
        case model.Saved(ends_itself=ends_itself) if course.phase is Phase.SAVING:
            halted = turns.halted(replace(course, saved=True), course.then, now_s)
            return Transition(course=halted.course) if ends_itself else halted
        case model.Unsaved(why=why) if course.phase is Phase.SAVING:
            return turns.done(turns.back(course), why, model.Notify(text=f"not done: {why}"))
        case model.MemoryReleased(why=why) if course.phase is Phase.RELEASING:
            return turns.done(turns.back(course), why)
        case model.Reallocated(gpus=gpus, why=why) if course.phase is Phase.CHANGING:
            return _changed(course, gpus, why)
        case _:
            return Transition(course=course)


def _changed(course: StateMachine, gpus: tuple[GpuUuid, ...], why: str | None) -> Transition:
    assert course.lease is not None
    granted = course.lease
    if why is None and isinstance(course.doing, ReallocateCommand):
        granted = model.lease_of(course.doing)
    notices = () if why is None else (model.Notify(text=f"not changed: {why}"),)
    return turns.done(turns.back(replace(course, lease=replace(granted, gpus=gpus))), why, *notices)


# -- signals and time --------------------------------------------------------------------------------------


def _signalled(course: StateMachine, number: int, now_s: float) -> Transition:
    if course.phase not in EMPTY:
        if number in ENDERS:
            course = replace(course, asked=number, asked_s=now_s)
        return Transition(course=course, actions=(model.Forward(number=number),))
    if number not in ENDERS:
        return Transition(course=course)
    over = Exit(exit_reason=ExitReason.CANCELLED, code=-number, why=f"cancelled by signal {number}")
    return turns.entered(replace(course, code=0), over)


def _ticked(course: StateMachine, now_s: float) -> Transition:
    limit_s = course.terms.limit_s
    if limit_s is not None and course.phase in LIMITED and turns.ran_s(course, now_s) >= limit_s:
        over = Exit(
            exit_reason=ExitReason.FAILED,
            code=turns.TIME_IS_UP,
            why=f"its time limit of {limit_s:g} s is over",
        )
        return turns.halted(course, over, now_s)
    if course.until_s is None or now_s < course.until_s:
        return Transition(course=course)
    match course.phase:
        case Phase.SAVING:
            grace = f"{course.terms.grace_s:g} s"
            why = f"the job did not say within its grace of {grace} that it had saved itself; it goes on"
            return turns.done(turns.back(course), why, model.Notify(text=why))
        case Phase.ENDING:
            return turns.swept(course)
        case Phase.RESTING if course.lease is not None:
            return turns.launched(course, course.lease)
        case _:
            return Transition(course=replace(course, until_s=None))


def _with_reason(reason: str) -> str:
    return f": {reason}" if reason else ""
