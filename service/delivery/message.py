"""A message on its way: what it says, to whom it goes, and what has become of it. Pure.

What has become of it is worked out from its log, a list of events that only grows; nothing is overwritten.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

FIRST_WAIT_MS = 30_000
LONGEST_WAIT_MS = 6 * 3_600_000
GIVE_UP_MS = 3 * 86_400_000
KEPT_MS = 30 * 86_400_000


class Body(StrEnum):
    """How the text of a message is written."""

    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message for one receiver. ``key`` says what it is about: a second one with that key is the same.

    ``to`` is a route's name or an address *before* its secrets are filled in; ``attachments`` are file names
    beside the message.
    """

    key: str
    to: str
    title: str
    text: str
    body: Body = Body.TEXT
    attachments: tuple[str, ...] = ()
    made_ms: int = 0

    @property
    def id(self) -> str:
        """The name of its folder: the key's digest, so that any key may hold any character."""
        return hashlib.sha256(f"{self.key}\0{self.to}".encode()).hexdigest()[:20]


class What(StrEnum):
    """Events of a message's life."""

    BEGUN = "begun"
    SENT = "sent"
    FAILED = "failed"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that befell a message."""

    at_ms: int
    what: What
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a message stands. ``next_ms`` is when to try (again), ``None`` when it is settled."""

    state: What | None
    tries: int
    next_ms: int | None
    found: str = ""


def standing(message: Message, log: Sequence[Event]) -> Standing:
    """What its log says. A try that began and has no end was cut off with the machine: it is taken again."""
    tries = sum(event.what is What.BEGUN for event in log)
    newest = log[-1] if log else None
    if newest is None:
        return Standing(state=None, tries=0, next_ms=message.made_ms)
    match newest.what:
        case What.SENT | What.GIVEN_UP:
            return Standing(state=newest.what, tries=tries, next_ms=None, found=newest.found)
        case What.BEGUN | What.FAILED:
            next_ms = newest.at_ms + wait_ms(tries)
            return Standing(state=newest.what, tries=tries, next_ms=next_ms, found=newest.found)


def wait_ms(tries: int) -> int:
    """How long to wait after so many tries: doubled each time, up to six hours."""
    return int(min(FIRST_WAIT_MS * 2 ** max(0, min(tries, 30) - 1), LONGEST_WAIT_MS))


def is_hopeless(message: Message, now_ms: int) -> bool:
    """Whether it has been tried for so long that it is given up, aloud."""
    return now_ms - message.made_ms > GIVE_UP_MS
