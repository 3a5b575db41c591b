"""``fallow cancel JOB``: end a job for good."""

import argparse

from service.cli.job_words import ordered


def run(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    return ordered(flags, lambda client, job: client.cancel(job, because=flags.because, force=flags.force))
