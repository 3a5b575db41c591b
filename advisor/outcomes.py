"""What can come of a step, and ``Engine``, the port through which one is carried out.

An engine does one step at a time and says what came of it as a value; it never decides, never retries and
never raises for what the world does to it. The applier reads preconditions again before each step and stops
its plan at the first outcome that is not ``Done``.
"""

from dataclasses import dataclass
from typing import Protocol

from advisor.actions import Action
from collector.managers.model import Grant

SLICE_S = 0.5
"""So often who waits for an outcome looks whether the service stops."""


class Interrupted(Exception):
    """The service stops while an outcome is awaited; what comes of it is found out at the next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The step was carried out. ``took_s`` is how long that blocked, ``None`` where nothing was measured.

    ``given`` are the GPUs that the job has of it where its manager chose them; none while it still waits.
    """

    took_s: float | None = None
    note: str = ""
    given: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """The world is no longer as the step requires; nothing was done."""

    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """This engine cannot do such a step; nothing was done."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The step was tried and did not succeed; ``found`` says how the world was left."""

    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """The step was given, and what comes of it is not known yet; the journal finds out (``recovery``)."""

    found: str


Outcome = Done | Stale | Unsupported | Failed | Late


class Engine(Protocol):
    """Carries out steps in one kind of world."""

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Carry out one approved step; may block. ``intent`` is its number in the journal, 0 without one."""
        ...
