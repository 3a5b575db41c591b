"""The numbers of commands: which the service has given, and which launchers say that they know.

Numbers only grow, so a launcher takes one that it knows for carried out. A register from an older backup
counts from where it was, and would give such numbers again. What a launcher *proves* was given by this
service (``signing``), and numbers go on above it. What one merely says lifts nothing: until the numbers have
come so far by themselves, its job alone can be told nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from advisor.jobs.lifecycle import Refused
from advisor.jobs.model import JobRecord, JobState
from collector.model import JobId

CEILING = 2**50
"""No service gives so many orders. Numbers above it are from before decision 37, when launchers' words lifted
them; they are left behind once the jobs that were given them have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Earlier:
    """A job that was here when the register was opened, which may be from before its launcher's last word.

    ``again`` is the number of a command that was given since, and that its launcher knows of an earlier one,
    or may: it has not ``met`` the register yet.
    """

    again: int | None = None
    met: bool = False


class Numbers:
    """The register guards it. ``highest`` is the greatest number below ``CEILING`` that the store knows."""

    def __init__(self, entries: Iterable[JobRecord], highest: int) -> None:
        living = [entry for entry in entries if entry.state is not JobState.ENDED]
        own = ((entry.id, 0 if entry.directive is None else entry.directive.number) for entry in living)
        self._given, self._proven = highest, 0
        self._beyond = {job: number for job, number in own if number >= CEILING}
        self._earlier = {entry.id: _Earlier() for entry in living}
        self._told = {entry.id: entry.acknowledged for entry in living if entry.acknowledged > highest}

    def newest_known(self) -> int:
        """What the next number must lie above, beside those in the store."""
        return max(self._proven, *self._beyond.values(), 0)

    def reissued(self, job: JobId) -> int | None:
        """The number of a command that its launcher took for one of before a restore."""
        earlier = self._earlier.get(job)
        return None if earlier is None else earlier.again

    def give(self, job: JobId, number: int) -> None:
        """A command was given."""
        if number < CEILING:
            self._given = max(self._given, number)
        else:
            self._beyond[job] = number
        earlier = self._earlier.get(job)
        if earlier is not None and not earlier.met:
            self._earlier[job] = replace(earlier, again=number)

    def met(self, job: JobId, after: int) -> None:
        """A launcher listens from now on, and says that it knows the numbers up to ``after``."""
        self.hear(job, after)
        earlier = self._earlier.get(job)
        if earlier is not None and not earlier.met:
            again = earlier.again if earlier.again is not None and earlier.again <= after else None
            self._earlier[job] = _Earlier(again=again, met=True)

    def hear(self, job: JobId, number: int) -> None:
        """A launcher says that it knows this number; that binds nobody but its own job."""
        if number > self._newest():
            self._told[job] = max(number, self._told.get(job, 0))

    def prove(self, number: int) -> None:
        """A launcher has shown that this service gave that number."""
        self._proven = max(self._proven, number)

    def must_reach(self, job: JobId, number: int) -> None:
        """Raise ``Refused`` where its launcher would take the number for one that it has carried out."""
        newest = self._told.get(job, 0)
        if newest >= number:
            raise Refused(
                f"{job} cannot be told anything: its launcher says that it has carried out order {newest}, "
                "which this service did not give; end it where it runs, or have an operator end it with "
                "`fallow cancel --force`"
            )

    def out_of_reach(self) -> frozenset[JobId]:
        """The jobs whose launchers would take the next command for one that they know."""
        newest = self._newest()
        return frozenset(job for job, number in self._told.items() if number > newest)

    def forget(self, entry: JobRecord) -> None:
        """It has ended."""
        for numbers in (self._earlier, self._told, self._beyond):
            numbers.pop(entry.id, None)

    def _newest(self) -> int:
        return max(self._given, self.newest_known())
