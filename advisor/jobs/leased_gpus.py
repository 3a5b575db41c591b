"""Who holds which share of each GPU, and the rule that no write may break: never more than all of one.

The register asks here before every write, whoever caused it: an order, a launcher's report, a restart. A
whole GPU never has two holders, and a simulated one has none: nothing real can run on it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from advisor.jobs.lifecycle import Refused, leased, leased_shares
from advisor.jobs.model import JobRecord
from advisor.planner.transition import SHARE_SLACK
from collector.model import GpuUuid, JobId


class Taken(Refused):
    """A device that was to be given away has a holder, or is simulated and can have none."""


class Devices:
    """The leased GPUs of one register; its owner calls it under its own lock."""

    def __init__(self, entries: Iterable[JobRecord], is_simulated: Callable[[str], bool]) -> None:
        self._is_simulated = is_simulated
        self._on: defaultdict[GpuUuid, dict[JobId, float]] = defaultdict(dict)
        self._doubted_ms: dict[GpuUuid, int] = {}
        for entry in entries:
            self.hold(entry)

    def holders(self) -> dict[GpuUuid, dict[JobId, float]]:
        """Who holds which share of each leased GPU now, what is about to be given included."""
        return {uuid: dict(holders) for uuid, holders in self._on.items() if holders}

    def change(self, before: JobRecord | None, after: JobRecord) -> None:
        """Count what the entry holds after a change. Raises ``Taken``, and counts as before."""
        self.must_fit(before, after)
        if before is not None:
            self.release(before)
        self.hold(after)

    def hold(self, entry: JobRecord) -> None:
        """The entry holds what is leased to it; unasked, as where a write that failed is undone for all."""
        for uuid, share in leased_shares(entry).items():
            self._on[uuid][entry.id] = share
            self._doubted_ms.pop(uuid, None)

    def release(self, entry: JobRecord) -> None:
        """The entry holds nothing of what is leased to it."""
        for uuid in leased(entry):
            self._on[uuid].pop(entry.id, None)

    def must_fit(self, before: JobRecord | None, after: JobRecord) -> None:
        """Raise ``Taken`` where ``after`` holds more than ``before``, of what others hold or nobody can."""
        had = set() if before is None else set(leased(before))
        invented = [uuid for uuid in leased(after) if uuid not in had and self._is_simulated(uuid)]
        if invented:
            raise Taken(f"giving {', '.join(invented)} to {after.id}: simulated GPUs are not there to run on")
        for uuid, jobs in self.in_the_way(before, after).items():
            raise Taken(f"giving {uuid} to {after.id}: {', '.join(jobs)} holds it; plan anew")

    def in_the_way(self, before: JobRecord | None, after: JobRecord) -> dict[GpuUuid, tuple[JobId, ...]]:
        """The GPUs of which ``after`` would hold more than others leave, and who those are."""
        had = {} if before is None else leased_shares(before)
        return {
            uuid: tuple(others)
            for uuid, share in leased_shares(after).items()
            if share > had.get(uuid, 0.0)
            and (others := {job: part for job, part in self._on[uuid].items() if job != after.id})
            and sum(others.values()) + share > 1 + SHARE_SLACK
        }

    def doubt(self, before: JobRecord, after: JobRecord, now_ms: int) -> None:
        """What was let go may be in use still: nobody saw the processes end."""
        freed = [uuid for uuid in leased(before) if uuid not in leased(after)]
        self._doubted_ms.update(dict.fromkeys(freed, now_ms))

    def doubtful(self, newest_ms: Mapping[GpuUuid, int], used: Collection[GpuUuid]) -> frozenset[GpuUuid]:
        """The GPUs of which that was so, and that were not measured free since then."""
        self._doubted_ms = {
            uuid: at_ms
            for uuid, at_ms in self._doubted_ms.items()
            if uuid in used or newest_ms.get(uuid, 0) <= at_ms
        }
        return frozenset(self._doubted_ms)


def overfull(entries: Mapping[JobId, JobRecord]) -> dict[GpuUuid, tuple[JobId, ...]]:
    """The GPUs of which these entries together hold more than there is, and who holds them. Pure."""
    shares: defaultdict[GpuUuid, dict[JobId, float]] = defaultdict(dict)
    for entry in entries.values():
        for uuid, share in leased_shares(entry).items():
            shares[uuid][entry.id] = share
    return {uuid: tuple(parts) for uuid, parts in shares.items() if sum(parts.values()) > 1 + SHARE_SLACK}
