"""``fallow store``: look through the whole store for damage, and keep what can be read of a damaged one."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from service.cli.screen import console, print_json
from service.config.flags import Settings, settle
from service.data_folder import store_file
from service.errors import FallowError
from service.store.open import in_use, store_limits
from service.trust.believed import must_trust

if TYPE_CHECKING:
    from collector.store.table_copy import LostRows, TableCopy

DAMAGED = 1
"""The exit status where something cannot be read; 2 is that nothing could be tried."""
ADVICE = (
    "a damaged log or sealed day is mended by the next start of the service, and said; for a table, an index "
    "or the file, stop the service: `fallow store salvage --yes` keeps what can be read"
)


class StoreTrouble(FallowError):
    """The store cannot be looked through, or salvaged."""


def run_store(flags: argparse.Namespace) -> int:
    """Check, salvage or take over; status 1 when something is damaged."""
    settings = settle(flags)
    must_trust(settings.data)
    if flags.order == "salvage":
        return _salvage(settings, is_meant=flags.yes)
    if flags.order == "take-over":
        return _take_over(settings, is_meant=flags.yes)
    return _check(settings, flags)


def _check(settings: Settings, flags: argparse.Namespace) -> int:
    from collector.store.salvage import look_through

    path, screen, rows = store_file(settings.data), console(), []
    if not path.exists():
        raise StoreTrouble(f"there is no {path}; give the store's folder with --data")
    with _told(settings.data):
        for each in look_through(path, store_limits(settings.effective.config)):
            rows.append({"part": each.part, "content": each.content, "trouble": each.trouble})
            if not flags.json:
                mark, style = ("✓", "green") if each.trouble is None else ("✗", "bold red")
                why = "" if each.trouble is None else f": {each.trouble}"
                screen.print(Text.assemble((f"{mark} ", style), f"{each.part}: {each.content}{why}"))
    bad = sum(row["trouble"] is not None for row in rows)
    if flags.json:
        print_json(rows, flags)
    else:
        sentence = "1 part is damaged" if bad == 1 else f"{bad} parts are damaged"
        screen.print("All of it can be read." if not bad else f"{sentence}: {ADVICE}.")
    return DAMAGED if bad else 0


def _take_over(settings: Settings, *, is_meant: bool) -> int:
    """Raise the epoch of a store that no service has open."""
    from socket import gethostname

    from collector.store.head_terms import begin_term
    from service.control.lease_key import lease_key
    from service.store.open import own_store

    if not store_file(settings.data).exists():
        raise StoreTrouble(f"there is no store in {settings.data}; restore the back-up first, or give --data")
    _must_own(settings.data, "take-over")
    if not is_meant:
        print(
            f"From its next start on, the service of {settings.data} would be the head of all machines that "
            "push: those that have heard it push to no other one, and another one that hears them does "
            "nothing any more. End the other head first, or cut it off, if you can. With --yes it is done."
        )
        return 0
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    with own_store(settings.data, settings.effective.config) as store:
        term, _, _ = begin_term(
            store, lease_key(settings.data), now_ms, takes_over=True, machine=gethostname()
        )
    at = datetime.fromtimestamp(term.epoch / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    print(
        f"The store of {settings.data} took over at {at}. Start its service, and have the machines reach it."
    )
    return 0


def _salvage(settings: Settings, *, is_meant: bool) -> int:
    from collector.store.database import open_store
    from collector.store.salvage import salvage

    path = store_file(settings.data)
    _must_own(settings.data)
    if not is_meant:
        print(
            f"This would set a damaged log of {path} aside, write a new file of the tables that can be read "
            "where the file is damaged (as much room as it has is needed beside it), and use what can be "
            "read of damaged sealed days. Nothing is deleted: what is damaged is kept under another name. "
            "With --yes it is done."
        )
        return 0
    with _told(settings.data):
        result = salvage(path, store_limits(settings.effective.config))
        with open_store(path, store_limits(settings.effective.config)) as store:
            remarks = (*store.remarks, *store.mend_sealed())
    for table in result.tables:
        for sentence in _lost(table):
            print(sentence)
    for remark in remarks:
        print(remark)
    note = "" if result.aside is None else f" The damaged file is kept as {result.aside}."
    print(f"The store can be read, and the service be started.{note}")
    return 0


def _lost(copy: "TableCopy") -> Iterator[str]:
    if copy.kept == copy.rows:
        return
    yield f"{copy.table}: {copy.kept:,} of {copy.rows:,} rows are kept"
    for span in copy.lost:
        yield f"  lost are rows {span.from_row:,} to {span.to_row - 1:,}{_when(span)}"


def _when(span: "LostRows") -> str:
    if span.from_ms is None and span.to_ms is None:
        return ""
    since = "" if span.from_ms is None else f" from {_clock(span.from_ms)}"
    until = "" if span.to_ms is None else f" to {_clock(span.to_ms)}"
    return f", of{since}{until}"


def _must_own(data: Path, order: str = "salvage") -> None:
    """Root writes no file into a folder that another account can prepare meanwhile; and what it would write
    there, the service's account could not open."""
    if not data.is_dir():
        raise StoreTrouble(f"there is no {store_file(data)}; give the store's folder with --data")
    owner = data.stat().st_uid
    if owner != os.geteuid():
        from collector.procfs.accounts import name_of

        raise StoreTrouble(
            f"{data} belongs to {name_of(owner)}, who has to do it: "
            f"`sudo -u {name_of(owner)} fallow store {order} --yes --data {data}`"
        )


@contextmanager
def _told(data: Path) -> Iterator[None]:
    from collector.store.errors import StoreError, StoreLocked

    try:
        yield
    except StoreLocked as locked:
        raise StoreTrouble(in_use(data)) from locked
    except (StoreError, OSError) as error:
        raise StoreTrouble(str(error)) from error


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
