"""What Slurm's programs print about jobs that wait, and about the site, as values. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

QUEUE = ("JobID", "Partition", "Reason", "tres-per-job", "tres-per-node", "tres-per-task", "tres-alloc")
"""squeue(1), "--Format"."""
OWN = ("JobID", "State", "Reason", "Comment")
ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
        *("PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
"""squeue(1), "JOB STATE CODES": the job is over, and its GPUs are somebody else's."""
KILL_WAIT_S = 30.0
"""slurm.conf(5), "KillWait": the time from SIGTERM to SIGKILL where nothing else is said."""

_START = re.compile(r"Job \d+ to start at (?P<at>\S+) using .* on nodes \S+ in partition (?P<partition>\S+)")


class NotRead(ValueError):
    """The text is not what Slurm prints when it is asked so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What must be known of a site before anything is asked of it. ``boot`` names a run of slurmctld."""

    hides_jobs: bool
    preempts: bool
    kill_wait_s: float
    boot: str
    next_job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job of anybody's that waits: for GPUs, in any of ``partitions``, for ``reason``."""

    job: str
    partitions: frozenset[str]
    reason: str
    wants_gpus: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A job of ours as Slurm has it; ``state`` and ``reason`` in Slurm's words."""

    job: str
    state: str
    reason: str
    comment: str

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """When Slurm would start a job that was only tried, in its local time, and in which partition."""

    at: str
    partition: str


def format_of(fields: tuple[str, ...], mark: str) -> str:
    """The value of ``--Format`` that ends each field with ``mark``, in which no comma may be."""
    return ",".join(f"{name}:{mark}" for name in fields)


def site_of(config: str) -> Site:
    """What ``scontrol show config`` says. Raises NotRead."""
    pairs = (line.partition("=") for line in config.splitlines())
    values = {name.strip(): value.strip() for name, equals, value in pairs if equals}
    if "BOOT_TIME" not in values or not values.get("NEXT_JOB_ID", "").isdigit():
        raise NotRead("scontrol show config has no BOOT_TIME or NEXT_JOB_ID")
    wait = re.match(r"\d+", values.get("KillWait", ""))
    return Site(
        hides_jobs="jobs" in values.get("PrivateData", "").split(","),
        preempts=values.get("PreemptType", "(null)") not in ("preempt/none", "(null)", "none", ""),
        kill_wait_s=KILL_WAIT_S if wait is None else float(wait[0]),
        boot=values["BOOT_TIME"],
        next_job=int(values["NEXT_JOB_ID"]),
    )


def waiting_of(text: str, mark: str) -> tuple[Waiting, ...]:
    """The jobs that squeue printed of QUEUE. Raises NotRead."""
    return tuple(
        Waiting(
            job=row["JobID"],
            partitions=frozenset(row["Partition"].split(",")),
            reason=row["Reason"],
            wants_gpus=any("gres" in row[name] for name in QUEUE if name.startswith("tres")),
        )
        for row in _rows(text, mark, QUEUE)
    )


def own_of(text: str, mark: str) -> tuple[Own, ...]:
    """The jobs that squeue printed of OWN. Raises NotRead."""
    return tuple(
        Own(job=row["JobID"], state=row["State"], reason=row["Reason"], comment=row["Comment"])
        for row in _rows(text, mark, OWN)
    )


def start_of(text: str) -> Start | None:
    """What ``sbatch --test-only`` says of a job that could be; ``None`` of one that couldn't."""
    match = _START.search(text)
    return None if match is None else Start(at=match["at"], partition=match["partition"])


def neighbours_of(text: str, partition: str) -> frozenset[str]:
    """The partitions that share a node with one, itself included, from lines ``NODE|PARTITION`` of sinfo."""
    of_node: dict[str, set[str]] = {}
    for line in text.splitlines():
        node, _, name = line.strip().partition("|")
        of_node.setdefault(node, set()).add(name)
    shared = [names for names in of_node.values() if partition in names]
    return frozenset({partition}.union(*shared))


def _rows(text: str, mark: str, fields: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    *parts, end = text.split(mark)
    if end.strip() or len(parts) % len(fields):
        raise NotRead(f"squeue printed {len(parts)} fields and {end.strip()[:80]!r} behind them")
    for at in range(0, len(parts), len(fields)):
        values = (part.strip() for part in parts[at : at + len(fields)])
        yield dict(zip(fields, values, strict=True))
