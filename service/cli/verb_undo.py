"""``fallow undo ACTION``: put a job back to how it stood before an action."""

import argparse
import sys

from service.cli.asking import asked_to_act


def run(flags: argparse.Namespace) -> int:
    """Undo it: status 0, or 1 when that was tried and did not work."""
    row = asked_to_act(flags).undo(flags.action)
    well = row["outcome"] in ("done", "under way")
    said = row["message"] or row["outcome"]
    number = "" if row.get("action") is None else f" by action {row['action']}"
    print(f"action {flags.action}{number}: {said}", file=sys.stdout if well else sys.stderr)
    return 0 if well else 1
