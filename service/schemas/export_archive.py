"""How an export travels as one tar: what its files are called, and how they are taken out again."""

import json
import re
import shutil
import tarfile
from pathlib import Path

MANIFEST = "manifest.json"


EXPORTED = re.compile(r"[a-z][a-z0-9_-]*\.(parquet|csv)")
"""How the files of an export are called: whatever else came would be written beside a person's own files."""


PIECE_BYTES = 256 * 1024


def unpack(stream: "tarfile.TarFile", out: Path) -> tuple[tuple[Path, int], ...]:
    """The files of a tar that ``pack`` made, written into ``out``; raises OSError and tarfile.TarError."""
    out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, int] = {}
    files: list[tuple[Path, int]] = []
    for member in stream:
        source = stream.extractfile(member)
        if source is None:
            continue
        if member.name == MANIFEST:
            rows = json.load(source)
            continue
        if not EXPORTED.fullmatch(member.name):
            continue
        draft, target = out / f".{member.name}.writing", out / member.name
        draft.unlink(missing_ok=True)
        with draft.open("xb") as sink:  # never through a link: others may share the folder
            shutil.copyfileobj(source, sink, PIECE_BYTES)
        draft.replace(target)
        files.append((target, rows.get(member.name, 0)))
    return tuple(files)
