"""Hands each step to the engine whose job it is: launched by Fallow, or foreign; and notes what was told.

A telling that its launcher has not acknowledged yet has reached nobody so far, and is no failure either: it
is noted when its intent is settled.
"""

from collections.abc import Callable

from advisor.actions import Action, Notify
from advisor.journal.records import Result
from advisor.journal.recovery import TOLD
from advisor.outcomes import Done, Engine, Failed, Outcome
from advisor.state.model import is_submitted
from collector.model import JobId

LAUNCHER = "its launcher"

Heard = Callable[[JobId, str, str, tuple[str, ...]], None]
"""Notes what an owner was told: the job, the rung, the message, and whom it reached."""


class Dispatch:
    """One engine for both kinds of job. ``heard`` notes what owners were told through their launchers."""

    def __init__(self, launched: Engine, foreign: Engine, heard: Heard) -> None:
        self._launched, self._foreign, self._heard = launched, foreign, heard

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Carry the step out where its job lives; blocks as long as that engine does."""
        if not is_submitted(step.job):
            return self._foreign.do(step, intent)
        outcome = self._launched.do(step, intent)
        if isinstance(step, Notify) and isinstance(outcome, Done | Failed):
            reached = (LAUNCHER,) if isinstance(outcome, Done) else ()
            self._heard(step.job, "tell", step.message, reached)
        return outcome

    def settled(self, step: Action, result: Result, found: str) -> None:
        """Note what came of a telling after all, once its launcher has said so; nothing is noted twice."""
        if isinstance(step, Notify) and is_submitted(step.job) and found != TOLD:
            self._heard(step.job, "tell", step.message, (LAUNCHER,) if result is Result.DONE else ())
