"""Hands each step to the engine that has its job and does such a thing; and notes what was told.

A telling that its launcher has not acknowledged yet has reached nobody so far, and is no failure either: it
is noted when its intent is settled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from advisor.actions import Action, Notify
from advisor.engines.capabilities import VERBS, Capabilities
from advisor.engines.effects import Preview
from advisor.journal.records import Result
from advisor.journal.recovery import TOLD, Found
from advisor.outcomes import Done, Engine, Failed, Outcome, Unsupported
from collector.model import JobId

LAUNCHER = "its launcher"

Heard = Callable[[JobId, str, str, tuple[str, ...]], None]
"""Notes what an owner was told: the job, the rung, the message, and whom it reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEntry:
    """An engine, the jobs that are its own, and its capabilities.

    ``does`` are the actions that it carries out, ``None`` all: what it leaves out goes to the next engine
    that has the job. ``brief`` is the same engine for who has more to do, itself where it never waits.
    ``preview`` tells what a step would do, ``None``: it cannot say beforehand. ``found`` tells what is
    seen of a step that was begun, and does nothing: after a crash that is all there is to go by.
    ``tells``: the owner is told through the job's launcher, so that what was told is noted here; another
    engine notes it itself. ``by_launcher``: its jobs are in the register, and their launchers are given
    numbered commands; another engine's jobs are known by what was seen of them. ``capabilities``: what is
    done to such jobs at all, by this engine or by one after it.
    """

    name: str
    owns: Callable[[JobId], bool]
    engine: Engine
    brief: Engine | None = None
    does: frozenset[type[Action]] | None = None
    preview: Callable[[Action], Preview] | None = None
    found: Found = lambda job, step, intent: None
    tells: bool = False
    by_launcher: bool = False
    capabilities: Capabilities | None = None

    def takes(self, step: Action) -> bool:
        """Whether this step is for it."""
        return self.owns(step.job) and (self.does is None or type(step) in self.does)


class Dispatch:
    """One engine for all kinds of job. ``on_notice`` notes what owners were told through their launchers."""

    def __init__(self, engines: Sequence[EngineEntry], on_notice: Heard) -> None:
        self._engines, self._heard = tuple(engines), on_notice

    def brief(self) -> "Dispatch":
        """The same, waiting a moment at most for what an engine began."""
        brief = [replace(each, engine=each.brief or each.engine) for each in self._engines]
        return Dispatch(brief, self._heard)

    def by_launcher(self, job: JobId) -> bool:
        """Whether the job is of an engine that gives its launcher commands; its record is in the register."""
        owner = self._owner(job)
        return owner is not None and owner.by_launcher

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Carry the step out where its job lives; blocks as long as that engine does."""
        entry = self._entry(step)
        if entry is None:
            return Unsupported(why=f"no engine does this to {step.job}")
        outcome = entry.engine.do(step, intent)
        if entry.tells and isinstance(step, Notify) and isinstance(outcome, Done | Failed):
            reached = (LAUNCHER,) if isinstance(outcome, Done) else ()
            self._heard(step.job, "tell", step.message, reached)
        return outcome

    def can(self, job: JobId) -> dict[str, str | None]:
        """Each verb with why it is never done to jobs of this one's kind, ``None`` where it can be."""
        owner = self._owner(job)
        declared = None if owner is None else owner.capabilities
        return dict.fromkeys(VERBS, "no engine has it") if declared is None else declared.can()

    def preview(self, step: Action) -> tuple[str, Preview | None]:
        """The name of the engine that would do the step, and what it would do. Nothing is done."""
        entry = self._entry(step)
        if entry is None:
            return "", Unsupported(why=f"no engine does this to {step.job}")
        return entry.name, None if entry.preview is None else entry.preview(step)

    def found(self, job: JobId, step: Action | None, intent: int) -> Outcome | None:
        """What the job's own engine sees of a step that was begun, doing nothing; ``None``: unknown."""
        owner = self._owner(job)
        return None if owner is None else owner.found(job, step, intent)

    def settled(self, step: Action, result: Result, finding: str) -> None:
        """Note what came of a telling after all, once its launcher has said so; nothing is noted twice."""
        entry = self._entry(step)
        if isinstance(step, Notify) and entry is not None and entry.tells and finding != TOLD:
            self._heard(step.job, "tell", step.message, (LAUNCHER,) if result is Result.DONE else ())

    def _owner(self, job: JobId) -> EngineEntry | None:
        return next((each for each in self._engines if each.owns(job)), None)

    def _entry(self, step: Action) -> EngineEntry | None:
        return next((each for each in self._engines if each.takes(step)), None)
