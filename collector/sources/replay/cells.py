"""Columns of cells to columns of values, with a mark on each cell that makes no sense. Pure.

A cell may be missing (empty, NaN, NULL, NA, or words in brackets as nvidia-smi's ``[N/A]``): that is "not
measured" of a number, "not told" of a name, and no fault. ``inf`` is a fault.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MISSING = ("", "nan", "null", "n/a", "none", "-", "err!")
"""In any case of their letters. ``ERR!`` is what nvidia-smi's table has where the driver gave an error."""
_MISSING_IN_BRACKETS = r"^\[[A-Za-z][^\[\]]*\]$"
"""``[Not Supported]``, ``[Unknown Error]``, ``[GPU is lost]``, ``[ERR!]``, … (nvidia-smi's manual)."""
_NOT_AVAILABLE = "NA"
"""As R writes it. As a number's cell in any case; in small letters it may be somebody's name."""
_SLASHED_DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d)(?= )")
"""How nvidia-smi writes a day; the rest is ISO 8601."""
_NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Values with NaN for missing cells, and a mark on those that are no number."""

    values: npt.NDArray[np.float64]
    bad: npt.NDArray[np.bool_]

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Neither a number nor malformed."""
        missing: npt.NDArray[np.bool_] = np.isnan(self.values) & ~self.bad
        return missing


def numbers(column: pa.ChunkedArray) -> Numbers:
    """A column of numbers, or of text that should be numbers."""
    whole = _whole(column)
    if not _is_text(whole.type):
        values = whole.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
        return Numbers(values=np.where(np.isinf(values), np.nan, values), bad=np.isinf(values))
    text = pc.utf8_trim_whitespace(whole.cast(pa.string()))
    missing = _missing(text)
    valid = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
    parsed = pc.if_else(valid, text, None).cast(pa.float64())
    values = parsed.to_numpy(zero_copy_only=False).astype(np.float64)
    bad = ~_flags(pc.or_(missing, valid)) | np.isinf(values)
    return Numbers(values=np.where(bad, np.nan, values), bad=bad)


def moments(column: pa.ChunkedArray) -> Numbers:
    """Milliseconds since the epoch from a column of timestamps or ISO 8601 text; without a zone: UTC."""
    whole = _whole(column)
    if pa.types.is_timestamp(whole.type) or pa.types.is_date(whole.type):
        stamps = whole.cast(pa.timestamp("us", tz=getattr(whole.type, "tz", None)))
        micros = stamps.cast(pa.int64()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return Numbers(values=micros / 1000.0, bad=np.zeros(len(micros), np.bool_))
    text = pc.utf8_trim_whitespace(whole.cast(pa.string()))
    missing = _flags(_missing(text))
    values = np.array([_moment_ms(cell) for cell in text.to_pylist()], np.float64)
    return Numbers(values=values, bad=np.isnan(values) & ~missing)


def names(column: pa.ChunkedArray) -> pa.Array:
    """Who or what a cell names, trimmed; NULL where it names nothing, as ``[GPU is lost]`` for a UUID."""
    text = pc.utf8_trim_whitespace(_whole(column).cast(pa.string()))
    nothing = pc.or_(_says_nothing(text), pc.fill_null(pc.equal(text, _NOT_AVAILABLE), True))
    return pc.if_else(nothing, None, text)


def words(column: pa.ChunkedArray) -> pa.Array:
    """Text, trimmed; an empty or missing cell is NULL."""
    text = pc.utf8_trim_whitespace(_whole(column).cast(pa.string()))
    return pc.if_else(pc.fill_null(pc.equal(text, ""), True), None, text)


def is_missing(column: pa.ChunkedArray) -> pa.Array:
    """A mark on each cell of text that says nothing, ``[N/A]`` and the like included."""
    return _missing(pc.utf8_trim_whitespace(_whole(column).cast(pa.string())))


def cell(column: pa.ChunkedArray, row: int) -> str:
    """What stands in a row, for a message; long cells are cut."""
    text = str(column[row].as_py())
    return text if len(text) <= 40 else f"{text[:37]}…"


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_dictionary(kind)
        or pa.types.is_null(kind)
    )


def _missing(text: pa.Array) -> pa.Array:
    return pc.or_(_says_nothing(text), pc.fill_null(pc.equal(pc.utf8_upper(text), _NOT_AVAILABLE), True))


def _says_nothing(text: pa.Array) -> pa.Array:
    listed = pc.is_in(pc.utf8_lower(text), pa.array(_MISSING))
    return pc.fill_null(pc.or_(listed, pc.match_substring_regex(text, _MISSING_IN_BRACKETS)), True)


def _flags(marks: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = marks.to_numpy(zero_copy_only=False).astype(np.bool_)
    return flags


def _moment_ms(text: str | None) -> float:
    try:
        moment = datetime.fromisoformat(_SLASHED_DATE.sub(r"\1-\2-\3", text or "", count=1))
    except ValueError:
        return float("nan")
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.timestamp() * 1000.0
