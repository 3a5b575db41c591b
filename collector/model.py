"""The nouns that travel from a source to the store: GPU, sample, process, holder, allocation, gap.

Pure values, no I/O. Units are in the names; ratios are 0..1; ``None`` is "not measured" and 0 a measured
zero; times are UTC milliseconds since the Unix epoch. What a value *means* is decided in analytics.
A sample's fields are the list of metrics: ``GpuSample`` is declared there, and is one of these nouns.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from collector.metrics import Basis as Basis  # noqa: PLC0414
from collector.metrics import GpuSample as GpuSample  # noqa: PLC0414
from collector.metrics import GpuUuid as GpuUuid  # noqa: PLC0414

NodeName = NewType("NodeName", str)
JobId = NewType("JobId", str)

SIMULATED_SOURCE = "simulated"
"""The name of the source whose GPUs, people and jobs are invented. No real source may have it."""

PEER_SOURCE = "fallow"
"""The name of the source that reads other machines' Fallow (``collector.sources.peer``)."""

NODES_SOURCE = "nodes"
"""The name of the source that other machines push to (``collector.sources.nodes``)."""


class GpuState(StrEnum):
    """What a GPU was in a 30 s bin; every installed GPU-second is in exactly one of these."""

    FREE = "free"
    ALLOCATED_EMPTY = "allocated-empty"
    HELD_IDLE = "held-idle"
    LOW_SATURATION = "low-saturation"
    MODERATE = "moderate"
    GOOD = "good"
    SUSPECT = "suspect"
    WITHHELD = "withheld"
    UNKNOWN = "unknown"


WASTE_STATES = frozenset({GpuState.ALLOCATED_EMPTY, GpuState.HELD_IDLE})
"""Held and not used at all: the hours that are wasted, here as in the query ``waste``; nothing else is."""


class OutOfService(StrEnum):
    """Why a GPU that nobody holds is not free: its node gets no jobs, or nobody says who holds it."""

    DRAINED = "drained"
    DOWN = "down"
    RESERVED = "reserved"
    UNASKED = "unasked"


class ClaimSource(StrEnum):
    """Who says that a GPU was given to somebody, strongest word first."""

    LEASE = "lease"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    RAY = "ray"
    ENVIRONMENT = "environment"
    PROCESS = "process"


class JobKind(StrEnum):
    """How a job is used: it sets the clocks of the ladder."""

    INTERACTIVE = "interactive"
    BATCH = "batch"
    INFERENCE = "inference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A whole device or a MIG instance, keyed by UUID: index and count may change under us.

    ``gpu_instance`` and ``compute_instance`` are the numbers that the driver gives a MIG instance.
    ``cluster`` is the machine's, where a label says it: in another there may be a ``node`` of this name.
    """

    uuid: GpuUuid
    node: NodeName
    index: int | None = None
    model: str | None = None
    memory_total_bytes: int | None = None
    driver_version: str | None = None
    power_limit_mw: int | None = None
    parent_uuid: GpuUuid | None = None
    mig_profile: str | None = None
    share_of_device: float = 1.0
    persistence_mode: bool | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProcessKey:
    """A process for all time: pids are reused, a pid with its start time is not."""

    node: NodeName
    pid: int
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What could be learned of a process from outside; ``unreadable`` names what was denied, and why.

    ``environment`` holds allow-listed keys only. ``frameworks`` is ranked, the likeliest first. ``tree`` is
    the process at the head of its job: the notebook kernel, the launcher or script, else itself.
    ``cuda_mapped`` (libcuda.so.1) and ``device_open`` (/dev/nvidiaN) together show that it uses a GPU.
    ``listens``: the TCP ports on which it, or a parent or child of it, waits for requests as a server does.
    ``at_seat``: logind has its owner at one of the machine's own seats; ``None``: nobody can tell.
    ``parent_of_root`` is its parent's name, where that runs as root: then the name is root's word.
    """

    key: ProcessKey
    user: str | None = None
    uid: int | None = None
    name: str | None = None
    command: str | None = None
    frameworks: tuple[str, ...] = ()
    container: str | None = None
    pod: str | None = None
    namespace: str | None = None
    slurm_job: str | None = None
    notebook: str | None = None
    parent_pid: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[str, ...] = ()
    slurm_step: str | None = None
    tree: ProcessKey | None = None
    launcher: str | None = None
    kind: JobKind | None = None
    cuda_mapped: bool | None = None
    device_open: bool | None = None
    listens: tuple[int, ...] | None = None
    at_seat: bool | None = None
    parent_of_root: str | None = None


class ProcessType(StrEnum):
    """Which of the driver's lists a process stands in."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"
    BOTH = "both"


@dataclass(slots=True, kw_only=True)
class ProcessSample:
    """What one process held and did on one GPU in the ``width_ms`` to ``at_ms``; not to be changed."""

    uuid: GpuUuid
    key: ProcessKey
    at_ms: int
    width_ms: int
    type: ProcessType = ProcessType.COMPUTE
    memory_used_bytes: int | None = None
    sm_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who was given a GPU.

    ``job`` is unique for all time: ``slurm:812``, ``pod:namespace/name``, ``pid:node/71@start_ms``.
    """

    job: JobId
    user: str | None = None
    project: str | None = None
    name: str | None = None
    kind: JobKind | None = None
    framework: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One GPU, given to one holder, as one source says it; ``share`` is the fraction given, in (0, 1].

    ``pod_uid``: the uid of the holder's pod, where the source says it; the kubelet's control groups bear it.
    ``launched``: processes that are the job's by the kernel's word, not by their own. ``guests``: background
    jobs that were sent into its idle gaps; they hold nothing, and are no intruders.
    """

    uuid: GpuUuid
    holder: Holder
    share: float = 1.0
    source: ClaimSource = ClaimSource.PROCESS
    pod_uid: str | None = None
    launched: tuple[ProcessKey, ...] = ()
    guests: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderSample:
    """What one holder did on one GPU in the ``width_ms`` to ``at_ms``, all of its processes together."""

    uuid: GpuUuid
    job: JobId
    at_ms: int
    width_ms: int
    gpu_utilization_ratio: float | None = None
    memory_used_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClaim:
    """A GPU given to a holder by somebody who knows no UUIDs: Slurm speaks of nodes and indices.

    ``index`` counts the node's GPUs as its gres does; ``None`` when it was not said which one. ``uuid``: it
    was said by that (Kubernetes' claims). ``pids``: the processes that have it, by a word of ``said_ms``
    (Ray's workers). ``of_gpus``: how many of the node's GPUs the index counts; ``None``: all.
    """

    node: NodeName
    holder: Holder
    index: int | None = None
    uuid: GpuUuid | None = None
    share: float = 1.0
    source: ClaimSource = ClaimSource.SLURM
    pids: tuple[int, ...] = ()
    said_ms: int | None = None
    of_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node whose GPUs a workload manager gives out, or for now does not (``state``), and why, in words.

    ``given``: how many it has given out where it doesn't say which; with fewer known to be held, none of the
    others is known to be free. ``source``: which manager.
    """

    node: NodeName
    state: OutOfService | None = None
    reason: str = ""
    given: int | None = None
    source: ClaimSource = ClaimSource.KUBERNETES


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """A GPU that nobody holds and that is not free, and why, for people."""

    uuid: GpuUuid
    state: OutOfService
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Intrusion:
    """A process on a GPU that was given to others, whatever it owns elsewhere."""

    key: ProcessKey
    uuid: GpuUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a GPU: an XID, a fall off the bus, a return, a counter reset."""

    uuid: GpuUuid
    at_ms: int
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time in which something was not measured, and why; no ``uuid`` when the whole source was blind.

    ``cluster``: the node's, as ``Gpu`` has it.
    """

    source: str
    from_ms: int
    to_ms: int
    reason: str
    uuid: GpuUuid | None = None
    node: NodeName | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlace:
    """Where a MIG instance lies: its board, and the id of its GPU instance there."""

    uuid: GpuUuid
    parent_uuid: GpuUuid
    gpu_instance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """A source that could not be read at this tick, and a reason a person can act on.

    ``is_over``: it has said all that it will, as a recording does; that is no fault.
    """

    source: str
    at_ms: int
    reason: str
    duration_ms: float = 0.0
    is_over: bool = False
