"""The flags of ``fallow init``, and nothing of what it does."""

import argparse

from service.cli import credentials


def add(verb: argparse.ArgumentParser) -> None:
    """Adds them."""
    verb.add_argument(
        "--prometheus",
        metavar="URL",
        help="a Prometheus that scrapes dcgm-exporter (else this machine's, 9090)",
    )
    verb.add_argument(
        "--exporter",
        action="append",
        default=[],
        metavar="URL",
        help="a dcgm-exporter; may be repeated (else those that the Prometheus scrapes, or this machine's)",
    )
    verb.add_argument(
        "--since", default="30d", metavar="TIME", help="how much of the past to import (default 30d)"
    )
    credentials.add_flags(verb)
    verb.add_argument("--yes", action="store_true", help="do it without asking; an existing file stays")
