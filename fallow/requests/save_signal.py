"""SIGUSR1 asks a training to save itself at its next step boundary; here it is only remembered."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class SaveSignal:
    """``asked`` is true from the signal's arrival until ``done``."""

    def __init__(self) -> None:
        self.asked = False

    def done(self) -> None:
        """Saved, by whichever worker saves."""
        self.asked = False

    @contextmanager
    def heard(self, wanted: bool) -> Iterator[None]:
        """Listen meanwhile, if ``wanted``; only a process's main thread can. The old handler comes back."""
        if not wanted or threading.current_thread() is not threading.main_thread():
            yield
            return
        old = signal.signal(signal.SIGUSR1, self._arrived)
        try:
            yield
        finally:
            signal.signal(signal.SIGUSR1, old)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
