"""Reads any trace that is known: those that were published, and a site's own history. Blocks on files."""

import csv
from collections.abc import Callable
from pathlib import Path

from advisor.sim.traces import gavel, openb, philly, pollux
from advisor.sim.traces.history import read_history
from advisor.sim.traces.rows import TraceError
from advisor.sim.workload import Workload
from collector.managers.histories.model import HistoryError
from collector.managers.histories.read import HEAD_CHARS, HistoryFormat, text_of

PUBLISHED: dict[str, tuple[tuple[str, ...], Callable[[Path, str | None], Workload]]] = {
    "philly": (philly.COLUMNS, philly.read_philly),
    "pollux": (pollux.COLUMNS, pollux.read_pollux),
    "openb": (openb.COLUMNS, openb.read_openb),
    "gavel": (gavel.COLUMNS, gavel.read_gavel),
}
FORMATS = (*PUBLISHED, *HistoryFormat)


def read_trace(path: Path, format: str | None = None, pick: str | None = None) -> Workload:
    """The jobs of a trace, recognized by its heading or its first record where no format is named.

    ``pick`` is a part of a published trace. Raises TraceError.
    """
    named = format or _published(path, pick is not None)
    if named in PUBLISHED:
        return PUBLISHED[named][1](path, pick)
    if pick is not None:
        raise TraceError(f"--pick is of a published trace ({', '.join(PUBLISHED)}); this one is read whole")
    return read_history(path, None if named is None else HistoryFormat(named))


def _published(path: Path, is_picked: bool) -> str | None:
    """Which published trace it is. Philly's four columns are any table's, unless days are picked."""
    try:
        with text_of(path) as file:
            first = next(iter(file.read(HEAD_CHARS).splitlines()), "")
    except HistoryError as error:
        raise TraceError(str(error)) from error
    heading = set(next(csv.reader([first]), []))
    for name, (columns, _) in PUBLISHED.items():
        if heading.issuperset(columns) and (name != "philly" or is_picked):
            return name
    return None
