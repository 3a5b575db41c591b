"""``fallow serve``: the service in the foreground."""

import argparse
import logging
import os
import sys
from typing import NoReturn

from service.config.flags import settle
from service.logs import LogFormat, open_logs


def run_serve(flags: argparse.Namespace) -> NoReturn:
    """Serve until stopped; ends the process."""
    from service.server import processor_share

    processor_share.begin()
    from collector.without_pandas import leave_pandas_out

    leave_pandas_out()
    from service.server.main import Orders, serve
    from service.server.startup import make_data_dir

    settings = settle(flags)
    config = settings.effective.config
    make_data_dir(settings.data)  # the security log lies there
    close_logs = open_logs(sys.stderr, LogFormat(config.log.format), settings.data, to_file=flags.log_to_file)
    try:
        for remark in settings.effective.remarks:
            _say(remark)
        serve(
            Orders(
                config=config,
                data=settings.data,
                port_fixed=settings.chosen("api.port"),
                say=_say,
                opened=processor_share.settle,
            )
        )
    finally:
        close_logs()
    processor_share.end()
    # All is closed and on disk, so the process ends without the interpreter's own end: that takes itself
    # from under threads that are still on their way out of DuckDB; they are unwound through C++ that allows
    # none, which aborts ("terminate called without an active exception", seen in one of five stops soon
    # after a start).
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _say(text: str) -> None:
    print(text, flush=True)
