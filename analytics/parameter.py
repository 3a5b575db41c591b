"""The kinds of value a named query takes, and how what a caller brings becomes one.

Callers are Python code, and HTTP where everything is text, so numbers, instants and flags are also taken as
text. Pure: no clock, so relative times ("the last hour") are resolved by whoever asks.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import assert_never

MINUTE_S = 60


class BadValueError(ValueError):
    """A value is not of the kind asked for."""


class Kind(StrEnum):
    """What a parameter holds; the names are the words used in a query's header."""

    INSTANT = "instant"
    MINUTE = "minute"
    STEP = "step"
    COUNT = "count"
    RATIO = "ratio"
    FLAG = "flag"
    TEXT = "text"
    TEXTS = "texts"
    COUNTS = "counts"

    def allowed(self) -> str:
        """What is allowed, in words."""
        return _ALLOWED[self]


def convert(kind: Kind, value: object) -> object:
    """``value`` as the store takes it; raises BadValueError. Instants become UTC datetimes without a zone."""
    match kind:
        case Kind.INSTANT:
            return _instant(value)
        case Kind.MINUTE:
            return _minute(value)
        case Kind.STEP:
            return _step(value)
        case Kind.COUNT:
            return _count(value)
        case Kind.RATIO:
            return _ratio(value)
        case Kind.FLAG:
            return _flag(value)
        case Kind.TEXT:
            return _text(value)
        case Kind.TEXTS:
            return _texts(value)
        case Kind.COUNTS:
            return _counts(value)
        case _:
            assert_never(kind)


_ALLOWED = {
    Kind.INSTANT: "an instant (UTC datetime, ISO 8601 text, or milliseconds since the epoch)",
    Kind.MINUTE: "a whole UTC minute (datetime, ISO 8601 text, or milliseconds since the epoch)",
    Kind.STEP: "a whole number of minutes in seconds, at least 60",
    Kind.COUNT: "a whole number, at least 0",
    Kind.RATIO: "a number from 0 to 1",
    Kind.FLAG: "true or false",
    Kind.TEXT: "a text",
    Kind.TEXTS: "a list of texts",
    Kind.COUNTS: "a list of whole numbers",
}


def _instant(value: object) -> datetime:
    if isinstance(value, bool):
        raise BadValueError(value)
    if isinstance(value, str):
        value = int(value) if value.isdigit() else _from_iso(value)
    if isinstance(value, int):
        return datetime(1970, 1, 1) + timedelta(milliseconds=value)  # noqa: DTZ001  the store keeps UTC, zoneless
    if not isinstance(value, datetime):
        raise BadValueError(value)
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _from_iso(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise BadValueError(text) from error


def _minute(value: object) -> datetime:
    instant = _instant(value)
    if instant.second or instant.microsecond:
        raise BadValueError(value)
    return instant


def _step(value: object) -> int:
    step = _count(value)
    if step < MINUTE_S or step % MINUTE_S:
        raise BadValueError(value)
    return step


def _count(value: object) -> int:
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadValueError(value)
    return value


def _ratio(value: object) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError as error:
            raise BadValueError(value) from error
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadValueError(value)
    return float(value)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "false": False, "0": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise BadValueError(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadValueError(value)
    return value


def _texts(value: object) -> list[str]:
    if isinstance(value, str):  # over HTTP a list of one is a text
        return [_text(value)]
    if not isinstance(value, Iterable):
        raise BadValueError(value)
    return [_text(item) for item in value]


def _counts(value: object) -> list[int]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadValueError(value)
    return [_count(item) for item in value]
