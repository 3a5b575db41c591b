"""A job's id as people type it, and what an order to it came to; shared by the verbs that order something."""

import argparse
import sys
from collections.abc import Callable

from analytics.vocabulary.jobs import submitted_id
from service.cli import words
from service.cli.asking import asked_to_act
from service.client.jobs import A, ActingClient, Listed
from service.schemas.control import Done

MOST_ROWS = 10_000
"""A service lists no more at once."""


def job_id(text: str) -> str:
    """``7`` means ``fallow:7``; anything else is an id as it stands."""
    return submitted_id(text) if text.isdigit() else text


def say_what_is_left(listed: Listed[A], narrowed_by: str | None = None) -> None:
    """Say on standard error how many a list leaves out, and how to see them; nothing where it is whole."""
    rest = left_out(listed, narrowed_by)
    if rest is not None:
        print(rest, file=sys.stderr)


def left_out(listed: Listed[A], narrowed_by: str | None = None) -> str | None:
    """How many a list leaves out, and how to see them. Pure."""
    more = listed.total - len(listed.rows)
    if more <= 0:
        return None
    shown = f"--limit {min(listed.total, MOST_ROWS)} shows {'them' if listed.total <= MOST_ROWS else 'more'}"
    narrowed = f", {narrowed_by} narrows them down" if narrowed_by else ""
    return f"{more} more {'is' if more == 1 else 'are'} not listed: {shown}{narrowed}"


def ordered(flags: argparse.Namespace, order: Callable[[ActingClient, str], Done]) -> int:
    """Send an order and say what came of it: status 0, or 1 when the job couldn't carry it out."""
    job = job_id(flags.job)
    answer = order(asked_to_act(flags), job)
    failed = answer.outcome == "failed"
    message = words.localized(answer.message or answer.outcome)
    print(
        message if message.startswith(job) else f"{job}: {message}", file=sys.stderr if failed else sys.stdout
    )
    return 1 if failed else 0
