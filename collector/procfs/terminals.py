"""Terminals that somebody is logged in at: whose, whether they take messages, and when they were last typed
at.

Known without utmp or logind: a terminal counts when a process has it as its controlling terminal. Its owner
is who login(1), sshd or the terminal emulator gave it to. Messages are welcome where the group may write to
it, as mesg(1) sets it. The kernel stamps a terminal's atime when a program reads what was typed and its
mtime when one writes, each in steps of 8 s (``tty_update_time`` in drivers/tty/tty_io.c); who(1) and w(1)
tell idleness so.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.proc_files import Stat, is_same_start, parse_boot_ms, parse_stat, read_file, started_ms

PROC = Path("/proc")
DEV = Path("/dev")
CONSOLE_MAJOR, FIRST_PTS_MAJOR, LAST_PTS_MAJOR = 4, 136, 143
"""Documentation/admin-guide/devices.txt: 4 is the consoles (minors under 64), 136 to 143 Unix98 terminals."""
FIRST_SERIAL_MINOR = 64
"""Of the console's device numbers: below it are virtual consoles, from it on serial lines (Linux,
``devices.txt``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """One terminal with a session on it; ``input_ms`` is when something typed was last read, UTC."""

    name: str
    path: Path
    device: int
    uid: int
    takes_messages: bool
    input_ms: int


def terminals(proc: Path = PROC, dev: Path = DEV) -> tuple[Terminal, ...]:
    """Every terminal that controls some process of its owner, by name; reads each process's ``stat``."""
    by_name = {}
    for tty, uid in set(_controlled(proc)):
        terminal = terminal_of(tty, dev)
        if terminal is not None and terminal.uid == uid:
            by_name[terminal.name] = terminal
    return tuple(by_name[name] for name in sorted(by_name))


def terminal_of(tty: int, dev: Path = DEV) -> Terminal | None:
    """The terminal with the ``tty_nr`` of ``/proc/PID/stat``; ``None`` without one, or when it is gone."""
    name = _name(tty)
    if name is None:
        return None
    path = dev / name
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISCHR(status.st_mode):
        return None
    return Terminal(
        name=name,
        path=path,
        device=status.st_rdev,
        uid=status.st_uid,
        takes_messages=bool(status.st_mode & stat.S_IWGRP),
        input_ms=int(status.st_atime * 1000),
    )


def tty_of(pid: int, since_ms: int | None = None, proc: Path = PROC) -> int | None:
    """The ``tty_nr`` of a process, 0 without a terminal; ``None`` when it is gone, or another one by now."""
    text = read_file(proc / str(pid) / "stat")
    try:
        status = None if text is None else parse_stat(text)
    except ValueError:
        return None
    if status is None or (since_ms is not None and not _is_since(status, since_ms, proc)):
        return None
    return status.tty


def _is_since(process: Stat, since_ms: int, proc: Path) -> bool:
    boot_ms = parse_boot_ms(read_file(proc / "stat") or b"btime 0")
    return is_same_start(started_ms(process, boot_ms, os.sysconf("SC_CLK_TCK")), since_ms)


def _controlled(proc: Path) -> Iterator[tuple[int, int]]:
    for entry in os.scandir(proc):
        if entry.name.isdigit():
            tty = tty_of(int(entry.name), proc=proc)
            if tty:
                try:
                    yield tty, entry.stat().st_uid
                except OSError:
                    continue


def _name(tty: int) -> str | None:
    """A packed device number: the minor's low byte, 12 bits of major, the rest of the minor (kdev_t.h)."""
    major, minor = (tty >> 8) & 0xFFF, (tty & 0xFF) | ((tty >> 12) & 0xFFF00)
    if FIRST_PTS_MAJOR <= major <= LAST_PTS_MAJOR:
        return f"pts/{(major - FIRST_PTS_MAJOR) * 256 + minor}"
    if major == CONSOLE_MAJOR and 0 < minor < FIRST_SERIAL_MINOR:
        return f"tty{minor}"
    if major == CONSOLE_MAJOR and minor >= FIRST_SERIAL_MINOR:
        return f"ttyS{minor - FIRST_SERIAL_MINOR}"
    return None
