"""Who holds which share of each GPU: the last word on devices, for whoever asks the register.

A whole GPU never has two holders, and a simulated one has none: nothing real can run on it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from advisor.register.life import Refused, leased, shares_held
from advisor.register.model import Entry
from advisor.transition import SHARE_SLACK
from collector.model import GpuUuid, JobId


class Taken(Refused):
    """A device that was to be given away has a holder, or is simulated and can have none."""


class Devices:
    """The leased GPUs of one register; its owner calls it under its own lock."""

    def __init__(self, entries: Iterable[Entry], is_simulated: Callable[[str], bool]) -> None:
        self._is_simulated = is_simulated
        self._on: defaultdict[GpuUuid, dict[JobId, float]] = defaultdict(dict)
        for entry in entries:
            self.hold(entry)

    def holders(self) -> dict[GpuUuid, dict[JobId, float]]:
        """Who holds which share of each leased GPU now, what is about to be given included."""
        return {uuid: dict(holders) for uuid, holders in self._on.items() if holders}

    def hold(self, entry: Entry) -> None:
        """The entry holds what is leased to it."""
        for uuid, share in shares_held(entry).items():
            self._on[uuid][entry.id] = share

    def release(self, entry: Entry) -> None:
        """The entry holds nothing of what is leased to it."""
        for uuid in leased(entry):
            self._on[uuid].pop(entry.id, None)

    def must_be_free(self, entry: Entry) -> None:
        """Raise ``Taken`` where the entry, as it is to be, would hold what others hold or nobody can."""
        held = shares_held(entry)
        invented = [uuid for uuid in held if self._is_simulated(uuid)]
        if invented:
            raise Taken(f"giving {', '.join(invented)} to {entry.id}: simulated GPUs are not there to run on")
        for uuid, wanted in held.items():
            others = {job: share for job, share in self._on[uuid].items() if job != entry.id}
            if sum(others.values()) + wanted > 1 + SHARE_SLACK:
                raise Taken(f"giving {uuid} to {entry.id}: {', '.join(others)} holds it; plan anew")
