"""What a worker does between two steps because somebody wished it: save, or give cached memory back.

A wish needs no agreement: whoever hears it grants it at its own next step boundary and says what came of it.
"""

import json
from collections.abc import Callable
from typing import Any

import torch

from fallow import protocol
from fallow.mistakes import StateError
from fallow.requests.memory import JobMemory
from fallow.world.channel import ControllerLost, Rendezvous


class PendingRequests:
    """Grants what the controller wishes of this worker; without a ``channel`` nobody wishes anything."""

    def __init__(self, channel: Rendezvous | None, device: torch.device, save: Callable[[], int]):
        self._channel, self._memory, self._save = channel, JobMemory(device), save

    def grant(self, rank: int) -> None:
        """Do what was wished since the last step, and say so; only rank 0 saves."""
        if self._channel is None:
            return
        for number, wish in self._channel.wishes():
            if wish == protocol.RELEASE_CACHES:
                self._answer(number, released(self._memory))
            elif wish == protocol.SAVE and rank == 0:
                self._answer(number, self._saved())

    def _saved(self) -> dict[str, Any]:
        try:
            return {"bytes": self._save()}
        except (OSError, StateError) as failure:
            return {"error": f"the training could not be saved, and goes on: {failure}"}

    def _answer(self, number: int, told: dict[str, Any]) -> None:
        assert self._channel is not None
        try:
            self._channel.announce(protocol.granted_key(number, self._channel.member), json.dumps(told))
        except ControllerLost:
            return  # the seat notices at this same boundary


def released(memory: JobMemory) -> dict[str, int | None]:
    """Give cached memory back; what was held before and after. Without a GPU none was held there: 0 freed."""
    freed = memory.release()
    return {
        "before_bytes": freed.before.reserved_bytes,
        "after_bytes": freed.after.reserved_bytes,
        "freed_bytes": freed.freed_bytes or 0,
    }
