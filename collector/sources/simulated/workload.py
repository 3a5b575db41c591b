"""Which jobs are submitted to which GPUs: the habits of a cell, as decks of cards that are dealt to slots.

Pure tables. A slot is a set of GPUs that are given away together; its deck is shuffled and dealt again and
again, so that within a week or so everything on it happens.

Who submits what to a slot, and when: a deck of cards, dealt through an epoch.

Pure but for the generator of the slot, which is made of (seed, node, slot, epoch) alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from collector.model import ClaimSource, Holder, JobId, JobKind
from collector.sources.simulated import behaviours
from collector.sources.simulated.behaviours import Assignment
from collector.sources.simulated.hardware import NODES_A_CELL, Board
from collector.sources.simulated.labels import LabelKind
from collector.sources.simulated.people import MINUTE_MS, Person, next_desk_ms, people_of
from collector.sources.simulated.timeline import Stretches, chained, draw_from, key_of, stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A kind of job: how it fills its time, how long it takes, who runs it and under what command.

    ``hours`` is median, log-deviation, least and most. ``wait_h`` is the median free time before it. No
    ``projects``: nobody's, a state of the machine. ``pod`` jobs are known from Kubernetes, others from Slurm.
    ``by_hand`` is the chance that it waits for its person to sit at the desk; else it waited in the queue.
    """

    name: str
    fill: Callable[[Assignment], Stretches]
    hours: tuple[float, float, float, float]
    wait_h: float
    projects: tuple[str, ...] = ()
    kind: JobKind = JobKind.BATCH
    framework: str | None = "PyTorch"
    command: str = ""
    pod: bool = False
    by_hand: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """GPUs of a node that go together, and what is dealt to them; ``lanes`` people share them evenly.

    ``intruded``: now and then somebody else's program runs there too, without having been given the GPU.
    """

    gpus: tuple[int, ...]
    deck: tuple[Card, ...]
    lanes: int = 1
    intruded: bool = False


RESEARCH = ("language", "vision", "genomics")

NOTEBOOK = Card(
    name="notebook",
    fill=behaviours.notebook,
    hours=(60.0, 0.5, 20.0, 160.0),
    wait_h=2.0,
    projects=RESEARCH,
    kind=JobKind.INTERACTIVE,
    command="python -m ipykernel_launcher -f kernel.json",
    pod=True,
    by_hand=1.0,
)
SMALL = Card(
    name="small-model",
    fill=behaviours.small_model,
    hours=(6.0, 0.6, 1.5, 30.0),
    wait_h=0.7,
    projects=("vision", "genomics"),
    command="python fit.py --hidden 64 --batch 16",
)
LARGE = Card(
    name="pretrain",
    fill=behaviours.large_training,
    hours=(50.0, 0.5, 16.0, 150.0),
    wait_h=2.5,
    projects=("language",),
    command="torchrun --nproc-per-node=8 pretrain.py --config base.yaml",
)
SATURATED = Card(
    name="finetune",
    fill=behaviours.saturated_training,
    hours=(14.0, 0.7, 3.0, 60.0),
    wait_h=1.5,
    projects=("language", "vision"),
    command="torchrun finetune.py --bf16 --micro-batch 32",
)
STARTING = Card(
    name="train-on-archive",
    fill=behaviours.starting_up,
    hours=(12.0, 0.5, 6.0, 40.0),
    wait_h=1.5,
    projects=("language", "genomics"),
    command="python train.py --download s3://archive/shards",
)
BATCH = Card(
    name="sweep",
    fill=behaviours.batch,
    hours=(3.0, 0.8, 0.5, 16.0),
    wait_h=1.0,
    projects=RESEARCH,
    command="python sweep.py --trial",
)
TENSORFLOW = Card(
    name="classifier",
    fill=behaviours.tensorflow_hog,
    hours=(7.0, 0.5, 2.0, 30.0),
    wait_h=1.0,
    projects=("genomics", "vision"),
    framework="TensorFlow",
    command="python classify.py --epochs 40",
)
JAX = Card(
    name="diffusion",
    fill=behaviours.jax_preallocation,
    hours=(9.0, 0.6, 2.0, 40.0),
    wait_h=1.0,
    projects=("vision", "language"),
    framework="JAX",
    command="python diffuse.py --mesh 1",
)
EMPTY = Card(
    name="interactive-shell",
    fill=behaviours.held_empty,
    hours=(14.0, 0.6, 3.0, 60.0),
    wait_h=1.5,
    projects=RESEARCH,
    kind=JobKind.INTERACTIVE,
    command="python explore.py",
    by_hand=1.0,
)
WARM = Card(
    name="reserve",
    fill=behaviours.keep_warm,
    hours=(20.0, 0.4, 6.0, 60.0),
    wait_h=1.0,
    projects=("vision",),
    command="python warm.py",
)
INFERENCE = Card(
    name="image-service",
    fill=behaviours.inference,
    hours=(200.0, 0.4, 72.0, 500.0),
    wait_h=0.3,
    projects=("serving",),
    kind=JobKind.INFERENCE,
    command="python -m serve --model image-xl --port 8000",
    pod=True,
)
FORGOTTEN = Card(
    name="demo-service",
    fill=behaviours.forgotten_service,
    hours=(44.0, 0.4, 24.0, 100.0),
    wait_h=1.0,
    projects=("serving",),
    kind=JobKind.INFERENCE,
    command="python -m serve --model demo --port 8001",
    pod=True,
)
ZOMBIE = Card(name="zombie", fill=behaviours.zombie_memory, hours=(8.0, 0.5, 3.0, 24.0), wait_h=0.0)
STUCK = Card(name="stuck", fill=behaviours.stuck_counter, hours=(8.0, 0.5, 3.0, 24.0), wait_h=0.3)
LOST = Card(name="lost", fill=behaviours.lost, hours=(14.0, 0.8, 2.0, 96.0), wait_h=0.3)

_ROLES: tuple[tuple[Slot, ...], ...] = (
    (
        Slot(gpus=(0,), deck=(NOTEBOOK,)),
        Slot(gpus=(1,), deck=(NOTEBOOK,), lanes=2),
        Slot(gpus=(2,), deck=(NOTEBOOK, EMPTY)),
        Slot(gpus=(3,), deck=(SMALL, WARM, BATCH)),
        Slot(gpus=(4,), deck=(SMALL, SMALL, BATCH)),
        Slot(gpus=(5,), deck=(SMALL, BATCH, JAX), intruded=True),
        Slot(gpus=(6,), deck=(TENSORFLOW, BATCH, BATCH, STUCK)),
        Slot(gpus=(7,), deck=(JAX, SMALL, ZOMBIE, BATCH)),
    ),
    (
        Slot(gpus=(0, 1, 2, 3), deck=(LARGE, SATURATED)),
        Slot(gpus=(4,), deck=(INFERENCE,)),
        Slot(gpus=(5,), deck=(FORGOTTEN, SMALL)),
        Slot(gpus=(6,), deck=(EMPTY, BATCH, BATCH)),
        Slot(gpus=(7,), deck=(TENSORFLOW, STARTING, ZOMBIE, BATCH)),
    ),
    (Slot(gpus=(0, 1, 2, 3, 4, 5, 6, 7), deck=(LARGE, LARGE, SATURATED)),),
    (
        Slot(gpus=(0, 1, 2, 3), deck=(SATURATED, STARTING, SATURATED)),
        Slot(gpus=(4, 5), deck=(BATCH, SATURATED)),
        Slot(gpus=(6,), deck=(JAX, BATCH, LOST, BATCH)),
        Slot(gpus=(7,), deck=(EMPTY, TENSORFLOW, BATCH, STUCK)),
    ),
)


def slots_of(node: int, gpus_per_node: int) -> tuple[Slot, ...]:
    """How the GPUs of a node are given away; GPUs beyond eight repeat the pattern, missing ones shrink it."""
    role = _ROLES[node % len(_ROLES)]
    slots: list[Slot] = []
    for base in range(0, gpus_per_node, 8):
        for slot in role:
            gpus = tuple(base + gpu for gpu in slot.gpus if base + gpu < gpus_per_node)
            if gpus:
                slots.append(Slot(gpus=gpus, deck=slot.deck, lanes=slot.lanes, intruded=slot.intruded))
    return tuple(slots)


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
