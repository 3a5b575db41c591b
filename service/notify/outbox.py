"""The outbox: a folder a message, with a log that only grows. Survives a kill at any moment.

    DATA/outbox/<id>/message.json     what is to be sent; complete or not there (renamed into place)
                     log.jsonl        begun, sent, failed, given-up; synced line by line
                     lock             held by the process that is sending

A message is sent by a process of its own (``service.notify.sender``), which outlives this service: killed
or restarted, the service finds the result in the log, or the lock still held, and never sends twice. Only a
machine that dies between a server's yes and the log's line can cause a second copy.

What became of messages, told by key, without reading what they say: a long outbox is looked at in passing.

A message's text may be a whole report, and an outbox may hold a month of them for every holder of a GPU. Key
and receiver stand at the head of ``message.json``, so that only its first bytes are read.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from collector.clock import Clock
from service.errors import FallowError
from service.notify.message import KEPT_MS, Body, Event, Message, Standing, What, is_hopeless, standing

OUTBOX, MESSAGE, LOG, LOCK = "outbox", "message.json", "log.jsonl", "lock"
AT_ONCE = 4
"""Messages under way: each is a process of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A message and where it stands."""

    message: Message
    standing: Standing


class Outbox:
    """The messages of one DATA folder. One service uses it; a second one cannot own the same store."""

    def __init__(self, data: Path, address: Callable[[str], str]) -> None:
        self.folder = data / OUTBOX
        self._address = address
        self._sending: list[subprocess.Popen[bytes]] = []
        self._settled: dict[str, int] = {}
        """When each settled message was made, by id: of thousands, few are still under way."""

    def post(self, message: Message, attachments: Mapping[str, bytes] | None = None) -> bool:
        """Take a message; ``False`` when it is there already. Durable when this returns."""
        place = self.folder / message.id
        if (place / MESSAGE).exists():
            return False
        fresh = self.folder / f".{message.id}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True, mode=0o700)
        for name, content in (attachments or {}).items():
            _write(fresh / name, content)
        _write(fresh / MESSAGE, json.dumps(asdict(message)).encode())
        shutil.rmtree(place, ignore_errors=True)
        fresh.rename(place)
        _sync(self.folder)
        return True

    def holds(self, key: str, to: str) -> bool:
        """Whether a message of that key for that receiver was taken."""
        return (self.folder / Message(key=key, to=to, title="", text="").id / MESSAGE).exists()

    def push(self, now_ms: int) -> int:
        """Begin to send what is due, a few at once; how many were begun. Doesn't wait for them."""
        self._sending = [process for process in self._sending if process.poll() is None]
        for id in [id for id, made_ms in self._settled.items() if now_ms - made_ms > KEPT_MS]:
            shutil.rmtree(self.folder / id, ignore_errors=True)
            del self._settled[id]
        begun = 0
        for posted in self._read(self._settled):
            if len(self._sending) >= AT_ONCE:
                break
            due_ms = posted.standing.next_ms
            if due_ms is None:
                self._settled[posted.message.id] = posted.message.made_ms
            elif due_ms <= now_ms and not is_being_sent(self.folder / posted.message.id):
                begun += self._begin(posted.message, now_ms)
        return begun

    def posted(self) -> Iterator[Posted]:
        """All messages there are, the oldest first."""
        return self._read(())

    def standing_of(self, id: str) -> Standing | None:
        """Where one message stands; ``None`` when there is none of that id."""
        place = self.folder / id
        return standing(read(place), read_log(place)) if (place / MESSAGE).is_file() else None

    def _read(self, but: Container[str]) -> Iterator[Posted]:
        places = (place for place in self.folder.glob("[!.]*") if place.name not in but)
        messages = [read(place) for place in places if (place / MESSAGE).is_file()]
        for message in sorted(messages, key=lambda each: (each.made_ms, each.id)):
            yield Posted(message=message, standing=standing(message, read_log(self.folder / message.id)))

    def _begin(self, message: Message, now_ms: int) -> bool:
        place = self.folder / message.id
        if is_hopeless(message, now_ms):
            note(place, Event(at_ms=now_ms, what=What.GIVEN_UP, found="tried for three days"))
            return False
        try:
            address = self._address(message.to)
        except FallowError as error:
            note(place, Event(at_ms=now_ms, what=What.BEGUN))
            note(place, Event(at_ms=now_ms, what=What.FAILED, found=str(error)))
            return False
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "service.notify.sender", str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(address.encode())
            process.stdin.close()
        self._sending.append(process)
        return True


def read(place: Path) -> Message:
    """The message in a folder."""
    document = json.loads((place / MESSAGE).read_text())
    return Message(
        **{**document, "body": Body(document["body"]), "attachments": tuple(document["attachments"])}
    )


def read_log(place: Path) -> list[Event]:
    """Its events; a last line that a dying machine cut off is no event."""
    path = place / LOG
    events = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError, KeyError, TypeError):
            document = json.loads(line)
            events.append(
                Event(at_ms=document["at_ms"], what=What(document["what"]), found=document["found"])
            )
    return events


def note(place: Path, event: Event) -> None:
    """Add an event to a message's log, durably."""
    line = json.dumps({"at_ms": event.at_ms, "what": event.what.value, "found": event.found})
    with (place / LOG).open("ab") as log:
        log.write(f"\n{line}\n".encode())
        log.flush()
        os.fsync(log.fileno())


def is_being_sent(place: Path) -> bool:
    """Whether a living process is sending it."""
    with locked(place) as mine:
        return not mine


@contextmanager
def locked(place: Path) -> Iterator[bool]:
    """Whether this process holds the message's lock for the block; the kernel frees it with the process."""
    with (place / LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
        counts = self._found
        if counts is None or abs(now_ms - counts[0]) > LOOKED_MS:
            times = [each.made_ms for each in glimpses(self._outbox, "") if each.standing.next_ms is not None]
            counts = self._found = (now_ms, len(times), min(times, default=None))
        _, count, oldest_ms = counts
        return count, None if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000


def glimpses(outbox: Path, prefix: str) -> Iterator[DeliveryStatus]:
    """The messages of an outbox's folder whose key begins with ``prefix``, in no order. Reads files.

    A message that is being put there or taken away meanwhile is left out.
    """
    for place in outbox.glob("[!.]*"):
        try:
            key, to = _head(place / MESSAGE)
            if key.startswith(prefix):
                log = read_log(place)
                made_ms = round((place / MESSAGE).stat().st_mtime * 1000)
                message = Message(key=key, to=to, title="", text="", made_ms=made_ms)
                at_ms = log[-1].at_ms if log else None
                yield DeliveryStatus(
                    key=key, to=to, standing=standing(message, log), at_ms=at_ms, made_ms=made_ms
                )
        except (OSError, ValueError):
            continue


def _head(path: Path) -> tuple[str, str]:
    """Key and receiver from the first bytes. Raises ValueError where they do not stand there."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES).decode(errors="ignore")
    decoder, values, at = json.JSONDecoder(), [], 0
    for name in ("key", "to"):
        opening = f'{"{" if name == "key" else ", "}"{name}": '
        if not head.startswith(opening, at):
            raise ValueError(f"{path} does not begin with key and receiver")
        value, at = decoder.raw_decode(head, at + len(opening))
        values.append(str(value))
    return values[0], values[1]
