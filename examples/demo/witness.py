"""What the driver saw during a story, and when: what the story is held to."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from examples.toys.board import Board

LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was on the GPUs at one instant: bytes by GPU and process. ``at_s`` counts from the start."""

    at_s: float
    held: Mapping[str, Mapping[int, int]]


class Witness:
    """Looks at the driver's board many times a second, and remembers each change."""

    def __init__(self, board: Path) -> None:
        self._board = Board(board)
        self._began_s = time.monotonic()
        self._sights: list[Sight] = []
        self._looking = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="witness", daemon=True)
        self._thread.start()

    @property
    def sights(self) -> tuple[Sight, ...]:
        """Every change so far, oldest first."""
        return tuple(self._sights)

    def now(self) -> Mapping[str, Mapping[int, int]]:
        """What is on the GPUs at this moment; remembered like any look."""
        with self._looking:
            held = self._board.holders()
            if not self._sights or self._sights[-1].held != held:
                self._sights.append(Sight(at_s=time.monotonic() - self._began_s, held=held))
        return held

    def close(self) -> None:
        """Look no longer."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.now()
