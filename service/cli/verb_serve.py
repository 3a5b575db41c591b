"""``fallow serve``: the service in the foreground."""

import argparse
import logging

from service.cli.settings import settle


def run(flags: argparse.Namespace) -> int:
    """Serve until stopped."""
    from service.daemon import pace

    pace.share_often()
    from service.daemon.serve import Orders, serve

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = settle(flags)
    config = settings.effective.config
    serve(
        Orders(
            config=config,
            data=settings.data,
            port_fixed=settings.chosen("api.port"),
            say=_say,
            opened=pace.settle,
        )
    )
    pace.end()
    return 0


def _say(text: str) -> None:
    print(text, flush=True)
