"""``fallow status``: what every GPU does now, and for whom."""

import argparse
import json

from service.client import connect


def run(flags: argparse.Namespace) -> int:
    """Print it once, or keep showing it."""
    filters = {name: getattr(flags, name) for name in ("node", "project", "user", "model")}
    with connect(flags.data) as client:
        rows = client.rows("gpus_now", **filters)
    print(json.dumps(rows, indent=1))
    return 0
