"""How advice, steps and refusals read on a terminal: shared by advise, plan and explain."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from analytics import text
from service.cli import words
from service.cli.colours import ACTION_STYLES, PLAIN
from service.usecases.advice_rows import verb_of

if TYPE_CHECKING:
    from advisor.actions import Action
    from advisor.explain import WhyNot
    from advisor.planner.plan import Abstain, Advice

MOST_REASONS = 6


def step_line(step: "Action") -> str:
    """One step in a line: what, on what, and why."""
    from advisor.planner.targets import where

    settings = getattr(step, "settings", ())
    what = " with " + " ".join(f"{name}={value}" for name, value in settings) if settings else ""
    return f"{verb_of(step)} {step.job}{where(step)}{what}" + (f": {step.reason}" if step.reason else "")


def draw_advice(advice: "Advice", currency: str | None) -> RenderableType:
    """An advice for a terminal: its class and gain, then what, why and the risk."""
    from advisor.explain import advice_id

    gain = _gain(advice, currency)
    head = Text.assemble(
        (advice.action.value, ACTION_STYLES.get(advice.action, PLAIN)),
        f"  {advice.what}",
        (f" · {gain}" if gain else "", "green"),
    )
    tail = f"risk: {advice.risk}" + (f" ({', '.join(advice.risk_to)})" if advice.risk_to else "")
    sure = (
        f"{text.percent(advice.confidence)} sure" if advice.confidence_is_known else "how sure is not known"
    )
    sure = f"{sure} · explain {advice_id(advice)}"
    return Group(
        head,
        Padding(Text(words.localized(advice.why)), (0, 0, 0, 2), expand=False),
        Padding(Text(f"{tail} · {sure}", style="bright_black"), (0, 0, 0, 2), expand=False),
    )


def _gain(advice: "Advice", currency: str | None) -> str:
    """What it brings; nothing where that is 0, as for a setting of which nobody knows what it frees."""
    if advice.known_gain_gpu_hours is None:
        return "gain not known"
    if not advice.known_gain_gpu_hours:
        return ""
    money = f", {text.money(advice.gain_money, currency)}" if advice.gain_money and currency else ""
    if advice.gain_is_past:
        spent = f" of the last {text.length(advice.horizon_s)}" if advice.horizon_s else ""
        return f"would have left {text.hours(advice.known_gain_gpu_hours)} GPU-hours{money}{spent}"
    over = f" within {text.length(advice.horizon_s)}" if advice.horizon_s else ""
    return f"{text.hours(advice.known_gain_gpu_hours)} GPU-hours{money}{over}"


def reasons(abstains: Iterable["Abstain"]) -> list[str]:
    """What is not advised, one line a class: how many jobs, and the commonest reasons."""
    by_class: dict[str, Counter[str]] = {}
    for each in abstains:
        by_class.setdefault(each.action.value, Counter())[each.reason] += 1
    lines = []
    for action, counted in by_class.items():
        most = counted.most_common(MOST_REASONS)
        more = len(counted) - len(most)
        listing = "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in most)
        jobs = sum(counted.values())
        rest = f"; {more} reason{'' if more == 1 else 's'} more" if more > 0 else ""
        lines.append(f"{action}: nothing for {jobs} job{'' if jobs == 1 else 's'}: {listing}{rest}")
    return lines


def draw_why_not(entries: Sequence["WhyNot"]) -> list[Text]:
    """Lines of what is not done, why, and what would change it."""
    lines = []
    for each in entries:
        line = Text.assemble((f"{each.action}: ", "bold"), each.reason)
        if each.would_change:
            line.append(f"; would change with {each.would_change}", style="bright_black")
        lines.append(line)
    return lines
