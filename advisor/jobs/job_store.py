"""The register of submitted jobs: in memory for those who ask, in the store before anybody is told.

One object, called from many threads. Every change is committed before it is seen, and changes that come at
the same time share one commit, so that two hundred launchers cost about what one costs. What cannot be kept
did not happen: the register goes back to what is in the store, and everybody who waited for that commit gets
the error. A mere sign of life is not written down.

The last word on devices is here, whoever asks (``devices``).
"""

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.jobs import lifecycle
from advisor.jobs.claims import Unproven
from advisor.jobs.command_numbers import Numbers
from advisor.jobs.double_leases import Ended, without_doubles
from advisor.jobs.group_commit import Batch, Commits
from advisor.jobs.leased_gpus import Devices
from advisor.jobs.listeners import Listener, Listeners
from advisor.jobs.model import CancelCommand, Command, ExitReason, JobRecord, JobState, Report, Submission
from advisor.jobs.report_review import Reviewer
from advisor.jobs.repository import Change, Kept, read_entry, read_register, write_changes
from advisor.jobs.signing import KEY_BYTES, CommandSigner
from advisor.jobs.stray_leases import match_leases
from analytics.vocabulary.jobs import submitted_id
from collector.clock import Clock
from collector.model import GpuUuid, JobId

if TYPE_CHECKING:
    from collector.store.database import Store

ENDED_KEPT = 2_000
"""How many jobs that have ended are kept in memory; older ones are in the store."""
FORGOTTEN_AT_ONCE = 200
"""So many more may be there before the oldest are let go of, in one sweep."""

Turn = Callable[[JobRecord], JobRecord]
Doubter = Callable[[JobRecord, Report, Unproven], None]
"""Told of each report that claims what its job was not given. Must not block for long."""


class UnknownJob(LookupError):
    """There is no such job in the register."""


def open_register(store: "Store", clock: Clock, signer: CommandSigner | None = None) -> "Register":
    """The register as the store has it. Blocks. Raises StoreError.

    Without a ``signer`` it has a key of its own: then nothing proves what was said before it was opened.
    """
    stored = read_register(store, ENDED_KEPT)
    entries = {
        entry.id: entry if entry.last_seen_ms is None else replace(entry, last_seen_ms=None)
        for entry in stored.entries
    }
    entries, doubles = without_doubles(store, entries, clock.now_ms())
    strays = match_leases(store, entries, clock.now_ms())
    signer = signer or CommandSigner(secrets.token_bytes(KEY_BYTES))
    stored = replace(stored, entries=tuple(entries.values()), remarks=(*stored.remarks, *strays))
    return Register(store, clock, signer, stored, doubles=doubles)


class Register:
    """``open_register`` makes one. ``remarks``: see ``Kept``; ``doubles``: leases that were one too many."""

    def __init__(
        self,
        store: "Store",
        clock: Clock,
        signer: CommandSigner,
        stored: Kept,
        *,
        doubles: Sequence[Ended] = (),
    ) -> None:
        entries = {entry.id: entry for entry in stored.entries}
        self.opened_ms = clock.now_ms()
        self.remarks, self.doubles = stored.remarks, tuple(doubles)
        self.doubt: Doubter = lambda entry, report, claim: None
        self._store, self._clock, self._signer = store, clock, signer
        self._working, self._seen = dict(entries), dict(entries)
        self._nonces = {_nonce(entry.submission): entry.id for entry in entries.values()}
        self._number = stored.number
        self._ended = sum(1 for entry in entries.values() if entry.state is JobState.ENDED)
        self._guard = threading.Lock()
        self._changed = threading.Condition(self._guard)
        self._commits = Commits(self._guard, self._write)
        self._open = Batch()
        self._listeners = Listeners()
        self._heard_ms: dict[JobId, int] = {}
        self._since_ms = clock.monotonic_ms()
        self._numbers = Numbers(entries.values(), stored.given)
        self._devices = Devices(entries.values(), store.is_simulated)
        self._reviewer = Reviewer(signer, self._numbers, self._devices)

    def entries(self) -> dict[JobId, JobRecord]:
        """Every entry that is kept, as committed: all that have not ended, and the newest others."""
        with self._guard:
            return dict(self._seen)

    def entry(self, job: JobId) -> JobRecord:
        """One entry, however old. Raises ``UnknownJob``. Blocks for one that ended long ago."""
        result = self.known(job)
        if result is None:
            result = read_entry(self._store, job)
        if result is None:
            raise UnknownJob(f"there is no job {job}; `fallow jobs` lists those there are")
        return result

    def known(self, job: JobId) -> JobRecord | None:
        """One entry that is kept in memory. Never blocks for the store."""
        with self._guard:
            return self._seen.get(job)

    def is_known(self, submission: Submission) -> bool:
        """Whether ``submit`` would find the job of this submission. Never blocks for the store."""
        with self._guard:
            return bool(submission.nonce) and _nonce(submission) in self._nonces

    def submit(self, submission: Submission) -> tuple[JobRecord, bool]:
        """The entry of a submission, and whether it is new: the same nonce of one user is one job. Blocks."""
        with self._guard:
            earlier = self._nonces.get(_nonce(submission)) if submission.nonce else None
            if earlier is None:
                self._number += 1
                job = JobId(submitted_id(self._number))
                self._nonces[_nonce(submission)] = job
                self._heard_ms[job] = self._clock.monotonic_ms()
                batch = self._put(None, lifecycle.submitted(job, submission, self._clock.now_ms()))
            else:
                job, batch = earlier, self._open
        if earlier is None or job not in self._seen:
            self._commits.commit(batch)
        return self.entry(job), earlier is None

    def give(self, job: JobId, command: Command, also: Turn | None = None) -> JobRecord:
        """Give a directive, its leases with it; ``also`` changes the entry further, in the same commit.

        Blocks. Raises ``UnknownJob``, ``Refused`` (it cannot take this), ``Taken`` (a GPU has a holder).
        """

        def turn(entry: JobRecord) -> JobRecord:
            now_ms = self._clock.now_ms()
            after = lifecycle.with_command(entry, self._signer.signed(entry, command, now_ms), now_ms)
            self._devices.must_fit(entry, after)
            self._numbers.must_reach(job, command.number)
            self._numbers.give(job, command.number)
            return after if also is None else also(after)

        return self.change(job, turn)

    def end(self, job: JobId, order: CancelCommand) -> JobRecord:
        """End a job and its lease whatever its launcher and its processes do. Blocks.

        Raises ``UnknownJob``, ``Refused`` where it has ended. Its GPUs are in doubt until they are measured.
        """

        def turn(entry: JobRecord) -> JobRecord:
            now_ms = self._clock.now_ms()
            proof = self._signer.signed(entry, order, now_ms).proof
            after = lifecycle.forced(entry, replace(order, proof=proof), now_ms)
            self._numbers.give(job, order.number)
            self._devices.doubt(entry, after, now_ms)
            return after

        return self.change(job, turn)

    def report(self, job: JobId, report: Report, *, in_doubt: bool = False) -> JobRecord:
        """Take a launcher's word. Blocks only when it changes something. Raises ``UnknownJob``.

        What it claims beyond what its job was given is taken as far as the service's own proofs go, and told
        to ``doubt`` where they don't. ``in_doubt``: processes of it live, whatever it lets go.
        """
        self.heard(job)
        with self._guard:
            before = self._present(job)
            result = self._reviewer.review(before, report, self._working, self._clock.now_ms())
            takes = self._takes(before, result.after)
            if in_doubt:
                self._devices.doubt(before, result.after, self._clock.now_ms())
            if not takes:
                for old, new in result.displaced:
                    self._put(old, new)
                batch = self._put(before, result.after)
        if not takes:
            self._commits.commit(batch)
        if isinstance(result.claim, Unproven):
            self.doubt(result.after, report, result.claim)
        return result.after

    def met(self, job: JobId, after: int) -> None:
        """Its launcher listens from now on, and says that it knows the directives up to ``after``."""
        with self._guard:
            self._numbers.met(job, after)

    def newest_known(self) -> int:
        """The highest number of a directive that launchers have shown to be this service's."""
        with self._guard:
            return self._numbers.newest_known()

    def lease(self, job: JobId) -> tuple[int, str] | None:
        """Since which command the job stands as it does, and a proof of that; ``None`` where its launcher has
        one from the command itself. Never blocks."""
        entry = self.known(job)
        if entry is None or entry.state is JobState.ENDED:
            return None
        newest = entry.directive
        has = newest is not None and newest.number == entry.acknowledged and newest.proof
        return None if has else (entry.acknowledged, self._signer.lease(entry))

    def heard(self, job: JobId) -> None:
        """A sign of life that says nothing else, as an open connection is. Never blocks."""
        self._heard_ms[job] = self._clock.monotonic_ms()

    def heard_again(self, job: JobId, report: Report) -> JobRecord | None:
        """Take a launcher's word that changes nothing; ``None``: it does, so ``report``. Never blocks."""
        with self._guard:
            before = self._working.get(job)
            if before is None:
                return None
            result = self._reviewer.review(before, report, self._working, self._clock.now_ms())
            if isinstance(result.claim, Unproven) or not self._takes(before, result.after):
                return None
        self.heard(job)
        return result.after

    def absent(self, over_s: float) -> frozenset[JobId]:
        """The jobs whose launchers cannot be told anything now: not heard since the opening, or not for so
        long, or they would take the next number for one that they know."""
        now_ms, reports_ms = self._clock.monotonic_ms(), self._heard_ms
        with self._guard:
            beyond = self._numbers.out_of_reach()
        return beyond | frozenset(
            job
            for job in self.entries()
            if (at_ms := reports_ms.get(job)) is None or now_ms - at_ms > over_s * 1000
        )

    def silent(self, over_s: float) -> frozenset[JobId]:
        """The jobs whose launchers were not heard for longer than that, counted from the opening at most."""
        now_ms, reports_ms = self._clock.monotonic_ms(), self._heard_ms
        return frozenset(
            job for job in self.entries() if now_ms - reports_ms.get(job, self._since_ms) > over_s * 1000
        )

    def change(self, job: JobId, turn: Turn) -> JobRecord:
        """What ``turn`` makes of the entry; seen once it is committed. Raises what ``turn`` raises."""
        with self._guard:
            before = self._present(job)
            after = turn(before)
            if self._takes(before, after):
                return after
            batch = self._put(before, after)
        self._commits.commit(batch)
        return after

    def change_all(self, jobs: Iterable[JobId], turn: Turn) -> tuple[JobRecord, ...]:
        """The same for many, in one commit: all of them or none. Jobs that are not known are passed over."""
        with self._guard:
            batch, changed = self._open, []
            for job in jobs:
                before = self._working.get(job)
                after = None if before is None else turn(before)
                if after is not None and after != before:
                    self._put(before, after)
                    changed.append(after)
        if changed:
            self._commits.commit(batch)
        return tuple(changed)

    def wait(self, job: JobId, until: Callable[[JobRecord], bool], timeout_s: float) -> JobRecord:
        """The entry once ``until`` holds of it, or as it is after ``timeout_s``. Blocks."""
        with self._changed:
            self._changed.wait_for(lambda: job not in self._seen or until(self._seen[job]), timeout_s)
        return self.entry(job)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell ``listener`` of every change from now on; the answer ends that."""
        return self._listeners.listen(listener)

    def follow(self, job: JobId, listener: Listener) -> Callable[[], None]:
        """The same for one job."""
        return self._listeners.follow(job, listener)

    def is_followed(self, job: JobId) -> bool:
        """Whether somebody listens to what is told of this job, as its launcher does."""
        return self._listeners.is_followed(job)

    def holders(self) -> dict[GpuUuid, dict[JobId, float]]:
        """Who holds which share of each leased GPU now, what is about to be given included."""
        with self._guard:
            return self._devices.holders()

    def doubtful(self, newest_ms: Mapping[GpuUuid, int], used: Collection[GpuUuid]) -> frozenset[GpuUuid]:
        """The GPUs that were let go where something may run on, and were not measured free since.

        ``newest_ms`` is when each was last measured, ``used`` are those that were seen in use.
        """
        with self._guard:
            return self._devices.doubtful(newest_ms, used)

    def _present(self, job: JobId) -> JobRecord:
        """The working entry; the caller has the guard. Raises ``UnknownJob``."""
        entry = self._working.get(job)
        if entry is None:
            raise UnknownJob(f"there is no job {job} that still runs or waits")
        return entry

    def _takes(self, before: JobRecord, after: JobRecord) -> bool:
        """Whether it changes nothing that must be kept, and is taken then; the caller has the guard."""
        job = after.id
        if not _alike(before, after) or job in self._open.jobs or self._seen.get(job) is not before:
            return False
        self._working[job] = self._seen[job] = after
        return True

    def _put(self, before: JobRecord | None, after: JobRecord) -> Batch:
        """Make it the working entry, in the batch that is committed next; the caller has the guard.

        Raises ``Taken`` where others leave no room for what it holds, whoever says that it does.
        """
        self._devices.change(before, after)
        if before is not None and after.exit_reason is ExitReason.LOST:
            self._devices.doubt(before, after, self._clock.now_ms())
        self._working[after.id] = after
        self._open.add(Change(before=before, after=after))
        return self._open

    def _write(self, batch: Batch) -> None:
        with self._guard:
            self._open = Batch()
        try:
            if batch.changes:
                write_changes(self._store, batch.changes, self._clock.now_ms())
        except BaseException as error:
            with self._guard:
                self._undo(batch, error)
                self._undo(self._open, error)
                self._open = Batch()
            raise
        with self._guard:
            for change in batch.changes:
                self._seen[change.after.id] = change.after
                if change.after.state is JobState.ENDED:
                    self._numbers.forget(change.after)
            self._forget(batch)
            batch.settle()
            calls = [(call, each) for each in batch.changes for call in self._listeners.of(each.after.id)]
            self._changed.notify_all()
        for listener, change in calls:
            listener(change.before, change.after)

    def _undo(self, batch: Batch, error: BaseException) -> None:
        """Back to what is committed; the caller has the guard."""
        batch.settle(error)
        for change in batch.changes:
            self._devices.release(change.after)
        for job in batch.jobs:
            before = self._seen.get(job)
            if before is None:
                removed = self._working.pop(job, None)
                if removed is not None:
                    self._nonces.pop(_nonce(removed.submission), None)
            else:
                self._working[job] = before
                self._devices.hold(before)

    def _forget(self, batch: Batch) -> None:
        """Let go of what ended longest ago; the caller has the guard."""
        self._ended += sum(1 for each in batch.changes if each.after.state is JobState.ENDED)
        if self._ended < ENDED_KEPT + FORGOTTEN_AT_ONCE:
            return
        awaited = {job for each in self._seen.values() if not each.ended_ms for job in each.submission.after}
        ended = [entry for entry in self._seen.values() if entry.state is JobState.ENDED]
        self._ended = len(ended)
        for entry in sorted(ended, key=lambda each: each.ended_ms or 0)[: max(0, len(ended) - ENDED_KEPT)]:
            if entry.id not in self._open.jobs and entry.id not in awaited:
                self._ended -= 1
                del self._seen[entry.id], self._working[entry.id]
                self._heard_ms.pop(entry.id, None)
                self._nonces.pop(_nonce(entry.submission), None)


def _nonce(submission: Submission) -> tuple[str, str]:
    return submission.user, submission.nonce


def _alike(before: JobRecord, after: JobRecord) -> bool:
    """Whether nothing changed that must outlive a restart; a sign of life need not."""
    old, new = before.report, after.report
    if old is not None and new is not None:
        old_values = (old.pids, old.checkpoint_ms, old.attached, old.launcher)
        if old_values != (new.pids, new.checkpoint_ms, new.attached, new.launcher):
            return False
    elif old is not new:
        return False
    return replace(before, report=None, last_seen_ms=None) == replace(after, report=None, last_seen_ms=None)
