"""The true label of every moment of every simulated GPU: what findings are held against.

Nothing here is measured. A label is what the simulated person *did*; the finding kinds beside it are those
that are truly present while it lasts, whatever thresholds a detector uses.
"""

from dataclasses import dataclass
from enum import StrEnum

from collector.model import GpuUuid, Holder


class FindingKind(StrEnum):
    """The kinds of finding that truth speaks of; the values are the names that findings carry."""

    HELD_IDLE = "held-idle"
    ALLOCATED_EMPTY = "allocated-empty"
    LOW_SATURATION = "low-saturation"
    MEMORY_HOG = "memory-hog"
    SUSPECT_COUNTERS = "suspect-counters"
    ZOMBIE_MEMORY = "zombie-memory"
    FALLING_GPU = "falling-gpu"
    INTRUDER = "intruder"


class LabelKind(StrEnum):
    """What is truly going on with a GPU, for as long as it goes on."""

    FREE = "free"
    NOTEBOOK_SESSION = "notebook-session"
    NOTEBOOK_AWAY = "notebook-away"
    SMALL_MODEL = "small-model"
    LARGE_TRAINING = "large-training"
    BETWEEN_RUNS = "between-runs"
    BETWEEN_RUNS_EMPTY = "between-runs-empty"
    TENSORFLOW_HOG = "tensorflow-hog"
    JAX_PREALLOCATION = "jax-preallocation"
    SATURATED_TRAINING = "saturated-training"
    BATCH = "batch"
    HELD_EMPTY = "held-empty"
    STARTING_UP = "starting-up"
    KEEP_WARM = "keep-warm"
    INFERENCE = "inference"
    FORGOTTEN_SERVICE = "forgotten-service"
    ZOMBIE_MEMORY = "zombie-memory"
    STUCK_COUNTER = "stuck-counter"
    LOST = "lost"
    MAINTENANCE = "maintenance"
    INTRUDER = "intruder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One GPU's truth about one holder in ``[from_ms, to_ms)``, clipped to the window that was asked for.

    ``holder`` is ``None`` when nobody holds the GPU. A GPU that two holders share has a row for each; there
    ``findings`` are those of the GPU as a whole, so one person's absence is no finding while the other works.
    Nobody's truth is an intruder; while one is on the GPU, its holders' rows have that finding and no other.

    ========================  =============================================================  ================
    kind                      what is going on                                               findings
    ========================  =============================================================  ================
    free                      nobody holds it, nothing on it
    notebook-session          bursts of at least a minute, at most 12 minutes of thinking
    notebook-away             the kernel is alive, its person is not there                   held-idle
    small-model               a training that never fills the GPU (SM active under 18%)      low-saturation
    large-training            a training over several GPUs, running
    between-runs              hours between two runs, the process stays                      held-idle
    between-runs-empty        hours between two runs, no process                             allocated-empty
    tensorflow-hog            all memory within seconds, a tenth of it needed                both below [1]_
    jax-preallocation         75% of memory taken at the start, and good use made of it
    saturated-training        good use
    batch                     an ordinary job of the queue, 30 to 80% SM active
    held-empty                given to somebody, never or no longer a process on it          allocated-empty
    starting-up               a process that loads or downloads and has not yet used the
                              GPU since the job began; minutes to hours. Never idle.
    keep-warm                 a loop that exists to look busy: GPU utilization high,
                              SM active 2 to 4%                                              low-saturation
    inference                 a service that follows the day; never quite still              low-saturation
    forgotten-service         a service that nobody asks any more                            held-idle
    zombie-memory             held by nobody, no process, memory still taken                 zombie-memory
    stuck-counter             100% GPU utilization with no process, at idle power            suspect-counters
    lost                      fell off the bus: not measured                                 falling-gpu
    maintenance               the node reboots: not measured
    intruder                  somebody else's process on a GPU that was given to a job             intruder
    ========================  =============================================================  ================

    .. [1] memory-hog and low-saturation.
    """

    uuid: GpuUuid
    from_ms: int
    to_ms: int
    kind: LabelKind
    holder: Holder | None
    findings: frozenset[FindingKind]


KINDS: tuple[LabelKind, ...] = tuple(LabelKind)
"""All kinds in a fixed order: a stretch stores a kind as its place in here."""

MEASURED_BY_NOBODY = frozenset({LabelKind.LOST, LabelKind.MAINTENANCE})
"""Kinds during which a GPU yields no sample."""

HELD_BY_NOBODY = frozenset(
    {LabelKind.FREE, LabelKind.ZOMBIE_MEMORY, LabelKind.STUCK_COUNTER, LabelKind.LOST, LabelKind.MAINTENANCE}
)
"""Kinds that belong to the machine, not to a job."""

_FINDINGS: dict[LabelKind, frozenset[FindingKind]] = {
    LabelKind.NOTEBOOK_AWAY: frozenset({FindingKind.HELD_IDLE}),
    LabelKind.SMALL_MODEL: frozenset({FindingKind.LOW_SATURATION}),
    LabelKind.BETWEEN_RUNS: frozenset({FindingKind.HELD_IDLE}),
    LabelKind.BETWEEN_RUNS_EMPTY: frozenset({FindingKind.ALLOCATED_EMPTY}),
    LabelKind.TENSORFLOW_HOG: frozenset({FindingKind.MEMORY_HOG, FindingKind.LOW_SATURATION}),
    LabelKind.HELD_EMPTY: frozenset({FindingKind.ALLOCATED_EMPTY}),
    LabelKind.KEEP_WARM: frozenset({FindingKind.LOW_SATURATION}),
    LabelKind.INFERENCE: frozenset({FindingKind.LOW_SATURATION}),
    LabelKind.FORGOTTEN_SERVICE: frozenset({FindingKind.HELD_IDLE}),
    LabelKind.ZOMBIE_MEMORY: frozenset({FindingKind.ZOMBIE_MEMORY}),
    LabelKind.STUCK_COUNTER: frozenset({FindingKind.SUSPECT_COUNTERS}),
    LabelKind.LOST: frozenset({FindingKind.FALLING_GPU}),
    LabelKind.INTRUDER: frozenset({FindingKind.INTRUDER}),
}


def findings_of(kind: LabelKind) -> frozenset[FindingKind]:
    """The finding kinds truly present while ``kind`` lasts; none for good use."""
    return _FINDINGS.get(kind, frozenset())


def findings_together(kinds: frozenset[LabelKind]) -> frozenset[FindingKind]:
    """The findings of a GPU on which ``kinds`` go on at the same time: only what all holders show.

    What a GPU with an intruder on it does is nobody's in particular: only the intruder is found.
    """
    if LabelKind.INTRUDER in kinds:
        return findings_of(LabelKind.INTRUDER)
    shown = [findings_of(kind) for kind in kinds if kind is not LabelKind.FREE]
    return frozenset.intersection(*shown) if shown else frozenset()
