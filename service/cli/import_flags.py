"""The flags of ``fallow import``: a Prometheus server's samples, or a workload manager's runs."""

import argparse

from analytics.vocabulary.managers import MANAGERS
from service.cli import credentials


def add(verb: argparse.ArgumentParser) -> None:
    """Adds them."""
    verb.add_argument(
        "origin",
        choices=("prometheus", "jobs"),
        metavar="prometheus|jobs",
        help="samples of a Prometheus server, or jobs of a workload manager",
    )
    verb.add_argument("--url", help="the Prometheus server")
    verb.add_argument(
        "--from",
        dest="origin_of",
        choices=tuple(MANAGERS),
        metavar="MANAGER",
        help="whose jobs: slurm asks its accounting; pbs, lsf, kueue, ray or a table come as a --file, which "
        "says by itself whose it is",
    )
    verb.add_argument(
        "--file",
        metavar="FILE",
        help="a file of past jobs, instead of asking: sacct --parsable2, accounting of PBS or LSF, lists of "
        "Kueue or Ray, a CSV table; - is sacct's text on standard input",
    )
    verb.add_argument(
        "--timezone",
        metavar="ZONE",
        help="of times in the file without one, e.g. Europe/Berlin; default this machine's",
    )
    verb.add_argument("--since", default="30d", metavar="TIME", help="how far back (default 30d)")
    verb.add_argument("--until", metavar="TIME", help="up to when; default now")
    verb.add_argument("--match", metavar="SELECTOR", help='only these series, e.g. job="dcgm"')
    credentials.add_flags(verb)
    verb.add_argument("--yes", action="store_true", help="do it; without, say what would be done")
