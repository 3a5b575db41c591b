"""``fallow resize JOB GPUS``: give a running job another number of GPUs."""

import argparse

from service.cli.job_words import ordered


def run(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    return ordered(flags, lambda client, job: client.resize(job, flags.gpus, because=flags.because))
