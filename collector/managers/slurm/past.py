"""Asks Slurm's accounting for a stretch of the past, a page at a time, as text.

A page is a day: sacct keeps its whole answer in memory, and slurmdbd is busy with it for everybody. A run is
on the page of each day on which it was there; who stores runs knows them by their key.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from collector.inventory.slurm_programs import NoAnswer, answer
from collector.managers.slurm.sacct_text import FIELDS, Cells, Header, Refused, header_of, records

PAGE_S = 86_400
PAGE_TIMEOUT_S = 300.0
"""slurmdbd answers one page of 22.05 in milliseconds a thousand runs; a busy database takes minutes."""

Run = Callable[[Sequence[str], float, Mapping[str, str] | None], str]


def pages(
    from_ms: int, to_ms: int, run: Run = answer
) -> Iterator[tuple[int, Header, Iterator[tuple[int, Cells | Refused]]]]:
    """Each page's end (UTC ms), header and records. Blocks. Raises NoAnswer and NotAccounting."""
    start_s, end_s = from_ms // 1000, -(-to_ms // 1000)
    while start_s < end_s:
        page_end_s = min((start_s // PAGE_S + 1) * PAGE_S, end_s)
        text = run(command(start_s, page_end_s, _mark()), PAGE_TIMEOUT_S, {"TZ": "UTC"})
        lines = (f"{line}\n" for line in text.split("\n"))
        header = header_of(next(lines, ""))
        yield page_end_s * 1000, header, records(header, lines)
        start_s = page_end_s


def command(start_s: int, end_s: int, mark: str) -> tuple[str, ...]:
    """What is run: every run of everybody, those before a requeue too, without steps."""
    return (
        "sacct",
        "--allusers",
        "--duplicates",
        "--allocations",
        "--parsable2",
        f"--delimiter={mark}",
        f"--format={','.join(FIELDS)}",
        f"--starttime={_utc(start_s)}",
        f"--endtime={_utc(end_s)}",
    )


def why_none(run: Run = answer) -> str | None:
    """Why there is no past to be read, or ``None``: sacct answers. Blocks for some seconds at most."""
    short = ("sacct", "--noheader", "--allocations", "--starttime=now-1minutes", "--format=JobID")
    try:
        run(short, 10.0, None)
    except NoAnswer as failure:
        return str(failure)
    return None


def who_is_seen(run: Run = answer) -> str | None:
    """Why this account is shown only its own runs, or ``None``. Blocks; not told is ``None`` too."""
    try:
        config = run(("sacctmgr", "--noheader", "--parsable2", "show", "configuration"), 30.0, None)
        private = "jobs" in _setting(config, "PrivateData") or "all" in _setting(config, "PrivateData")
        if not private or os.geteuid() == 0:
            return None
        level = run(
            ("sacctmgr", "--noheader", "--parsable2", "show", "user", str(os.geteuid()), "format=AdminLevel"),
            30.0,
            None,
        )
    except NoAnswer:
        return None
    if level.strip().lower() in ("operator", "administrator"):
        return None
    return (
        "Slurm's accounting shows this account its own jobs alone (PrivateData=jobs): what is imported is no "
        "sum of everybody's; run this as an account with AdminLevel=Operator"
    )


def _setting(config: str, name: str) -> str:
    return " ".join(
        line.partition("=")[2].strip().lower() for line in config.splitlines() if line.startswith(name)
    )


def _mark() -> str:
    return f"@{secrets.token_hex(8)}@"


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
