"""What a joiner computes before it is taken in, so that the others don't wait while it does things first.

Nothing of the script's loop runs for it: the model is called as the first of the job was seen to call it in
its first step (``recorded_calls``), and the optimizer takes a step that is thrown away. Where that cannot be,
the joiner comes in cold: its first step is then slower, and nothing else is lost.
"""

import logging
from collections.abc import Iterable
from typing import Protocol

from fallow.process_group.collectives import Group
from fallow.state.recorded_calls import Recorder, replay
from fallow.state.replica import Replica

LOG = logging.getLogger("fallow")
MOST_SIZES = 4
"""Numbers of samples that are tried: compilers make one kernel for all of them after the second."""


class Peers(Protocol):
    """The other workers, now and later."""

    group: Group
    warming_up: bool

    @property
    def driven(self) -> bool:
        """Whether anybody may join."""
        ...

    def tell_calls(self, text: str) -> None:
        """Leave the calls for joiners."""
        ...

    def told_calls(self) -> str | None:
        """What was left."""
        ...


class WarmUp:
    """The calls of a script's first micro-batch: told by the first of the job, made again by a joiner."""

    def __init__(self, replica: Replica, peers: Peers):
        self._replica, self._peers = replica, peers
        self._listens = peers.driven and not peers.warming_up
        self._recorder: Recorder | None = None

    def listen(self, samples: int) -> None:
        """A micro-batch of ``samples`` is handed out; only the first one that this worker gets is heard."""
        if self._listens:
            self._listens = False
            if self._peers.group.rank == 0:
                self._recorder = Recorder(self._replica.model, samples)

    def heard(self) -> None:
        """Its loss is there."""
        if self._recorder is not None:
            text, self._recorder = self._recorder.close(), None
            if text is not None:
                self._peers.tell_calls(text)

    def compute(self, sizes: Iterable[int]) -> None:
        """Make the calls with each of ``sizes`` samples; gradients lie in ``grad`` afterwards."""
        text = self._peers.told_calls()
        tried = sorted(set(sizes), reverse=True)[:MOST_SIZES]
        if text is None or not all(self._makes(text, size) for size in tried):
            self._replica.clear_gradients()

    def _makes(self, text: str, samples: int) -> bool:
        try:
            replay(self._replica.model, text, samples, self._replica.device)
        except Exception as error:  # whatever a model raises that is called with other values
            LOG.debug("a warm-up with %d samples came to nothing: %r", samples, error)
            return False
        return True

    def update(self) -> None:
        """Take a step that is thrown away, with the gradients that are there."""
        try:
            self._replica.warm_up()
        except Exception as error:
            LOG.debug("the optimizer could not be warmed up: %r", error)
        self._replica.forget_gradients()
