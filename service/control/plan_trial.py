"""What a plan made now would do, step by step: a cycle whose engine is a dry run. Nothing is done.

The steps are taken in a copy of the cluster (``advisor.engines.dry_run``), so one that needs what another
frees is tried after it. What each would do to the world its engine says beforehand. No intent is written, no
plan is kept for a yes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.engines.dry_run import DryRun
from advisor.engines.effects import Preview
from advisor.outcomes import Stale, Unsupported
from advisor.planner.guard import approve
from advisor.planner.limits import Limits
from advisor.planner.validate import checked
from advisor.state.model import ClusterState
from advisor.tags import verb_of
from service.schemas.answer import Row, to_row
from service.schemas.control import PlanTrial, StepEffect, TriedStep

if TYPE_CHECKING:
    from advisor.actions import Action
    from advisor.cycle import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDependencies:
    """What a plan is made of, as the acting loop has it; ``preview`` is the engines' own word."""

    observe: Callable[[], ClusterState]
    limits: Limits
    policies: "tuple[Policy, ...]"
    preview: "Callable[[Action], tuple[str, Preview | None]]"
    against: "Callable[[Action], str | None]"
    halted: Callable[[], str | None]


def trial(parts: TrialDependencies) -> Row:
    """Make a plan and try it. Blocks for a look at the cluster. Safe from any thread."""
    from advisor.decide import decide  # it takes a while, and callers are answered by now

    state = checked(parts.observe())
    plan = decide(state, parts.limits, tuple(each for ask in parts.policies for each in ask(state)))
    # Twice: what goes by itself, and what would with a yes to everything. Else a start would be refused for
    # the GPU that a step before it frees, which only waits for somebody's yes.
    ruling = approve(plan, state, parts.limits)
    if_agreed = approve(plan, state, parts.limits, frozenset(plan.steps))
    refused = {each.step: each.reason for each in if_agreed.refused if each.step is not None}
    dry, tried = DryRun(state), []
    for n, step in enumerate(plan.steps, start=1):
        engine, preview = parts.preview(step)
        refusal = refused.get(step) or parts.against(step)
        attempt = dry.do(step) if refusal is None else Stale(found=refusal)
        effects = None
        match attempt, preview:
            case Stale(found=message), _:
                outcome = "stale" if refusal is None else "refused"
            case _, Stale(found=message):
                outcome = "stale"
            case _, Unsupported(why=message):
                outcome = "unsupported"
            case _, _:
                outcome, message = "done" if step in ruling.approved.steps else "ask", ""
                if preview is not None:
                    effects = tuple(StepEffect(kind=each.kind.value, text=each.text) for each in preview)
        job = state.jobs.get(step.job)
        tried.append(
            TriedStep(
                n=n,
                verb=verb_of(step),
                job=step.job,
                user=None if job is None else job.user,
                gpus=tuple(getattr(step, "gpus", ())),
                reason=step.reason,
                engine=engine,
                outcome=outcome,
                message=message,
                effects=effects,
            )
        )
    return to_row(PlanTrial(as_of_ms=state.as_of_ms, halted=parts.halted(), steps=tuple(tried)))
