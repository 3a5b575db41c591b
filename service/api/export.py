"""Sends an export as one tar: the store's own files, made in a folder beside it and removed when sent."""

import asyncio
import json
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from analytics import text
from service.errors import BadParameter, FallowError, ServiceBusy
from service.schemas.export_archive import MANIFEST, PIECE_BYTES
from service.store.open import DiskTooFull

WriteFiles = Callable[[Path, str, tuple[int, int]], tuple[tuple[Path, int], ...]]
"""(folder, parquet or csv, (from ms, to ms)) to the files and their rows. Blocks. Raises ``FallowError``."""


LEAST_FREE_BYTES = 2 << 30
"""What an export leaves to the store: a month of a machine's samples."""


class NoRoom(BadParameter):
    """The export would leave the disk too little, as long as others lie on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """Where exports are made before they are sent, and who makes them."""

    write: WriteFiles
    folder: Path


def pack(exports: Exports, kind: str, from_ms: int, to_ms: int) -> Path:
    """A tar with the files and, first, how many rows each has; blocks. The caller removes its folder.

    Raises ``ServiceBusy`` or ``NoRoom`` where the disk has no room for it, ``BadParameter`` where it is too
    large.
    """
    free = shutil.disk_usage(exports.folder).free
    if free < LEAST_FREE_BYTES:
        raise ServiceBusy(
            f"the service's disk has {text.size(free)} left, and an export leaves it "
            f"{LEAST_FREE_BYTES / 2**30:.0f}; ask for it where there is room"
        )
    work = Path(tempfile.mkdtemp(prefix=".sending-", dir=exports.folder))
    try:
        files = _export_files(exports, work / "files", kind, (from_ms, to_ms))
        target = work / "export.tar"
        with tarfile.open(target, "w") as tar:
            manifest = json.dumps({path.name: rows for path, rows in files}).encode()
            entry = tarfile.TarInfo(MANIFEST)
            entry.size = len(manifest)
            tar.addfile(entry, BytesIO(manifest))
            for path, _ in files:
                tar.add(path, arcname=path.name)
                path.unlink()
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return target


def _export_files(
    exports: Exports, out: Path, kind: str, span_ms: tuple[int, int]
) -> tuple[tuple[Path, int], ...]:
    try:
        return exports.write(out, kind, span_ms)
    except DiskTooFull as refused:
        raise NoRoom(str(refused)) from refused
    except FallowError as refused:
        raise BadParameter(str(refused)) from refused


async def pieces(packed: Path) -> AsyncIterator[bytes]:
    """The tar in pieces."""
    with packed.open("rb") as source:
        while piece := await asyncio.to_thread(source.read, PIECE_BYTES):
            yield piece


def sweep(folder: Path) -> None:
    """Remove what a killed service left of its exports."""
    for leftover in folder.glob(".sending-*"):
        shutil.rmtree(leftover, ignore_errors=True)
