"""What can be typed about submitted jobs: run, jobs, queue, logs, and the orders; nothing of what they do."""

import argparse
from collections.abc import Callable
from pathlib import Path

AddVerb = Callable[[str, str], argparse.ArgumentParser]

STATES = ("pending", "starting", "running", "paused", "ended")
LAYOUTS = ("torchrun", "tensorflow")
TOPOLOGIES = ("node", "prefer-node", "any")


def add_verbs(add: AddVerb) -> None:
    """All of them; ``add`` makes a verb with the flags that every verb has."""
    _run(add)
    _lists(add)
    _logs(add)
    _orders(add)
    verb = add("consent", "what may be done with your jobs, and by whose word; allow or withdraw it")
    kinds = "pause, restart, resize, release, share, background; with commas between"
    verb.add_argument("--allow", metavar="KINDS", help=kinds)
    verb.add_argument(
        "--withdraw", metavar="KINDS", nargs="?", const="", help="say no, whoever says yes (default: to all)"
    )
    verb.add_argument(
        "--forget", metavar="KINDS", nargs="?", const="", help="take your own word back (default: all of it)"
    )
    verb.add_argument("--job", metavar="JOB", help="this job, launched by Fallow or not")
    verb.add_argument("--all", action="store_true", help="all your jobs, later ones too")
    verb.add_argument("--for", dest="span", metavar="TIME", help="hold for so long, for example 7d")
    verb.add_argument("--json", action="store_true", help="a list of objects instead of a table")


def _run(add: AddVerb) -> None:
    verb = add(
        "run", "run a command on GPUs that the service leases; waits in the queue until there are some"
    )
    verb.usage = "fallow run [flags] -- COMMAND [ARGUMENT ...]"
    verb.add_argument("command", nargs="*", metavar="COMMAND", help="after --, with its arguments")
    verb.add_argument(
        "--gpus", default="1", metavar="N|N-M|0.5|2x0.5", help="how many, or a part of one (default 1)"
    )
    verb.add_argument("--memory", metavar="SIZE", help="needed on each GPU, for example 12GiB")
    verb.add_argument("--project", help="whose quota it counts to (else $FALLOW_PROJECT, else your own name)")
    verb.add_argument("--name", help="what people will call it")
    verb.add_argument("--priority", type=int, default=0, help="within its project; higher goes first")
    verb.add_argument("--interactive", action="store_true", help="somebody sits before it")
    verb.add_argument(
        "--preemptible",
        action=argparse.BooleanOptionalAction,
        help="it may be paused for others (default: if it says how it saves itself)",
    )
    _speeds(verb)
    verb.add_argument("--elastic", action="store_true", help="it uses fallow, and is resized while it runs")
    verb.add_argument("--checkpoint-signal", metavar="SIGNAL", help="it saves itself when it gets this: USR1")
    verb.add_argument("--grace", default="60s", metavar="TIME", help="how long saving may take (default 60s)")
    verb.add_argument("--restarts", type=int, default=0, metavar="N", help="start it again when it fails (0)")
    verb.add_argument("--time-limit", metavar="TIME", help="end it after so long on GPUs")
    verb.add_argument(
        "--workers",
        choices=LAYOUTS,
        metavar="torchrun|tensorflow",
        help="a process a GPU, with the variables that torchrun sets, or TF_CONFIG (default: one process)",
    )
    _placing(verb)
    verb.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME|NAME=VALUE",
        help="set for the job; NAME alone takes the value from here, unseen by others; may be repeated",
    )
    verb.add_argument(
        "--no-memory-defaults", action="store_true", help="leave the frameworks' memory settings alone"
    )
    verb.add_argument(
        "--background",
        action=argparse.BooleanOptionalAction,
        help="compute in other jobs' idle gaps, at no quota (needs fallow.listen()); --no-background: "
        "nobody in this one's",
    )
    verb.add_argument("--detach", action="store_true", help="leave it to itself, output to a log")


def _speeds(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--layers",
        type=Path,
        metavar="FILE",
        help="its layers' times (`fallow burst profile`), from which its speed on N GPUs is predicted",
    )
    verb.add_argument(
        "--network", default="pcie", metavar="NAME|GB/s", help="between its GPUs, for --layers (default pcie)"
    )
    verb.add_argument(
        "--max-micro-batch",
        type=int,
        metavar="N",
        help="samples of a micro-batch at most, as its trainer has them, for --layers (default: no bound)",
    )


def _placing(verb: argparse.ArgumentParser) -> None:
    """After whom, on which GPUs, and beside whom."""
    verb.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="JOB",
        help="start when this one has ended well; may be repeated",
    )
    verb.add_argument("--share-ok", action="store_true", help="others may use the same GPUs beside it")
    verb.add_argument(
        "--gpu-model", action="append", default=[], metavar="MODEL", help="only this; may be repeated"
    )
    verb.add_argument(
        "--topology",
        choices=TOPOLOGIES,
        metavar="|".join(TOPOLOGIES),
        help="its GPUs on one machine, or on one where one has room (default: one for a single process)",
    )


def _lists(add: AddVerb) -> None:
    jobs = add("jobs", "submitted jobs, the newest first")
    jobs.add_argument("job", nargs="?", metavar="JOB", help="all about this one instead")
    jobs.add_argument("--all", action="store_true", help="those that have ended too")
    jobs.add_argument("--state", choices=STATES, metavar="STATE", help=", ".join(STATES))
    jobs.add_argument("--stand", choices=STATES, dest="state", help=argparse.SUPPRESS)  # its former name
    jobs.add_argument("--user", help="only this user's")
    jobs.add_argument("--project", help="only this project's")
    jobs.add_argument("--limit", type=int, default=200, metavar="N", help="so many at most (default 200)")
    queue = add("queue", "who waits, in order, and for what")
    queue.add_argument("--limit", type=int, default=1_000, metavar="N", help="so many at most (default 1000)")
    for verb in (jobs, queue):
        verb.add_argument("--json", action="store_true", help="a list of objects instead of a table")


def _logs(add: AddVerb) -> None:
    logs = add("logs", "what a detached job has printed")
    logs.add_argument("job", metavar="JOB", help="its number")
    logs.add_argument("-f", "--follow", action="store_true", help="stay until it ends")
    logs.add_argument("-n", "--lines", type=int, metavar="N", help="only the last N lines")


def _orders(add: AddVerb) -> None:
    orders = {
        "pause": add("pause", "have a job save itself and give its GPUs back until it is resumed"),
        "resume": add("resume", "let a paused job go on as soon as there is room"),
        "resize": add("resize", "give a running job another number of GPUs"),
        "cancel": add("cancel", "end a job for good"),
        "keep": add("keep", "have a job left alone for a while, also one that Fallow did not start"),
    }
    for name, verb in orders.items():
        verb.add_argument("job", metavar="JOB", help="its id or number")
        if name == "resize":
            verb.add_argument("gpus", type=int, metavar="GPUS", help="how many from now on")
        if name == "keep":
            length = verb.add_mutually_exclusive_group()
            length.add_argument("--for", dest="span", default="4h", metavar="TIME", help="default 4h")
            length.add_argument(
                "--alone",
                action=argparse.BooleanOptionalAction,
                help="let nobody compute in its idle gaps while it runs; nothing else",
            )
            length.add_argument("--hours", type=float, metavar="N", help="the same in hours: 4, 8 or 24")
        if name == "cancel":
            verb.add_argument(
                "--force",
                action="store_true",
                help="end its lease too, whatever still runs on its GPUs (operators)",
            )
        verb.add_argument("--because", default="", metavar="TEXT", help="a reason, for others to read")
