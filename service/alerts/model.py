"""The nouns of alerting: what holds now, the case it makes, and what becomes of a case. Pure values.

A *condition* is what one look finds; a *case* is what is kept of it from opening to closing, one open case a
key; a *letter* is a word about a case to one receiver. Times are UTC milliseconds, ratios 0..1.

    nothing ──holds for opens_after──► open ──a higher level for opens_after──► open, worse
       ▲                                │
       └────── closed ◄─────────────────┘ calm for closes_after; whatever is not known changes nothing
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from analytics.model import Evidence
from analytics.vocabulary.alerts import ALERTS
from analytics.vocabulary.alerts import AlertKind as AlertKind  # noqa: PLC0414

EVENTS = frozenset(kind for kind, words in ALERTS.items() if words.is_event)
"""What happened once and does not last: its case is told when it opens, and closes without a word."""


SHOWN = 1
"""At this level a case is shown and nobody is sent a word; words begin above it."""
WORTH_A_WORD = 2
WORSE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is so now. ``level`` grows with how bad it is; ``rung`` is its name.

    ``says`` is the sentence with the evidence, ``next`` what happens next and when, ``do`` the command that
    answers it. ``by_ladder``: the ladder itself tells the job's owner, so nobody else does. Instants in
    sentences are written as ``2026-11-21 09:30 UTC`` and told to each receiver in their own zone.
    """

    key: str
    kind: AlertKind
    level: int
    rung: str
    since_ms: int
    title: str
    says: str
    next: str
    do: str = ""
    evidence: tuple[Evidence, ...] = ()
    job: str | None = None
    user: str | None = None
    project: str | None = None
    node: str | None = None
    gpus: tuple[str, ...] = ()
    by_ladder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One look: what holds by key, what cannot be judged now, and why what is calm is calm.

    ``unknown_all`` when nothing can be judged but the keys in ``holds``.
    """

    at_ms: int
    holds: Mapping[str, Condition] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    calm: Mapping[str, str] = field(default_factory=dict)
    unknown_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A condition from its opening to its closing; ``condition`` is as of its opening or newest change.

    ``told_level`` is the highest level of which a word went out, ``told_ms`` when that was; 0 and ``None``
    while none did.
    """

    number: int
    condition: Condition
    opened_ms: int
    told_level: int = 0
    told_ms: int | None = None
    closed_ms: int | None = None
    because: str = ""

    @property
    def key(self) -> str:
        """What it is about; only one open case has it."""
        return self.condition.key


KINDS, UNTOLD = "kinds", "not_told_yet"
"""The evidence by which a job's case tells its kinds, and those of them of which no word went out."""


def kinds_of(condition: Condition) -> tuple[str, ...]:
    """What was found: of a job whose case is of several kinds all of them, else its own kind."""
    return _listed(condition, KINDS) or (condition.kind.value,)


def untold_of(condition: Condition) -> tuple[str, ...]:
    """The kinds that came to an open case within the quiet time of its last word."""
    return _listed(condition, UNTOLD)


def _listed(condition: Condition, name: str) -> tuple[str, ...]:
    value = next((str(each.value) for each in condition.evidence if each.name == name), "")
    return tuple(filter(None, value.split(", ")))


class Turn(StrEnum):
    """What happened to a case. UPDATED: another kind of the same job came to it, or one of them ended."""

    OPENED = "opened"
    WORSE = "worse"
    UPDATED = "updated"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A case as it is from now on, what turned, and whether that is worth a word to its receivers."""

    case: Incident
    turn: Turn
    word: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Hysteresis and quiet time, in milliseconds."""

    opens_after_ms: int
    closes_after_ms: int
    quiet_ms: int
