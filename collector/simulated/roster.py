"""Which jobs are submitted to which GPUs: the habits of a cell, as decks of cards that are dealt to slots.

Pure tables. A slot is a set of GPUs that are given away together; its deck is shuffled and dealt again and
again, so that within a week or so everything on it happens.
"""

from collections.abc import Callable
from dataclasses import dataclass

from collector.model import JobKind
from collector.simulated import behaviours
from collector.simulated.behaviours import Assignment
from collector.simulated.stretches import Stretches


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
