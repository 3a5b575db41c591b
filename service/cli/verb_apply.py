"""``fallow apply PLAN --yes``: do a plan that waits for a yes, as far as it is still right."""

import argparse
from typing import Any

from service.cli.asking import asked_to_act
from service.cli.paper_words import plan_lines
from service.cli.screen import console
from service.errors import FallowError


class NoSuchPlan(FallowError):
    """No plan has this number, or it does not wait."""


def run(flags: argparse.Namespace) -> int:
    """Do it and say what came of each step: status 0, or 1 when not all of it was done."""
    client = asked_to_act(flags)
    if not flags.yes:
        return _show(client.plans(), flags)
    row = client.apply(flags.plan, flags.step)
    screen = console()
    for each in row.get("steps") or ():
        number = "" if each["action"] is None else f" (action {each['action']})"
        said = f": {each['message']}" if each["message"] else ""
        screen.print(f"step {each['n']}{number}: {each['outcome'] or 'not begun'}{said}", highlight=False)
    screen.print(f"plan {flags.plan}: {row['outcome']}", style="bold")
    whole = all(each["outcome"] == "done" for each in row.get("steps") or ())
    return 0 if row["outcome"] == "under way" or (row["outcome"] == "done" and whole) else 1


def _show(plans: list[dict[str, Any]], flags: argparse.Namespace) -> int:
    found = next((plan for plan in plans if plan["plan"] == flags.plan), None)
    if found is None:
        raise NoSuchPlan(f"there is no plan {flags.plan}; `fallow plan` lists those that wait")
    screen = console()
    for line in plan_lines(found):
        screen.print(line)
    if found["state"] == "waiting":
        screen.print("Nothing was done; add --yes to do it, or `fallow reject` it with --because.")
    return 0
