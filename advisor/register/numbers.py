"""Numbers of directives that are given again: an older backup was put back under launchers that go on.

Numbers only grow, so a launcher takes one that it knows for carried out. A register from an older backup
counts from where it was, would give such numbers again, and take the silence for obedience.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from advisor.register.model import Entry
from collector.model import JobId

MOST_AHEAD = 1_000_000
"""What lies further ahead than this is nothing that was given between a backup and its return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A job that was here when the register was opened, which may be from before its launcher's last word.

    ``again`` is the number of a directive that was given since, and that its launcher knows of an earlier
    one, or may: it has not ``met`` the register yet.
    """

    again: int | None = None
    met: bool = False


class Numbers:
    """What launchers know beyond the register. ``newest`` is the highest number that any of them knows.

    The register guards it.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        known = {entry.id: entry.handled for entry in entries}
        self.newest = max(known.values(), default=0)
        self._earlier = {job: Earlier() for job in known}

    def earlier(self, job: JobId) -> Earlier | None:
        """What is known of a job that was here at the opening; ``None`` for one that came since."""
        return self._earlier.get(job)

    def given(self, job: JobId, number: int) -> None:
        """A directive was given."""
        earlier = self._earlier.get(job)
        if earlier is not None and not earlier.met:
            self._earlier[job] = replace(earlier, again=number)

    def met(self, job: JobId, after: int) -> None:
        """A launcher listens from now on, and knows the numbers up to ``after``."""
        earlier = self._earlier.get(job)
        if earlier is None or after > self.newest + MOST_AHEAD:
            return
        self.newest = max(self.newest, after)
        if not earlier.met:
            again = earlier.again if earlier.again is not None and earlier.again <= after else None
            self._earlier[job] = Earlier(again=again, met=True)

    def forget(self, job: JobId) -> None:
        """It ended long ago."""
        self._earlier.pop(job, None)
