"""``fallow keep JOB --for 4h`` (or ``--hours 4``): have a job left alone, launched by Fallow or not."""

import argparse

from service.cli.job_words import ordered
from service.durations import parse_span

HOUR_S = 3600.0


def run(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    hours = flags.hours
    if hours is None:
        hours = parse_span(flags.span).total_seconds() / HOUR_S
    return ordered(flags, lambda client, job: client.keep(job, hours, because=flags.because))
