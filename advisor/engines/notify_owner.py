"""Telling a person something: the port for every way there is, and the oldest way, a message on the terminal.

What is told names jobs, and jobs are named by whoever started them: a message never carries control
characters to somebody's terminal. A way says whom it reached; what reached nobody has not been told.
"""

import os
import stat
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from collector.model import JobId
from collector.procfs.terminals import Terminal, terminals

# A terminal shows this in eight lines: what is longer would push away what its user was reading.
MESSAGE_CHARS = 600
# Fits a terminal of 80 columns with a margin.
COLUMNS = 76


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What is to be told to the owner of a job: a sentence or two, and what the owner can do."""

    job: JobId
    user: str | None
    uid: int | None
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of it: the places that were ``reached``, in words, and why others were not."""

    reached: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()


class Notifier(Protocol):
    """One way to reach a person. It never raises for a person it cannot reach, and never blocks for long."""

    def notify(self, notice: Notice) -> Told:
        """Tell the owner."""
        ...


class TerminalNotifier:
    """Writes on the owner's terminals that accept messages, as write(1) does, without waiting for any."""

    def __init__(self, find: Callable[[], Sequence[Terminal]] = terminals) -> None:
        self._find = find

    def notify(self, notice: Notice) -> Told:
        """The terminals that took the message."""
        if notice.uid is None:
            return Told(missed=("terminal: the owner's account is not known",))
        own = [each for each in self._find() if each.uid == notice.uid]
        if not own:
            return Told(missed=(f"terminal: {notice.user or notice.uid} is logged in at none",))
        text = as_terminal_text(notice).encode()
        reached, missed = [], []
        for terminal in own:
            problem = _write(terminal, text)
            if problem is None:
                reached.append(f"terminal {terminal.name}")
            else:
                missed.append(f"terminal {terminal.name}: {problem}")
        return Told(reached=tuple(reached), missed=tuple(missed))


def tell(notice: Notice, ways: Sequence[Notifier]) -> Told:
    """Tell it on every way; what each reached. Without any way, nobody is reached."""
    outcomes = [way.notify(notice) for way in ways]
    missed = tuple(problem for each in outcomes for problem in each.missed)
    return Told(
        reached=tuple(place for each in outcomes for place in each.reached),
        missed=missed if ways else ("no way of telling is switched on",),
    )


def as_terminal_text(notice: Notice) -> str:
    """The message as lines for a terminal in any mode: each ends in CR LF, none holds a control character."""
    lines = [*_wrapped(notice.message), *_wrapped(notice.hint)]
    return "".join(
        f"\r{line}\r\n" for line in ("", f"Message from Fallow about {plain(notice.job)}:", *lines)
    )


def plain(text: str) -> str:
    """``text`` in one line, without control, formatting or unprintable characters, and not too long."""
    flat = "".join(" " if char.isspace() else char for char in text[: 4 * MESSAGE_CHARS])
    shown = "".join(char if unicodedata.category(char)[0] not in "C" else "?" for char in flat)
    return shown if len(shown) <= MESSAGE_CHARS else f"{shown[: MESSAGE_CHARS - 1]}…"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(plain(text), COLUMNS, break_on_hyphens=False) if text else []


def _write(terminal: Terminal, text: bytes) -> str | None:
    """Why it could not be written; ``None`` when it was. The open terminal is asked again whose it is."""
    if not terminal.takes_messages:
        return "it accepts no messages (mesg n)"
    try:
        # Not blocking: a terminal that was stopped (Ctrl-S) would hold the writer until it goes on.
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(terminal.path, flags)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    try:
        result = os.fstat(descriptor)
        # Between the look and the open its owner may have left, and somebody else may sit there.
        if (result.st_rdev, result.st_uid) != (terminal.device, terminal.uid):
            return "it is somebody else's by now"
        if not result.st_mode & stat.S_IWGRP:
            return "it accepts no messages (mesg n)"
        count = os.write(descriptor, text)
    except BlockingIOError:
        return "it is stopped"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    finally:
        os.close(descriptor)
    return None if count == len(text) else "it took only a part"
