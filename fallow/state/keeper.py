"""Where a training is kept: saved when the script or a signal asks, taken up again when it starts."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fallow.mistakes import StateError
from fallow.requests.save_signal import SaveSignal
from fallow.state import checkpoint
from fallow.state.replica import Replica

LOG = logging.getLogger("fallow")
ENV_SAVED = "FALLOW_SAVED"
"""The file to touch when what a signal asked for is saved: ``fallow run`` waits for it."""


class PeriodicCheckpoint:
    """Keeps ``replica`` at ``path``, if there is one; with ``generators`` also where random numbers stood.

    ``look(wait=True)`` raises for a state that must not be saved, whose loss isn't finite.
    ``saved_ms`` is when this worker saved or resumed it last, by its file's time.
    """

    def __init__(self, replica: Replica, path: Path | None, look: Callable[..., None], *, generators: bool):
        self._look = look
        self._replica = replica
        self._path = path
        self._generators = generators
        self._signal = SaveSignal()
        self.saved_ms: int | None = None

    @property
    def asked(self) -> bool:
        """Whether this worker was asked by a signal, since the last save that was."""
        return self._signal.asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the signal meanwhile, if there is a path to save to."""
        with self._signal.heard(self._path is not None):
            yield

    def resume(self) -> None:
        """Take up what was saved, if anything was. Raises CheckpointDamaged, StateMistake or OSError."""
        if self._path is not None:
            state = checkpoint.load(self._path, self._replica.device)
            if state is not None:
                self._replica.load(state)
                self.saved_ms = self._path.stat().st_mtime_ns // 1_000_000

    def save(self) -> int:
        """Save; returns the bytes written. Blocks until they are on disk. Raises StateMistake, LossMistake or
        OSError.
        """
        if self._path is None:
            raise StateError("this training has no checkpoint path: pass checkpoint=PATH to job.elastic()")
        self._look(wait=True)
        size = checkpoint.save(self._path, self._replica.state(generators=self._generators))
        self.saved_ms = self._path.stat().st_mtime_ns // 1_000_000
        return size

    def follow_signal(self, rank: int) -> None:
        """Some worker was asked to save, so rank 0 does. If it cannot, the training still goes on."""
        self._signal.done()
        if rank != 0:
            return
        try:
            self.save()
            if told := os.environ.get(ENV_SAVED):
                Path(told).touch()
        except (OSError, StateError) as failure:
            step = self._replica.next_step
            LOG.error("step %d: asked to save the training, but could not: %s", step, failure)
