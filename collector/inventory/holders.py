"""Which job a process belongs to by its own signs, and what is known of that job: pure.

Job ids are unique for all time (``collector.model.Holder``): a Slurm id, a pod's or container's id, or
the (pid, start time) of the process at the head of the tree.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from collector.inventory.hub import says_it_is_for
from collector.inventory.projects import ProjectOf
from collector.model import Holder, JobId, JobKind, Process, ProcessKey
from collector.procfs.accounts import nameless

CONTAINER_DIGITS = 12
"""As ``docker ps`` prints them; the first 12 of 64 random hex digits."""

_HEX_ID = re.compile(r"[0-9a-f]{64}")

_NUMBER = re.compile(r"[1-9][0-9]{0,9}(@[0-9]{1,12})?")
"""Slurm's job ids are 32 bit numbers (slurm.h, ``uint32_t job_id``); used again: see ``reused_numbers``."""


JobUsers = Mapping[JobId, str | None]
"""Whose each job is, by the word of those who give GPUs; ``None``: they don't say, or not the same."""


def job_of(process: Process) -> JobId | None:
    """The job by the signs that only the system sets, the widest grant first; ``None`` without any."""
    if process.slurm_job is not None:
        return JobId(f"slurm:{process.slurm_job}")
    if process.pod is not None:
        return JobId(f"pod:{process.pod}")
    if process.notebook is not None and process.tree is not None:
        return tree_job(process.tree)
    if process.container is not None:
        return _container_job(process, process.container)
    return tree_job(process.tree) if process.tree is not None else None


def job_among(process: Process, users: JobUsers) -> JobId | None:
    """The job that its environment names, where that is its own person's; else that of ``job_of``.

    A process writes its environment itself: another one's job in it is no more than a word.
    """
    if process.slurm_job is None:
        for job in said_jobs(process):
            if is_of(process, job, users.get(job)):
                return job
    return job_of(process)


def is_of(process: Process, job: JobId, user: str | None) -> bool | None:
    """Whether the process is of a job of this user; ``None``: nobody can tell.

    By the system's own signs it is; by its own word where the person is the job's.
    """
    if job in system_jobs(process):
        return True
    if job not in said_jobs(process):
        return False
    person = person_behind(process)
    return None if user is None or person is None else person == user


def claimed_by(process: Process) -> tuple[JobId, ...]:
    """Every job id under which a stronger word may speak of this process, surest first."""
    launched = dict(process.environment).get("FALLOW_JOB")
    jobs = () if process.slurm_job is not None else said_jobs(process)
    named = (JobId(launched) if launched else None, job_of(process), *jobs, *system_jobs(process))
    return tuple(dict.fromkeys(job for job in named if job is not None))


def said_jobs(process: Process) -> tuple[JobId, ...]:
    """The jobs that its environment names, which whoever starts it may write."""
    environment = dict(process.environment)
    named = [environment.get("FALLOW_JOB"), _named_job(environment)]
    return tuple(JobId(job) for job in named if job)


def system_jobs(process: Process) -> tuple[JobId, ...]:
    """The jobs by control group and process tree."""
    named = [job_of(process)]
    if process.container is not None:
        named.append(_container_job(process, process.container))
    if process.tree is not None:
        named.append(tree_job(process.tree))
    return tuple(dict.fromkeys(job for job in named if job is not None))


def _named_job(environment: Mapping[str, str]) -> JobId | None:
    """Slurm's job in a process's environment: a number, or nothing."""
    number = environment.get("SLURM_JOB_ID", "")
    return JobId(f"slurm:{number}") if _NUMBER.fullmatch(number) else None


def _container_job(process: Process, container: str) -> JobId:
    """``container:0123456789ab``; with its owner where a person made it, who chose the digits as well."""
    short = container[:CONTAINER_DIGITS] if _HEX_ID.fullmatch(container) else container
    return JobId(f"container:{short}" if process.user is None else f"container:{process.user}/{short}")


def tree_job(head: ProcessKey) -> JobId:
    """The job id of a process tree: ``pid:node/71@start_ms``."""
    return JobId(f"pid:{head.node}/{head.pid}@{head.started_ms}")


def person_behind(process: Process) -> str | None:
    """Whose process it is; in a container, where a uid is not a person, nobody we know without an owner."""
    if process.user is not None or process.uid is None:
        return process.user
    if process.container is not None or process.pod is not None:
        return None
    return nameless(process.uid)


def users_of(named: Iterable[Holder]) -> JobUsers:
    """Whose each named job is; nobody's where two words differ."""
    users: dict[JobId, set[str]] = {}
    for holder in named:
        users.setdefault(holder.job, set()).update(() if holder.user is None else (holder.user,))
    return {job: next(iter(people)) if len(people) == 1 else None for job, people in users.items()}


def holder_of(
    job: JobId, holders: Iterable[Holder], processes: Iterable[Process], project_of: ProjectOf
) -> Holder:
    """All that is known of one job: what was said of it (strongest first), then what its processes show."""
    words = tuple(holders)
    own = sorted(processes, key=lambda process: process.key)
    user = _first(word.user for word in words) or _only({person_behind(process) for process in own})
    return Holder(
        job=job,
        user=user,
        project=_first(word.project for word in words) or (project_of(user) if user else None),
        name=_first(word.name for word in words) or _title_of(own, user),
        kind=_kind([word.kind for word in words], own),
        framework=_first(word.framework for word in words) or _commonest_framework(own),
        command=_first(word.command for word in words) or _first(process.command for process in own),
    )


def _kind(kinds: list[JobKind | None], own: list[Process]) -> JobKind | None:
    """What was said, else what is seen; but a notebook or server in a batch job is a notebook or a server."""
    seen = {process.kind for process in own}
    if any(process.notebook is not None for process in own):
        return JobKind.INTERACTIVE
    for kind in kinds:
        if kind is not None:
            return JobKind.INFERENCE if kind is JobKind.BATCH and JobKind.INFERENCE in seen else kind
    ranked = (JobKind.INTERACTIVE, JobKind.INFERENCE, JobKind.BATCH)
    return next((kind for kind in ranked if kind in seen), None)


def _commonest_framework(own: list[Process]) -> str | None:
    """The likeliest framework of most of the job's processes; by name when two are as common."""
    counts = Counter(process.frameworks[0] for process in own if process.frameworks)
    return min(counts, key=lambda name: (-counts[name], name)) if counts else None


def _title_of(own: list[Process], user: str | None) -> str | None:
    """What the job runs; of a container that names a person whom nobody else knows, also whom."""
    title = _first(_title(process) for process in own)
    person = None if user else _only({says_it_is_for(process) for process in own})
    return title if person is None else f"{title or 'a container'} (says it is for {person})"


def _title(process: Process) -> str | None:
    """The notebook's file, the script, or the program that runs."""
    if session := dict(process.environment).get("JPY_SESSION_NAME"):
        return session.rsplit("/", 1)[-1]
    words = (process.command or "").split()
    script = next((word for word in words if word.endswith((".py", ".sh", ".ipynb", ".jl", ".R"))), None)
    if script is None and "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return (script or words[0]).rsplit("/", 1)[-1] if words else process.name


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)


def _only(values: set[str | None]) -> str | None:
    """The one value, or ``None`` when there are several: then nobody can say whose it is."""
    return next(iter(values)) if len(values) == 1 else None
