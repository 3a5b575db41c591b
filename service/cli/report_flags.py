"""The flags of ``fallow report``."""

import argparse
from pathlib import Path

from analytics.vocabulary.reports import ReportKind

KINDS = tuple(kind.value for kind in ReportKind)
FORMATS = ("html", "md", "csv", "json")


def add_flags(verb: argparse.ArgumentParser) -> None:
    """What can be asked of a report."""
    verb.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help=" | ".join(KINDS))
    verb.add_argument("--since", default="7d", metavar="TIME", help="24h, 7d, or a date (default 7d)")
    verb.add_argument("--until", metavar="TIME", help="the same; default now")
    verb.add_argument(
        "--format", choices=FORMATS, metavar="|".join(FORMATS), help="default: by --out, or html"
    )
    verb.add_argument("--out", type=Path, metavar="FILE", help="where to; - is the terminal")
    verb.add_argument("--user", help="whose report (my-week: default you)")
    verb.add_argument("--project", help="which project's")
    verb.add_argument(
        "--zone",
        default="",
        metavar="ZONE",
        help="times and bare dates in it, e.g. Europe/Berlin (default UTC)",
    )
    verb.add_argument(
        "--pictures",
        choices=("svg", "png"),
        default="svg",
        help="charts in the HTML (png: for mail programs)",
    )
    verb.add_argument("--templates", type=Path, metavar="DIR", help="a folder of your own templates")
    verb.add_argument("--preview", action="store_true", help="show it in the terminal, write nothing")
    verb.add_argument("--list", action="store_true", help="the kinds there are, and what is scheduled")
    verb.add_argument("--json", action="store_true", help="with --list: a list of objects")
