"""What people ask of plans, journal and switch: to see them, approve, reject, undo, stop and start acting.

Everybody sees everything; who owns a job approves, rejects and undoes what is done to it, an operator does
for all. A plan is applied to the world as it is now: the guard rules on it again, and what became stale is
said and not done.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.actions import Action, Pause, Resume, SetEnvAtRestart, Start
from advisor.jobs import lifecycle
from advisor.jobs.lifecycle import Refused
from advisor.journal.pending_plans import Verdict
from advisor.journal.proposals import PendingPlan, Proposed, Standing, snoozed_until_ms
from advisor.journal.records import ActionRecord, Result, reverse_of
from advisor.outcomes import Done, Stale
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan, Refusal
from advisor.planner.targets import left_to
from advisor.state.model import ActionClass, ClusterState, Job
from collector.model import JobId
from service.control.errors import BadOrder, NotAllowed, UnknownJob, WrongState
from service.control.executor import Applying, Approval
from service.control.free_gpus import FreeGpus, taken
from service.control.interface import Caller, Role
from service.control.records import Records
from service.control.rows import acting_row, action_row, plan_row
from service.schemas.answer import Row, to_row
from service.schemas.control import Applied, Rejected, StepOutcome

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register, Turn

MOST_PLANS = 100
"""Plans in one answer: those that wait come first, and rarely are more than a few."""
MOST_NUMBER = 2**63 - 1
"""The store's widest whole number: to look for a larger one would be an error of the store's."""
MOST_SNOOZE_HOURS = 24 * 366
"""A year: who wants it never proposed switches the class of action off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDependencies:
    """What plans are applied with. ``observe`` may be called from any thread."""

    books: Records
    limits: Limits
    observe: Callable[[], ClusterState]
    applying: Applying
    register: "Register"
    taking: FreeGpus
    by_launcher: Callable[[JobId], bool]
    """Whether a job's record is in the register, as the engines say."""
    against: Callable[[Action], str | None] = lambda step: None
    """Why a step must not be done any more, by its job's owner's word."""


class Papers:
    """What people ask of plans and the journal, for ``JobCommands``; safe from any thread."""

    def __init__(self, parts: ApprovalDependencies) -> None:
        self._parts = parts
        self._books = parts.books

    def plans(self, caller: Caller) -> list[Row]:
        """Plans, those that wait first."""
        return [plan_row(pending) for pending in self._books.shelf.newest(MOST_PLANS)]

    def apply(self, caller: Caller, plan: int, steps: tuple[int, ...] | None) -> Row:
        """Do a waiting plan, or these steps of it, as far as it is still right. Waits a moment for it."""
        pending = self._waiting(plan)
        chosen = _chosen(pending, steps)
        self._may_settle(caller, [each for _, each in chosen if each.mode is Mode.ASK], "approve")
        # Asked again before each step: somebody may throw the switch while a launcher saves.
        halt = self._books.switch.halt()
        if halt is not None:
            raise WrongState(f"plan {plan} is not applied: {halt}")
        approved, refused = self._ruled(pending, chosen)
        modes = {n: each.mode for n, each in chosen}
        # Steps that go by themselves only follow: with none left that was asked for, nothing was approved.
        numbers_to_ask = {n for n, mode in modes.items() if mode is Mode.ASK} or set(modes)
        if not numbers_to_ask.intersection(n for n, _ in approved):
            raise WrongState(f"nothing of plan {plan} can be done now: {_reasons(refused)}")
        # Before the first step: a second yes to the same plan finds it settled, and nothing is done twice.
        self._settle(pending, Standing.APPLIED, caller, "")
        approval = Approval(
            actor=f"user {caller.name}",
            steps=approved,
            plan=plan,
            halted=self._books.switch.halt,
            against=self._parts.against,
        )
        came = self._parts.applying.carry_out(approval).came()
        step_outcomes = (StepOutcome(n=n, outcome="stale", message=why.reason) for n, why in refused)
        outcomes = tuple(sorted((*came.steps, *step_outcomes), key=lambda each: each.n))
        message = came.message
        if refused:
            message = f"{message}; not done: {_reasons(refused)}".removeprefix("; ")
        return to_row(replace(came, steps=outcomes, message=message))

    def reject(self, caller: Caller, plan: int, because: str, snooze_hours: float | None) -> Row:
        """Turn a waiting plan down; the same is not proposed again until its snooze ends."""
        if snooze_hours is not None and not 0 < snooze_hours <= MOST_SNOOZE_HOURS:
            raise BadOrder(f"a plan is snoozed for up to {MOST_SNOOZE_HOURS} hours, not for {snooze_hours:g}")
        if not because.strip():
            raise BadOrder("say why with --because: the reason is shown to everybody who reads the plan")
        pending = self._waiting(plan)
        steps = [each for each in pending.proposal.steps if each.mode is Mode.ASK]
        if not any(_is_own(caller, each) for each in steps):
            self._may_settle(caller, steps, "reject")
        until_ms = snoozed_until_ms(self._books.clock.now_ms(), snooze_hours)
        self._settle(pending, Standing.REJECTED, caller, because, until_ms)
        hours = 24 if snooze_hours is None else snooze_hours
        tail = " while it rests on the same evidence" if snooze_hours is None else ""
        return to_row(
            Rejected(
                outcome="rejected",
                message=f"plan {plan} is rejected; the same is not proposed again for {hours:g} h{tail}",
                snoozed_ms=until_ms,
            )
        )

    def actions(self, caller: Caller, *, since_ms: int | None, job: JobId | None) -> list[Row]:
        """The journal, the newest first."""
        return [action_row(deed) for deed in self._books.journal.deeds(max(0, since_ms or 0), job)]

    def undo(self, caller: Caller, action: int) -> Row:
        """Put a job back to how it stood before an action; through guard and journal as everything."""
        deed = self._books.journal.deed(action) if 0 < action <= MOST_NUMBER else None
        if deed is None:
            raise UnknownJob(f"there is no action {action}; `fallow actions` lists them")
        user = None if deed.stood is None else deed.stood.user
        if not caller.may_act_for(user or "") or (user is None and caller.role is not Role.OPERATOR):
            raise NotAllowed(
                f"action {action} was done to {deed.job} of {user or 'somebody'}; its owner or an "
                "operator undoes it"
            )
        _must_stand(deed)
        if deed.step is None:
            raise WrongState(f"{deed.verb} of {deed.job} is no step that can be taken back: {deed.no_undo}")
        if self._parts.by_launcher(deed.job) and isinstance(deed.step, Pause | SetEnvAtRestart):
            return self._turn_back(caller, deed, deed.step)
        return self._step_back(caller, deed)

    def acting(self, caller: Caller) -> Row:
        """Whether the service acts, who said so, and the modes."""
        return acting_row(self._books.switch.setting(), self._parts.limits)

    def stop_acting(self, caller: Caller, because: str) -> Row:
        """The kill switch; operators alone."""
        _operators_only(caller, "stops acting")
        self._books.switch.stop(caller.name, self._books.clock.now_ms(), because)
        return self.acting(caller)

    def start_acting(self, caller: Caller) -> Row:
        """Release the kill switch; operators alone."""
        _operators_only(caller, "starts acting again")
        try:
            self._books.switch.start(caller.name, self._books.clock.now_ms())
        except OSError as error:
            raise WrongState(
                f"acting stays stopped: {error.filename} cannot be removed ({error.strerror}); remove it"
            ) from error
        return self.acting(caller)

    def _waiting(self, plan: int) -> PendingPlan:
        pending = self._books.shelf.plan(plan) if 0 < plan <= MOST_NUMBER else None
        if pending is None:
            raise UnknownJob(f"there is no plan {plan}; `fallow plan` lists those that wait")
        if pending.standing is not Standing.WAITING:
            by = f" by {pending.settled_by}" if pending.settled_by else ""
            why = f": {pending.because}" if pending.because else ""
            raise WrongState(f"plan {plan} does not wait any more: {pending.standing.value}{by}{why}")
        return pending

    def _settle(
        self,
        pending: PendingPlan,
        standing: Standing,
        caller: Caller,
        reason: str,
        snoozed_ms: int | None = None,
    ) -> None:
        verdict = Verdict(
            at_ms=self._books.clock.now_ms(),
            standing=standing,
            by=caller.name,
            because=reason,
            snoozed_ms=snoozed_ms,
        )
        # Somebody else settled it meanwhile: the error says who.
        if not self._books.shelf.settle(pending.number, verdict):
            self._waiting(pending.number)
            raise WrongState(f"plan {pending.number} does not wait any more")

    def _may_settle(self, caller: Caller, steps: list[Proposed], doing: str) -> None:
        others = sorted({each.step.job for each in steps if not _is_own(caller, each)})
        if others:
            raise NotAllowed(
                f"{caller.name} may not {doing} what is done to {', '.join(others)}; "
                "its owner or an operator may"
            )

    def _ruled(
        self, pending: PendingPlan, chosen: tuple[tuple[int, Proposed], ...]
    ) -> tuple[tuple[tuple[int, Action], ...], list[tuple[int, Refusal]]]:
        """What the guard makes of the chosen steps in the world as it is now."""
        steps = tuple(each.step for _, each in chosen)
        numbers = {each.step: n for n, each in chosen}
        state = self._parts.observe()
        plan = Plan(as_of_ms=pending.as_of_ms, steps=steps)
        # In the world of now, not of the proposal: a yes counts for steps that the guard still lets through.
        ruling = approve(plan, state, self._parts.limits, frozenset(steps))
        approved = tuple((numbers[step], step) for step in ruling.approved.steps)
        return approved, [(numbers[each.step], each) for each in ruling.refused if each.step is not None]

    def _turn_back(self, caller: Caller, deed: ActionRecord, step: Pause | SetEnvAtRestart) -> Row:
        """What needs no launcher: a paused job is let go on, settings for the next launch are as before."""
        books, reason = self._books, f"undoes action {deed.number}"
        back, turn, message = _turn_of(step, deed, reason)
        number = books.journal.intends(books.clock.now_ms(), back, f"user {caller.name}")
        try:
            self._parts.register.change(deed.job, turn)
        except (Refused, LookupError) as error:
            books.journal.came_of(books.clock.now_ms(), number, Stale(found=str(error)))
            raise WrongState(str(error)) from error
        books.journal.came_of(books.clock.now_ms(), number, Done(note=message))
        books.journal.undone(deed.number, number)
        return to_row(Applied(action=number, outcome="done", message=message))

    def _step_back(self, caller: Caller, deed: ActionRecord) -> Row:
        assert deed.step is not None
        back = reverse_of(deed.step, deed.stood, f"undoes action {deed.number}")
        if back is None:
            raise WrongState(f"nothing undoes {deed.verb} of {deed.job}: {deed.no_undo or 'no step does'}")
        state, taking = self._parts.observe(), self._parts.taking
        job = state.jobs.get(deed.job)
        back = left_to(None if job is None else job.manager, back)
        takes, own = bool(taken(back, state)), caller.role is not Role.OPERATOR
        if takes:
            taking.must_act(f"action {deed.number} is not undone")
        if own:
            taking.must_be_nobodys(back, state)
        state = _consented(state, deed.job) if own or isinstance(deed.step, Start | Resume) else state
        if not _is_given_back(back, state):
            plan = Plan(as_of_ms=state.as_of_ms, steps=(back,))
            ruling = approve(plan, state, _by_order(self._parts.limits))
            if ruling.refused:
                raise WrongState(f"action {deed.number} cannot be undone now: {ruling.refused[0].reason}")
        journal = self._books.journal
        approval = Approval(
            actor=f"user {caller.name}",
            steps=((1, back),),
            then=lambda number: _note_undone(journal.undone, deed.number, number),
        )
        approval = replace(approval, halted=taking.halted) if takes else approval
        return to_row(self._parts.applying.carry_out(approval).came())


def _turn_of(step: Pause | SetEnvAtRestart, deed: ActionRecord, reason: str) -> "tuple[Action, Turn, str]":
    if isinstance(step, Pause):
        back = Resume(job=deed.job, gpus=(), reason=reason)
        return back, lifecycle.let_go, "it goes on as soon as there is room"
    settings = () if deed.stood is None else deed.stood.next_launch
    restored = SetEnvAtRestart(job=deed.job, settings=settings, reason=reason)
    return restored, lambda entry: replace(entry, next_launch=settings), "its next launch is as it was before"


def _is_given_back(back: Action, state: ClusterState) -> bool:
    """Whether a job goes back to its workload manager, which decides when and where it goes on."""
    job = state.jobs.get(back.job)
    return isinstance(back, Resume) and job is not None and job.manager is not None


def _note_undone(undone: Callable[[int, int], bool], number: int, by: int) -> None:
    undone(number, by)


def _chosen(pending: PendingPlan, numbers: tuple[int, ...] | None) -> tuple[tuple[int, Proposed], ...]:
    steps = dict(enumerate(pending.proposal.steps, start=1))
    distinct = tuple(steps) if numbers is None else tuple(sorted(set(numbers)))
    unknown = [n for n in distinct if n not in steps]
    if unknown or not distinct:
        raise BadOrder(
            f"plan {pending.number} has steps 1 to {len(steps)}, and no {unknown[0] if unknown else 0}"
        )
    return tuple((n, steps[n]) for n in distinct)


def _is_own(caller: Caller, each: Proposed) -> bool:
    if caller.role is Role.OPERATOR:
        return True
    return each.user is not None and caller.may_act_for(each.user)


def _must_stand(deed: ActionRecord) -> None:
    """Raise unless the deed was done and nobody undid it."""
    if deed.undone_by is not None:
        raise WrongState(f"action {deed.number} was undone by action {deed.undone_by}")
    match deed.result:
        case Result.DONE | Result.UNKNOWN:
            return
        case None:
            raise WrongState(f"action {deed.number} is still being done; wait for its outcome")
        case _:
            raise WrongState(
                f"action {deed.number} was not done ({deed.result.value}): there is nothing to undo"
            )


def _operators_only(caller: Caller, doing: str) -> None:
    if caller.role is not Role.OPERATOR:
        raise NotAllowed(f"an operator {doing}; {caller.name} is a {caller.role.value}")


def _by_order(limits: Limits) -> Limits:
    """The bounds for what a person orders: no mode, no waiting time and no brake of Fallow's own."""
    return replace(
        limits,
        modes=dict.fromkeys(ActionClass, Mode.AUTO),
        project_modes={},
        min_runtime_s=0.0,
        cooldown_s=0.0,
        actions_per_hour=None,
    )


def _consented(state: ClusterState, id: JobId) -> ClusterState:
    """The state in which the job's owner allows it to be touched: its owner orders it."""
    job: Job | None = state.jobs.get(id)
    if job is None:
        return state
    own = replace(
        job, preemptible=True, attached=False, opted_out=frozenset(), keep_until_ms=None, withheld={}
    )
    return replace(state, jobs={**state.jobs, id: own})


def _reasons(refused: list[tuple[int, Refusal]]) -> str:
    return "; ".join(f"step {n}: {each.reason}" for n, each in refused)
