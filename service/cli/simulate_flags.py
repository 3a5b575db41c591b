"""What can be typed about ``fallow simulate``, and nothing of what it does."""

import argparse
from pathlib import Path

TRACE_FORMATS = (
    *("philly", "pollux", "openb", "gavel"),
    *("sacct", "sacct-json", "pbs", "lsf", "swf", "kueue", "ray", "table"),
)
"""Those of advisor.sim.traces.read, held to it by a test: an import would slow the help down."""


def add(verb: argparse.ArgumentParser) -> None:
    """Adds them; the window and --json are every reading verb's."""
    verb.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="a job history, gzipped or not: sacct, PBS, LSF, SWF, Kueue, Ray, a table, a known trace",
    )
    verb.add_argument(
        "--format",
        choices=TRACE_FORMATS,
        metavar="FORMAT",
        help=f"of the trace, where it is not recognized: {', '.join(TRACE_FORMATS)}",
    )
    verb.add_argument(
        "--pick",
        metavar="PART",
        help="a part of it: days (2017-10-03..2017-10-16), LOAD/WORKLOAD, a sub-trace, a quality of service",
    )
    verb.add_argument(
        "--from-store", action="store_true", help="simulate the jobs recorded here instead of a trace"
    )
    verb.add_argument("--nodes", metavar="NxG", help="the cluster, for example 16x4: 16 nodes of 4 GPUs")
    verb.add_argument(
        "--load", type=float, metavar="RATIO", help="or size it by demand, with quotas in proportion"
    )
    verb.add_argument("--gpus-per-node", type=int, metavar="G", help="with --load (default 8)")
    verb.add_argument(
        "--quotas",
        choices=("none", "demand"),
        metavar="none|demand",
        help="with --nodes: guarantee nothing, or all GPUs in proportion to demand (default none)",
    )
    verb.add_argument(
        "--policy",
        default="fifo,fallow",
        metavar="NAME[,NAME]",
        help="static, fifo, srtf, las, fallow, goodput, youngest, by-job, foretold (default fifo,fallow)",
    )
    times = (
        ("--restart", "1s", "what a start or a resize costs a job"),
        ("--checkpoint", "30m", "how often jobs save their work"),
        ("--tick", "10s", "how often policies look whether something changed"),
        ("--grace", "60s", "how long a guaranteed job may wait without its being a violation"),
    )
    for flag, default, about in times:
        verb.add_argument(flag, default=default, metavar="TIME", help=f"{about} (default {default})")
    verb.add_argument(
        "--no-reports", action="store_true", help="as if jobs didn't report what is left of them"
    )
    verb.add_argument("--html", type=Path, metavar="FILE", help="also write a page of charts over time")
