"""The engine for Slurm's jobs: a job that agreed is put back into its queue and held, and let go again.

Slurm decides who gets GPUs. What is done here gives back: `scontrol requeuehold`, on a job whose owner says
that it saves itself, and `scontrol release` of what was held so. Each is written down before Slurm is
asked; what came of it is seen and not told: twice, two seconds apart, because a controller that is killed
forgets its newest answers, and gives their numbers to others (22.05.8). After its restart nothing is done
for a while.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from advisor.actions import Action, Pause, Resume
from advisor.engines.slurm_outcomes import OutcomeSeen, given_text, observation, run_of
from advisor.engines.watched import WATCH_S, OutcomeWait, Watched
from advisor.jobs.external_jobs import Holder
from advisor.jobs.manager_acts import Asked, ManagedRun, ManagerAct, ManagerActStore
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported
from advisor.state.model import ActionClass, ProjectName
from advisor.tags import verb_of
from collector.clock import Clock
from collector.inventory.slurm_programs import NoAnswer
from collector.managers.model import HOLDING, Grant, JobState, Look, ManagedJob
from collector.managers.slurm.controller import COMMAND, Controller, Reach, controller_of, reach_of
from collector.managers.slurm.details import grants_of
from collector.managers.slurm.one_job import OneJob, one_job
from collector.managers.slurm.queue_text import NotQueue
from collector.model import GpuUuid, JobId, JobKind

OWN = "slurm:"
"""What the ids of its jobs begin with."""
APART_MS = 2_000
"""Between the two sightings of an outcome. slurmctld keeps what it is told within a second or two: of eight
jobs whose controller was killed 0 to 6 s after its answer four were forgotten, all within 2 s (22.05.8)."""
ASK_S = 5.0
"""How long one of Slurm's programs may take; a controller that is well answers in 0.02 s."""
FACTS_MS = 10_000
"""How old may be what is known of the controller when it is said what can be done; before an act it is read
again."""
# Rights change seldom, and asking for them is a command: so they are asked for every ten minutes.
RIGHTS_MS = 600_000
NAME = "Slurm"

CANNOT: Mapping[str, str] = {
    "start": "Slurm decides when and where its jobs start",
    "move": "Slurm decides where its jobs run",
    "requeue": "it waits in Slurm's queue: a pause puts it back there, and holds it",
    ActionClass.RESIZE.value: "Slurm gives a job its GPUs for its whole run; an elastic one grows by others",
    "hold-for-job": "it waits in no queue of Fallow's",
    "release-memory": "Fallow did not launch it and has no word with what runs inside it",
    "set-env-at-restart": "Fallow did not launch it, so it cannot launch it anew",
    "cancel": "Fallow ends no job of Slurm's",
    "start-background": "Slurm decides when and where its jobs start",
}
"""The steps that are Slurm's own, or nobody's, by verb, each with the reason."""


def is_slurms(job: JobId) -> bool:
    """Whether the job is one of Slurm's, by its id."""
    return job.startswith(OWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmEngineDependencies:
    """What the engine works with. ``run`` runs one of Slurm's programs within so many seconds.

    ``looks`` are the newest of the readers. ``against`` says why nobody allows a pause of the job as it is
    now, for this intent. ``gpus_of`` are the GPUs that a job has. ``rest_s``: how long nothing is done after
    the controller was started. ``account``: as whom this service runs. ``switched_off``: why nothing is ever
    done here.
    """

    book: ManagerActStore
    run: Callable[[Sequence[str], float], str]
    clock: Clock
    looks: Callable[[], tuple[Look, ...]]
    against: Callable[[ManagedJob, int], str | None]
    gpus_of: Callable[[JobId], tuple[GpuUuid, ...]]
    rest_s: float
    account: str
    switched_off: str | None = None


class SlurmEngine:
    """Carries out what can be done to Slurm's jobs; safe from any thread. ``interrupt`` ends every wait."""

    def __init__(self, parts: SlurmEngineDependencies) -> None:
        self._parts, self._book, self._clock = parts, parts.book, parts.clock
        self._acting = threading.Lock()
        self._waiting = OutcomeWait(self.found)
        self._refused: dict[int, str] = {}
        self._unfit: dict[ManagedRun, str] = {}
        self._facts: tuple[int, Controller | str] | None = None
        self._rights: tuple[int, Reach] | None = None
        self._shown: tuple[tuple[Look, ...], dict[JobId | None, ManagedJob]] | None = None
        self._numbers: tuple[int, int] | None = None
        """The highest next number, and when it last fell."""

    def interrupt(self) -> None:
        """The service stops: every wait, now and later, ends with ``Interrupted``."""
        self._waiting.interrupt()

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Pause or resume, and wait a while for what is seen of it; everything else is unsupported."""
        ongoing = self.give(step, intent)
        return self.wait(ongoing, WATCH_S) if isinstance(ongoing, Watched) else ongoing

    def give(self, step: Action, intent: int = 0) -> Watched | Outcome:
        """Ask Slurm to pause or to resume a job, if it may be; everything else is unsupported."""
        if not isinstance(step, Pause | Resume):
            return Unsupported(why=CANNOT.get(verb_of(step), f"{NAME} has no such step"))
        if self._parts.switched_off is not None:
            return Unsupported(why=self._parts.switched_off)
        with self._acting:
            try:
                result = self._pause(step, intent) if isinstance(step, Pause) else self._resume(step)
            except (NoAnswer, NotQueue) as failure:
                return Stale(found=f"Slurm did not answer, and nothing was done: {failure}")
            if not isinstance(result, Asked):
                return result
            # Before Slurm is asked: after a crash what was asked is still looked for.
            self._book.begin(result, intent)
            verb = "requeuehold" if isinstance(step, Pause) else "release"
            try:
                self._ask(("scontrol", verb, result.target))
            except NoAnswer as failure:  # it may have been heard all the same: that is seen
                self._refused[intent] = str(failure)
        return Watched(step=step, intent=intent)

    def wait(self, watched: Watched, at_most_s: float | None = None) -> Outcome:
        """What is seen of it, or ``Late``. Raises ``Interrupted``."""
        return self._waiting.wait(watched, at_most_s)

    def found(self, intent: int) -> Outcome | None:
        """What is seen of what was asked by that intent; nothing is done. ``None``: nothing was asked."""
        act = self._book.act(intent)
        if act is None:
            return None
        if act.outcome is not None:
            return Done(note="it was seen before") if act.outcome == "done" else Failed(found="it failed")
        try:
            controller = self._controller()
            resting = self._resting(controller)
            is_another = controller.began_ms > act.asked.began_ms
            if resting is not None and is_another:
                return Late(found=f"{resting}; what came of this is looked for then")
            one = one_job(self._ask, act.asked.run.number, controller.cluster)
        except (NoAnswer, NotQueue) as failure:
            return Late(found=f"Slurm does not answer: {failure}")
        return self._judged(act, None if one is None else one.job, is_forgotten=is_another)

    def can(self, job: JobId) -> dict[str, str]:
        """The steps that cannot be done to it now, by verb, each with the reason. Asks nobody."""
        cannot = dict(CANNOT)
        why = self._parts.switched_off or self._unready()
        shown = self.shown(job)
        if why is None and shown is None:
            why = f"{NAME}'s newest answer does not show it"
        if why is None and shown is not None:
            why = self._unfit.get(run_of(shown)) or self._unreachable(shown)
        return cannot if why is None else cannot | {"pause": why, "resume": why}

    def look_again(self) -> None:
        """Learn anew how the controller is, if that is old and there is any. Blocks for a moment."""
        now_ms = self._clock.now_ms()
        if self._parts.switched_off is not None or not self._parts.looks():
            return
        if self._facts is not None and 0 <= now_ms - self._facts[0] < FACTS_MS:
            return
        try:
            self._reach(self._controller())
        except NoAnswer as failure:
            self._facts = now_ms, str(failure)

    def shown(self, job: JobId) -> ManagedJob | None:
        """The job in the newest look that has it, the newest run first."""
        looks = self._parts.looks()
        jobs = self._shown
        if jobs is None or jobs[0] is not looks:  # thousands wait, and each is asked about at every look
            runs = sorted(
                (each for look in looks for each in look.jobs),
                key=lambda each: (each.key.submitted_ms, each.key.restarts),
            )
            jobs = self._shown = looks, {each.holder.job: each for each in runs}
        return jobs[1].get(job)

    def _pause(self, step: Pause, intent: int) -> Asked | Outcome:
        shown = self.shown(step.job)
        if shown is None:
            return Stale(found=f"{NAME}'s newest answer does not show it")
        ready = self._ready(step, run_of(shown))
        if not isinstance(ready, tuple):
            return ready
        controller, one = ready
        if one.job.state is not JobState.RUNNING:
            return Stale(found=f"it is {one.job.state_name.lower() or one.job.state.value}")
        unfit = _unfit(one) or self._unreachable(one.job)
        if unfit is not None:
            self._unfit[run_of(shown)] = unfit
            return Unsupported(why=unfit)
        forbidden = self._parts.against(one.job, intent)
        if forbidden is not None:
            return Stale(found=forbidden)
        holder = one.job.holder
        project = None if holder.project is None else ProjectName(holder.project)
        return Asked(
            job=step.job,
            verb="pause",
            run=run_of(one.job),
            target=one.target,
            holder=Holder(user=holder.user, project=project, name=holder.name, kind=holder.kind),
            gpus=self._parts.gpus_of(step.job),
            began_ms=controller.began_ms,
        )

    def _resume(self, step: Resume) -> Asked | Outcome:
        hold = next((each for each in self._book.open() if each.holds and each.asked.job == step.job), None)
        if hold is None or hold.after is None:
            return Stale(found="Fallow does not hold it; `scontrol release` lets go what somebody else holds")
        ready = self._ready(step, hold.after)
        if not isinstance(ready, tuple):
            return ready
        controller, one = ready
        if not one.job.is_held:
            return Stale(found="it is not held any more")
        unreachable = self._unreachable(one.job)
        if unreachable is not None:
            return Unsupported(why=unreachable)
        return Asked(
            job=step.job,
            verb="resume",
            run=run_of(one.job),
            target=one.target,
            holder=hold.asked.holder,
            gpus=hold.asked.gpus,
            began_ms=controller.began_ms,
        )

    def _ready(self, step: Pause | Resume, expected: ManagedRun) -> tuple[Controller, OneJob] | Outcome:
        """The controller and the job, both as they are now; why nothing is done else. Raises NoAnswer."""
        if any(each.asked.job == step.job and each.outcome is None for each in self._book.open()):
            return Stale(found="what was asked about it before has not been seen yet")
        controller = self._controller()
        resting = self._resting(controller)
        if resting is not None:
            return Stale(found=resting)
        one = one_job(self._ask, expected.number, controller.cluster)
        if one is None:
            return Stale(found=f"Slurm knows no job {expected.number} any more")
        # The same number may be another person's job by now (docs/decisions/0064).
        if run_of(one.job) != expected:
            return Stale(found=f"{expected.number} is another run or another job than the one that was seen")
        self._reach(controller)
        return controller, one

    def _judged(self, act: ManagerAct, job: ManagedJob | None, *, is_forgotten: bool) -> Outcome:
        now_ms, refused = self._clock.now_ms(), self._refused.get(act.intent)
        current = observation(act, job, now_ms, refused, is_forgotten=is_forgotten)
        if current.outcome is OutcomeSeen.WAITS:
            return Late(found=current.found)
        if current.outcome is OutcomeSeen.FAILED or job is None:
            self._settle(act, "failed")
            return Failed(found=current.found)
        # slurmctld may yet forget what it was just told: it counts once it was seen twice, APART_MS apart.
        if act.seen_ms is None or act.after != run_of(job):
            self._book.seen(act.intent, run_of(job))
            return Late(found=f"{current.found}; it is looked at once more")
        if 0 <= now_ms - act.seen_ms < APART_MS:
            return Late(found=f"{current.found}; it is looked at once more")
        self._settle(act, "done")
        given = self._given(job)
        note = current.found + given_text(given)
        return Done(took_s=max(0, act.seen_ms - act.begun_ms) / 1000, note=note, given=given)

    def _given(self, job: ManagedJob) -> tuple[Grant, ...]:
        """The GPUs that Slurm chose for a job that runs; none where it doesn't, or where that isn't told."""
        if job.state not in HOLDING:
            return ()
        number, name = job.key.id, job.holder.name or ""
        try:
            text = self._ask(("scontrol", "--details", "--oneliner", "show", "job", number))
        except NoAnswer:
            return ()
        return grants_of(text, {number: name}).get(number) or ()

    def _settle(self, act: ManagerAct, outcome: str) -> None:
        self._refused.pop(act.intent, None)
        self._book.settle(act.intent, outcome)
        if act.asked.verb == "resume" and outcome == "done":
            for each in self._book.open():
                if each.holds and each.asked.job == act.asked.job:
                    self._book.over(each.intent, "released")

    def _controller(self) -> Controller:
        now_ms = self._clock.now_ms()
        controller = controller_of(self._ask(COMMAND))
        self._facts = now_ms, controller
        number, before = controller.next_number, self._numbers
        if number is not None:
            # A controller that was killed may give numbers again that it gave before (docs/decisions/0064).
            fell = before is not None and number < before[0]
            self._numbers = number, now_ms if fell else (0 if before is None else before[1])
        return controller

    def _resting(self, controller: Controller) -> str | None:
        """Why nothing is done yet: a controller that began lately may have forgotten what was newest."""
        now_ms, rest_ms = self._clock.now_ms(), self._parts.rest_s * 1000
        fell_ms = 0 if self._numbers is None else self._numbers[1]
        remaining_ms = max(controller.began_ms, fell_ms) + rest_ms - now_ms
        if remaining_ms <= 0:
            return None
        rest = math.ceil(remaining_ms / 1000)
        return f"Slurm's controller was started lately: nothing is done for {rest} s more"

    def _reach(self, controller: Controller) -> Reach:
        now_ms = self._clock.now_ms()
        if self._rights is None or not 0 <= now_ms - self._rights[0] < RIGHTS_MS:
            self._rights = now_ms, reach_of(controller, self._ask)
        return self._rights[1]

    def _unready(self) -> str | None:
        if self._facts is None:
            return f"{NAME} was not asked yet how it is"
        facts = self._facts[1]
        return f"{NAME} does not answer: {facts}" if isinstance(facts, str) else self._resting(facts)

    def _unreachable(self, job: ManagedJob) -> str | None:
        if self._rights is None:
            return f"{NAME} was not asked yet what this account may do"
        if self._rights[1] is Reach.ALL or job.holder.user == self._parts.account:
            return None
        return (
            f"this service runs as {self._parts.account}, who may act on own jobs alone; "
            "AdminLevel=Operator (sacctmgr) lets it act on those of all who allow it"
        )

    def _ask(self, command: Sequence[str]) -> str:
        return self._parts.run(command, ASK_S)


def _unfit(one: OneJob) -> str | None:
    """Why Slurm could not put such a job back into its queue."""
    if one.job.holder.kind is not JobKind.BATCH:
        return "only a batch job can be put back into the queue: this one was started by salloc or srun"
    if not one.may_requeue:
        return "it was submitted with --no-requeue, so Slurm does not put it back into the queue"
    if one.is_part:
        return "it is a part of a heterogeneous job, whose parts are not held one by one"
    return None
