"""The nouns of a habit: who holds which GPUs, what happens on them in which phase, what is right to say.

Pure values; ``read`` makes them from files, ``world`` plays them. ``bench/habits/README.md`` is the format's
reference. Times are milliseconds from the habit's begin; ratios are 0..1, memory is GiB, power watts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.model import JobKind

LOADS = ("gpu", "sm", "graphics", "controller", "encoder", "decoder", "jpeg", "ofa")
"""What a phase may keep busy: any kernel (NVML GPU utilization), SM active, the graphics engine, the memory
controller, and the four engines beside the SMs."""

SOURCES = ("nvml", "dcgm-counts", "dcgm", "lowest", "peer", "replay")
"""What a habit is seen through, in the order of the table."""

GIVERS = ("slurm", "kubernetes", "lease", "nobody")
"""Who says that a GPU was given; ``nobody``: whoever has a process on it has it."""

USES = {"batch": JobKind.BATCH, "interactive": JobKind.INTERACTIVE, "server": JobKind.INFERENCE}
"""A holder's ``use`` and what an inventory that knows it calls it."""

QUIET = ("working", "starting", "free", "gone")
"""Kinds of which nothing is to be found: in use, in its grace, held by nobody, taken away."""

FINDINGS = (
    "held-idle",
    "rarely-used",
    "allocated-empty",
    "not-started",
    "sleeping-batch",
    "crash-loop",
    "low-saturation",
    "memory-hog",
    "reserved-by-design",
    "zombie-memory",
    "suspect-counters",
    "intruder",
)
"""Kinds of findings of a GPU and holder, by the names that findings are expected to bear."""

JOB_FINDINGS = ("straggler", "uses-part", "may-hang")
"""Kinds of findings of a whole job; they count once a job, whichever of its GPUs bears them."""

KINDS = (*QUIET, *FINDINGS, *JOB_FINDINGS, "unknown")
BORDERLINE = "borderline"
"""A label's kind where the rule's clock may have run out or not: nothing is asked but not to be wrong."""
UNASKED = "unasked"
"""A label's kind where the habit cannot be told from its twin, and the twin has a plain name of its own.

Whatever is said is right of one of the two, so it is not scored, but counted among the unknown."""

ACTIVE = ("working", "starting", "not-started", "rarely-used", "low-saturation", "memory-hog")
"""Labels under which held-idle or allocated-empty accuses somebody who is at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A model of GPU; ``has_sm`` says through which sources its SM active can be read at all."""

    name: str
    memory_gib: float
    idle_w: float
    context_w: float
    most_w: float
    idle_mib: float
    nvml_sm: bool
    dcgm_sm: bool


BOARDS = {
    board.name: board
    for board in (
        # NVML's GPM counters (SM active) exist from Hopper on; DCGM's profiling fields on data-centre boards
        # from Volta on (DCGM user guide, "Profiling Metrics"). Idle, context and top watts as the vendors'
        # data sheets and nvidia-smi listings in public issues show them, rounded.
        Board(
            name="NVIDIA H100 80GB HBM3",
            memory_gib=79.6,
            idle_w=70,
            context_w=115,
            most_w=700,
            idle_mib=4,
            nvml_sm=True,
            dcgm_sm=True,
        ),
        Board(
            name="NVIDIA A100-SXM4-80GB",
            memory_gib=79.2,
            idle_w=55,
            context_w=85,
            most_w=400,
            idle_mib=4,
            nvml_sm=False,
            dcgm_sm=True,
        ),
        Board(
            name="NVIDIA L4",
            memory_gib=22.5,
            idle_w=13,
            context_w=28,
            most_w=72,
            idle_mib=3,
            nvml_sm=False,
            dcgm_sm=True,
        ),
        Board(
            name="Tesla T4",
            memory_gib=15.0,
            idle_w=10,
            context_w=26,
            most_w=70,
            idle_mib=3,
            nvml_sm=False,
            dcgm_sm=True,
        ),
        Board(
            name="NVIDIA GeForce RTX 4090",
            memory_gib=24.0,
            idle_w=20,
            context_w=60,
            most_w=450,
            idle_mib=18,
            nvml_sm=False,
            dcgm_sm=False,
        ),
        Board(
            name="NVIDIA GB10",
            memory_gib=119.7,
            idle_w=5,
            context_w=12,
            most_w=100,
            idle_mib=0,
            nvml_sm=False,
            dcgm_sm=False,
        ),
        Board(
            name="NVIDIA B200",
            memory_gib=178.4,
            idle_w=140,
            context_w=190,
            most_w=1000,
            idle_mib=4,
            nvml_sm=True,
            dcgm_sm=True,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The GPUs of a habit: whole boards, or with ``mig`` so many instances of one board."""

    board: Board
    count: int = 1
    mig: str | None = None
    unified: bool = False
    spot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderPlan:
    """Who is given which of the GPUs, by whom, in which phases (``None``: in all of them).

    ``again``: each of these phases begins a new job. ``share`` is the part of each GPU that is given.
    """

    name: str
    by: str = "slurm"
    use: str = "batch"
    user: str | None = None
    project: str | None = None
    title: str | None = None
    share: float = 1.0
    gpus: tuple[int, ...] = ()
    phases: tuple[str, ...] | None = None
    again: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """A process: its command line, where it runs and what it shows to whoever looks.

    ``memory`` is GiB on each of its GPUs; ``None``: an even part of what the phase says. ``dead``: the driver
    lists it, and it has ended. ``listed`` is false for one that the driver's lists don't show.
    """

    name: str
    command: str
    comm: str
    holder: str | None
    user: str | None
    gpus: tuple[int, ...]
    memory: float | None = None
    libraries: tuple[str, ...] = ()
    listens: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    terminal: bool = False
    dead: bool = False
    listed: bool = True
    graphics: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is busy, how much memory is taken and what is drawn; ``None`` is worked out (see ``world``)."""

    gpu: float = 0.0
    sm: float | None = None
    graphics: float | None = None
    controller: float | None = None
    encoder: float = 0.0
    decoder: float = 0.0
    jpeg: float = 0.0
    ofa: float = 0.0
    memory: float | None = None
    power: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """Activity that comes in pulses: one of ``lasts_ms`` about each ``every_ms``, nothing in between."""

    every_ms: tuple[int, int]
    lasts_ms: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A piece of life: how long, what is busy, which processes are there, whether anybody measures.

    ``lasts_ms`` is from and to, between which it is drawn; ``until_ms`` a time of the day instead.
    ``parts`` are GPUs that do something else. ``fresh`` processes are new ones each time it begins.
    """

    name: str
    lasts_ms: tuple[int, int] | None
    until_ms: int | None
    load: Load
    noise: float = 0.15
    pulse: Pulse | None = None
    parts: tuple[tuple[tuple[int, ...], Load], ...] = ()
    processes: tuple[str, ...] = ()
    fresh: bool = False
    measured: bool = True
    there: bool = True
    work: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Steps that are lived again, ``times`` over; ``None``: until the end."""

    steps: tuple["str | Repeat", ...]
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What is right to say in a part of the timeline; a later label overrules an earlier one.

    The part is ``[from_ms, to_ms)`` of the habit's life (``to_ms`` ``None``: to its end), or, with ``phase``,
    of each time that phase is lived. ``also`` has to be found as well, ``may`` may be; of ``unknown`` it
    cannot be told, so naming it is wrong. ``twin`` names the habit that looks the same.
    """

    kind: str
    phase: str | None = None
    from_ms: int = 0
    to_ms: int | None = None
    gpus: tuple[int, ...] = ()
    holder: str | None = None
    only: tuple[str, ...] = SOURCES
    also: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    twin: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """A file: what it is about, who described it where, the world and its labels."""

    name: str
    about: str
    source: tuple[str, ...]
    begins_ms: int
    lasts_ms: int
    lead_ms: int
    seed: int
    hardware: Hardware
    holders: tuple[HolderPlan, ...]
    processes: Mapping[str, ProcessPlan]
    phases: Mapping[str, Phase]
    steps: tuple[str | Repeat, ...]
    labels: tuple[Label, ...]
    job_labels: tuple[Label, ...] = ()
