"""Opens the store of a data directory: to own it, or read-only; and says who has it when it cannot be."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from service.data_folder import announced, store_file
from service.errors import FallowError

if TYPE_CHECKING:
    from collector.store.database import Limits
    from collector.store.database import Store as Store  # noqa: PLC0414  the client names it from here
    from collector.store.export import ExportBounds
    from service.config.model import Config

READING_MEMORY = "128MiB"
"""A month of a thousand GPUs is read in it; what is read lies in the system's cache as well."""


class StoreRefused(FallowError):
    """The store cannot be opened; the message says what was found and what to do."""


class DiskTooFull(StoreRefused):
    """What was to be written would leave the disk too little."""


def open_to_read(data: Path) -> "Store":
    """The store's file, read-only. Raises ``StoreRefused``."""
    from collector.store.database import Limits, open_read_only
    from collector.store.errors import StoreError, StoreLocked

    try:
        return open_read_only(store_file(data), Limits(memory=READING_MEMORY))
    except StoreLocked as locked:
        raise StoreRefused(in_use(data)) from locked
    except StoreError as error:
        raise StoreRefused(str(error)) from error


def store_limits(config: "Config") -> "Limits":
    """What the configuration lets the store's engine take."""
    from collector.store.database import Limits

    return Limits(
        memory=f"{config.store.memory_mib}MiB",
        threads=config.store.threads,
        temporary=f"{config.store.temporary_mib}MiB",
    )


@contextmanager
def own_store(data: Path, config: "Config") -> "Iterator[Store]":
    """The store's file, owned until the end of the block. Raises ``StoreRefused``."""
    from collector.store.database import open_store
    from collector.store.errors import StoreError, StoreLocked

    try:
        store = open_store(store_file(data), store_limits(config))
    except StoreLocked as locked:
        raise StoreRefused(in_use(data)) from locked
    except StoreError as error:
        raise StoreRefused(str(error)) from error
    with store:
        yield store


def write_export(
    store: "Store",
    out: Path,
    kind: str,
    span_ms: tuple[int, int],
    bounds: "ExportBounds | None" = None,
) -> tuple[tuple[Path, int], ...]:
    """The span's files in ``out``, made if missing, and their rows. Raises ``StoreRefused``, OSError."""
    from collector.store.errors import ExportNoRoom, StoreError

    try:
        files = store.export(out, "csv" if kind == "csv" else "parquet", *span_ms, bounds)
    except ExportNoRoom as error:
        raise DiskTooFull(str(error)) from error
    except StoreError as error:
        raise StoreRefused(str(error)) from error
    return tuple(zip(files.files, files.rows, strict=True))


def in_use(data: Path) -> str:
    """Who has the store of a folder, and what to do about it."""
    service = announced(data)
    if service is None:
        return (
            f"the store in {data} is in use by another process; stop it, or choose another folder with --data"
        )
    return (
        f"a service for {data} runs already (process {service.pid}, {service.url}); use it, stop it, "
        "or choose another folder with --data"
    )
