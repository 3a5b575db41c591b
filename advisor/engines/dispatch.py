"""Hands each step to the engine whose job it is: launched by Fallow, or foreign."""

from advisor.engines.engine import Engine, Outcome
from advisor.steps import Step
from collector.model import JobId

LAUNCHED = "fallow:"


def is_launched(job: JobId) -> bool:
    """Whether Fallow launched the job: then it has an entry in the register and a launcher of its own."""
    return job.startswith(LAUNCHED)


class Dispatch:
    """One engine for both kinds of job."""

    def __init__(self, launched: Engine, foreign: Engine) -> None:
        self._launched, self._foreign = launched, foreign

    def do(self, step: Step, intent: int = 0) -> Outcome:
        """Carry the step out where its job lives; blocks as long as that engine does."""
        engine = self._launched if is_launched(step.job) else self._foreign
        return engine.do(step, intent)
