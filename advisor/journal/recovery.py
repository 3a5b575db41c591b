"""What came of intents that nobody saw the end of: after a crash, or when the outcome could not be written.

Nothing is done here but reading and one row written for each: an intent is never carried out a second time.
The rule is pure. A directive bears its intent's number, so whether it was given is in the store, and whether
it was carried out is its launcher's own word. Where neither can tell, a person is asked to look.

    never given ──────────────────────────► UNDONE       given, acknowledged ──────────► DONE or FAILED
    given, its job ended or its launcher lost ► FAILED   given, not acknowledged yet ──► waits, then UNKNOWN
    not by a directive: what the store shows of it, else ─────────────────────────────► UNKNOWN
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from advisor.actions import (
    Action,
    Cancel,
    HoldForJob,
    Move,
    Notify,
    Pause,
    ReleaseMemory,
    Requeue,
    Resize,
    Resume,
    SetEnvAtRestart,
    Start,
    StartBackground,
)
from advisor.jobs.model import JobRecord
from advisor.journal.journal import StoreJournal
from advisor.journal.records import ActionRecord, Moment, Result, age_ms, result_of
from advisor.outcomes import Outcome
from advisor.statements import asked
from collector.model import JobId

if TYPE_CHECKING:
    from collector.store.database import Store

TOLD = "the owner was told"
PATIENCE_MS = 30 * 60_000
"""How long a launcher may take before a person is asked to look: longer than any grace that is usual."""

Found = Callable[[JobId, Action | None, int], Outcome | None]
"""What a job's engine sees of a step and its intent, without doing anything; ``None``: it can't say. No step:
one that this version can't read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directed:
    """A directive that was given: whether its launcher acknowledged it, and how that failed."""

    handled: bool
    failed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of an intent beside its row; ``told``: its job's owner was told since it was begun.

    ``by_launcher``: the engine of its job does nothing itself but commands its launcher.
    ``seen`` is what that engine sees of the step: its launcher's word, the driver's states, the manager's
    queue.
    """

    directed: Directed | None = None
    entry: JobRecord | None = None
    told: bool = False
    by_launcher: bool = False
    seen: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How an intent is settled, and the sentence for the journal."""

    result: Result
    found: str


def settlement(deed: ActionRecord, facts: Facts, now: Moment) -> Recovery | None:
    """How to settle ``deed``; ``None`` while its launcher may still say. Pure."""
    step = deed.step
    if isinstance(step, Notify) and facts.told:
        return Recovery(result=Result.DONE, found=TOLD)
    if facts.directed is not None:
        return _of_directive(deed, facts.directed, facts, now)
    match step:
        case None:
            return _unknown(f"whether `{deed.verb}` was carried out cannot be known; look at {deed.job}")
        case HoldForJob():
            return _undone("promises are made anew with every plan")
        case SetEnvAtRestart() if facts.entry is not None:
            if set(step.settings) <= set(facts.entry.next_launch):
                return Recovery(result=Result.DONE, found="the settings are kept for its next launch")
            return _undone("the settings are not kept for its next launch")
        case _ if facts.by_launcher:
            return _undone("Fallow stopped before anything was given to its launcher")
        case Notify():
            return _unknown("the owner may have been told; nothing else was done")
        case Pause() | Resume() if facts.seen is not None:
            return _of_foreign(deed, facts.seen, now)
        case SetEnvAtRestart():
            return _undone("settings of a job that Fallow did not launch are not kept")
        case (
            Start()
            | StartBackground()
            | Resume()
            | Resize()
            | Pause()
            | Requeue()
            | Move()
            | ReleaseMemory()
            | Cancel()
        ):
            return _unknown(f"Fallow stopped while it was doing it; look how {deed.job} stands")
        case _:
            assert_never(step)


class Recovering:
    """Settles what is open in the journal of one store; at every start, and before every cycle."""

    def __init__(
        self,
        store: "Store",
        journal: StoreJournal,
        entry_of: Callable[[JobId], JobRecord | None],
        found: Found = lambda job, step, intent: None,
        *,
        by_launcher: Callable[[JobId], bool],
    ) -> None:
        self._store, self._journal, self._entry_of = store, journal, entry_of
        self._found, self._by_launcher = found, by_launcher

    def settle(self) -> tuple[tuple[ActionRecord, Recovery], ...]:
        """Settle what can be; each with how. What is being done right now is left alone. Raises StoreFull."""
        now = self._journal.moment()
        open_ones = [deed for deed in self._journal.unsettled() if not self._is_being_done(deed, now)]
        if not open_ones:
            return ()
        done = []
        for deed, facts in self._with_facts(open_ones):
            result = settlement(deed, facts, now)
            if result is not None and self._journal.settle(
                now.at_ms, deed.number, result.result, result.found
            ):
                done.append((deed, result))
        return tuple(done)

    def _is_being_done(self, deed: ActionRecord, now: Moment) -> bool:
        return self._journal.is_at_work_on(deed.number) and age_ms(deed.begun, now) < PATIENCE_MS

    def _with_facts(self, deeds: Sequence[ActionRecord]) -> Iterable[tuple[ActionRecord, Facts]]:
        rows = asked(self._store, "settling_facts", {"numbers": [deed.number for deed in deeds]})
        by_number: Mapping[int, dict[str, object]] = {row["intent"]: row for row in rows}
        for deed in deeds:
            row = by_number[deed.number]
            directed = None
            if row["given"]:
                failed = row["failed"]
                directed = Directed(
                    handled=bool(row["handled"]), failed=None if failed is None else str(failed)
                )
            ours = self._by_launcher(deed.job)
            yield (
                deed,
                Facts(
                    directed=directed,
                    entry=self._entry_of(deed.job) if ours else None,
                    told=bool(row["told"]),
                    by_launcher=ours,
                    seen=self._found(deed.job, deed.step, deed.number),
                ),
            )


def _of_directive(deed: ActionRecord, directed: Directed, facts: Facts, now: Moment) -> Recovery | None:
    if directed.handled:
        if directed.failed is not None:
            return Recovery(result=Result.FAILED, found=directed.failed)
        return Recovery(result=Result.DONE, found="its launcher acknowledged it")
    if facts.seen is not None:
        result, reason = result_of(facts.seen)
        if result is not None:
            return Recovery(result=result, found=reason)
    if age_ms(deed.begun, now) < PATIENCE_MS and facts.entry is not None:
        return None
    return _unknown(
        f"its launcher never said whether it was carried out; look how {deed.job} stands with `fallow jobs`"
    )


def _of_foreign(deed: ActionRecord, shown: Outcome, now: Moment) -> Recovery | None:
    result, reason = result_of(shown)
    if result is not None:
        return Recovery(result=result, found=reason)
    return None if age_ms(deed.begun, now) < PATIENCE_MS else _unknown(reason)


def _undone(reason: str) -> Recovery:
    return Recovery(result=Result.UNDONE, found=reason)


def _unknown(reason: str) -> Recovery:
    return Recovery(result=Result.UNKNOWN, found=reason)
