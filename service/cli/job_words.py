"""A job's id as people type it, and what an order to it came to; shared by the verbs that order something."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from service.cli import words
from service.client.acting import ActingClient, connect_acting


def job_id(text: str) -> str:
    """``7`` means ``fallow:7``; anything else is an id as it stands."""
    return f"fallow:{text}" if text.isdigit() else text


def ordered(flags: argparse.Namespace, order: Callable[[ActingClient, str], dict[str, Any]]) -> int:
    """Send an order and say what came of it: status 0, or 1 when the job couldn't carry it out."""
    job = job_id(flags.job)
    answer = order(connect_acting(flags.data), job)
    failed = answer.get("outcome") == "failed"
    said = words.localized(str(answer.get("message") or answer.get("outcome") or "done"))
    print(said if said.startswith(job) else f"{job}: {said}", file=sys.stderr if failed else sys.stdout)
    return 1 if failed else 0
