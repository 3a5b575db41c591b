"""One cycle: look, decide, ask the guard, act, write down. The same function live, dry and simulated.

There is no mode flag: what differs between those worlds are the four things that are handed in. Nothing is
done whose intent was not written first, and the cycle stops at the first outcome that is not ``Done``: what
it planned next rested on a world that is no more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from advisor.actions import Action
from advisor.decide import decide
from advisor.outcomes import Done, Engine, Outcome
from advisor.planner.guard import Ruling, approve
from advisor.planner.limits import Limits
from advisor.planner.plan import Abstain, Advice, Plan
from advisor.planner.validate import checked
from advisor.state.model import ClusterState
from collector.clock import Clock

Observe = Callable[[], ClusterState]
Policy = Callable[[ClusterState], Sequence[Advice | Abstain]]


class Journal(Protocol):
    """Where a cycle writes down what it decides and does; each call is durable when it returns."""

    def decided(self, at_ms: int, plan: Plan, ruling: Ruling) -> None:
        """A plan was made, and the guard has ruled on it."""
        ...

    def intends(self, at_ms: int, step: Action, actor: str = "fallow") -> int:
        """A step is about to be done by ``actor`` (``user NAME`` for people's own); the intent's number."""
        ...

    def came_of(self, at_ms: int, intent: int, outcome: Outcome) -> None:
        """What came of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What one cycle saw to: the plan, the guard's ruling, and what came of each step that was tried.

    ``state`` is the world that the guard ruled on. ``halt`` says why steps that were approved were not tried;
    ``None`` when nobody stopped acting.
    """

    state: ClusterState
    plan: Plan
    ruling: Ruling
    outcomes: tuple[tuple[Action, Outcome], ...]
    halt: str | None = None


def going_on() -> str | None:
    """A switch that nobody throws."""
    return None


def run_cycle(
    observe: Observe,
    engine: Engine,
    journal: Journal,
    clock: Clock,
    limits: Limits,
    *,
    policies: Sequence[Policy] = (),
    agreed: frozenset[Action] = frozenset(),
    halted: Callable[[], str | None] = going_on,
) -> Cycle:
    """Look, decide and do what is approved. Blocks as long as the engine does.

    The guard rules on a second look at the world, newer than the one that was decided on. ``halted`` is asked
    before every single step; what it answers ends the cycle. Raises ``advisor.planner.validate.BadState``
    when what was observed cannot be.
    """
    state = checked(observe())
    advice = tuple(each for policy in policies for each in policy(state))
    plan = decide(state, limits, advice)
    newer = checked(observe())
    ruling = approve(plan, newer, limits, agreed)
    halt = halted()
    if halt is None:
        journal.decided(clock.now_ms(), plan, ruling)
    outcomes: list[tuple[Action, Outcome]] = []
    for step in ruling.approved.steps:
        halt = halted()
        if halt is not None:
            break
        intent = journal.intends(clock.now_ms(), step)
        outcome = engine.do(step, intent)
        journal.came_of(clock.now_ms(), intent, outcome)
        outcomes.append((step, outcome))
        if not isinstance(outcome, Done):
            break
    return Cycle(state=newer, plan=plan, ruling=ruling, outcomes=tuple(outcomes), halt=halt)
