"""``fallow pause JOB``: have a job save itself and give its GPUs back."""

import argparse

from service.cli.job_words import ordered


def run(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    return ordered(flags, lambda client, job: client.pause(job, because=flags.because))
