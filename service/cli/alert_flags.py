"""The flags of ``fallow alerts``."""

import argparse


def add_flags(verb: argparse.ArgumentParser) -> None:
    """What can be asked of the alerts."""
    verb.add_argument("--all", action="store_true", help="closed ones too (default: those that are open)")
    verb.add_argument("--since", default="24h", metavar="TIME", help="24h, 7d, or a date (default 24h)")
    verb.add_argument("--until", metavar="TIME", help="the same; default now")
    for name in ("node", "project", "user"):
        verb.add_argument(f"--{name}", help=f"only this {name}'s")
    verb.add_argument(
        "--test",
        metavar="RECEIVER",
        help="send one message to a route, a user, a project or an address instead, and say what happened",
    )
    verb.add_argument("--json", action="store_true", help="a list of objects instead of a table")
