"""The kinds of finding in words: a title, what is seen, what to do. Pure; the one list for every output.

A new kind is given its name and words here; tests/docs/test_docs_kinds.py names each page that would lack it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from analytics import text
from analytics.thresholds import at_least
from collector.model import GpuState, JobKind


class FindingKind(StrEnum):
    """What a finding is about.

    NOT_STARTED accuses nobody: a job was given GPUs a good while ago and has not computed on them yet. Six
    hours on it is waste: SLEEPING_BATCH, or CRASH_LOOP where its processes are new ones again and again.
    RARELY_USED is activity that recurs and is thin; RESERVED_BY_DESIGN is a server's memory, which a
    MEMORY_HOG's is not. Nobody acts on these four. USES_PART and STRAGGLER are of a job over all its GPUs,
    one finding a job, at the first GPU that it is about: some of its GPUs do nothing while others work, or
    all wait for one. So is MAY_HANG: all of them run kernels without end. They bear no hours, which are in
    the findings of the GPUs.
    """

    HELD_IDLE = "held-idle"
    ALLOCATED_EMPTY = "allocated-empty"
    NOT_STARTED = "not-started"
    SLEEPING_BATCH = "sleeping-batch"
    CRASH_LOOP = "crash-loop"
    RARELY_USED = "rarely-used"
    LOW_SATURATION = "low-saturation"
    MEMORY_HOG = "memory-hog"
    RESERVED_BY_DESIGN = "reserved-by-design"
    SUSPECT_COUNTERS = "suspect-counters"
    ZOMBIE_MEMORY = "zombie-memory"
    FALLING_GPU = "falling-gpu"
    INTRUDER = "intruder"
    UNPROVEN_CLAIM = "unproven-claim"
    USES_PART = "uses-part"
    STRAGGLER = "straggler"
    MAY_HANG = "may-hang"


IDLENESS = frozenset({FindingKind.HELD_IDLE, FindingKind.ALLOCATED_EMPTY})
"""Of a GPU that its holder leaves idle now: what is advised and told of idle jobs rests on these two."""

SAYS_HOURS = IDLENESS | {FindingKind.SLEEPING_BATCH, FindingKind.CRASH_LOOP}
"""The kinds of which a GPU's sentence says what it cost in GPU-hours."""

WASTE_REASONS = (
    FindingKind.SLEEPING_BATCH,
    FindingKind.CRASH_LOOP,
    FindingKind.USES_PART,
    FindingKind.RARELY_USED,
    FindingKind.NOT_STARTED,
    FindingKind.ALLOCATED_EMPTY,
    FindingKind.HELD_IDLE,
)
"""Kinds that say why hours were idle or empty, those that say most first. Memory and low saturation are no
waste."""


LOST_GPU, LOST_ERROR = "lost_gpu", "lost_gpu_error"
"""Evidence of a job that does nothing since a GPU of it was lost: which one, and what is known of it."""

UNKNOWN_GPUS = "unknown_gpus"
"""Evidence of a job that rests on some of its GPUs: on which others it is not known what it does, and why."""

WORKED_BEFORE = "idle_gpus_worked"
"""Evidence of a job that uses a part of its GPUs now: all of the others have worked for it in its run."""
LOOK_BEFORE_LESS = (
    "look what the processes of its idle GPUs do: an evaluation on the CPU will come back; one that died or "
    "waits will not, and the job is best started again"
)


IDLE_MEMORY = "idle_gpus_memory_bytes"
"""Evidence of a job that uses a part of its GPUs: the most memory that is taken on one of the others, where
that is more than an empty one has."""
ROOM_BEFORE_LESS = (
    "have it use all of its GPUs (`torchrun --nproc-per-node`); ask for fewer only after a run that keeps no "
    "data on the idle ones: on fewer it may run out of memory"
)

OF_THEN = frozenset({UNKNOWN_GPUS, LOST_GPU, LOST_ERROR, WORKED_BEFORE})
"""Evidence of which what to do is of that run alone: there is nothing to look at once it is over."""

MEMORY_FULL = "memory_used_peak_ratio"
"""Evidence of low saturation: the most of the GPU's memory that was taken."""
FULL_RATIO = 0.85
"""With more taken no smaller size holds it: what the advice on sizes fills of one (``fit_memory``)."""
FITS_SHARE = "memory_fits_share"
"""Evidence: whether a share of a GPU that leaves others a quarter holds its memory; ``None``: not known."""
NO_ROOM = (
    "more workers that load data; its memory is nearly full, so a smaller size holds it, and larger batches "
    "fit, only where its framework keeps more memory than it needs"
)

KERNELS_RAN = "gpu_utilization_active_mean_ratio"
"""Evidence of low saturation: for how much of its work a kernel ran; ``None``: not known, or of several."""
ALWAYS_RATIO = 0.9
"""A kernel that runs for so much of the time waits for no data: its loader has the next batch ready. What a
GPU utilization is doubted above (``suspect``), so one number means "nearly always" in both."""
MEMORY_READ = "memory_read_active_mean_ratio"
"""Evidence of low saturation: for how much of its work memory was read or written, or its bandwidth used."""
BANDWIDTH_RATIO = 0.5
"""NVIDIA (DCGM, profiling metrics): about 0.8 of the cycles is the most that is reached, so half of the
cycles is over three fifths of the bandwidth that there is, and a smaller size of half has too little."""
FEW_SMS = (
    "its kernels run nearly all the time and fill few SMs, so more workers that load data change nothing: "
    "larger batches where its memory has room, larger kernels, or the smaller size that `fallow explain JOB` "
    "names, where it knows one"
)
MEMORY_BOUND = (
    "its memory's bandwidth is its limit: larger batches, where its memory has room, compute more with each "
    "read; more workers that load data, or a smaller size, which has less bandwidth, do not help"
)
FULL_AND_BUSY = (
    "its memory is nearly full, so a smaller size holds it, and larger batches fit, only where its framework "
    "keeps more memory than it needs; more workers that load data change nothing, as its kernels run nearly "
    "all the time"
)


GIVE_IDLE = "give back its idle GPUs alone, not the job"
SCALE_NONE, END_NONE = "scale none of it to zero", "end none of it"
"""What to do with a job until it is known what it does on the rest of its GPUs; the other ones are in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWords:
    """One kind. ``like`` is the state of a GPU that it resembles, whose colour it bears.

    ``is_waste``: hours on its GPUs may be wasted; else it is a fault, or a stranger's doing. ``is_of_job``:
    one finding a job, at the first of its GPUs. ``beyond`` says why no rule of ``packaging/prometheus``
    stands for it; empty where one does. ``remedies`` are other ones for jobs of some kinds, ``unshared`` for
    those whose memory leaves no room for a share (``""``: where no kind of job is named). ``until_known``
    is what to do while some of the job's GPUs are not known; empty where the remedy ends and scales nothing.
    """

    title: str
    says: str
    remedy: str
    like: GpuState
    is_waste: bool = True
    is_of_job: bool = False
    beyond: str = ""
    remedies: Mapping[str, str] = field(default_factory=dict)
    unshared: Mapping[str, str] = field(default_factory=dict)
    until_known: str = GIVE_IDLE

    def remedy_for(self, job_kind: str | None, evidence: object = None) -> str:
        """What to do about a job of this kind (``JobKind``, ``None``: not known).

        ``evidence`` is that of the finding, as it is kept: JSON text, or the mapping in it.
        """
        told = json.loads(evidence) if isinstance(evidence, str) else evidence
        if isinstance(told, Mapping) and told.get(UNKNOWN_GPUS) is not None and self.until_known:
            return self.unknown_remedy(told[UNKNOWN_GPUS], job_kind)
        if isinstance(told, Mapping) and told.get(LOST_GPU) is not None:
            return lost_remedy(str(told[LOST_GPU]), told.get(LOST_ERROR))
        if isinstance(told, Mapping) and told.get(WORKED_BEFORE):
            return LOOK_BEFORE_LESS
        if isinstance(told, Mapping) and told.get(IDLE_MEMORY) is not None:
            return ROOM_BEFORE_LESS
        if isinstance(told, Mapping) and (unfilled := _unfilled(told)) is not None:
            return unfilled
        if isinstance(told, Mapping) and told.get(FITS_SHARE) is False:
            unshared = self.unshared.get(job_kind or "", self.unshared.get(""))
            if unshared is not None:
                return unshared
        return self.remedies.get(job_kind or "", self.remedy)

    def next_time(self, job_kind: str | None, evidence: object = None) -> str:
        """What to do in a next run, of a finding that is over: nothing of its own GPUs' state then."""
        told = json.loads(evidence) if isinstance(evidence, str) else evidence
        kept = {key: told[key] for key in told if key not in OF_THEN} if isinstance(told, Mapping) else None
        return self.remedy_for(job_kind, kept)

    def unknown_remedy(self, gpus: object, job_kind: str | None) -> str:
        """What to do about a job of this kind of which nobody knows what it does on ``gpus``."""
        first = f"first find out what it does on {gpus}"
        is_server = job_kind not in {JobKind.BATCH, JobKind.INTERACTIVE}
        leave = self.until_known if is_server or self.until_known != SCALE_NONE else END_NONE
        return f"{first}; until then {leave}, or keep it with `fallow keep JOB`"


def _unfilled(told: Mapping[str, Any]) -> str | None:
    """What helps a job that fills little of its GPU, by what its work is limited by; ``None``: not known."""
    full, kernels, read = (told.get(name) or 0.0 for name in (MEMORY_FULL, KERNELS_RAN, MEMORY_READ))
    if at_least(read, BANDWIDTH_RATIO):
        return MEMORY_BOUND
    if at_least(kernels, ALWAYS_RATIO):
        return FULL_AND_BUSY if full > FULL_RATIO else FEW_SMS
    return NO_ROOM if full > FULL_RATIO else None


KINDS: Mapping[FindingKind, KindWords] = {
    FindingKind.HELD_IDLE: KindWords(
        title="Held, idle",
        says="somebody holds the GPU, and nothing has run on it for the whole window",
        remedy="end the job, or keep it with `fallow keep JOB`; a notebook's kernel can be shut down, "
        "a server scaled to zero",
        remedies={
            JobKind.BATCH: "end the job, or keep it with `fallow keep JOB`",
            JobKind.INTERACTIVE: "end it, or shut the notebook's kernel down, or keep it with "
            "`fallow keep JOB`",
            JobKind.INFERENCE: "scale it to zero between requests, hold it at fixed hours only, or take a "
            "share of a GPU, where its memory leaves room; or keep it with `fallow keep JOB`",
        },
        unshared={
            JobKind.INFERENCE: "scale it to zero between requests, or hold it at fixed hours only (its "
            "memory leaves no room for others); or keep it with `fallow keep JOB`",
        },
        like=GpuState.HELD_IDLE,
    ),
    FindingKind.ALLOCATED_EMPTY: KindWords(
        title="Held, empty",
        says="somebody was given the GPU, and no process of theirs is on it",
        remedy="give the allocation back, or start what it was asked for",
        like=GpuState.ALLOCATED_EMPTY,
    ),
    FindingKind.NOT_STARTED: KindWords(
        title="Not started yet",
        says="a job holds the GPU and has not computed on it since it was given; nobody is accused yet",
        remedy="look at its log: it may be downloading, or wait for data or for another machine",
        until_known="",
        like=GpuState.FREE,
        beyond="it may be preparing",
    ),
    FindingKind.SLEEPING_BATCH: KindWords(
        title="Never computed",
        says="a job, no terminal or server as far as is known, has held the GPU for six hours and has never "
        "computed on it",
        remedy="look at its log and end it: what it waits for will hardly come",
        like=GpuState.HELD_IDLE,
    ),
    FindingKind.CRASH_LOOP: KindWords(
        title="Crash loop",
        says="a job's processes die and are started again and again, and none computes for long",
        remedy="read why the first one died; fewer restarts (`--restarts`) would give the GPU back",
        until_known=END_NONE,
        like=GpuState.HELD_IDLE,
    ),
    FindingKind.RARELY_USED: KindWords(
        title="Rarely used",
        says="the GPU is used again and again, for at most a tenth of a day, or for under 1% of it at a time",
        remedy="hold it at fixed hours only, scale it to zero between requests if it is a server, or take a "
        "share of a GPU, where its memory leaves room",
        remedies={
            JobKind.BATCH: "give each of its runs a job of its own, which ends with it, or take a share of a "
            "GPU, where its memory leaves room",
            JobKind.INTERACTIVE: "hold it at fixed hours only, or take a share of a GPU, where its memory "
            "leaves room",
            JobKind.INFERENCE: "scale to zero between requests, hold it at fixed hours only, or take a share "
            "of a GPU, where its memory leaves room",
        },
        unshared={
            "": "hold it at fixed hours only, or scale it to zero between requests if it is a server: its "
            "memory leaves no room for others",
            JobKind.BATCH: "give each of its runs a job of its own, which ends with it: its memory leaves no "
            "room for others",
            JobKind.INTERACTIVE: "hold it at fixed hours only: its memory leaves no room for others",
            JobKind.INFERENCE: "scale to zero between requests, or hold it at fixed hours only: its memory "
            "leaves no room for others",
        },
        until_known=SCALE_NONE,
        like=GpuState.LOW_SATURATION,
    ),
    FindingKind.LOW_SATURATION: KindWords(
        title="Low saturation",
        says="the job works, and fills under a quarter of the GPU while it does",
        remedy="more workers that load data, larger batches where its memory has room, or the smaller size "
        "that `fallow explain JOB` names, where it knows one",
        like=GpuState.LOW_SATURATION,
    ),
    FindingKind.MEMORY_HOG: KindWords(
        title="Memory hog",
        says="the job keeps most of the memory and hardly touches it",
        remedy="let the framework take memory as it needs it (`fallow explain JOB` names the setting)",
        like=GpuState.MODERATE,
    ),
    FindingKind.RESERVED_BY_DESIGN: KindWords(
        title="Reserved by design",
        says="a server keeps most of the memory for a cache, as it was told to, and serves little",
        remedy="lower the server's own limit (vLLM `--gpu-memory-utilization`), after which a share of a GPU "
        "may do, or scale it to zero",
        until_known=SCALE_NONE,
        like=GpuState.MODERATE,
    ),
    FindingKind.SUSPECT_COUNTERS: KindWords(
        title="Suspect counters",
        says="the GPU is told busy with no process or at idle power, or idle at the power of work",
        remedy="reset the GPU when it is free (`nvidia-smi --gpu-reset`); until then nothing is judged on it",
        like=GpuState.SUSPECT,
        is_waste=False,
    ),
    FindingKind.ZOMBIE_MEMORY: KindWords(
        title="Zombie memory",
        says="memory is taken on a GPU that nobody holds and no living process uses",
        remedy="look for processes in other namespaces, else reset the GPU when it is free",
        like=GpuState.SUSPECT,
        is_waste=False,
    ),
    FindingKind.FALLING_GPU: KindWords(
        title="Falling GPU",
        says="the GPU is not seen any more, while the others of its node are, or its driver reports it lost",
        remedy="drain the node, read its kernel log (XID), power-cycle it; replace the GPU if it recurs",
        like=GpuState.UNKNOWN,
        is_waste=False,
    ),
    FindingKind.INTRUDER: KindWords(
        title="Intruder",
        says="a process is on the GPU that belongs to none of the jobs that were given it",
        remedy="talk to its owner; `fallow findings --intruders` has the process and its command",
        like=GpuState.HELD_IDLE,
        is_waste=False,
    ),
    FindingKind.UNPROVEN_CLAIM: KindWords(
        title="Unproven claim",
        says="a launcher says that its job runs on a GPU, and cannot show that Fallow gave it",
        remedy="talk to its owner; after a restored backup, start that job again",
        like=GpuState.HELD_IDLE,
        is_waste=False,
    ),
    FindingKind.USES_PART: KindWords(
        title="Uses a part",
        says="a job works on some of its GPUs and does nothing on the others",
        remedy="ask for as many GPUs as it uses, or have it use them all (`torchrun --nproc-per-node`)",
        like=GpuState.ALLOCATED_EMPTY,
        is_of_job=True,
    ),
    FindingKind.STRAGGLER: KindWords(
        title="Straggler",
        says="a job's GPUs are used so unevenly that most of them may wait for a few",
        remedy="even out the data and the loading for each worker, and look at the slow GPU's clocks",
        like=GpuState.LOW_SATURATION,
        is_of_job=True,
    ),
    FindingKind.MAY_HANG: KindWords(
        title="May hang",
        says="kernels run without end on all of a job's GPUs, at half the power that it drew before or less",
        remedy="look at its log and its processes' stacks (`py-spy dump --pid PID`): if its ranks wait for "
        "each other, start it again from its newest checkpoint",
        like=GpuState.LOW_SATURATION,
        is_of_job=True,
        beyond="it is a suspicion, which its owner alone can look into",
    ),
}


def lost_remedy(gpu: str, error: object) -> str:
    """What to do about a job that lost a GPU and waits; ``error``: what failed, ``None``: nobody says."""
    again = "start the job again from its newest checkpoint, on other GPUs"
    if error is None:
        return f"look whether {gpu} failed, which is not seen any more; if it did, {again}"
    return f"the fault is the machine's: {gpu} failed ({error}); {again}"


def same_on(kind: str, gpus: Sequence[tuple[str, float | None]]) -> str:
    """After the first GPU's sentence: " The same on 3 more of its GPUs, 12.0 GPU-hours in all."

    ``gpus`` are UUIDs of one job's GPUs of which this kind was found, with the idle hours of each since it
    began (``judged_gpu_hours``), the first one's first; nothing for one GPU. Without hours where the sentence
    has none, where those of a GPU are not known, or where one was found idle twice.
    """
    more = len({uuid for uuid, _ in gpus}) - 1
    if more < 1:
        return ""
    hours = [value for _, given in gpus if (value := text.known(given)) is not None]
    is_whole = kind in SAYS_HOURS and len(hours) == len(gpus) == more + 1
    in_all = f", {text.gpu_hours(sum(hours))} in all" if is_whole else ""
    return f" The same on {more} more of its GPUs{in_all}."


def title_of_kind(kind: str) -> str:
    """What a kind is called; one that only a newer Fallow knows keeps its own name."""
    return KINDS[FindingKind(kind)].title if kind in KINDS else kind


def words_of_kind(kind: str) -> KindWords | None:
    """The words of a kind; ``None`` of one that only a newer Fallow knows."""
    return KINDS[FindingKind(kind)] if kind in KINDS else None
