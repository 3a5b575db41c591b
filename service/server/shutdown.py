"""The end of a service: a signal may ask for it at any moment of its life, and it comes within a bound.

The kernel's word is read from a socket (``signal.set_wakeup_fd``) by a thread of its own. A handler that sets
an event itself could stand still for good: it runs on the main thread between any two bytecodes, also while
that holds the event's own lock.

Whoever takes long is hurried, again and again; whoever is not done after ``LIMIT_S`` is left behind, as in a
crash: what was committed is in the store, and what was begun is settled at the next start.
"""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

log = logging.getLogger(__name__)

LIMIT_S = 8.0
"""`docker stop` kills 10 s after it asked, systemd 90 s (systemd.service(5), TimeoutStopSec=)."""

AGAIN_S = 0.2
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ending:
    """Whether the service is to end: ``requested`` is set once it is, for good."""

    def __init__(self, requested: threading.Event | None = None) -> None:
        self.asked = requested or threading.Event()
        self._hurries: tuple[Callable[[], None], ...] = ()

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked for the end."""
        return self.asked.is_set()

    def hurry_by(self, call: Callable[[], None]) -> None:
        """Have ``call`` cut short what takes long, from the asking on, more than once; it must not block."""
        self._hurries = (*self._hurries, call)

    def hurry(self) -> None:
        """Cut short all that takes long; what that fails at is only slower."""
        for call in self._hurries:
            with suppress(Exception):
                call()

    def over(self) -> None:
        """Nothing is left to be hurried; what the process still does is only watched."""
        self._hurries = ()

    def hear_signals(self, limit_s: float = LIMIT_S) -> None:
        """From now on Ctrl-C, SIGTERM and a closed terminal (unless under nohup) ask for the end.

        Only the main thread may listen; on another one this does nothing. The process is over ``limit_s``
        after the first such signal, whatever it does then.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        ear, mouth = socket.socketpair()
        mouth.setblocking(False)
        for each in SIGNALS:
            # The descriptor is written only for signals that have a handler; under nohup SIGHUP stays
            # ignored.
            if signal.getsignal(each) is not signal.SIG_IGN or each is signal.SIGTERM:
                signal.signal(each, lambda *_: None)
        # What a full buffer drops is no loss: one signal is enough.
        signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._hear, args=(ear, mouth, limit_s), name="ending", daemon=True).start()

    def _hear(self, ear: socket.socket, mouth: socket.socket, limit_s: float) -> None:
        """Until a signal asks; then see to it that the end comes. ``mouth`` is held open for the kernel."""
        with ear, mouth:
            while not set(ear.recv(64)) & set(SIGNALS):
                continue
            until_s = time.monotonic() + limit_s
            self.asked.set()
            while time.monotonic() < until_s:
                self.hurry()
                time.sleep(AGAIN_S)
            log.warning("the end took longer than %g s; left behind: %s", limit_s, ", ".join(_busy()))
            with suppress(Exception):
                sys.stdout.flush()
            # sys.exit would end this thread alone.
            os._exit(0)


def _busy() -> list[str]:
    """The names of the threads that were not done, and where each stood."""
    frames = sys._current_frames()
    others = (each for each in threading.enumerate() if each is not threading.current_thread())
    return sorted(f"{each.name.split('_')[0]} in {_place(frames.get(each.ident or 0))}" for each in others)


def _place(frame: FrameType | None) -> str:
    """A frame's function, file and line, in words."""
    if frame is None:
        return "its end"
    return f"{frame.f_code.co_name} ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"
