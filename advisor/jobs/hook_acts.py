"""What a site's own commands were asked about jobs: written before one is run, and what came of it.

One table. Nothing is decided here and nothing is run: every call reads rows or commits one.
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
class HookCall:
    """What is run about which job, with the GPUs that it held just before; ``manager`` is who gave them."""

    job: JobId
    hook: str
    verb: str
    command: tuple[str, ...]
    holder: Holder
    gpus: tuple[GpuUuid, ...]
    manager: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAct:
    """A row. ``ended_as`` is what the command said of itself; ``None``: it runs, or nobody saw how it ended.

    ``outcome``: ``done`` or ``failed`` by what was seen of the job. ``over_as``: how a pause ended.
    """

    call: HookCall
    intent: int
    begun_ms: int
    ended_ms: int | None = None
    ended_as: str | None = None
    outcome: str | None = None
    over_as: str | None = None

    @property
    def holds(self) -> bool:
        """Whether it is a pause that was seen, and is not over."""
        return self.call.verb == "pause" and self.outcome == "done" and self.over_as is None


class HookActStore:
    """Reads and writes the table ``hook_acts``. Every call blocks for the store; raises StoreError."""

    def __init__(self, store: "Store", clock: Clock) -> None:
        self._store, self._clock = store, clock

    def begin(self, call: HookCall, intent: int) -> None:
        """Note that this is about to be run."""
        values = {"job": call.job, "verb": call.verb, "intent": intent, "body": to_text(call)}
        self._write("noting what a hook is asked", "add_hook_act", **values)

    def ended(self, intent: int, ended_as: str) -> None:
        """Note how its command ended, in its own words."""
        self._write("noting how a hook ended", "end_hook_act", intent=intent, ended_as=ended_as)

    def settle(self, intent: int, outcome: str) -> None:
        """Note what was seen: ``done`` or ``failed``."""
        self._write("noting an outcome", "settle_hook_act", intent=intent, outcome=outcome)

    def over(self, intent: int, over_as: str) -> None:
        """Note that a pause is over: ``released`` or ``unknown``."""
        self._write("ending a pause", "over_hook_act", intent=intent, over_as=over_as)

    def act(self, intent: int) -> HookAct | None:
        """The row of that intent."""
        rows = asked(self._store, "read_hook_act", {"intent": intent})
        return _act(rows[0]) if rows else None

    def open(self) -> tuple[HookAct, ...]:
        """Those whose outcome is not known, and the pauses that hold; oldest first."""
        return tuple(map(_act, asked(self._store, "open_hook_acts", {})))

    def _write(self, doing: str, name: str, **values: object) -> None:
        with self._store.writing(doing) as connection:
            connection.execute(statement(name), {"at_ms": self._clock.now_ms(), **values})


def _act(row: dict[str, Any]) -> HookAct:
    return HookAct(
        call=from_text(HookCall, row["body"]),
        intent=row["intent"],
        begun_ms=row["begun_ms"],
        ended_ms=row["ended_ms"],
        ended_as=row["ended_as"],
        outcome=row["outcome"],
        over_as=row["over_as"],
    )
