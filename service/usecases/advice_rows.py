"""Advice, reasons for none, steps and refusals as JSON-ready rows: the same for verbs, routes and pages."""

from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING

from advisor import tags
from service.schemas.advice import AbstainRow, AdviceRow
from service.schemas.control import Refused

if TYPE_CHECKING:
    from advisor.actions import Action
    from advisor.planner.plan import Abstain, Advice, Refusal


def advice_row(advice: "Advice", currency: str | None) -> AdviceRow:
    """One advice as JSON; a gain for which nothing recorded speaks is null."""
    from advisor.explain import advice_id

    return {
        "id": advice_id(advice),
        "class": advice.action.value,
        "job": advice.job,
        "gpus": list(advice.gpus),
        "what": advice.what,
        "why": advice.why,
        "gain_gpu_hours": advice.known_gain_gpu_hours,
        "gain_money": advice.known_gain_money,
        "currency": currency if advice.known_gain_money is not None else None,
        "gain_is_past": advice.gain_is_past,
        "horizon_s": advice.horizon_s,
        "risk": advice.risk,
        "risk_to": list(advice.risk_to),
        "confidence": advice.confidence,
        "confidence_is_known": advice.confidence_is_known,
        "steps": [step_row(step) for step in advice.steps],
        "evidence": {each.name: each.value for each in advice.evidence},
    }


def abstain_row(abstain: "Abstain") -> AbstainRow:
    """One reason for no advice as JSON."""
    return {
        "class": abstain.action.value,
        "job": abstain.job,
        "gpus": list(abstain.gpus),
        "reason": abstain.reason,
        "would_change": abstain.would_change,
    }


def refusal(refusal: "Refusal") -> Refused:
    """Something that is not done: which rule says so, and what would change it."""
    return Refused(
        job=refusal.job,
        action=refusal.action.value,
        rule=refusal.rule.value,
        reason=refusal.reason,
        would_change=refusal.would_change,
    )


def step_row(step: "Action") -> dict[str, object]:
    """One step as JSON: its verb and all its fields."""
    fields = {name: _plain(value) for name, value in asdict(step).items()}
    return {"verb": verb_of(step), **fields}


def verb_of(step: "Action") -> str:
    """``release-memory`` as people say it: release memory."""
    return tags.verb_of(step).replace("-", " ")


def _plain(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return value
