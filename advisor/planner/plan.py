"""What policies say, and the plan that is made of it. Pure values, for people first.

A policy answers with ``Advice``, or ``Abstain`` with the reason. A ``Plan`` has the steps to take, in order,
and everything that was refused, each with its reason.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from advisor.actions import Action, Move
from advisor.state.model import ActionClass, ProjectName
from analytics.model import Evidence
from collector.model import GpuUuid, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something worth doing, for people first: what, why, what it brings and what it may cost whom.

    ``gain_gpu_hours`` is expected over ``horizon_s``; ``gain_money`` in the site's currency, ``None`` without
    a price. Without ``gain_is_known`` both are a guess for which nothing recorded speaks: it orders advice,
    and is neither shown nor added (``known_gain_gpu_hours``, ``known_gain_money``). With ``gain_is_past``
    they are of the last ``horizon_s``, which the job has held already, and are added to no expected ones:
    what a smaller request would have left to others. ``risk_to`` are users.
    ``confidence`` is 0..1; without ``confidence_is_known`` it is a guess, and not shown. ``steps`` is what
    doing it would mean; none when only a person can (a smaller request next time).
    """

    action: ActionClass
    what: str
    why: str
    job: JobId | None = None
    gpus: tuple[GpuUuid, ...] = ()
    steps: tuple[Action, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    gain_gpu_hours: float = 0.0
    gain_money: float | None = None
    gain_is_known: bool = True
    gain_is_past: bool = False
    horizon_s: float | None = None
    risk: str = ""
    risk_to: tuple[str, ...] = ()
    confidence: float = 1.0
    confidence_is_known: bool = True

    @property
    def known_gain_gpu_hours(self) -> float | None:
        """The gain; ``None`` where nothing recorded speaks for one."""
        return self.gain_gpu_hours if self.gain_is_known else None

    @property
    def known_gain_money(self) -> float | None:
        """The gain's worth; ``None`` without a price, or where nothing recorded speaks for a gain."""
        return self.gain_money if self.gain_is_known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstain:
    """Nothing is advised, why (thin data, a rule, an owner's word), and what would change that."""

    action: ActionClass
    reason: str
    would_change: str = ""
    job: JobId | None = None
    gpus: tuple[GpuUuid, ...] = ()
    evidence: tuple[Evidence, ...] = ()


class Rule(StrEnum):
    """Which rule said no. The first twelve protect a running job, the others keep one waiting."""

    PROTECTED = "protected"
    IN_QUOTA = "in-quota"
    NOT_PREEMPTIBLE = "not-preemptible"
    INFERENCE = "inference"
    ATTACHED = "attached"
    OPTED_OUT = "opted-out"
    KEPT = "kept"
    MIN_RUNTIME = "min-runtime"
    COOLDOWN = "cooldown"
    TELEMETRY = "telemetry"
    IN_FLIGHT = "in-flight"
    RATE = "rate"
    UNSUPPORTED = "unsupported"
    MODE = "mode"
    NO_ROOM = "no-room"
    NEVER_FITS = "never-fits"
    LIMIT = "limit"
    UNGUARANTEED = "unguaranteed"
    STATE_ELSEWHERE = "state-elsewhere"
    AFTER = "after"
    DOES_NOT_PAY = "does-not-pay"
    NOT_MEASURED = "not-measured"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that is not done: for which job, by which rule, why, and what would change it."""

    job: JobId
    action: ActionClass
    rule: Rule
    reason: str
    would_change: str = ""
    step: Action | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the cluster will be once the plan is done, briefly: ``transition`` must come to the same."""

    free_gpus: int
    running: int
    waiting: int
    allocated_gpus: Mapping[ProjectName, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What should be done at ``as_of_ms``; ``fair_gpus`` is what each project deserved when it was made.

    The first ``alone`` steps rest on nothing that needs anybody's yes, and are done by themselves. The others
    are only proposed, and all of them rest on the first. ``None``: that was not told apart.
    """

    as_of_ms: int
    steps: tuple[Action, ...] = ()
    alone: int | None = None
    refused: tuple[Refusal, ...] = ()
    fair_gpus: Mapping[ProjectName, float] = field(default_factory=dict)
    outlook: Outlook | None = None
    advice: tuple[Advice | Abstain, ...] = ()


def whole(steps: Iterable[Action]) -> Iterator[tuple[Action, ...]]:
    """The steps in the sets that are done whole or not at all, in order; most stand for themselves.

    Who is to share a GPU, and what is moved for one gang, is a set: a part of it is of no use to anybody.
    """
    for deed, together in groupby(steps, _deed):
        if deed is None:
            yield from ((step,) for step in together)
        else:
            yield tuple(together)


def _deed(step: Action) -> tuple[object, ...] | None:
    if not isinstance(step, Move):
        return None
    if step.for_job is not None:
        return ("for", step.for_job)
    return ("beside", step.gpus) if step.action is ActionClass.PACK else None
