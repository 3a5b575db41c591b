"""What became of messages, told by key, without reading what they say: a long outbox is looked at in passing.

A message's text may be a whole report, and an outbox may hold a month of them for every holder of a GPU. Key
and receiver stand at the head of ``message.json``, so that only its first bytes are read.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from service.delivery.message import Message, Standing, standing
from service.delivery.outbox import MESSAGE, read_log

HEAD_BYTES = 4_096
"""More than a key and an address together; ``Message`` is written in the order of its fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """A message by its key and receiver, and where it stands. ``at_ms`` is its newest event's time."""

    key: str
    to: str
    standing: Standing
    at_ms: int | None


def glimpses(outbox: Path, prefix: str) -> Iterator[Glimpse]:
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


def _glimpse(place: Path, key: str, to: str) -> Glimpse:
    log = read_log(place)
    made_ms = round((place / MESSAGE).stat().st_mtime * 1000)
    message = Message(key=key, to=to, title="", text="", made_ms=made_ms)
    return Glimpse(key=key, to=to, standing=standing(message, log), at_ms=log[-1].at_ms if log else None)


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
