"""SIGTERM as "leave": what an agent and its workers make of it. Stdlib only.

A workload manager that takes a node back sends SIGTERM to every process of a step: the agent, the parent of
its workers, the workers. Each must live on until its step is done and its state handed over. So the first one
asks to leave, and one more ends the process as it always did. Slurm's srun may pass on a signal that the step
has had already, so what follows within AGAIN_S is the same request.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

AGAIN_S = 1.0
"""The same signal within this time is the same request: srun sends a copy within some tenths of a second."""


class LeaveSignal:
    """``asked`` is true from the first SIGTERM on, ``asked_again`` from another one after AGAIN_S on.

    ``may_leave`` says whether there is anything to leave; when not, and when asked again, ``at_once`` is
    called with the signal: by default it ends the process.
    """

    def __init__(
        self, may_leave: Callable[[], bool] = lambda: True, at_once: Callable[[int], None] | None = None
    ):
        self._may_leave = may_leave
        self._at_once = at_once or end_by
        self._first_s: float | None = None
        self.asked_again = False

    @property
    def asked(self) -> bool:
        """Whether this process was asked to leave."""
        return self._first_s is not None

    @property
    def asked_s(self) -> float | None:
        """When it was asked first, on the steady clock; ``None`` if never."""
        return self._first_s

    def hear(self, *numbers: signal.Signals) -> None:
        """Listen from now on for those signals that nothing else of this process handles.

        Only the main thread can; elsewhere nothing happens, and signals do what they did.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in numbers:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._arrived)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._first_s is not None and now_s - self._first_s < AGAIN_S:
            return
        self.asked_again = self._first_s is not None
        self._first_s = self._first_s or now_s
        if self.asked_again or not self._may_leave():
            self._at_once(number)


def end_by(number: int) -> None:
    """End this process by a signal, as if nobody had listened for it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
