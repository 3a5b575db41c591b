"""The launcher's signals, told to its loop instead of ending it; what was ignored from the start stays so."""

import os
import signal
import socket
from types import FrameType

HEARD = tuple(
    signal.Signals[f"SIG{name}"]
    for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "TSTP", "CONT", "WINCH")
)


class Signals:
    """Hears signals from its making until ``close``; only in a process's main thread."""

    def __init__(self) -> None:
        self._heard, self._told = socket.socketpair()
        for end in (self._heard, self._told):
            end.setblocking(False)
        self._former_wake = signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
        self._former = {
            number: signal.signal(number, _note_signal)
            for number in HEARD
            if signal.getsignal(number) is not signal.SIG_IGN  # nohup(1), a shell's background
        }

    def fileno(self) -> int:
        """Readable when a signal came."""
        return self._heard.fileno()

    def numbers(self) -> tuple[int, ...]:
        """The signals that came, in order; others that Python wakes for are left out."""
        try:
            return tuple(number for number in self._heard.recv(4096) if number in self._former)
        except BlockingIOError:
            return ()

    def close(self) -> None:
        """Give signals their former meaning."""
        signal.set_wakeup_fd(self._former_wake)
        for number, former in self._former.items():
            signal.signal(number, former)


def stop_here() -> None:
    """Be stopped as SIGTSTP stops a process; comes back when it is continued."""
    former = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, former)


def _note_signal(number: int, frame: FrameType | None) -> None:
    """Python writes the number to the wake-up socket; nothing is done here."""
