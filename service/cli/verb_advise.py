"""``fallow advise``: what would give GPU-hours back, what it may cost whom, and why nothing else is said."""

import argparse
from datetime import datetime
from typing import TYPE_CHECKING

from service.advice_rows import abstain_row, advice_row
from service.advising import Desk, consult
from service.cli import advice_lines, words
from service.cli.asking import asked
from service.cli.screen import console, print_json
from service.cli.settings import settle

if TYPE_CHECKING:
    from advisor.advice import Advice


def run(flags: argparse.Namespace) -> int:
    """Print the advice, the largest gain first."""
    from advisor.advice import Abstain, Advice

    settings = settle(flags)
    with asked(flags) as client:
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
    for each in advised:
        screen.print(advice_lines.draw_advice(each, desk.currency))
    if flags.all:
        for one in abstained:
            screen.print(f"{one.action.value}: nothing for {one.job}: {one.reason}", style="bright_black")
    else:
        for line in advice_lines.reasons(abstained):
            screen.print(line, style="bright_black")
    return 0


def _heading(desk: Desk, advised: "list[Advice]") -> str:
    at = datetime.fromtimestamp(desk.said.state.as_of_ms / 1000).astimezone()
    count = f"{len(advised)} piece{'' if len(advised) == 1 else 's'} of advice"
    if not advised:
        return f"No advice, as of {at:%Y-%m-%d %H:%M}."
    hours = sum(each.gain_gpu_hours for each in advised)
    money = sum(each.gain_money or 0.0 for each in advised)
    priced = f", {words.money(money, desk.currency)}" if money and desk.currency else ""
    return f"{count} as of {at:%Y-%m-%d %H:%M}: {words.hours(hours)} GPU-hours{priced}, if all were followed"
