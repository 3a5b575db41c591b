"""Cases and letters in the store: read once at the start, written before anything goes out.

Every call blocks for the store and raises ``StoreError``. Numbers come from the store, so that two letters
never have the same, whatever was killed when.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.statements import rows_of
from advisor.statements import statement as advisors
from analytics.model import Evidence
from service.alerts.lifecycle import Docket
from service.alerts.messages import AlertMessage, Receiver
from service.alerts.model import AlertKind, Change, Condition, Incident

if TYPE_CHECKING:
    from collector.store.database import Store

SLACK_MS = 60_000
"""Two tellings of a job are at least a grace of five minutes apart; a letter is made beside its own."""
LOST_MS = 600_000

_FOLDER = Path(__file__).parent / "sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A letter as it is kept; ``posted_ms``: since when it is in the outbox, ``None``: it is not."""

    letter: AlertMessage
    posted_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A letter that the ladder waited for has arrived."""

    number: int
    job: str
    receiver: Receiver
    message: str
    made_ms: int


class AlertStore:
    """Reads and writes the two tables of alerts."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    def watch_ends(self, is_on: bool, at_ms: int) -> None:
        """Note since when ends of jobs are told of, or that they are not; blocks for a commit."""
        if is_on:
            self._write("noting an alert's begin", "mark", watched=AlertKind.JOB_ENDED.value, at_ms=at_ms)
        else:
            self._write("noting an alert's end", "unmark", watched=AlertKind.JOB_ENDED.value)

    def docket(self, told_ms: int) -> Docket:
        """The open cases, the closed ones of which a word went out since ``told_ms``, the next number."""
        cases = [_case(row) for row in self._query("read_cases", told_ms=told_ms)]
        return Docket(
            open={case.key: case for case in cases if case.closed_ms is None},
            past={case.key: case for case in cases if case.closed_ms is not None},
            next_number=int(self._query("next_numbers")[0]["case_number"]),
        )

    def keep(self, changes: Sequence[Change], letters: Iterable[AlertMessage], at_ms: int) -> None:
        """Keep cases as they are now and letters that are to go out, all or nothing."""
        with self._store.writing("keeping alerts") as connection:
            for change in changes:
                connection.execute(statement("put_case"), {**_row(change.case), "at_ms": at_ms})
            rows = rows_of(connection.execute(statement("next_numbers")))
            for number, letter in enumerate(letters, start=int(rows[0]["letter_number"])):
                connection.execute(statement("add_letter"), _letter_row(replace(letter, number=number)))

    def due(self, at_ms: int) -> tuple[Kept, ...]:
        """Letters that are due, and those that are posted and of which nothing more is known, by number."""
        return tuple(_kept(row) for row in self._query("read_letters", due_ms=at_ms))

    def gather(self, gathered: Sequence[AlertMessage], digest: AlertMessage) -> None:
        """Put letters into a digest, which is kept as a letter of its own; a single one goes as it is."""
        with self._store.writing("gathering alerts") as connection:
            if len(gathered) == 1:
                connection.execute(statement("release_letter"), {"number": gathered[0].number})
                return
            number = int(rows_of(connection.execute(statement("next_numbers")))[0]["letter_number"])
            connection.execute(statement("add_letter"), _letter_row(replace(digest, number=number)))
            numbers = [letter.number for letter in gathered]
            connection.execute(statement("gather_letters"), {"digest": number, "numbers": numbers})

    def posted(self, number: int, at_ms: int) -> None:
        """Note that a letter is in the outbox."""
        self._write("noting a posted alert", "post_letter", number=number, at_ms=at_ms)

    def settled(self, number: int, at_ms: int, outcome: str, result: str = "") -> None:
        """Note what became of a letter, and of those in it: ``sent``, ``given-up`` or ``nobody``."""
        values = {"number": number, "at_ms": at_ms, "outcome": outcome, "found": result}
        self._write("settling an alert", "settle_letter", **values)

    def receivers_of(self, case: int) -> tuple[Receiver, ...]:
        """Who was sent a letter about a case."""
        return tuple(Receiver.of(row["receiver"]) for row in self._query("told_receivers", alert=case))

    def lately(self, since_ms: int) -> dict[str, int]:
        """How many letters went to each receiver by themselves since then."""
        rows = self._query("sent_lately", since_ms=since_ms)
        return {row["receiver"]: int(row["letters"]) for row in rows}

    def waiting_tellings(self, job: str, receiver: Receiver) -> tuple[int, ...]:
        """When the letters go out, or went, that the ladder waits for about a job; UTC ms."""
        rows = self._query("waiting_tellings", job=job, receiver=receiver.id)
        return tuple(int(row["due_ms"]) for row in rows)

    def arrived(self) -> tuple[Arrival, ...]:
        """Tellings that have arrived, of which the ladder does not know yet."""
        return tuple(
            Arrival(
                number=row["number"],
                job=row["job"],
                receiver=Receiver.of(row["receiver"]),
                message=row["body"],
                made_ms=row["made_ms"],
            )
            for row in self._query("arrived_tellings")
        )

    def tell_the_ladder(self, arrival: Arrival, way: str, at_ms: int) -> None:
        """Note on the job's telling that it was reached, in one commit with that this is noted.

        A telling that is not there yet (its launcher has not answered) is waited for; one that is still not
        there then was lost in a crash, and is written down as of now.
        """
        since_ms = arrival.made_ms - SLACK_MS
        reached = {"job": arrival.job, "since_ms": since_ms, "at_ms": at_ms, "way": way}
        with self._store.writing("noting whom an alert reached") as connection:
            if not connection.execute(statement("reach_telling"), reached).fetchall():
                if at_ms - arrival.made_ms < LOST_MS:
                    return
                event = {"job": arrival.job, "at_ms": at_ms, "rung": "tell", "message": arrival.message}
                connection.execute(advisors("add_telling"), {**event, "reached": way})
            connection.execute(statement("note_telling"), {"number": arrival.number, "at_ms": at_ms})

    def _query(self, name: str, **parameters: object) -> tuple[dict[str, Any], ...]:
        with self._store.reader() as connection:
            return rows_of(connection.execute(statement(name), parameters))

    def _write(self, doing: str, name: str, **values: object) -> None:
        with self._store.writing(doing) as connection:
            connection.execute(statement(name), values)


@cache
def statement(name: str) -> str:
    """The text of a statement of the alerts."""
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


def _row(case: Incident) -> dict[str, object]:
    of = case.condition
    return {
        "number": case.number,
        "key": of.key,
        "kind": of.kind.value,
        "level": of.level,
        "rung": of.rung,
        "since_ms": of.since_ms,
        "title": of.title,
        "says": of.says,
        "next": of.next,
        "command": of.do,
        "evidence": json.dumps({each.name: each.value for each in of.evidence}),
        "job": of.job,
        "user_name": of.user,
        "project": of.project,
        "node": of.node,
        "gpus": ",".join(of.gpus),
        "opened_ms": case.opened_ms,
        "told_level": case.told_level,
        "told_ms": case.told_ms,
        "closed_ms": case.closed_ms,
        "because": case.because,
    }


def _case(row: Mapping[str, Any]) -> Incident:
    evidence = json.loads(row["evidence"])
    condition = Condition(
        key=row["key"],
        kind=AlertKind(row["kind"]),
        level=row["level"],
        rung=row["rung"],
        since_ms=row["since_ms"],
        title=row["title"],
        says=row["says"],
        next=row["next"],
        do=row["command"],
        evidence=tuple(Evidence(name=name, value=value) for name, value in evidence.items()),
        job=row["job"],
        user=row["user_name"],
        project=row["project"],
        node=row["node"],
        gpus=tuple(filter(None, row["gpus"].split(","))),
    )
    return Incident(
        number=row["number"],
        condition=condition,
        opened_ms=row["opened_ms"],
        told_level=row["told_level"],
        told_ms=row["told_ms"],
        closed_ms=row["closed_ms"],
        because=row["because"],
    )


def _letter_row(letter: AlertMessage) -> dict[str, object]:
    return {
        "number": letter.number,
        "alert": letter.case,
        "opened_ms": letter.opened_ms,
        "receiver": letter.receiver.id,
        "kind": letter.kind.value,
        "turn": letter.turn,
        "title": letter.title,
        "body": letter.text,
        "made_ms": letter.made_ms,
        "due_ms": letter.due_ms,
        "gathered": letter.gathered,
        "telling": letter.telling,
    }


def _kept(row: Mapping[str, Any]) -> Kept:
    letter = AlertMessage(
        receiver=Receiver.of(row["receiver"]),
        case=row["alert"],
        opened_ms=row["opened_ms"],
        turn=row["turn"],
        kind=AlertKind(row["kind"]),
        title=row["title"],
        text=row["body"],
        made_ms=row["made_ms"],
        due_ms=row["due_ms"],
        gathered=row["gathered"],
        telling=row["telling"],
        number=row["number"],
    )
    return Kept(letter=letter, posted_ms=row["posted_ms"])
