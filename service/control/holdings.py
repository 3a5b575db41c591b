"""What each person has in the register: jobs that have not ended, the length of what they sent, and GPUs.

Kept as the register changes, because it is asked for with every request. Safe from any thread.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.jobs.lifecycle import leased
from advisor.jobs.model import JobRecord, JobState, Submission
from collector.model import JobId
from service.trust.persons import person_of_uid

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register


@dataclass(slots=True)
class Held:
    """Of one person: jobs that have not ended, characters of what was submitted with them, jobs with GPUs."""

    jobs: int = 0
    chars: int = 0
    with_gpus: int = 0


class Holdings:
    """See the top of this file; ``follow`` a register once."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: defaultdict[str, Held] = defaultdict(Held)
        self._counted_as: dict[JobId, str] = {}

    def follow(self, register: "Register") -> None:
        """Count what is there, and every change from now on."""
        register.listen(self.changed)
        for entry in register.entries().values():
            self._count(entry, 1)

    def changed(self, before: JobRecord | None, after: JobRecord) -> None:
        """A change was committed."""
        if before is not None:
            self._count(before, -1)
        self._count(after, 1)

    def of(self, person: str) -> Held:
        """What that person has now."""
        with self._guard:
            entry = self._held.get(person)
            return Held() if entry is None else Held(entry.jobs, entry.chars, entry.with_gpus)

    def jobs_of(self, person: str) -> int:
        """How many jobs of theirs have not ended."""
        entry = self._held.get(person)
        return 0 if entry is None else entry.jobs

    def has_gpus(self, person: str) -> bool:
        """Whether a job of theirs holds GPUs."""
        entry = self._held.get(person)
        return entry is not None and entry.with_gpus > 0

    @contextmanager
    def coming(self, submission: Submission) -> Iterator[Held]:
        """What they had before; the submission counts as theirs within the block, so that none slips past."""
        person = whose(submission)
        with self._guard:
            entry = self._held[person]
            before = Held(entry.jobs, entry.chars, entry.with_gpus)
            self._add(person, jobs=1, chars=length(submission), with_gpus=0)
        try:
            yield before
        finally:
            with self._guard:
                self._add(person, jobs=-1, chars=-length(submission), with_gpus=0)

    def _count(self, entry: JobRecord, sign: int) -> None:
        if entry.state is JobState.ENDED:
            return
        submission = entry.submission
        with self._guard:  # taken off whom it was counted for: who is one person changes with /etc/subuid
            person = whose(submission) if sign > 0 else self._counted_as.pop(entry.id, whose(submission))
            if sign > 0:
                self._counted_as[entry.id] = person
            self._add(
                person, jobs=sign, chars=sign * length(submission), with_gpus=sign * bool(leased(entry))
            )

    def _add(self, person: str, *, jobs: int, chars: int, with_gpus: int) -> None:
        entry = self._held[person]
        entry.jobs += jobs
        entry.chars += chars
        entry.with_gpus += with_gpus
        if not entry.jobs:
            del self._held[person]


def whose(submission: Submission) -> str:
    """The person whose submission it is, as bounds are kept."""
    return f"user {submission.user}" if submission.uid is None else person_of_uid(submission.uid)


def length(submission: Submission) -> int:
    """Characters of what its owner chose freely."""
    return sum(map(len, submission.command)) + len(submission.folder) + len(submission.name)
