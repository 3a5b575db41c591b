"""``fallow node``: measure this machine and push it to a head, in the foreground."""

import argparse
import sys

from service.config.flags import settle
from service.logs import LogFormat, open_logs


def run_node(flags: argparse.Namespace) -> int:
    """Measure and push until stopped."""
    from collector.without_pandas import leave_pandas_out

    leave_pandas_out()
    from service.node import run
    from service.server.startup import make_data_dir

    settings = settle(flags)
    make_data_dir(settings.data)
    config = settings.effective.config
    close_logs = open_logs(sys.stderr, LogFormat(config.log.format), settings.data)
    try:
        run.run_node(config, settings.data, _say)
    finally:
        close_logs()
    return 0


def _say(text: str) -> None:
    print(text, flush=True)
