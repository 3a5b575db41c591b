"""Where plans are kept: those that wait for approval, and those that were done, rejected or ran out.

The table ``plans``; what is kept and for how long is decided in ``proposals``. A plan leaves WAITING
once, whoever is first: of two people who settle it, one is told that it does not wait any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.journal.proposals import Changes, PendingPlan, Proposal, Standing
from advisor.journal.records import FALLOW
from advisor.serialize import Unreadable, from_text, to_text
from advisor.statements import asked, rows_of, statement

if TYPE_CHECKING:
    from collector.store.database import Store

# Rows of one answer: more waiting plans than a person reads.
MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a plan's waiting ends; ``snoozed_ms``: the same is not proposed again before then."""

    at_ms: int
    standing: Standing
    by: str
    because: str = ""
    snoozed_ms: int | None = None


class PendingPlans:
    """The kept plans of one store. Safe to call from several threads."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    def put(self, at_ms: int, proposal: Proposal, standing: Standing) -> int:
        """Keep a plan; its number. Raises StoreFull."""
        with self._store.writing("keeping a plan") as connection:
            return _put(connection, at_ms, proposal, standing)

    def change(self, at_ms: int, changes: Changes) -> tuple[int, ...]:
        """Keep what is newly proposed and end what is not any more, at once; the new ones' numbers."""
        if not changes.add and not changes.end:
            return ()
        with self._store.writing("keeping the plans that wait") as connection:
            for number, reason in changes.end:
                ran_out = Verdict(at_ms=at_ms, standing=Standing.EXPIRED, by=FALLOW, because=reason)
                _settle(connection, number, ran_out)
            return tuple(_put(connection, at_ms, each, Standing.WAITING) for each in changes.add)

    def settle(self, number: int, verdict: Verdict) -> bool:
        """End a plan's waiting; whether it was still waiting."""
        with self._store.writing(f"settling plan {number}") as connection:
            return _settle(connection, number, verdict)

    def waiting(self) -> tuple[PendingPlan, ...]:
        """The plans that wait, the newest first."""
        return self._rows("plans", {"plan": None, "only_waiting": True, "most": MOST})

    def newest(self, most: int = MOST) -> tuple[PendingPlan, ...]:
        """The plans that wait, then the newest of the others."""
        return self._rows("plans", {"plan": None, "only_waiting": False, "most": most})

    def plan(self, number: int) -> PendingPlan | None:
        """One plan, or ``None``."""
        result = self._rows("plans", {"plan": number, "only_waiting": False, "most": 1})
        return result[0] if result else None

    def said_no(self, now_ms: int) -> tuple[PendingPlan, ...]:
        """The rejected plans whose snooze has not ended."""
        return self._rows("snoozed_plans", {"now_ms": now_ms})

    def _rows(self, name: str, parameters: Mapping[str, object]) -> tuple[PendingPlan, ...]:
        return tuple(plan for row in asked(self._store, name, parameters) if (plan := _read(row)) is not None)


def _put(connection: Any, at_ms: int, proposal: Proposal, standing: Standing) -> int:
    row = {
        "as_of_ms": at_ms,
        "state": standing.value,
        "body": to_text(proposal),
        "settled_ms": None if standing is Standing.WAITING else at_ms,
    }
    (row_back,) = rows_of(connection.execute(statement("add_plan"), row))
    return int(row_back["plan"])


def _settle(connection: Any, number: int, verdict: Verdict) -> bool:
    row = {
        "plan": number,
        "state": verdict.standing.value,
        "at_ms": verdict.at_ms,
        "by_user": verdict.by,
        "because": verdict.because,
        "snoozed_ms": verdict.snoozed_ms,
    }
    return bool(rows_of(connection.execute(statement("settle_plan"), row)))


def _read(row: Mapping[str, Any]) -> PendingPlan | None:
    """A row as a value; a plan that a newer Fallow wrote and that cannot be read is left alone."""
    try:
        proposal = from_text(Proposal, row["body"])
    except Unreadable:
        return None
    return PendingPlan(
        number=row["plan"],
        as_of_ms=row["as_of_ms"],
        standing=Standing(row["state"]),
        proposal=proposal,
        settled_ms=row["settled_ms"],
        settled_by=row["settled_by"],
        because=row["because"],
        snoozed_ms=row["snoozed_ms"],
    )
