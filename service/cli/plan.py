"""``fallow plan``: what would be done now, in order, and what would not, with reasons. Nothing is done."""

import argparse
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.text import Text

from analytics import text
from service.cli import advice_lines
from service.cli.asking import asked, asked_to_act
from service.cli.plan_lines import plan_lines, trial_lines
from service.cli.screen import Column, console, print_json, table
from service.config.flags import settle
from service.errors import ClientError
from service.schemas.control import Plan
from service.usecases.advice import AdviceContext, consult, newest, parse_want
from service.usecases.advice_rows import step_row

if TYPE_CHECKING:
    from advisor.actions import Action


def run_plan(flags: argparse.Namespace) -> int:
    """Print the plan for the live cluster, with the wishes of ``--want`` as jobs that wait."""
    if flags.tried:
        return _show_trial(flags)
    waiting = _waiting(flags)
    if flags.waiting:
        return _show_waiting(waiting, flags)
    settings = settle(flags)
    with asked(flags) as client:
        now_ms = round(newest(client).timestamp() * 1000) if flags.want else 0
        jobs = [parse_want(text, at, now_ms) for at, text in enumerate(flags.want or (), start=1)]
        desk = consult(client, settings.effective.config, jobs)
    if flags.json:
        print_json(_rows(desk), flags)
        return 0
    screen = console()
    _draw_waiting(waiting, screen)
    plan, refused = desk.said.plan, _refused(desk)
    screen.print(_heading(desk), style="bold")
    for number, step in enumerate(plan.steps, start=1):
        refusal = refused.get(step)
        line = Text.assemble(f"{number:>3}  ", (advice_lines.step_line(step), "default"))
        line.append("  · approved" if refusal is None else f"  · not done: {refusal}", style="bright_black")
        screen.print(line)
    if plan.refused:
        screen.print("Refused:", style="bold")
    for each in plan.refused:
        tail = f"; would change with {each.would_change}" if each.would_change else ""
        screen.print(f"     {each.action.value} of {each.job}: {each.reason}{tail}")
    if desk.said.state.projects:
        screen.print(_projects(desk))
    return 0


def _show_trial(flags: argparse.Namespace) -> int:
    """What each step of a plan made now would do, as the service that acts says."""
    if flags.want:
        raise ClientError("--try asks the service that acts, which knows no --want; leave one of them out")
    trial = asked_to_act(flags).try_plan()
    if flags.json:
        print_json([{**step.sent, "halted": trial.halted} for step in trial.steps], flags)
        return 0
    screen = console()
    many = text.many(len(trial.steps), "step")
    screen.print(f"{many}, tried; nothing was done" if trial.steps else "Nothing to do.", style="bold")
    if trial.halted:
        screen.print(f"At present nothing is done at all: {trial.halted}")
    for step in trial.steps:
        for line in trial_lines(step):
            screen.print(line)
    return 0


def _waiting(flags: argparse.Namespace) -> list[Plan]:
    """The plans that wait for a yes; none where no service acts, unless they are all that was asked for."""
    try:
        plans = asked_to_act(flags).plans()
    except ClientError:
        if flags.waiting:
            raise
        return []
    return [plan for plan in plans if plan.state == "waiting"]


def _show_waiting(waiting: list[Plan], flags: argparse.Namespace) -> int:
    if flags.json:
        print_json([plan.sent for plan in waiting], flags)
        return 0
    screen = console()
    _draw_waiting(waiting, screen)
    if not waiting:
        screen.print("No plan waits for a yes.")
    return 0


def _draw_waiting(waiting: list[Plan], screen: Console) -> None:
    for plan in waiting:
        for line in plan_lines(plan):
            screen.print(line)


def _heading(desk: AdviceContext) -> str:
    plan = desk.said.plan
    approved = len(desk.ruling.approved.steps)
    if not plan.steps:
        waits = sum(job not in desk.said.state.placements for job in desk.said.state.jobs)
        return "Nothing to do." if not waits else f"Nothing can be done for {waits} waiting jobs."
    return (
        f"{len(plan.steps)} step{'' if len(plan.steps) == 1 else 's'}, of which {approved} would be done by "
        "the modes that are set"
    )


def _refused(desk: AdviceContext) -> "dict[Action, str]":
    return {each.step: each.reason for each in desk.ruling.refused if each.step is not None}


def _rows(desk: AdviceContext) -> list[dict[str, object]]:
    refusals = _refused(desk)
    steps = [
        {"step": number, **step_row(step), "approved": step not in refusals, "held_back": refusals.get(step)}
        for number, step in enumerate(desk.said.plan.steps, start=1)
    ]
    refused: list[dict[str, object]] = [
        {
            "step": None,
            "job": each.job,
            "action": each.action.value,
            "refused": each.rule.value,
            "reason": each.reason,
            "would_change": each.would_change,
        }
        for each in desk.said.plan.refused
    ]
    return [*steps, *refused]


def _projects(desk: AdviceContext) -> RenderableType:
    """What every project and those below it are guaranteed, deserve now and would hold after the plan."""
    from advisor.planner.quota import allocated, tree_of, upward

    plan, state = desk.said.plan, desk.said.state
    after = plan.outlook.allocated_gpus if plan.outlook is not None else {}
    tree = tree_of(state.projects, also=plan.fair_gpus)
    now = upward(tree, allocated(state))
    lines = []
    for name in sorted(plan.fair_gpus):
        project = state.projects.get(name)
        quota = None if project is None else project.quota_gpus
        lines.append(
            (
                name,
                text.count(quota),
                text.count(round(now[name], 2)),
                text.count(round(plan.fair_gpus[name], 2)),
                text.count(round(after.get(name, 0.0), 2)),
            )
        )
    columns = (
        Column(title="project"),
        Column(title="quota", right=True),
        Column(title="holds", right=True),
        Column(title="fair share", right=True),
        Column(title="after", right=True),
    )
    return table(columns, lines)
