"""Who is told of changes of the register, once they are committed: of all jobs', or of one job's alone."""

import threading
from collections.abc import Callable

from advisor.jobs.model import JobRecord
from collector.model import JobId

Listener = Callable[[JobRecord | None, JobRecord], None]
"""Told of each change that was committed: the entry before and after it. Must not block."""


class Listeners:
    """Safe from any thread; listeners are called by whoever committed the change."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._of_all: tuple[Listener, ...] = ()
        self._of_one: dict[JobId, tuple[Listener, ...]] = {}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell ``listener`` of every change from now on; the answer ends that."""
        with self._guard:
            self._of_all = (*self._of_all, listener)

        def end() -> None:
            with self._guard:
                self._of_all = tuple(each for each in self._of_all if each is not listener)

        return end

    def follow(self, job: JobId, listener: Listener) -> Callable[[], None]:
        """The same for one job: who follows thousands of jobs costs the others nothing."""
        with self._guard:
            self._of_one[job] = (*self._of_one.get(job, ()), listener)

        def end() -> None:
            with self._guard:
                others = tuple(each for each in self._of_one.get(job, ()) if each is not listener)
                if others:
                    self._of_one[job] = others
                else:
                    self._of_one.pop(job, None)

        return end

    def is_followed(self, job: JobId) -> bool:
        """Whether somebody listens to what is told of this job, as its launcher does."""
        with self._guard:
            return bool(self._of_one.get(job))

    def of(self, job: JobId) -> tuple[Listener, ...]:
        """Whom a change of this job is told to."""
        with self._guard:
            return self._of_all + self._of_one.get(job, ())
