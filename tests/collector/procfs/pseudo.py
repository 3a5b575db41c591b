"""Real pseudo-terminals for tests: a shell-like reader on one side, the test's hands on the other."""

import os
import pty
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

DEADLINE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Seat:
    """A process that reads lines at a terminal of its own; ``hand`` is the other end."""

    pid: int
    hand: int
    path: Path

    def type(self, text: str) -> str:
        """Type a line, and wait until the process has read it; all that came to the screen meanwhile."""
        os.write(self.hand, text.encode() + b"\n")
        return self.read_until(f"<{text}>")

    def read_until(self, wanted: str) -> str:
        """What came to the screen up to ``wanted``."""
        shown, until = b"", time.monotonic() + DEADLINE_S
        while wanted.encode() not in shown:
            assert time.monotonic() < until, f"{wanted!r} never came; on the screen: {shown!r}"
            shown += os.read(self.hand, 4096)
        return shown.decode()


@contextmanager
def seat(*, messages: bool = True) -> Iterator[Seat]:
    """Somebody at a terminal that accepts messages, or not (as mesg(1) has it)."""
    try:
        pid, hand = pty.fork()
    except OSError as error:
        pytest.skip(f"no pseudo-terminal can be opened here: {error}")
    if pid == 0:
        os.execlp("sh", "sh", "-c", 'echo "<here $(tty)>"; while read line; do echo "<$line>"; done')
    try:
        made = Seat(pid=pid, hand=hand, path=Path("/dev/null"))
        path = Path(made.read_until(">").split("<here ")[1].split(">")[0])
        path.chmod(0o620 if messages else 0o600)
        yield Seat(pid=pid, hand=hand, path=path)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(hand)
