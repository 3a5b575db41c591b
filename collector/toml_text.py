"""TOML that somebody wrote, with bounds: the parser itself has none, and takes minutes for some files. Pure.

Every file of this program that holds TOML is read here.
"""

import re
import tomllib
from typing import Any

MOST_CHARS = 1 << 20
"""A configuration with 40,000 people's projects; it is read whole, and by a parser in Python."""
MOST_PARTS = 64
"""Of a dotted key: no setting has more than five. The parser's time grows with their square: 50,000 took a
minute and 3 GB (26 November 2026)."""
LARGEST = 10**600
"""A whole number beyond is no setting, and its text fills a screen; from 4,300 digits on it has none."""

_DOTTED = re.compile(r"""[\w"'.\t *-]+""")


class BadToml(ValueError):
    """It is not TOML, or more of it than a file of settings holds; the message says what."""


def read_toml(text: str) -> dict[str, Any]:
    """The tables in a text. Raises BadToml."""
    if len(text) > MOST_CHARS:
        raise BadToml(f"{len(text):,} characters, and such a file holds {MOST_CHARS:,} at most")
    for line, content in enumerate(text.splitlines(), start=1):
        if any(each.count(".") >= MOST_PARTS for each in _DOTTED.findall(content)):
            raise BadToml(f"a key of more than {MOST_PARTS} parts (at line {line})")
    try:
        tree = tomllib.loads(text)
    except RecursionError as error:
        raise BadToml("lists or tables in one another, too deep to be read") from error
    except ValueError as error:
        raise BadToml(str(error)) from error
    _refuse_large_numbers(tree)
    return tree


def _refuse_large_numbers(tree: dict[str, Any]) -> None:
    pending: list[object] = [tree]
    while pending:
        match pending.pop():
            case dict() as table:
                pending += table.values()
            case list() as values:
                pending += values
            case int() as number if not -LARGEST < number < LARGEST:
                raise BadToml("a whole number of more than 600 digits")
            case _:
                pass
