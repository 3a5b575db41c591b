"""What became of messages, told by key, without reading what they say: a long outbox is looked at in passing.

A message's text may be a whole report, and an outbox may hold a month of them for every holder of a GPU. Key
and receiver stand at the head of ``message.json``, so that only its first bytes are read.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.clock import Clock
from service.delivery.message import Message, Standing, standing
from service.delivery.outbox import MESSAGE, OUTBOX, read_log

HEAD_BYTES = 4_096
"""More than a key and an address together; ``Message`` is written in the order of its fields."""

LOOKED_MS = 30_000
"""A month of messages takes some 50 ms to look through; a scrape every 15 s need not do it each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStatus:
    """A message by its key and receiver, and where it stands. ``at_ms`` is its newest event's time."""

    key: str
    to: str
    standing: Standing
    at_ms: int | None
    made_ms: int


class Undelivered:
    """How many messages of a DATA's outbox are still to be sent. Reads files, at most every half minute.

    ``clock`` is the machine's: the outbox lives by it, in a rehearsal as well.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._outbox, self._clock = folder / OUTBOX, clock
        self._found: tuple[int, int, int | None] | None = None
        """When it was looked, how many there were, when the oldest was made; ms."""

    def now(self) -> tuple[int, float | None]:
        """How many, and how many seconds the oldest has waited; ``None`` where there is none."""
        now_ms = self._clock.now_ms()
        found = self._found
        if found is None or abs(now_ms - found[0]) > LOOKED_MS:
            made = [each.made_ms for each in glimpses(self._outbox, "") if each.standing.next_ms is not None]
            found = self._found = (now_ms, len(made), min(made, default=None))
        _, count, oldest_ms = found
        return count, None if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000


def glimpses(outbox: Path, prefix: str) -> Iterator[DeliveryStatus]:
    """The messages of an outbox's folder whose key begins with ``prefix``, in no order. Reads files.

    A message that is being put there or taken away meanwhile is left out.
    """
    for place in outbox.glob("[!.]*"):
        try:
            key, to = _head(place / MESSAGE)
            if key.startswith(prefix):
                yield _glimpse(place, key, to)
        except (OSError, ValueError):
            continue


def _glimpse(place: Path, key: str, to: str) -> DeliveryStatus:
    log = read_log(place)
    made_ms = round((place / MESSAGE).stat().st_mtime * 1000)
    message = Message(key=key, to=to, title="", text="", made_ms=made_ms)
    at_ms = log[-1].at_ms if log else None
    return DeliveryStatus(key=key, to=to, standing=standing(message, log), at_ms=at_ms, made_ms=made_ms)


def _head(path: Path) -> tuple[str, str]:
    """Key and receiver from the first bytes. Raises ValueError where they do not stand there."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES).decode(errors="ignore")
    decoder, found, at = json.JSONDecoder(), [], 0
    for name in ("key", "to"):
        opening = f'{"{" if name == "key" else ", "}"{name}": '
        if not head.startswith(opening, at):
            raise ValueError(f"{path} does not begin with key and receiver")
        value, at = decoder.raw_decode(head, at + len(opening))
        found.append(str(value))
    return found[0], found[1]
