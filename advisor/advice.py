"""What a policy says: ``Advice``, or ``Abstain`` with the reason. Pure values, for people first."""

from dataclasses import dataclass

from advisor.model import ActionClass
from advisor.steps import Action
from analytics.model import Evidence
from collector.model import GpuUuid, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something worth doing, for people first: what, why, what it brings and what it may cost whom.

    ``gain_gpu_hours`` is expected over ``horizon_s``; ``gain_money`` in the site's currency, ``None`` without
    a price. ``risk_to`` are users. ``confidence`` is 0..1. ``steps`` is what doing it would mean; none when
    only a person can (a smaller request next time).
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
    horizon_s: float | None = None
    risk: str = ""
    risk_to: tuple[str, ...] = ()
    confidence: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstain:
    """Nothing is advised, why (thin data, a rule, an owner's word), and what would change that."""

    action: ActionClass
    reason: str
    would_change: str = ""
    job: JobId | None = None
    gpus: tuple[GpuUuid, ...] = ()
    evidence: tuple[Evidence, ...] = ()
