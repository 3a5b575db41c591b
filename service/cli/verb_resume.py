"""``fallow resume JOB``: let a paused job go on."""

import argparse

from service.cli.job_words import ordered


def run(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    return ordered(flags, lambda client, job: client.resume(job, because=flags.because))
