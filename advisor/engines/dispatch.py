"""Hands each step to the engine whose job it is: launched by Fallow, or foreign; and notes what was told."""

from collections.abc import Callable

from advisor.engines.engine import Done, Engine, Outcome
from advisor.register.state import is_ours
from advisor.steps import Step, Tell
from collector.model import JobId

LAUNCHER = "its launcher"

Heard = Callable[[JobId, str, str, tuple[str, ...]], None]
"""Notes what an owner was told: the job, the rung, the message, and whom it reached."""


class Dispatch:
    """One engine for both kinds of job. ``heard`` notes what owners were told through their launchers."""

    def __init__(self, launched: Engine, foreign: Engine, heard: Heard) -> None:
        self._launched, self._foreign, self._heard = launched, foreign, heard

    def do(self, step: Step, intent: int = 0) -> Outcome:
        """Carry the step out where its job lives; blocks as long as that engine does."""
        if not is_ours(step.job):
            return self._foreign.do(step, intent)
        outcome = self._launched.do(step, intent)
        if isinstance(step, Tell):
            reached = (LAUNCHER,) if isinstance(outcome, Done) else ()
            self._heard(step.job, "tell", step.message, reached)
        return outcome
