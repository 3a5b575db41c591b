"""Sends one message by Apprise, in a process of its own: ``python -m service.notify.sender FOLDER``.

The address comes on standard input, because secrets stand in it and the message's folder holds none. The
result is in the log before this process ends; it goes on when the service that started it is killed. Of an
address that names several receivers, who took the message is kept beside it: a later try passes them over.
"""

import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from service.notify.dialects import prepared
from service.notify.message import Body, Event, Message, What, harmless, standing
from service.notify.outbox import locked, note, read, read_log

if TYPE_CHECKING:
    from apprise import NotifyBase


SOCKET_TIMEOUT_S = 30
LOOPBACK = ("localhost", "127.0.0.1", "::1")
TAKEN = "taken"
"""The file of those who took it, a digest a line: their names are part of an address."""


def main() -> int:
    """Send it, unless it was sent, is being sent, or is not due; 0 when there is nothing left to do."""
    place = Path(sys.argv[1])
    address = sys.stdin.read()
    spare_loopback(os.environ)
    with locked(place) as mine:
        if not mine:
            return 0
        message = read(place)
        due_ms = standing(message, read_log(place)).next_ms
        # Asked under the lock: another process may have sent it since this one was begun.
        if due_ms is None or due_ms > _now_ms():
            return 0
        # Before anything is sent: after a crash the try counts, though nobody knows whether it arrived.
        note(place, Event(at_ms=_now_ms(), what=What.BEGUN))
        problem = send(message, address, place)
        note(place, Event(at_ms=_now_ms(), what=What.FAILED if problem else What.SENT, found=problem))
    return 1 if problem else 0


def spare_loopback(environment: MutableMapping[str, str]) -> None:
    """Have no proxy of the environment get what is for this machine itself: secrets stand in addresses."""
    for name in ("no_proxy", "NO_PROXY"):
        named = environment.get(name) or environment.get("no_proxy") or environment.get("NO_PROXY")
        environment[name] = ",".join(filter(None, (named, *LOOPBACK)))


def send(message: Message, address: str, place: Path) -> str:
    """What went wrong, empty when nothing did. Blocks; raises nothing for what a server does."""
    return _sent(address, lambda target: _pass_over(target, place / TAKEN), message, place)


def send_plain(address: str, title: str, text: str) -> str:
    """The same for a plain text of which nothing is kept: a second try may reach somebody twice."""
    return _sent(address, lambda target: None, Message(key="", to="", title=title, text=text), None)


def _sent(address: str, prepare: "Callable[[NotifyBase], None]", message: Message, place: Path | None) -> str:
    import apprise

    output = _Said()
    logging.getLogger("apprise").addHandler(output)
    target: NotifyBase = apprise.Apprise.instantiate(_patient(address), suppress_exceptions=True)
    if target is None:
        return f"{harmless(address)} is no address that Apprise knows"
    prepare(target)
    one = apprise.Apprise()
    one.add(target)
    title, text = prepared(message.title, message.text, message.body, _schemas(target))
    done = one.notify(
        title=title,
        body=text,
        body_format=_FORMATS[message.body],
        attach=None if place is None else [str(place / name) for name in message.attachments] or None,
    )
    return "" if done else f"{harmless(address)}: {output.newest or 'it was refused, or nobody answered'}"


def _schemas(target: "NotifyBase") -> frozenset[str]:
    """What the addresses of such a receiver begin with."""
    named = (target.protocol, target.secure_protocol)
    return frozenset(
        schema for each in named for schema in ((each,) if isinstance(each, str) else tuple(each or ()))
    )


_FORMATS = {Body.HTML: "html", Body.MARKDOWN: "markdown", Body.TEXT: "text"}


def _pass_over(target: "NotifyBase", ids_file: Path) -> None:
    """Have the library ask here who has taken the message, and say here who does, receiver by receiver."""
    ids = set(ids_file.read_text().split()) if ids_file.exists() else set()

    def slot(key: object, per_message: bool) -> str:
        return hashlib.sha256(repr(target._slot(key, per_message)).encode()).hexdigest()

    def is_delivered(key: object, per_message: bool = False) -> bool:
        return slot(key, per_message) in ids

    def mark_delivered(key: object, per_message: bool = False) -> None:
        if type(key) is object:  # the library's mark for a whole piece has no name that lasts
            return
        ids.add(slot(key, per_message))
        with ids_file.open("a") as file:
            file.write(f"{slot(key, per_message)}\n")
            file.flush()
            os.fsync(file.fileno())

    target.is_delivered, target.mark_delivered = is_delivered, mark_delivered


def _patient(address: str) -> str:
    """With timeouts, unless it names its own: a server that stalls is given up and tried later."""
    if "cto=" in address or "rto=" in address:
        return address
    joint = "&" if "?" in address else "?"
    return f"{address}{joint}cto={SOCKET_TIMEOUT_S}&rto={SOCKET_TIMEOUT_S}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Said(logging.Handler):
    """Keeps the newest warning of the library, which is all that it says of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.newest = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.newest = record.getMessage()


if __name__ == "__main__":
    sys.exit(main())
