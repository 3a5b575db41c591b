"""The flags of verbs that look: what they share, and all of ``status``, ``waste`` and ``ledger``."""

import argparse

LEDGER_KEYS = (
    *("state", "node", "gpu", "user", "project", "job", "framework", "model", "hour", "day"),
    *("partition", "qos", "account", "cluster"),
)
WASTE_KEYS = ("user", "project", "job")
STATUS_KEYS = ("user", "node", "project")


def add_json(verb: "argparse._ActionsContainer") -> None:
    """What a program reads instead of a table."""
    verb.add_argument(
        "--json", action="store_true", help="a list of objects, units in the names, instead of a table"
    )


def add_window(verb: argparse.ArgumentParser, since: str) -> None:
    """The range that is looked at."""
    verb.add_argument("--since", default=since, metavar="TIME", help=f"24h, 7d, or a date (default {since})")
    verb.add_argument("--until", metavar="TIME", help="the same; default now")


def add_filters(verb: argparse.ArgumentParser) -> None:
    """What of the cluster is looked at."""
    for name in ("node", "project", "user", "model"):
        verb.add_argument(f"--{name}", help=f"only this {name}")


def add_status(verb: argparse.ArgumentParser) -> None:
    """Now, once or again and again."""
    shown = verb.add_mutually_exclusive_group()
    verb.add_argument(
        "--by",
        choices=STATUS_KEYS,
        metavar="KEY",
        help=f"a row for each {', '.join(STATUS_KEYS)}, not each GPU",
    )
    shown.add_argument("--watch", action="store_true", help="keep showing it, until Ctrl-C")
    verb.add_argument("--every", default="2s", metavar="TIME", help="how often --watch looks (default 2s)")
    add_filters(verb)
    add_json(shown)


def add_waste(verb: argparse.ArgumentParser) -> None:
    """Whose waste of which time, and how it is told."""
    keys = f"{', '.join(WASTE_KEYS)} (default user; job where few users are known)"
    verb.add_argument("--by", choices=WASTE_KEYS, metavar="KEY", help=keys)
    verb.add_argument("--all", action="store_true", help="everybody (default: those who wasted most)")
    add_window(verb, "7d")
    add_filters(verb)
    group = verb.add_mutually_exclusive_group()
    add_json(group)
    group.add_argument("--csv", action="store_true", help="everybody, as comma-separated values to forward")


def add_ledger(verb: argparse.ArgumentParser) -> None:
    """Whose hours of which time."""
    verb.add_argument(
        "--by", choices=LEDGER_KEYS, default="state", metavar="KEY", help=", ".join(LEDGER_KEYS)
    )
    add_window(verb, "24h")
    add_filters(verb)
    add_json(verb)
