"""Answers of the job's own socket, on their way from the threads that asked to the launcher's loop."""

import os
from collections import deque

from service.launcher import model
from service.launcher.steer import Answer


class Mailbox:
    """``fileno`` is readable when there is something to take."""

    def __init__(self) -> None:
        self._said: deque[tuple[int, model.Event | Answer]] = deque()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def fileno(self) -> int:
        """Readable when something came."""
        return self._woken

    def put(self, launch: int, item: model.Event | Answer | None) -> None:
        """From any thread: what came of asking the workers of that launch; ``None``: it is no news."""
        if item is not None:
            self._said.append((launch, item))
        try:
            os.write(self._wake, b".")
        except OSError:
            return  # full: it is readable already

    def take(self) -> tuple[tuple[int, model.Event | Answer], ...]:
        """What came since; call it when readable."""
        os.read(self._woken, 4096)
        return tuple(self._said.popleft() for _ in range(len(self._said)))
