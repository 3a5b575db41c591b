"""Plans, journal and switch as rows for programs: what the routes answer. Pure."""

from collections.abc import Mapping
from typing import Any

from advisor.journal.deeds import ActionRecord
from advisor.journal.proposals import PendingPlan, Proposed, Standing
from advisor.journal.switch import Setting
from advisor.limits import Limits
from advisor.model import ActionClass
from advisor.tags import verb_of
from service.usecases.advice_rows import refusal_row

Row = dict[str, Any]


def plan_row(kept: PendingPlan) -> Row:
    """A kept plan and its steps, numbered from 1."""
    return {
        "plan": kept.number,
        "as_of_ms": kept.as_of_ms,
        "state": kept.standing.value,
        "steps": [step_row(at, each) for at, each in enumerate(kept.proposal.steps, start=1)],
        "refused": [refusal_row(each) for each in kept.proposal.refused],
        "settled_ms": kept.settled_ms,
        "settled_by": kept.settled_by,
        "because": kept.because,
        "snoozed_ms": kept.snoozed_ms,
        "apply": f"fallow apply {kept.number} --yes" if kept.standing is Standing.WAITING else None,
    }


def step_row(number: int, each: Proposed) -> Row:
    """A step of a plan; ``expected_gain`` is null where no policy reckoned one."""
    gain = None
    if each.gain_gpu_hours is not None:
        gain = {"gpu_hours": each.gain_gpu_hours, "horizon_s": each.horizon_s}
    return {
        "n": number,
        "verb": verb_of(each.step),
        "job": each.step.job,
        "gpus": list(getattr(each.step, "gpus", ())),
        "sentence": sentence(each),
        "reason": each.step.reason,
        "mode": each.mode.value,
        "user": each.user,
        "project": each.project,
        "expected_gain": gain,
        "why": each.why,
        "risk": each.risk,
        "evidence": {fact.name: fact.value for fact in each.evidence},
    }


def sentence(each: Proposed) -> str:
    """What a step does, in a line: verb, job, whose, on what."""
    step = each.step
    gpus = getattr(step, "gpus", ())
    on = f" on {len(gpus)} GPU{'' if len(gpus) == 1 else 's'}" if gpus else ""
    whose = f" of {each.user}" if each.user else ""
    settings = getattr(step, "settings", ())
    what = " with " + " ".join(f"{name}={value}" for name, value in settings) if settings else ""
    askers = [getattr(step, "for_job", None), *(job for job, _ in getattr(step, "also_for", ()))]
    given = " and ".join(each for each in askers if each)
    return f"{verb_of(step).replace('-', ' ')} {step.job}{whose}{on}{what}" + (
        f" for {given}" if given else ""
    )


def action_row(deed: ActionRecord) -> Row:
    """A row of the journal; ``outcome`` is null while it is being done, ``user`` where none was known."""
    return {
        "action": deed.number,
        "at_ms": deed.begun.at_ms,
        "job": deed.job,
        "verb": deed.verb,
        "actor": deed.actor,
        "user": None if deed.stood is None else deed.stood.user,
        "plan": deed.plan,
        "reason": deed.reason,
        "outcome": None if deed.result is None else deed.result.value,
        "found": deed.found,
        "settled_ms": deed.settled_ms,
        "undo": deed.undo,
        "no_undo": deed.no_undo,
        "undone_by": deed.undone_by,
    }


def acting_row(setting: Setting, limits: Limits) -> Row:
    """The switch, and how far each class of action goes."""
    return {
        "acting": setting.acting,
        "by": setting.by or None,
        "at_ms": setting.at_ms,
        "because": setting.because,
        "modes": {action.value: limits.mode(action).value for action in ActionClass},
        "project_modes": {name: _modes(said) for name, said in sorted(limits.project_modes.items())},
    }


def _modes(said: Mapping[ActionClass, Any]) -> dict[str, str]:
    return {action.value: mode.value for action, mode in said.items()}
