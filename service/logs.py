"""What the service writes to its log: one line for each change of state, with its ids, as text or as JSON.

Lines are events with fields (``job-started job=fallow:3 gpus=2``), so that one job can be followed by its id
(docs/health.md). They are handed to a thread that writes them: a terminal or a pipe that nobody reads never
holds up a tick or a lease. Values that clients chose are escaped, so that a name can't forge a line.

The security log is a second file, ``DATA/security.log`` (mode 0600, rotated): who asked for what, and what
was refused. Its lines also go to the ordinary log.
"""

import contextlib
import json
import logging
import logging.handlers
import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from queue import Full, Queue
from typing import IO


class LogFormat(StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"


SECURITY = "fallow.security"
"""The name of the logger whose lines are kept in ``DATA/security.log`` as well."""

SECURITY_FILE, LOG_FILE = "security.log", "service.log"

OURS = ("service", "advisor", "analytics", "collector", "fallow")
"""Loggers of this program, whose ``info`` lines are written; others are heard from WARNING up."""

QUEUED_LINES = 10_000
"""Lines that may wait for a reader of the log, about 2 MB; what comes beyond is counted and left out."""

END_S = 2.0
"""At the end of the process so long is waited for a reader that has stopped reading."""

Lines = Queue[logging.LogRecord | None]
"""Records on their way to the writing thread; ``None`` ends it."""

FILE_BYTES, FILES = 10_000_000, 5
"""50 MB of a log at most: some 300,000 lines, months of a busy machine; no flood of refusals fills a disk."""

SAME_A_MINUTE = 20
"""Lines of one event about one caller in a minute; of a flood the rest is a count in a later line."""

KNOWN_CALLERS = 1_024
"""(event, caller) pairs whose counts are kept; the one not seen for longest is forgotten first."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:/@+,%-]+")
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def log_event(log: logging.Logger, event: str, level: int = logging.INFO, **fields: object) -> None:
    """Write one event; fields that are ``None`` are left out. Never blocks, never raises."""
    if log.isEnabledFor(level):
        values = {name: value for name, value in fields.items() if value is not None}
        log.log(level, "%s", event, extra={"event": event, "fields": values})


class TextFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z warning event key=value``; control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the traceback below it where there is one."""
        head = f"{_time(record)} {record.levelname.lower():7}"
        event = getattr(record, "event", None)
        if event is None:
            line = f"{head} {record.name}: {record.getMessage().translate(_CONTROLS)}"
        else:
            fields = "".join(f" {name}={_value(value)}" for name, value in _fields(record).items())
            line = f"{head} {event}{fields}"
        return line if not record.exc_info else f"{line}\n{self.formatException(record.exc_info)}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``event``, ``logger``, then the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the values are."""
        row: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "message"),
            "logger": record.name,
        }
        if not hasattr(record, "event"):
            row["message"] = record.getMessage()
        row |= {name: value for name, value in _fields(record).items() if name not in row}
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row, default=str)


@dataclass(slots=True)
class Limiter:
    """Lets so many events of a kind about one caller through in a minute; counts the others. Any thread."""

    _counts: OrderedDict[tuple[str, str], tuple[int, int]] = field(default_factory=OrderedDict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, event: str, caller: str, now_s: float, most: int = SAME_A_MINUTE) -> int | None:
        """How many were left out in the minute before, or ``None``: leave this one out."""
        minute, key = int(now_s // 60), (event, caller)
        with self._guard:
            then, count = self._counts.pop(key, (minute, 0))
            suppressed = max(count - most, 0) if then != minute else 0
            count = count + 1 if then == minute else 1
            self._counts[key] = (minute, count)
            if len(self._counts) > KNOWN_CALLERS:
                self._counts.popitem(last=False)
        return None if count > most else suppressed


class SecurityLog:
    """Writes security events; a caller who repeats one floods neither the file nor the log."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._log = logging.getLogger(SECURITY)
        self._limiter = Limiter()
        self._now_s = now_s

    def write(
        self,
        event: str,
        caller: str,
        *,
        level: int = logging.WARNING,
        most: int = SAME_A_MINUTE,
        **fields: object,
    ) -> None:
        """Write an event about ``caller`` (a user's name, or an address where nobody is known).

        ``most`` a minute are written; how many were left out stands in the next one that is.
        """
        suppressed = self._limiter.admit(event, caller, self._now_s(), most)
        if suppressed is not None:
            log_event(self._log, event, level, caller=caller, **fields, left_out=suppressed or None)


def open_logs(stream: IO[str], form: LogFormat, data: Path, *, to_file: bool = False) -> Callable[[], None]:
    """Write the program's log to ``stream`` and its security events to ``DATA``; the answer ends it.

    ``to_file``: the log is ``DATA/service.log``, and ``stream`` gets warnings and errors alone. A file that
    cannot be written (no space, no permission) is said on ``stream``, and the service goes on.
    """
    formatter = JsonFormatter() if form is LogFormat.JSON else TextFormatter()
    shown = logging.StreamHandler(stream)
    handlers: list[logging.Handler] = [shown]
    trouble = None
    try:
        handlers.append(_File(data / SECURITY_FILE, shown))
        handlers[-1].addFilter(lambda record: record.name == SECURITY)
        if to_file:
            handlers.append(_File(data / LOG_FILE, shown))
            shown.setLevel(logging.WARNING)
    except OSError as error:
        trouble = error
    for each in handlers:
        each.setFormatter(formatter)
    lines: Lines = Queue(QUEUED_LINES)
    waiting = _Waiting(lines)
    writer = threading.Thread(target=_write, args=(lines, handlers), name="log", daemon=True)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.addHandler(waiting)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    writer.start()
    if trouble is not None:
        logging.getLogger(__name__).warning(
            "what a file of %s should keep stands in this log alone: %s", data, trouble
        )

    def close() -> None:
        root.removeHandler(waiting)
        with contextlib.suppress(Full):
            lines.put(None, timeout=END_S)
        writer.join(END_S)
        if not writer.is_alive():
            for each in handlers:
                each.close()

    return close


def _write(lines: Lines, handlers: Sequence[logging.Handler]) -> None:
    while (record := lines.get()) is not None:
        for each in handlers:
            if record.levelno >= each.level:
                each.handle(record)


class _Waiting(logging.handlers.QueueHandler):
    """Puts records on a bounded queue, and says how many were left out once there is room again."""

    queue: Lines

    def __init__(self, lines: Lines) -> None:
        super().__init__(lines)
        self._left_out = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """The record itself: its formatter is on this side of no pipe."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Never blocks."""
        try:
            self.queue.put_nowait(record)
            if self._left_out:
                dropped, self._left_out = self._left_out, 0
                logging.getLogger(__name__).warning("%d lines of this log were left out", dropped)
        except Full:
            self._left_out += 1


class _File(logging.handlers.RotatingFileHandler):
    """A file for its owner alone, from its first byte. What it can't take is said on ``shown``, once."""

    def __init__(self, path: Path, shown: logging.Handler) -> None:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8")
        self._shown = shown
        self._said: str | None = None

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        """Lines are lost while the disk is full; the first of each kind of fault is said."""
        error = sys.exc_info()[1]
        if self._said != str(error):
            self._said = str(error)
            text = f"{self.baseFilename} cannot be written: {error}; lines are lost meanwhile"
            self._shown.handle(
                logging.makeLogRecord({"name": __name__, "msg": text, "levelno": 30, "levelname": "WARNING"})
            )


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return fields


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _value(value: object) -> str:
    """A value as a word, or quoted as in JSON with all but ASCII escaped: no name can forge a field."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
