"""What can be typed about plans, the journal and the kill switch; nothing of what they do."""

import argparse
from collections.abc import Callable

AddVerb = Callable[[str, str], argparse.ArgumentParser]


def add_verbs(add: AddVerb) -> None:
    """All of them; ``add`` makes a verb with the flags that every verb has."""
    apply = add("apply", "do a plan that waits for a yes, as far as it is still right")
    apply.add_argument(
        "plan", type=int, metavar="PLAN", help="its number; `fallow plan` lists those that wait"
    )
    apply.add_argument(
        "--step", type=int, action="append", metavar="N", help="only this step; may be repeated"
    )
    apply.add_argument("--yes", action="store_true", help="do it; without, say what would be done")
    reject = add("reject", "turn a waiting plan down, and say why")
    reject.add_argument("plan", type=int, metavar="PLAN", help="its number")
    reject.add_argument("--because", required=True, metavar="TEXT", help="the reason, for others to read")
    reject.add_argument(
        "--snooze",
        metavar="TIME",
        help="not to be asked the same for so long, for example 4h (default: a day, while nothing changes)",
    )
    actions = add("actions", "what was done to whom, by whom and why, what came of it, and how to undo it")
    actions.add_argument("--since", default="24h", metavar="TIME", help="24h, 7d, or a date (default 24h)")
    actions.add_argument("--job", metavar="JOB", help="only this job's")
    actions.add_argument("--json", action="store_true", help="a list of objects instead of a table")
    undo = add("undo", "put a job back to how it stood before an action")
    undo.add_argument("action", type=int, metavar="ACTION", help="its number; `fallow actions` lists them")
    stop = add("stop-acting", "have Fallow do nothing more to anybody, at once and until it is started again")
    stop.add_argument("--because", default="", metavar="TEXT", help="a reason, for others to read")
    add("start-acting", "let Fallow act again")
