"""How plans and the rows of the journal read on a terminal."""

from collections.abc import Iterator
from datetime import datetime

from rich.text import Text

from analytics import text
from service.schemas.control import Plan, PlanStep, TriedStep


def plan_lines(plan: Plan) -> Iterator[Text]:
    """A kept plan: how it stands, its steps with their gain and why, and the commands to settle it."""
    number, state = plan.plan, plan.state
    settled = f" by {plan.settled_by}" if plan.settled_by else ""
    why = f": {plan.because}" if plan.because else ""
    heading = "waits for a yes" if state == "waiting" else f"{state}{settled}{why}"
    yield Text.assemble((f"Plan {number} ", "bold"), (heading, "bold"), f" · made {at(plan.as_of_ms)}")
    for step in plan.steps:
        yield step_line(step)
        if step.why:
            yield Text(f"       {step.why}", style="bright_black")
    for refused in plan.refused:
        yield Text(f"     not: {refused.action} of {refused.job}: {refused.reason}")
    if state == "waiting":
        yield Text(
            f"     fallow apply {number} --yes   or   fallow reject {number} --because TEXT", style="cyan"
        )


def step_line(step: PlanStep) -> Text:
    """A step of a plan: its number, what it does, under which mode, and what it brings."""
    line = Text.assemble(f"{step.n:>5}  ", step.sentence, (f"  · {step.mode}", "bright_black"))
    gain = step.expected_gain
    if gain is not None and gain.gpu_hours:
        over = f" within {text.length(gain.horizon_s)}" if gain.horizon_s else ""
        line.append(f" · {text.hours(gain.gpu_hours)} GPU-hours{over}", style="green")
    if step.reason:
        line.append(f": {step.reason}")
    return line


def trial_lines(step: TriedStep) -> Iterator[Text]:
    """A step that was tried: what it is, whether it would be done, and all that it would do."""
    on = f" on {text.many(len(step.gpus), 'GPU')}" if step.gpus else ""
    whose = f" of {step.user}" if step.user else ""
    why = f": {step.reason}" if step.reason else ""
    would = {"done": "would be done", "ask": "after a yes"}.get(
        step.outcome, f"not done ({step.outcome}): {step.message}"
    )
    yield Text.assemble(
        f"{step.n:>3}  ", f"{step.verb} {step.job}{whose}{on}{why}", (f"  · {would}", "bright_black")
    )
    if step.effects is None and step.outcome in ("done", "ask"):
        yield Text(f"       {step.engine}: it cannot say beforehand what it does", style="bright_black")
    for effect in step.effects or ():
        yield Text.assemble("       ", (f"{effect.kind:<12}", "cyan"), effect.text)


def at(ms: int | None) -> str:
    """A point of time in the reader's own zone, to the second."""
    return (
        text.NOTHING if ms is None else f"{datetime.fromtimestamp(ms / 1000).astimezone():%Y-%m-%d %H:%M:%S}"
    )
