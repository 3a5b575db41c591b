"""A table of a TOML file, each key taken once and checked; a message names file, line and key."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_HEADER = re.compile(r"\s*\[{1,2}\s*([\w.-]+)\s*\]{1,2}\s*(?:#.*)?$")


class HabitError(ValueError):
    """A habit's file that cannot be played; the message names file, line and key."""


def length_ms(text: object) -> int:
    """Milliseconds of ``"1h30m"``, ``"90s"``, ``"0"``. Raises ValueError."""
    if text in (0, "0"):
        return 0
    if not isinstance(text, str) or not _LENGTH.fullmatch(text):
        raise ValueError(f'{text!r} is no length of time; say "90s", "20m", "1h30m" or "2d"')
    return round(sum(float(number) * UNIT_MS[unit] for number, unit in _PART.findall(text)))


def nearest(word: str, known: Iterable[str]) -> str:
    """A question after the known word that looks most like this one; nothing where none does."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


class Table:
    """A table of the file with its place in it; every key is taken once, and what is left is unknown."""

    def __init__(
        self, told: Mapping[str, Any], file: str, text: str, where: str = "", number: int = 0
    ) -> None:
        self._left = dict(told)
        self._file = file
        self._text = text
        self._where = where
        self._number = number
        self._known: list[str] = []

    def take(self, key: str, default: Any = None) -> Any:
        """The value of a key."""
        self._known.append(key)
        return self._left.pop(key, default)

    def must(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """The value of a key that has to be there."""
        value = self.take(key)
        if value is None:
            raise self.wrong(key, f"is missing; say {what}")
        if not isinstance(value, kind):
            raise self.wrong(key, f"is {value!r}; say {what}")
        return value

    def number(self, key: str, default: float | None, low: float, high: float) -> float | None:
        """A number within bounds."""
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.wrong(key, f"is {value!r}; say a number from {low:g} to {high:g}")
        return float(value)

    def text(self, key: str, default: str | None = None, among: Iterable[str] | None = None) -> str | None:
        """A text, among those given."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(key, f"is {value!r}; say a text")
        if among is not None and value not in among:
            raise self.wrong(key, f"is {value!r}{nearest(value, among)}; known are {', '.join(among)}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {value!r}; say true or false")
        return value

    def words(self, key: str, among: Iterable[str] | None = None) -> tuple[str, ...] | None:
        """A list of texts, among those given; ``None`` when the key is not there."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, f"is {value!r}; say a list of texts")
        for each in value:
            if among is not None and each not in among:
                raise self.wrong(key, f"has {each!r}{nearest(each, among)}; known are {', '.join(among)}")
        return tuple(value)

    def gpus(self, key: str, count: int) -> tuple[int, ...]:
        """A list of GPUs of the habit; all of them when the key is not there."""
        value = self.take(key)
        if value is None:
            return tuple(range(count))
        if not isinstance(value, list) or not all(type(each) is int and 0 <= each < count for each in value):
            raise self.wrong(key, f"is {value!r}; say a list of GPUs from 0 to {count - 1}")
        return tuple(value)

    def length(self, key: str, default: str | None = None) -> int | None:
        """A length of time in ms."""
        value = self.take(key, default)
        return None if value is None else self._length(key, value)

    def span(self, key: str) -> tuple[int, int]:
        """A length of time, or a list of the shortest and the longest."""
        value = self.take(key)
        if value is None:
            raise self.wrong(key, 'is missing; say a length of time like "40m", or ["30m", "50m"]')
        if isinstance(value, list) and len(value) == 2:
            low, high = (self._length(key, each) for each in value)
            if not 0 < low <= high:
                raise self.wrong(key, f"is {value!r}; the first is longer than the second, or nothing")
            return low, high
        same = self._length(key, value)
        return same, same

    def tables(self, key: str) -> list["Table"]:
        """The tables of ``[[key]]``; one written as ``[key]`` counts too."""
        value = self.take(key, [])
        rows = [value] if isinstance(value, dict) else value
        if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
            raise self.wrong(key, f"is no table; say [[{key}]]")
        return [self.below(row, f"{key}", number) for number, row in enumerate(rows)]

    def below(self, row: Mapping[str, Any], where: str, number: int = 0) -> "Table":
        """A table within this one."""
        path = f"{self._where}.{where}" if self._where else where
        return Table(row, self._file, self._text, path, number)

    def done(self) -> None:
        """No key may be left over."""
        for key in self._left:
            raise self.wrong(key, f"is unknown here{nearest(key, self._known)}")

    def wrong(self, key: str, what: str) -> HabitError:
        """An error about a key."""
        line = _line_of(self._text, self._where, self._number, key)
        place = f", line {line}" if line else ""
        count = f"[{self._number}]" if self._where and self._number else ""
        name = f"{self._where}{count}.{key}" if self._where else key
        return HabitError(f"{self._file}{place}: {name} {what}")

    def _length(self, key: str, value: object) -> int:
        try:
            return length_ms(value)
        except ValueError as error:
            raise self.wrong(key, f"has {error}") from error


def _line_of(text: str, where: str, number: int, key: str) -> int | None:
    """The line that sets the key in the ``number``-th table of that name, else the table's own line."""
    current, seen, header = "", -1, 1
    for line_number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.match(line):
            current = match[1]
            if current == where:
                seen += 1
                header = line_number
        elif (
            current == where and (not where or seen == number) and re.match(rf"\s*{re.escape(key)}\s*=", line)
        ):
            return line_number
    return header if seen >= number and where else None
