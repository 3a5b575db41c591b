"""``fallow reject PLAN --because TEXT``: turn a waiting plan down."""

import argparse

from service.cli.asking import asked_to_act
from service.durations import parse_span


def run(flags: argparse.Namespace) -> int:
    """Turn it down, and say until when the same is not proposed again."""
    hours = None if flags.snooze is None else parse_span(flags.snooze).total_seconds() / 3600
    row = asked_to_act(flags).reject(flags.plan, flags.because, hours)
    print(row["message"])
    return 0
