"""``fallow keep JOB --for 4h``: have a job left alone for a while, also one that Fallow did not start."""

import argparse

from service.cli.job_words import ordered
from service.cli.spans import parse_span

HOUR_S = 3600.0


def run(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    hours = parse_span(flags.span).total_seconds() / HOUR_S
    return ordered(flags, lambda client, job: client.keep(job, hours, because=flags.because))
