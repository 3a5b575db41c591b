"""The word that the service does not start any more: sent by ``fallow-failed.service``, without any service.

Who is told is in the configuration; where that is what is broken, the journal alone has it. It is told once
in a while, however often systemd tries: the time of the last word stands in the unit's runtime folder.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import FallowError
from service.notify.message import address_of, receivers
from service.units import SERVICE

if TYPE_CHECKING:
    from service.config.flags import Settings

CRITICAL = "<2>"
"""How journald reads a line's priority; sd-daemon(3)."""
MOST_RECEIVERS = 16
"""They are told one after the other, and each may take seconds."""
LINES = 15
"""Of the journal: a traceback's end, or the sentence with which the service refused."""
JOURNAL_S = 10
"""For the journal to give the last lines; without them the message goes out all the same."""
TOLD = "told"


def tell_failure(settings: "Callable[[], Settings]", environment: Mapping[str, str]) -> int:
    """Tell the operators, unless they were told within the quiet time; 0 when nobody was missed. Blocks."""
    folder = environment.get("RUNTIME_DIRECTORY")
    marker = None if not folder else Path(folder.partition(":")[0]) / TOLD
    try:
        config = settings().effective.config
    except FallowError as error:
        _say(f"Fallow's service does not start, and its configuration cannot be read: {error}")
        return 1
    _say(f"Fallow's service has failed {environment.get('MONITOR_SERVICE_RESULT', '')}".rstrip())
    if marker is not None and _age_s(marker) < config.alerts.quiet_s:
        return 0
    title = f"[Fallow] {socket.gethostname()}: the service does not start"
    text = failure_text(environment, _journal())
    names = [each for to in config.alerts.to for each in receivers(to, config.delivery)][:MOST_RECEIVERS]
    if not names:
        _say("nobody is told by message: [alerts] to names nobody")
    missed = [problem for name in names if (problem := _sent(name, config.delivery, title, text))]
    for problem in missed:
        _say(f"a message about it did not arrive: {problem}")
    if marker is not None and len(missed) < len(names):
        with suppress(OSError):
            marker.touch()
    return 1 if missed else 0


def failure_text(environment: Mapping[str, str], journal: str) -> str:
    """What operators read. Pure but for the machine's name."""
    result, status = environment.get("MONITOR_SERVICE_RESULT"), environment.get("MONITOR_EXIT_STATUS")
    how = "" if result is None else f" ({result}{'' if status is None else f', status {status}'})"
    last = f"\n\nIts last words:\n\n{journal}" if journal else ""
    return (
        f"Fallow's service on {socket.gethostname()} has failed again and again{how}. Nothing is measured, "
        "and no job is started, moved or paused. Jobs that run go on. It is tried again every few minutes."
        f"{last}\n\nTo look at it: systemctl status {SERVICE}; journalctl -u {SERVICE}; fallow doctor"
    )


def _sent(name: str, delivery: object, title: str, text: str) -> str:
    from service.notify.sender import send_plain

    try:
        return send_plain(address_of(name, delivery), title, text)  # type: ignore[arg-type]
    except FallowError as error:
        return str(error)


def _age_s(file: Path) -> float:
    try:
        return max(0.0, time.time() - file.stat().st_mtime)
    except OSError:
        return float("inf")


def _journal() -> str:
    """The newest lines of the service's journal; empty where there is none to read."""
    whose = () if os.geteuid() == 0 else ("--user",)
    command = [
        "journalctl",
        *whose,
        "--unit",
        SERVICE,
        "--lines",
        str(LINES),
        "--output",
        "cat",
        "--no-pager",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOURNAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _say(text: str) -> None:
    sys.stderr.write("".join(f"{CRITICAL}{line}\n" for line in text.splitlines()))
