"""``fallow whatif``: what each class of action would have given back over the recorded past, and how sure."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import RenderableType

from analytics import text
from analytics.vocabulary.actions import ActionClass
from service.cli.asking import asked
from service.cli.freshness import measured_window
from service.cli.screen import Column, console, print_json, table
from service.config.flags import settle
from service.usecases.advice import charged_now, limits_of, recorded_past, rule_effects

HOUR_MS = 3_600_000
LEAST_SAID_HOURS = 0.1
"""Less that was not measured is none in a column of tenths of hours."""

if TYPE_CHECKING:
    from advisor.planner.fair_share import Charged
    from advisor.whatif.estimate import Earned, Given
    from advisor.whatif.history import Past
    from advisor.whatif.hook_rules import RuleEffect
    from advisor.whatif.replay import WhatIf


def run_whatif(flags: argparse.Namespace) -> int:
    """Replay the recorded jobs under the policies and print what each class would have given back."""
    from advisor.whatif.replay import consented, everybody, what_if

    settings = settle(flags)
    config = settings.effective.config
    with asked(flags) as client:
        start, end = measured_window(client, flags.since, flags.until)
        if flags.charging and flags.json:
            print_json([asdict(each) for each in charged_now(client, config, end)], flags)
            return 0
        charged = () if flags.json else charged_now(client, config, end)
        if flags.charging:
            _charging(charged)
            return 0
        past = recorded_past(client, start, end, config)
        effects = rule_effects(client, past, config) if config.hooks else ()
    if flags.rules:
        _rules(effects, flags)
        return 0
    allowed = consented if flags.consented else everybody
    answer = what_if(past, config.advice, limits_of(config), allowed)
    currency = next((price.currency for price in past.prices.values()), None)
    if flags.json:
        print_json(_rows(answer, currency, _unmeasured_gpu_hours(past)), flags)
        return 0
    screen = console()
    hours = sum(each.use.held_gpu_hours for each in past.jobs)
    whose = "those who consented" if flags.consented else "everybody, had everybody consented"
    local = (f"{at.astimezone():%Y-%m-%d %H:%M}" for at in (start, end))
    sentence = f"{text.many(len(past.jobs), 'job')} held {text.hours(hours)} GPU-hours"
    screen.print(
        f"{' to '.join(local)}: {sentence}; for {whose}:",
        style="bold",
    )
    screen.print(_table(answer, currency, hours))
    if answer.bare:
        screen.print(
            f"Nothing by {', '.join(answer.bare)}. "
            "Only jobs of `fallow run` can say what these need to know.",
            style="bright_black",
        )
    unmeasured = _unmeasured_gpu_hours(past)
    if unmeasured >= LEAST_SAID_HOURS:
        screen.print(
            f"Of idle times, {text.hours(unmeasured)} GPU-hours were not measured and are not counted; what "
            "lies before and after such a gap counts as a time of its own.",
            style="bright_black",
        )
    screen.print(_bar(answer.earned), style="bright_black")
    for line in _others(answer):
        screen.print(line, style="bright_black")
    if flags.consented and not (config.consent.preemptible and config.consent.checkpointable):
        screen.print("Nobody has consented yet; see [consent] in the configuration.", style="bright_black")
    for each in effects:
        screen.print(_effect(each))
    if len(charged) > 1:
        screen.print()
        _charging(charged)
    return 0


def _charging(charged: "Sequence[Charged]") -> None:
    """Who may borrow how much, as decided now and were held-idle hours charged once more."""
    screen = console()
    screen.print("If held-idle hours were charged once more when GPUs are lent:", style="bold")
    columns = (
        Column(title="project"),
        Column(title="held of all", right=True),
        Column(title="idle", right=True),
        Column(title="part now", right=True),
        Column(title="part then", right=True),
    )
    screen.print(
        table(
            columns,
            [
                (
                    each.project,
                    text.percent(each.allocated_ratio),
                    text.percent(each.held_idle_ratio),
                    text.percent(each.part),
                    text.percent(each.part_charged),
                )
                for each in charged
            ],
        )
    )
    screen.print(
        "What each held of the cluster in the week before, and its part of what no quota claims when all "
        "ask for more than there is. [deciding] idle_surcharge charges them.",
        style="bright_black",
    )


def _rules(effects: "Sequence[RuleEffect]", flags: argparse.Namespace) -> None:
    """What each rule of [hooks] would have done, and to whom."""
    if flags.json:
        print_json([asdict(each) for each in effects], flags)
        return
    screen = console()
    if not effects:
        screen.print("No hook has a rule (idle_hours under [hooks] in the configuration).")
    for each in effects:
        screen.print(_effect(each))
        for job in each.disturbed:
            screen.print(f"  {job}", markup=False, highlight=False)


def _effect(each: "RuleEffect") -> str:
    """One rule's sentence, as if nobody had answered a warning."""
    lead = f"By the rule of hook {each.rule}, had nobody answered a warning"
    if not each.times:
        return f"{lead}: nobody would have been paused."
    named = "1 person" if each.people == 1 else f"{each.people} people" if each.people else None
    whose = " and ".join(filter(None, (named, "unknown owners" if each.unnamed else None)))
    back = f" After {text.many(each.came_back, 'time')} the job worked again" if each.came_back else ""
    if each.longest_s is not None:
        back += (
            f", {text.length(each.longest_s)} after the pause at the latest: its owner would have resumed it."
        )
    return (
        f"{lead}: {text.many(each.jobs, 'job')} of {whose} paused {text.many(each.times, 'time')}, "
        f"{text.hours(each.gpu_hours)} GPU-hours given back.{back}"
    )


def _table(result: "WhatIf", currency: str | None, hours: float) -> RenderableType:
    columns = (
        Column(title="action"),
        Column(title="given back", right=True),
        Column(title="between", right=True),
        Column(title="of held", right=True),
        Column(title="worth", right=True, spare=1),
        Column(title="jobs", right=True, spare=3),
        Column(title="times", right=True, spare=2),
        Column(title="disturbed", right=True),
        Column(title="how", below=True),
    )
    return table(columns, [_line(each, currency, hours) for each in result.shown])


def _line(each: "Given", currency: str | None, hours: float) -> tuple[str, ...]:
    between = "not earned" if each.low is None else f"{text.hours(each.low)} to {text.hours(each.high)}"
    return (
        each.action,
        f"{text.hours(each.gpu_hours)} h",
        between,
        text.percent(each.gpu_hours / hours if hours else None),
        text.money(each.money, currency),
        text.count(each.jobs),
        text.count(each.times),
        text.count(each.disturbed),
        each.how,
    )


def _bar(earned: "Earned") -> str:
    if earned.median_error is None or earned.total_error is None:
        return "Too few idle times were recorded to earn an error bar."
    error = text.percent(earned.total_error, signed=True)
    return (
        f"What was expected when owners would have been told, against what came, {earned.cases} times: a "
        f"median error of {text.percent(earned.median_error)}, and {error} in total. "
        "Rows overlap: the same hour is in as many as could have given it back."
    )


HELD_AGAINST: Mapping[str, str] = {
    ActionClass.RIGHT_SIZE: "Sizes of the first half of this time, against what the second half allows jobs "
    "of the same kinds: {cases}, {error} in total.",
    ActionClass.CAP_MEMORY: "Memory caps of the first half of this time, against what jobs of the same kinds "
    "needed in the second: {cases}, {error} in total.",
    ActionClass.PACK: "Pairs that were put together, against what they reached: {cases}, {error} in total.",
    ActionClass.CONSOLIDATE: "Waits that moves were expected to spare, against those in truth: {cases}, "
    "{error} in total.",
    ActionClass.RESIZE: "Speeds foretold from other sizes, against those measured: {cases}, {error} in "
    "total.",
}


def _others(result: "WhatIf") -> list[str]:
    """What the bars of the other classes were earned by."""
    return [
        HELD_AGAINST[each.action].format(
            cases=each.earned.cases, error=text.percent(each.earned.total_error, signed=True)
        )
        for each in result.given
        if each.action in HELD_AGAINST and each.earned.total_error is not None
    ]


def _unmeasured_gpu_hours(past: "Past") -> float:
    """Of idle times, what was not measured: no action is credited with it."""
    return sum(each.unmeasured_ms * each.gpus for each in past.stretches) / HOUR_MS


def _rows(result: "WhatIf", currency: str | None, unmeasured: float) -> list[dict[str, object]]:
    """A row an action; ``unmeasured_gpu_hours`` is of the whole past, and the same in each."""
    rows = []
    for each in result.given:
        row = asdict(each)
        earned = {f"earned_{name}": value for name, value in row.pop("earned").items()}
        money = {"currency": currency if each.money is not None else None}
        rows.append({**row, **money, **earned, "unmeasured_gpu_hours": unmeasured})
    return rows
