"""What was asked of a workload manager about its jobs: written before it is asked, and what came of it.

One table. Nothing is decided here and nothing is asked of anybody: every call reads rows or commits one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.jobs.external_jobs import Holder
from advisor.serialize import from_text, to_text
from advisor.statements import asked, statement
from collector.clock import Clock
from collector.model import GpuUuid, JobId

if TYPE_CHECKING:
    from collector.store.database import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedRun:
    """What tells one run of a job from every other of the same number."""

    cluster: str
    number: str
    user: str | None
    name: str | None
    submitted_ms: int
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked about which run, as it stood just before.

    ``target``: the job as the manager's programs are told it. ``gpus``: those that it held. ``began_ms``:
    when the controller that was asked had been started, where that matters. ``nonce``: what was written into
    the manager with it, where the job is one into which its owner lets that be written. ``part``: which part
    of the job held the GPUs, as the manager numbers it; empty: the whole.
    """

    job: JobId
    verb: str
    run: ManagedRun
    target: str
    holder: Holder
    gpus: tuple[GpuUuid, ...]
    began_ms: int
    nonce: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerAct:
    """A row. ``after``: the run when its outcome was seen first, at ``seen_ms``.

    ``outcome``: ``done`` or ``failed``; ``None`` while it is not known. ``over_as``: how a pause ended.
    """

    asked: Asked
    intent: int
    begun_ms: int
    after: ManagedRun | None = None
    seen_ms: int | None = None
    outcome: str | None = None
    over_as: str | None = None

    @property
    def holds(self) -> bool:
        """Whether it is a pause that was seen, and is not over."""
        return self.asked.verb == "pause" and self.outcome == "done" and self.over_as is None


class ManagerActStore:
    """Reads and writes the table ``manager_acts``. Every call blocks for the store; raises StoreError."""

    def __init__(self, store: "Store", clock: Clock) -> None:
        self._store, self._clock = store, clock

    def begin(self, what: Asked, intent: int) -> None:
        """Note that this is about to be asked."""
        values = {"job": what.job, "verb": what.verb, "intent": intent, "body": to_text(what)}
        self._write("noting what a workload manager is asked", "add_manager_act", **values)

    def seen(self, intent: int, after: ManagedRun) -> None:
        """Note that the outcome was seen for the first time."""
        self._write("noting an outcome", "see_manager_act", intent=intent, body=to_text(after))

    def settle(self, intent: int, outcome: str) -> None:
        """Note what came of it: ``done`` or ``failed``."""
        self._write("noting an outcome", "settle_manager_act", intent=intent, outcome=outcome)

    def over(self, intent: int, over_as: str) -> None:
        """Note that a pause is over: ``released``, ``gone`` or ``unknown``."""
        self._write("ending a pause", "end_manager_act", intent=intent, over_as=over_as)

    def act(self, intent: int) -> ManagerAct | None:
        """The row of that intent."""
        rows = asked(self._store, "read_manager_act", {"intent": intent})
        return _act(rows[0]) if rows else None

    def open(self) -> tuple[ManagerAct, ...]:
        """Those whose outcome is not known, and the pauses that hold; oldest first."""
        return tuple(map(_act, asked(self._store, "open_manager_acts", {})))

    def _write(self, doing: str, name: str, **values: object) -> None:
        with self._store.writing(doing) as connection:
            connection.execute(statement(name), {"at_ms": self._clock.now_ms(), **values})


def _act(row: dict[str, Any]) -> ManagerAct:
    after = row["after_body"]
    return ManagerAct(
        asked=from_text(Asked, row["body"]),
        intent=row["intent"],
        begun_ms=row["begun_ms"],
        after=None if after is None else from_text(ManagedRun, after),
        seen_ms=row["seen_ms"],
        outcome=row["outcome"],
        over_as=row["over_as"],
    )
