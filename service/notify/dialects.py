"""Messages as each chat takes them: plain text stays plain, and nobody's name calls or links anybody. Pure.

Names of jobs and people stand in messages, and a chat reads markup in them: ``*``, ``[x](http://evil)``, a
call of everybody. Apprise escapes plain text for most chats, but takes some that always read Markdown for
plain ones; for those it is done here. What Apprise 2.2 sends: tests/service/printed/test_printed_chats.py.
"""

import re

from service.notify.message import Body
from service.printable import JOINER, in_lines

MARKDOWN_UNASKED = frozenset(
    ("discord", "fluxer", "guilded", "mmost", "mmosts", "nctalk", "nctalks", "revolt", "zulip")
)
"""Chats that read Markdown in what Apprise sends them as plain text."""
MARKDOWN_TITLES = MARKDOWN_UNASKED | {"workflow", "workflows"}
"""Those that read it in titles, which Apprise never escapes for them; Teams among them."""
PROGRAMS = frozenset(("form", "forms", "json", "jsons", "xml", "xmls"))
"""Webhooks: programs get the words as they are."""
LONGEST_TITLE = 300

_CALLS = re.compile(r"@(?=(?:everyone|here|channel|all|room|team)\b)", re.IGNORECASE)
_MENTIONS = re.compile(r"(?<![\w@<\u2060])@(?=\w)|<(?=[!@#/:A-Za-z])|\](?=\()")
"""What begins a mention, a tag, or a link with words of its own, in any chat's markup."""
_MARKUP = re.compile(r"([\\`*_{}\[\]~|>])")
_LINE_STARTS = re.compile(r"^(\s*)([#+-]|\d+(?=[.)]))(?=[\s.)])")
_OWN_LINK = re.compile(r"https?://[^\s\\`*{}\[\]|<>]+")
"""A line that is a link to the dashboard, in which names are percent-encoded; no name makes a line."""


def prepared(title: str, text: str, body: Body, schemas: frozenset[str]) -> tuple[str, str]:
    """Title and text of a message for a receiver of one of these Apprise schemas."""
    title = _visible(title).replace("\n", " ")[:LONGEST_TITLE]
    if schemas & PROGRAMS:
        return title, text
    title = uncalled(title)
    if schemas & MARKDOWN_TITLES:
        title = as_markdown(title)
    if body is not Body.TEXT:  # its names were escaped where it was written
        return title, _CALLS.sub(_joined, text)
    text = "\n".join(
        line if _OWN_LINK.fullmatch(line) else uncalled(line) for line in _visible(text).split("\n")
    )
    return title, as_markdown(text) if schemas & MARKDOWN_UNASKED else text


def uncalled(text: str) -> str:
    """The text with a joiner, which cannot be seen, in whatever a chat takes for a call or a hidden link."""
    return _MENTIONS.sub(_joined, _CALLS.sub(_joined, text))


def as_markdown(text: str) -> str:
    """Plain text that Markdown shows as it stands; lines that are links stay links."""
    return "\n".join(line if _OWN_LINK.fullmatch(line) else _line(line) for line in text.split("\n"))


def _visible(text: str) -> str:
    """The text with all that cannot be seen written out, but for the joiners of letters that are made so."""
    return JOINER.join(map(in_lines, text.split(JOINER)))


def _line(line: str) -> str:
    return _LINE_STARTS.sub(
        r"\1\\\2" if not line.lstrip()[:1].isdigit() else r"\1\2\\", _MARKUP.sub(r"\\\1", line)
    )


def _joined(match: "re.Match[str]") -> str:
    return f"{match[0]}{JOINER}"
