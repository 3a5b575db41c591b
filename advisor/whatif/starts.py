"""What waiting jobs would have had from a start on free GPUs, and from moves that make room. Pure.

At every instant of the window at which somebody waited, the planner is asked whom it would start on what is
free, and then, of those who still wait, whom moves would help. Whoever is helped runs there until it began in
truth, or had run as long as it did in truth, or somebody else got one of these GPUs in truth: so no hour is
counted that was not free. What this would have changed for others is not followed. Waits shorter than a
minute are none, and of a job that never ran nobody can tell what it would have had.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from advisor.actions import Move, Start
from advisor.decide import decide
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.plan import Advice
from advisor.planner.transition import StepError, replay, transition
from advisor.policies import consolidate
from advisor.state.model import ActionClass, ClusterState, Placement
from advisor.whatif.estimate import Foreseen, Given
from advisor.whatif.history import Moments
from collector.model import JobId

LEAST_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What starts and moves would have given back, and what was expected of the moves beside what came."""

    started: Given
    moved: Given
    cases: tuple[Foreseen, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Help:
    """A job that would have run from ``at_ms`` to ``until_ms``, on so many GPUs.

    ``moves`` made room for it and cost so much; ``expected_s`` it was expected to run instead of waiting, and
    it ``could_s``, until it began in truth. ``None``: nothing was expected of a start.
    """

    job: JobId
    at_ms: int
    until_ms: int
    size_gpus: float
    could_s: float
    expected_s: float | None = None
    cost_gpu_s: float = 0.0
    moves: int = 0

    @property
    def gpu_s(self) -> float:
        """GPU-seconds that it would have had."""
        return (self.until_ms - self.at_ms) / 1000 * self.size_gpus - self.cost_gpu_s


@dataclass(slots=True)
class _Story:
    """The window gone through so far. ``instead``: who lies elsewhere than in truth, and until when."""

    moments: Moments
    helped: list[_Help] = field(default_factory=list)
    had_ms: Counter[JobId] = field(default_factory=Counter)
    instead: dict[JobId, tuple[int, Placement]] = field(default_factory=dict)

    def at(self, at_ms: int) -> ClusterState:
        """The cluster then, without those who waited for a moment only, or have had all they needed."""
        self.instead = {job: each for job, each in self.instead.items() if each[0] > at_ms}
        state = self.moments.at(at_ms, {job: each[1] for job, each in self.instead.items()})
        done = {job for job in _pending(state) if self._left_ms(job) <= 0 or self._brief(state, job)}
        return replace(state, jobs={id: job for id, job in state.jobs.items() if id not in done})

    def help(self, before: ClusterState, after: ClusterState, job: JobId) -> _Help:
        """What a waiting job has of the change between two states in which it begins; noted."""
        at_ms, mine = after.as_of_ms, after.placements[job]
        began_ms, remaining_ms = self.moments.began_ms(job) or at_ms, self._left_ms(job)
        changed = {id: each for id, each in after.placements.items() if before.placements.get(id) != each}
        comes_ms = min(self.moments.next_comer_ms(each.gpus, at_ms, changed) for each in changed.values())
        until_ms = min(began_ms, at_ms + remaining_ms, comes_ms)
        help = _Help(
            job=job,
            at_ms=at_ms,
            until_ms=until_ms,
            size_gpus=mine.size_gpus,
            could_s=min(began_ms - at_ms, remaining_ms) / 1000,
        )
        self.had_ms[job] += until_ms - at_ms
        for id, each in changed.items():
            ends_ms = until_ms if id == job else min(until_ms, self.moments.left_ms(id))
            self.instead[id] = (ends_ms, each)
        return help

    def _left_ms(self, job: JobId) -> int:
        began_ms = self.moments.began_ms(job)
        return 0 if began_ms is None else self.moments.left_ms(job) - began_ms - self.had_ms[job]

    def _brief(self, state: ClusterState, job: JobId) -> bool:
        return (self.moments.began_ms(job) or 0) - state.jobs[job].submitted_ms < LEAST_WAIT_MS


def waits(moments: Moments, rules: PlannerConfig, limits: Limits) -> Waits:
    """Go through the window, look by look."""
    story = _Story(moments)
    for at_ms in moments.looks(rules.startup_s):
        if not moments.waiting(at_ms):
            continue
        state = story.at(at_ms)
        if _pending(state):
            state = _start(story, state, limits)
        if _pending(state):
            _move(story, state, rules, limits)
    return _summed(story.helped, rules)


def only(limits: Limits, *actions: ActionClass) -> Limits:
    """The bounds with these classes of action alone."""
    modes = {action: Mode.AUTO if action in actions else Mode.OFF for action in ActionClass}
    return replace(limits, modes=modes, project_modes={})


def _pending(state: ClusterState) -> list[JobId]:
    return [id for id in state.jobs if id not in state.placements]


def _start(story: _Story, state: ClusterState, limits: Limits) -> ClusterState:
    """Whom the planner would start on what is free; nobody gives way for it. The state after that."""
    for step in decide(state, only(limits, ActionClass.SCHEDULE)).steps:
        if isinstance(step, Start):
            after = transition(state, step)
            story.helped.append(story.help(state, after, step.job))
            state = after
    return state


def _move(story: _Story, state: ClusterState, rules: PlannerConfig, limits: Limits) -> None:
    """Whom moves would help, and that pay; one after the other, as far as they agree."""
    observed = Observed(endings=story.moments.endings(state.as_of_ms))
    alone = only(limits, ActionClass.SCHEDULE, ActionClass.CONSOLIDATE)
    for answer in consolidate.advise(state, observed, alone, rules):
        if not isinstance(answer, Advice) or answer.job is None:
            continue
        try:
            after = replay(state, answer.steps)
        except StepError:
            continue
        evidence = {each.name: each.value for each in answer.evidence}
        help = replace(
            story.help(state, after, answer.job),
            expected_s=float(evidence["spared_wait_s"] or 0.0),
            cost_gpu_s=float(evidence["cost_gpu_hours"] or 0.0) * 3600,
            moves=sum(isinstance(step, Move) for step in answer.steps),
        )
        story.helped.append(help)
        state = after


def _summed(helped: Sequence[_Help], rules: PlannerConfig) -> Waits:
    starts = [each for each in helped if each.expected_s is None]
    moves = [each for each in helped if each.expected_s is not None]
    return Waits(
        started=_row(ActionClass.SCHEDULE, "started as soon as GPUs were free for them", starts),
        moved=_row(ActionClass.CONSOLIDATE, "small jobs moved together, so that a waiting one fits", moves),
        cases=tuple(
            Foreseen(expected_s=each.expected_s, came_s=min(each.could_s, rules.horizon_s))
            for each in moves
            if each.expected_s is not None
        ),
    )


def _row(action: ActionClass, how: str, helped: Sequence[_Help]) -> Given:
    return Given(
        action=action.value,
        how=how,
        gpu_hours=sum(each.gpu_s for each in helped) / 3600,
        jobs=len({each.job for each in helped}),
        times=len(helped),
        disturbed=sum(each.moves for each in helped),
    )
