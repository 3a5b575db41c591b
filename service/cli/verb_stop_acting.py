"""``fallow stop-acting``: have Fallow do nothing more to anybody, at once.

Two ways at the same time, and either is enough: a file in the DATA folder, which the service looks for before
every step and which needs no service that answers, and the service itself.
"""

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path

from collector.procfs.owners import whose_uid
from service import data_folder as client_place
from service.client.jobs import connect_acting
from service.errors import ClientError, FallowError

ANSWER_S = 5.0


class NotStopped(FallowError):
    """Neither way worked."""


def run(flags: argparse.Namespace) -> int:
    """Stop it, by file and by service, and say which of them worked."""
    data = client_place.data_dir(flags.data)
    by_file, file_trouble = _by_file(data, flags.because)
    try:
        connect_acting(flags.data, timeout_s=ANSWER_S).stop_acting(flags.because)
    except ClientError as error:
        if by_file is None:
            raise NotStopped(f"acting goes on: the service says: {error}; and {file_trouble}") from error
        print(f"Acting is stopped by {by_file}. The service itself was not told: {error}")
        return 0
    print("Acting is stopped, now and after a restart. `fallow start-acting` lets it go on.")
    return 0


def whoami() -> str:
    """Who runs this, as the service would call them."""
    return whose_uid(os.getuid())


def _by_file(data: Path, because: str) -> tuple[Path | None, str]:
    from advisor.journal.kill_switch import Setting, write_file

    if not client_place.store_file(data).exists():
        return None, f"there is no store in {data}; name the service's folder with --data"
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    try:
        return write_file(data, Setting(acting=False, by=whoami(), at_ms=now_ms, because=because)), ""
    except OSError as error:
        return None, f"{data} cannot be written ({error.strerror})"
