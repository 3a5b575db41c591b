"""``fallow export``: the telemetry as open files, which ``--source replay=FILE`` takes back."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from service.cli import words
from service.cli.asking import asked
from service.cli.screen import Column, console, table
from service.client import NoData
from service.durations import window
from service.errors import FallowError


class ExportFailed(FallowError):
    """The files could not be written."""


def run(flags: argparse.Namespace) -> int:
    """Write the files, and say what they are."""
    start, end = window(flags.since, flags.until, datetime.now(UTC))
    with asked(flags) as client:
        try:
            files = client.export(flags.out, kind=flags.format, from_ts=start, to_ts=end)
        except OSError as error:
            raise ExportFailed(f"cannot write to {flags.out}: {error.strerror or error}") from error
    if not files:
        raise NoData(f"nothing was measured since {flags.since}")
    columns = [Column(title="file"), Column(title="rows", right=True), Column(title="size", right=True)]
    lines = [[str(path), words.count(rows), _size(path)] for path, rows in files]
    console().print(table(columns, lines))
    return 0


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
