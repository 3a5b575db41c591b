"""Text that others chose, made fit to be shown: one line, all of it visible, nothing that steers. Pure.

Names of users, jobs, processes, pods, containers and GPUs come from whoever started or named them. What is
shown on a terminal, on a page, in a log or in a message goes through here first; decision 53 lists the doors.
What cannot be seen is written out as Python writes it (``\\x1b``, ``\\u202e``), so that what looks alike is
alike. Letters of all languages, accents, dots, underscores and emoji stay as they are.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST = 4_000
"""Characters of one text: more than the longest command that is kept, and a screenful at most."""
MARKS = 4
"""Marks on one letter: no language stacks more; a tower of them is drawn over the lines above."""
CUT = "\u2026"
OUR_SPACES = "\u00a0\u202f"
"""Spaces that keep a number and its unit on one line; screens write them, and they look like spaces."""
JOINER = "\N{WORD JOINER}"

_UNSEEN = frozenset((0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x034F))
"""Letters, marks and a symbol that show nothing, though Unicode calls them printable."""
_PLAIN = re.compile(r"[ -~]*")
_LINKS = re.compile(r"(?<=:)(?=//)|(?<=\bwww)(?=\.)", re.IGNORECASE)
_OTHERS = re.compile(r"[^\n -~]")


def on_a_line(text: str, most: int = LONGEST) -> str:
    """The text as one visible line of at most ``most`` characters, an ellipsis where it went on."""
    if _PLAIN.fullmatch(text):  # nearly always
        return text if len(text) <= most else f"{text[: most - 1]}{CUT}"
    line = _escaped(text[: most + 1])
    return line if len(line) <= most else f"{line[: most - 1]}{CUT}"


def in_lines(text: str) -> str:
    """The same of a text that may have lines of its own, of any length."""
    return "\n".join(_line(line) for line in text.split("\n"))


def unlinked(text: str) -> str:
    """Foreign words in which no address can be clicked: whoever shows them would seem to vouch for it.

    A joiner that cannot be seen parts ``http:`` from ``//``.
    """
    return _LINKS.sub(JOINER, text)


def shown_rows(value: T, shown: Callable[[str], str] = on_a_line) -> T:
    """JSON-ready values with every text in them ``shown``; keys are ours, and stay."""
    rows: Any = value
    match value:
        case str():
            rows = shown(value)
        case list():
            rows = [shown_rows(each, shown) for each in value]
        case dict():
            rows = {key: shown_rows(each, shown) for key, each in value.items()}
    typed: T = rows
    return typed


def escaped_json(text: str) -> str:
    """JSON whose strings steer no terminal that it is printed on: the same values to whoever parses it."""
    return _OTHERS.sub(
        lambda result: result[0] if _is_visible(result[0]) else json.dumps(result[0])[1:-1], text
    )


def _line(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _escaped(text)


def _escaped(text: str) -> str:
    characters: list[str] = []
    marks = 0
    for each in text:
        if unicodedata.category(each) == "Zs":
            characters.append(each if each in OUR_SPACES else " ")
            marks = 0
            continue
        marks = marks + 1 if unicodedata.combining(each) else 0
        if marks > MARKS:
            characters += [CUT] if marks == MARKS + 1 else []
        else:
            characters.append(each if _is_visible(each) else ascii(each)[1:-1])
    return "".join(characters)


def _is_visible(each: str) -> bool:
    return each.isprintable() and ord(each) not in _UNSEEN
