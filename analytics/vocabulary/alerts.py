"""The kinds of alert in words: what each case is about, who is told, and where its link leads. Pure.

A kind is switched on, gathered and called urgent by its name in the configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AlertKind(StrEnum):
    """What a case is about; the names are those of the configuration."""

    HELD_IDLE = "held-idle"
    USES_PART = "uses-part"
    STRAGGLER = "straggler"
    CRASH_LOOP = "crash-loop"
    SLEEPING_BATCH = "sleeping-batch"
    RARELY_USED = "rarely-used"
    LOW_SATURATION = "low-saturation"
    RESERVED_BY_DESIGN = "reserved-by-design"
    MEMORY_HOG = "memory-hog"
    ZOMBIE_MEMORY = "zombie-memory"
    INTRUDER = "intruder"
    UNPROVEN_CLAIM = "unproven-claim"
    GPU_FAULT = "gpu-fault"
    LOW_UTILIZATION = "low-utilization"
    QUOTA_STARVED = "quota-starved"
    COLLECTOR_BLIND = "collector-blind"
    JOB_ENDED = "job-ended"
    MAY_HANG = "may-hang"


class Page(StrEnum):
    """What page of the dashboard shows a case."""

    OVERVIEW = "overview"
    QUEUE = "queue"
    FINDINGS = "findings"
    GPU = "gpu"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWords:
    """One kind.

    ``to_owner``: it is of somebody's job, so they and their project are told beside the operators.
    ``if_named``: use that could be better and that its holder often means so, told only where a site names
    the kind. ``urgent``: it waits for nobody's working hours, unless a receiver says otherwise. ``is_event``:
    it happened once and does not last, so its case is told when it opens, and closes without a word.
    """

    says: str
    to_owner: bool = False
    if_named: bool = False
    urgent: bool = False
    is_event: bool = False
    page: Page = Page.JOB


ALERTS: Mapping[AlertKind, AlertWords] = {
    AlertKind.HELD_IDLE: AlertWords(
        says="a job has GPUs and does nothing on any of them",
        to_owner=True,
    ),
    AlertKind.USES_PART: AlertWords(
        says="a job works on some of its GPUs and does nothing on others",
        to_owner=True,
    ),
    AlertKind.STRAGGLER: AlertWords(
        says="a job's GPUs are used unevenly for an hour, so that most may wait for a few",
        to_owner=True,
    ),
    AlertKind.CRASH_LOOP: AlertWords(
        says="a job's processes die and are started again and again",
        to_owner=True,
    ),
    AlertKind.SLEEPING_BATCH: AlertWords(
        says="a batch job has never computed",
        to_owner=True,
    ),
    AlertKind.RARELY_USED: AlertWords(
        says="a job uses its GPUs again and again, and little of the day",
        to_owner=True,
        if_named=True,
    ),
    AlertKind.LOW_SATURATION: AlertWords(
        says="a job fills little of its GPUs while it works",
        to_owner=True,
        if_named=True,
    ),
    AlertKind.RESERVED_BY_DESIGN: AlertWords(
        says="a server keeps memory for a cache, as it was told to, and serves little",
        to_owner=True,
        if_named=True,
    ),
    AlertKind.MEMORY_HOG: AlertWords(
        says="a job keeps memory that it hardly touches",
        to_owner=True,
    ),
    AlertKind.ZOMBIE_MEMORY: AlertWords(
        says="GPUs that nobody holds have memory that no process uses",
        page=Page.FINDINGS,
    ),
    AlertKind.INTRUDER: AlertWords(
        says="somebody's processes are on GPUs that others were given",
        page=Page.FINDINGS,
    ),
    AlertKind.UNPROVEN_CLAIM: AlertWords(
        says="a launcher says that its job runs on GPUs, and cannot show that Fallow gave them",
        page=Page.FINDINGS,
    ),
    AlertKind.GPU_FAULT: AlertWords(
        says="a GPU's counters contradict each other, or it is not seen any more",
        urgent=True,
        page=Page.GPU,
    ),
    AlertKind.LOW_UTILIZATION: AlertWords(
        says="the cluster was used less than `utilization_target_ratio` over the last 24 whole hours",
        page=Page.OVERVIEW,
    ),
    AlertKind.QUOTA_STARVED: AlertWords(
        says="a job waits for GPUs that its project's quota guarantees, for `starved_s`",
        to_owner=True,
        page=Page.QUEUE,
    ),
    AlertKind.COLLECTOR_BLIND: AlertWords(
        says="a source cannot be read, no GPU of a node is measured, or the service has no ticks, for "
        "`blind_s`",
        urgent=True,
        page=Page.OVERVIEW,
    ),
    AlertKind.JOB_ENDED: AlertWords(
        says="a job has ended that was given at least `ended_gpu_hours`",
        to_owner=True,
        is_event=True,
    ),
    AlertKind.MAY_HANG: AlertWords(
        says="a job's GPUs run kernels without end at half the power that it drew before, for an hour",
        to_owner=True,
    ),
}
