"""``fallow advise``: what would give GPU-hours back, what it may cost whom, and why nothing else is said.

Beside what is so now stands the range's waste, ended jobs included, and what of it recurs.
"""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.padding import Padding

from analytics import text
from service.cli import advice_lines, words
from service.cli.asking import asked
from service.cli.screen import console, print_json
from service.client import Client
from service.config.flags import settle
from service.durations import window
from service.errors import StoreOlder, UnknownQuery
from service.usecases.advice import AdviceContext, consult
from service.usecases.advice_rows import abstain_row, advice_row
from service.usecases.recurring import Recurred, recurred, told, told_gain

if TYPE_CHECKING:
    from advisor.planner.plan import Advice


def run_advise(flags: argparse.Namespace) -> int:
    """Print the advice, the largest gain first."""
    from advisor.planner.plan import Abstain, Advice

    settings = settle(flags)
    with asked(flags) as client:
        if flags.recurring:
            return _recurring(client, flags)
        range_ = None if flags.json else _range_if_kept(client, flags)
        desk = consult(client, settings.effective.config)
    answers = [each for each in desk.said.answers if flags.only in (None, each.action.value)]
    advised = [each for each in answers if isinstance(each, Advice)]
    abstained = [each for each in answers if isinstance(each, Abstain)]
    if flags.json:
        rows = [advice_row(each, desk.currency) for each in advised]
        print_json(rows + ([abstain_row(each) for each in abstained] if flags.all else []), flags)
        return 0
    screen = console()
    screen.print(_heading(desk, advised), style="bold")
    if range_ is not None:
        _say_range(range_, flags)
    for each in advised:
        screen.print(advice_lines.draw_advice(each, desk.currency))
    if flags.all:
        for one in abstained:
            screen.print(f"{one.action.value}: nothing for {one.job}: {one.reason}", style="bright_black")
    else:
        for line in advice_lines.reasons(abstained):
            screen.print(line, style="bright_black")
    return 0


def _heading(desk: AdviceContext, advised: "list[Advice]") -> str:
    at = datetime.fromtimestamp(desk.said.state.as_of_ms / 1000).astimezone()
    count = f"{len(advised)} piece{'' if len(advised) == 1 else 's'} of advice"
    if not advised:
        return f"No advice, as of {at:%Y-%m-%d %H:%M}."
    worth = told_gain([advice_row(each, desk.currency) for each in advised])
    return f"{count} as of {at:%Y-%m-%d %H:%M}: {worth}"


def _recurring(client: Client, flags: argparse.Namespace) -> int:
    range_ = _recurred(client, flags)
    if flags.json:
        print_json(range_.habits, flags)
    else:
        _say_range(range_, flags)
    return 0


def _range_if_kept(client: Client, flags: argparse.Namespace) -> Recurred | None:
    """The range's waste and what recurs in it; ``None`` where the store or the service is older."""
    try:
        return _recurred(client, flags)
    except (StoreOlder, UnknownQuery):
        return None


def _recurred(client: Client, flags: argparse.Namespace) -> Recurred:
    return recurred(client, *window(flags.since, flags.until, datetime.now(UTC)))


def _say_range(range_: Recurred, flags: argparse.Namespace) -> None:
    screen = console()
    of = words.in_range(flags.since, flags.until)
    priced = words.priced(range_.wasted_cost, range_.currency)
    recurs = "." if range_.habits else "; nothing that recurs."
    wasted = text.hours(range_.wasted_gpu_hours)
    screen.print(f"{of}: {wasted} GPU-hours wasted{priced}, ended jobs included{recurs}")
    for each in range_.habits:
        screen.print(Padding(f"recurs: {told(each)}", (0, 0, 0, 2), expand=False))
