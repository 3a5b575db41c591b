"""Who submits what to a slot, and when: a deck of cards, dealt through an epoch.

Pure but for the generator of the slot, which is made of (seed, node, slot, epoch) alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from collector.model import ClaimSource, Holder, JobId
from collector.simulated.behaviours import Assignment
from collector.simulated.hardware import NODES_A_CELL, Board
from collector.simulated.noise import draw_from, key_of
from collector.simulated.people import MINUTE_MS, Person, next_desk_ms, people_of
from collector.simulated.roster import Card, Slot
from collector.simulated.stretches import Stretches, chained, stretch
from collector.simulated.truth import LabelKind

SHORTEST_MS = 30 * MINUTE_MS
"""Nothing is begun in the last half hour before a reboot."""
_NUMBERING_MS = 1_704_067_200_000  # 2024-01-01: job numbers count minutes from here
_NOBODY = Person(user="", uid=0, project="", starts_h=0.0, ends_h=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job and the GPUs (indices on the node) it has in ``[from_ms, to_ms)``."""

    holder: Holder
    person: Person
    card: Card
    share: float
    source: ClaimSource
    gpus: tuple[int, ...]
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A slot of a node for one epoch; ``place`` tells those apart who share the slot."""

    seed: int
    node: int
    slot: Slot
    place: int
    boards: tuple[Board, ...]
    from_ms: int
    to_ms: int


def deal(table: Table) -> Iterator[tuple[PlannedJob | None, Stretches]]:
    """The jobs in order, each with its stretches and a free one at its end; no job: the machine's own."""
    draw = draw_from(table.seed, "slot", table.node, table.from_ms, table.slot.gpus[0], table.place)
    model = table.boards[0].model
    at_ms = table.from_ms + int(draw.integers(2, 90)) * MINUTE_MS
    while True:
        for place in draw.permutation(len(table.slot.deck)):
            card = table.slot.deck[int(place)]
            person = _person(table, card, draw)
            at_ms = _start_ms(card, person, draw, at_ms)
            to_ms = min(table.to_ms, at_ms + _duration_ms(card, draw))
            if to_ms - at_ms < SHORTEST_MS:
                return
            filled = card.fill(
                Assignment(
                    person=person or _NOBODY,
                    draw=draw,
                    from_ms=at_ms,
                    to_ms=to_ms,
                    memory_bytes=model.usable_bytes // table.slot.lanes,
                )
            )
            job = None if person is None else _job(table, card, person, at_ms, to_ms)
            yield job, chained(filled, stretch(to_ms, LabelKind.FREE))
            at_ms = to_ms


def _person(table: Table, card: Card, draw: np.random.Generator) -> Person | None:
    people = [p for p in people_of(table.node // NODES_A_CELL) if p.project in card.projects]
    return people[int(draw.integers(len(people)))] if people else None


def _start_ms(card: Card, person: Person | None, draw: np.random.Generator, at_ms: int) -> int:
    free_h = card.wait_h * float(draw.lognormal(0.0, 0.8))
    at_ms += round(free_h * 60) * MINUTE_MS
    asked_for_by_hand = draw.random() < card.by_hand
    return next_desk_ms(person, draw, at_ms) if person is not None and asked_for_by_hand else at_ms


def _duration_ms(card: Card, draw: np.random.Generator) -> int:
    median, sigma, least, most = card.hours
    hours = float(np.clip(draw.lognormal(np.log(median), sigma), least, most))
    return round(hours * 60) * MINUTE_MS


def _job(table: Table, card: Card, person: Person, from_ms: int, to_ms: int) -> PlannedJob:
    return PlannedJob(
        holder=Holder(
            job=_job_id(table, card, person, from_ms),
            user=person.user,
            project=person.project,
            name=card.name,
            kind=card.kind,
            framework=card.framework,
            command=card.command or None,
        ),
        person=person,
        card=card,
        share=1.0 / table.slot.lanes,
        source=ClaimSource.KUBERNETES if card.pod else ClaimSource.SLURM,
        gpus=table.slot.gpus,
        from_ms=from_ms,
        to_ms=to_ms,
    )


def _job_id(table: Table, card: Card, person: Person, from_ms: int) -> JobId:
    """Unique for all time: made of the minute of its start and of where it runs."""
    minute = (from_ms - _NUMBERING_MS) // MINUTE_MS
    cell, member = divmod(table.node, NODES_A_CELL)
    lane = (member * len(table.boards) + table.slot.gpus[0]) * 2 + table.place
    number = minute * NODES_A_CELL * len(table.boards) * 2 + lane
    if card.pod:
        tail = key_of(table.seed, "pod", table.node, number) % 16**8
        return JobId(f"pod:{person.project}/{card.name}-{person.user}-{tail:08x}")
    return JobId(f"slurm:{number}{f'{cell:03d}' if cell else ''}")
