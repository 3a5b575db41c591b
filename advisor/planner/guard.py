"""What is never done, and the only maker of ``Approved``: a policy cannot reach an engine by type.

Pure. The planner asks ``advisor.planner.protection`` before it chooses whom to disturb; ``approve`` asks
again for every step of the finished plan, so that no policy can forget. Never touched (docs/decide.md):
in-quota jobs, jobs that are not preemptible, inference, whoever opted out or asked to be kept, jobs in their
minimal run time or cooling down, GPUs of suspect or unknown telemetry, an interactive job that somebody sits
at, or may.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from advisor.actions import (
    Action,
    Cancel,
    HoldForJob,
    Move,
    Notify,
    Pause,
    ReleaseMemory,
    Requeue,
    Resize,
    Resume,
    SetEnvAtRestart,
    Start,
    StartBackground,
)
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan, Refusal, Rule, whole
from advisor.planner.protection import (
    Objection,
    against_background,
    against_disturbing,
    against_manager,
    against_protected,
    against_protected_gpus,
    against_touching,
    against_unwarned,
    disturbed_lately,
)
from advisor.planner.quota import Cover, quota_cover
from advisor.planner.transition import SHARE_SLACK, Before, Draft, StepError
from advisor.state.model import ActionClass, ClusterState, Job, Phase, Placement
from advisor.tags import verb_of
from collector.model import JobId

_SEAL = object()


class Approved:
    """The steps of a plan that may be done now, in order. Only ``approve`` can make one."""

    __slots__ = ("as_of_ms", "steps")

    def __init__(self, *, as_of_ms: int, steps: tuple[Action, ...], seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError(
                "only the guard approves: call advisor.planner.guard.approve(plan, state, limits)"
            )
        self.as_of_ms = as_of_ms
        self.steps = steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the guard made of a plan: what may be done, and what may not with the reason."""

    approved: Approved
    refused: tuple[Refusal, ...]


def approve(
    plan: Plan, state: ClusterState, limits: Limits, agreed: frozenset[Action] = frozenset()
) -> Ruling:
    """The steps of ``plan`` that the rules and the modes allow in ``state``, which may be newer.

    ``agreed`` are the steps that a person has agreed to, where the mode is ASK. A step that rests on
    a refused one is refused as well, and so is what is of use only together with one. Nothing that a plan
    only proposes is done while nobody agreed to anything.
    """
    judge = _Judge(state, limits, agreed)
    alone = len(plan.steps) if plan.alone is None or agreed else plan.alone
    for together in whole(plan.steps[:alone]):
        judge.rule(together)
    for step in plan.steps[alone:]:
        judge.put_off(step)
    approved = Approved(as_of_ms=state.as_of_ms, steps=tuple(judge.steps), seal=_SEAL)
    return Ruling(approved=approved, refused=tuple(judge.refused))


def refusal(step: Action, objection: Objection) -> Refusal:
    """The objection to a step, as a plan keeps it."""
    return Refusal(
        job=step.job,
        action=action_of(step),
        rule=objection.rule,
        reason=objection.reason,
        would_change=objection.would_change,
        step=step,
    )


def action_of(step: Action) -> ActionClass:
    """The class of action that a step is switched with."""
    match step:
        case Start() | Resume() | HoldForJob():
            return ActionClass.SCHEDULE
        case Resize():
            return ActionClass.RESIZE
        case Requeue() | Pause() | Move() | ReleaseMemory() | StartBackground():
            return step.action
        case SetEnvAtRestart():
            return ActionClass.CAP_MEMORY
        case Notify():
            return ActionClass.RECLAIM
        case Cancel():
            return ActionClass.TERMINATE
        case _:
            assert_never(step)


def forbidden(
    step: Action, draft: Draft, state: ClusterState, limits: Limits, cover: Cover
) -> Objection | None:
    """The never-touch rule that a step would break, after those that ``draft`` has taken; or ``None``."""
    if isinstance(step, StartBackground):
        return against_background(step.job, step.beside, step.gpus[0], state)
    job, placement = draft.jobs.get(step.job), draft.placements.get(step.job)
    if job is None:
        return None
    protected = _against_protected(step, job, placement, state)
    if protected is not None or placement is None:
        return protected
    match step:
        case Start() | Resume() | Notify() | HoldForJob() | SetEnvAtRestart():
            return None
        case ReleaseMemory():
            return against_touching(job, placement.gpus, step.action, state)
        case Resize():
            return _against_resize(step, job, placement, state, cover)
        case Pause() | Requeue() | Move() | Cancel():
            for_job = None if isinstance(step, Cancel) else step.for_job
            asker = None if for_job is None else draft.jobs.get(for_job)
            against = None if asker is None else asker.project
            if not _is_siblings(job, asker, limits) and cover.gpus(job, against) > 0:
                return Objection(
                    rule=Rule.IN_QUOTA,
                    reason=f"the quota of {job.project} covers it",
                    would_change="a smaller quota",
                )
            return against_unwarned(job) or against_disturbing(
                job, placement.gpus, action_of(step), state, limits
            )
        case _:
            assert_never(step)


class _Judge:
    """Rules on the steps of one plan in order, each in the world that those before it leave."""

    def __init__(self, state: ClusterState, limits: Limits, agreed: frozenset[Action]) -> None:
        self._state, self._limits, self._agreed = state, limits, agreed
        self._draft, self._cover = Draft(state), quota_cover(state)
        self._brake = _Brake(disturbed_lately(state), limits.actions_per_hour, state.begun)
        self.steps: list[Action] = []
        self.refused: list[Refusal] = []
        self._stays: dict[JobId, Refusal] = {}
        self._owes: dict[JobId, Refusal] = {}

    def rule(self, together: tuple[Action, ...]) -> None:
        """Let all of these steps through, or none."""
        # All or none: what a step had counted is taken back where a later one of them is refused.
        brake = self._brake.copy() if len(together) > 1 else self._brake
        before: list[Before] = []
        for step in together:
            before_step = self._draft.before(step)
            result = self._against(step) or self._impossible(step)
            if result is not None:
                self._brake = brake
                # Backwards: a later step stands on what an earlier one made.
                for each in reversed(before):
                    self._draft.restore(each)
                self._refuse(together, step, result)
                return
            before.append(before_step)
            self._brake.note(step)
        self.steps += together

    def put_off(self, step: Action) -> None:
        """Say what stands against a step that is only proposed."""
        self._note(refusal(step, self._against(step) or self._resting(step)))

    def _against(self, step: Action) -> Objection | None:
        return (
            self._never(step)
            or _unwatched(step, self._draft, self._agreed)
            or forbidden(step, self._draft, self._state, self._limits, self._cover)
            or _unwanted(step, self._draft)
            or self._brake.objection(step)
        )

    def _never(self, step: Action) -> Objection | None:
        """What stands against it whatever was done before."""
        return (
            _beyond(step, self._draft)
            or _withheld(step, self._draft)
            or _unswitched(step, self._state, self._limits, self._agreed)
        )

    def _refuse(self, together: tuple[Action, ...], wrong: Action, objection: Objection) -> None:
        rest = Objection(
            rule=Rule.STALE,
            reason=f"it is done together with {action_of(wrong).value} of {wrong.job}, "
            f"and {objection.reason}",
            would_change=objection.would_change,
        )
        for step in together:
            self._note(refusal(step, objection if step is wrong else self._never(step) or rest))

    def _note(self, refused: Refusal) -> None:
        """Keep a refusal, and that its job stays where it is and gives nothing to who waits for that."""
        self.refused.append(refused)
        self._stays.setdefault(refused.job, refused)
        asker = getattr(refused.step, "for_job", None)
        if asker is not None:
            self._owes.setdefault(asker, refused)

    def _impossible(self, step: Action) -> Objection | None:
        """Take the step, or say why it cannot be taken: one before it was refused, or the world moved on."""
        try:
            self._draft.take(step)
        except StepError as error:
            first = self._owes.get(step.job)
            if first is not None:
                return _first(first)
            reason = str(error)
            return Objection(rule=Rule.STALE, reason=reason, would_change="a new plan on the newest state")
        return None

    def _resting(self, step: Action) -> Objection:
        """Why a step is not done by itself that would follow from others which need somebody's yes."""
        holders = (job for uuid in getattr(step, "gpus", ()) for job in self._draft.on(uuid))
        firsts = (self._owes.get(step.job), *(self._stays.get(job) for job in holders))
        first = next((each for each in firsts if each is not None), None)
        if first is not None:
            return _first(first)
        reason = "it would follow from what is proposed, and is not done by itself"
        return Objection(rule=Rule.STALE, reason=reason, would_change="somebody's yes to that")


def is_unwatched(step: Action, view: Draft | ClusterState) -> bool:
    """Whether it gives a neighbour to a job whose steps nobody counts."""
    if not isinstance(step, Move) or step.action is not ActionClass.PACK:
        return False
    job, placement = view.jobs.get(step.job), view.placements.get(step.job)
    return job is not None and not job.paced and placement is not None and placement.gpus == step.gpus


class _Brake:
    """Counts disturbances; what was begun for one job under the bound is finished, a gang being one deed."""

    def __init__(self, lately: int, bound: int | None, begun: Iterable[JobId] = ()) -> None:
        self._count, self._bound = lately, bound
        self._begun: set[JobId] = set(begun)

    def copy(self) -> "_Brake":
        """The same count, to go back to."""
        return _Brake(self._count, self._bound, self._begun)

    def objection(self, step: Action) -> Objection | None:
        if self._bound is None or not isinstance(step, Pause | Requeue | Move | Cancel):
            return None
        if self._count < self._bound or (not isinstance(step, Cancel) and step.for_job in self._begun):
            return None
        return Objection(
            rule=Rule.RATE,
            reason=f"{self._count} jobs were disturbed within the hour, and {self._bound} is the bound",
            would_change="time, or a higher bound",
        )

    def note(self, step: Action) -> None:
        if isinstance(step, Pause | Requeue | Move | Cancel):
            self._count += 1
            if not isinstance(step, Cancel) and step.for_job is not None:
                self._begun.add(step.for_job)


def _beyond(step: Action, draft: Draft) -> Objection | None:
    """Why no engine here could carry the step out, or why it is a workload manager's to decide: a plan must
    not stop at what never could be done. To tell, and to give a job back to its manager, is neither."""
    job = draft.jobs.get(step.job)
    if job is None:
        return None
    reason = job.cannot.get(verb_of(step))
    if reason is not None:
        other = job.manager or "a job that Fallow launched"
        return Objection(rule=Rule.UNSUPPORTED, reason=reason, would_change=other)
    return None if isinstance(step, Resume | Notify) else against_manager(job, action_of(step))


def _withheld(step: Action, draft: Draft) -> Objection | None:
    """Its owner's own no (``fallow consent``), which goes before everybody's yes."""
    job = draft.jobs.get(step.job)
    reason = None if job is None else job.withheld.get(verb_of(step))
    if reason is None:
        return None
    return Objection(rule=Rule.OPTED_OUT, reason=reason, would_change="the owner's consent: `fallow consent`")


def _unwanted(step: Action, draft: Draft) -> Objection | None:
    """Nobody gives way to a job that neither waits any more nor could have more GPUs than it has."""
    asker = getattr(step, "for_job", None)
    job = None if asker is None else draft.jobs.get(asker)
    if asker is None or (job is not None and job.phase is not Phase.RUNNING):
        return None
    placement = draft.placements.get(asker)
    if job is not None and placement is not None and len(placement.gpus) < job.max_gpus:
        return None
    reason = f"{asker}, for which it would be done, does not wait any more"
    return Objection(rule=Rule.STALE, reason=reason, would_change="a new plan on the newest state")


def _first(refused: Refusal) -> Objection:
    reason = f"{refused.job} would have to give way first, and {refused.reason}"
    return Objection(rule=Rule.STALE, reason=reason, would_change=refused.would_change)


def _unswitched(
    step: Action, state: ClusterState, limits: Limits, agreed: frozenset[Action]
) -> Objection | None:
    action, job = action_of(step), state.jobs.get(step.job) or state.background.get(step.job)
    mode = limits.mode(action) if job is None else limits.mode_for(action, job.project, state.projects)
    if mode is Mode.AUTO or (mode is Mode.ASK and step in agreed):
        return None
    would_change = (
        "somebody's approval of this step" if mode is Mode.ASK else f"the mode of {action.value} set to auto"
    )
    own = "" if job is None or mode is limits.mode(action) else f" for {job.project}"
    return Objection(
        rule=Rule.MODE, reason=f"the mode of {action.value} is {mode.value}{own}", would_change=would_change
    )


def _unwatched(step: Action, draft: Draft, agreed: frozenset[Action]) -> Objection | None:
    """A job whose speed nobody knows gets no neighbour by itself: nobody would see it slowed down."""
    if step in agreed or not is_unwatched(step, draft):
        return None
    return Objection(
        rule=Rule.NOT_MEASURED,
        reason="nobody counts its steps, so a neighbour that slows it down would not be found",
        would_change="`import fallow; fallow.listen()` in its script, and 3 minutes alone",
    )


def _against_protected(
    step: Action, job: Job, placement: Placement | None, state: ClusterState
) -> Objection | None:
    """A protected job starts as any other; nobody starts or goes on where the site protects the GPU."""
    gpus = () if placement is None else placement.gpus
    match step:
        case Start() | Resume() | HoldForJob():
            return against_protected_gpus(step.gpus, state)
        case Resize() | Move():
            return against_protected(job, (*gpus, *step.gpus), state)
        case _:
            return against_protected(job, gpus, state)


def _against_resize(
    step: Resize, job: Job, placement: Placement, state: ClusterState, cover: Cover
) -> Objection | None:
    """Each part of a shrink is judged by who gets it: a quota covers against others, not against siblings."""
    remaining = len(step.gpus) + sum(count for _, count in step.also_for)
    if not all(count >= 0 for _, count in step.also_for) or remaining > max(
        len(placement.gpus), len(step.gpus)
    ):
        return Objection(rule=Rule.STALE, reason="more of it is divided than it gives up")
    for asker, count in ((step.for_job, 0), *step.also_for):
        remaining -= count
        other = None if asker is None else state.jobs.get(asker)
        if other is None or other.project == job.project:
            continue
        covered = cover.gpus(job, other.project)
        if remaining * placement.share < min(covered, placement.size_gpus) - SHARE_SLACK:
            return Objection(
                rule=Rule.IN_QUOTA,
                reason=f"the quota of {job.project} covers {covered:g} of its GPUs",
                would_change="a smaller quota",
            )
    return against_touching(job, placement.gpus, ActionClass.RESIZE, state)


def _is_siblings(job: Job, asker: Job | None, limits: Limits) -> bool:
    """Whether it is a project's own affair, in which its quota protects nobody: one of its jobs takes the
    place of a lower one, or its equals trade."""
    if asker is None or asker.project != job.project:
        return False
    return limits.order.trades or asker.priority > job.priority
