"""From a path to a recording: which mapping goes with which file.

Fallow's own export and nvidia-smi's CSV log need none. Any other table has its mapping beside it, under its
whole name or its stem with ``.toml`` appended (``pods.csv.gz.toml`` or ``pods.toml``), or gets
one from the caller. Beside a log of nvidia-smi it may say the node alone.
"""

import logging
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from collector.arrow import SAMPLE_SCHEMA, SIMULATED_COLUMN
from collector.sources.replay.errors import BadMapping, RecordingUnreadable
from collector.sources.replay.export import with_neighbours
from collector.sources.replay.file import read_raw
from collector.sources.replay.interpret import interpret
from collector.sources.replay.mapping import ColumnMapping, Measure, parse_mapping
from collector.sources.replay.recording import Recording, shifted
from collector.sources.replay.smi import smi_mapping
from collector.sources.replay.source import ReplaySource

log = logging.getLogger(__name__)

_ENDINGS = re.compile(r"(\.(csv|parquet|gz|bz2|zst|lz4|br))+$")
"""What a file's name says of its format. What stands before it may have dots: ``node1.example.org.csv``."""


def open_recording(path: Path, mapping: ColumnMapping | None = None, now_ms: int | None = None) -> Recording:
    """The recording at ``path``; blocks while it is read whole into memory.

    Rows that are later than ``now_ms`` by over a day are skipped: a clock leapt.
    ``path`` is the table of samples, or the folder of an export, in which it is ``samples.parquet`` or
    ``samples.csv``. What was skipped is in ``refused``, in the first of the ``gaps``, and in the log.
    Raises RecordingUnreadable, BadMapping, RecordingUseless, each with what to do next.
    """
    if path.is_dir():
        found = [path / name for name in ("samples.parquet", "samples.csv") if (path / name).is_file()]
        path = found[0] if found else path / "samples.parquet"
    if not path.is_file():
        raise RecordingUnreadable(f"replaying {path}: there is no such file")
    try:
        recording = _understood(path, mapping, now_ms)
    except pa.ArrowException as error:
        raise RecordingUnreadable(
            f"replaying {path}: a column holds neither text nor numbers: {error}. Write plain columns, or "
            "take that one out of the mapping"
        ) from error
    if recording.refused.rows:
        log.warning("replaying %s: %s", path, recording.refused)
    return recording


def open_replay(
    path: Path, *, starts_ms: int, mapping: ColumnMapping | None = None, name: str | None = None
) -> ReplaySource:
    """The recording at ``path`` as a source whose first moment is at ``starts_ms``, to run with that clock.

    For recorded times at a chosen speed, give ``ReplaySource`` the recording itself and the loop a
    ``ReplayClock``. Raises as ``open_recording``.
    """
    recording = open_recording(path, mapping)
    return ReplaySource(shifted(recording, starts_ms - recording.from_ms), name)


def _understood(path: Path, mapping: ColumnMapping | None, now_ms: int | None) -> Recording:
    raw = read_raw(path)
    log_of_smi = smi_mapping(raw.table, node_name=_ENDINGS.sub("", path.name))
    chosen = mapping or _mapping_beside(path, log_of_smi)
    own = _own_mapping(tuple(raw.table.column_names)) if chosen is None else None
    if own is not None:
        recording = with_neighbours(interpret(raw, own, str(path), now_ms), path)
        return replace(recording, simulated=SIMULATED_COLUMN in raw.table.column_names)
    chosen = chosen or log_of_smi
    if chosen is None:
        raise BadMapping(
            f"replaying {path}: its columns ({', '.join(raw.table.column_names)}) are not those of Fallow's "
            f"export or an nvidia-smi log, and there is no mapping at {_stem(path)}.toml. Write one: "
            "docs/replay.md shows how."
        )
    return interpret(raw, chosen, str(path), now_ms)


def _mapping_beside(path: Path, known: ColumnMapping | None) -> ColumnMapping | None:
    for candidate in (path.with_name(f"{path.name}.toml"), path.with_name(f"{_stem(path).name}.toml")):
        if candidate.is_file():
            return parse_mapping(_text(candidate), str(candidate), known)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadMapping(f"reading the column mapping {path}: it is not text in UTF-8") from error


def _own_mapping(columns: tuple[str, ...]) -> ColumnMapping | None:
    if not {"uuid", "at_ms"} <= set(columns):
        return None
    own = [name for name in SAMPLE_SCHEMA.names if name in columns and name not in ("uuid", "at_ms", "flags")]
    return ColumnMapping(
        time="at_ms",
        time_unit_ms=1.0,
        origin_ms=0,
        gpu="uuid",
        node="node" if "node" in columns else None,
        measures=tuple(Measure(field=name, column=name, factor=1.0) for name in own),
    )


def _stem(path: Path) -> Path:
    return path.with_name(path.name.split(".")[0])
