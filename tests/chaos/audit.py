"""What an auditor says who looks from outside: at the jobs' own ledger, at processes, at the service's lists.

Pure but for reading the ledger's files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

REFUSED = 2
"""What ``fallow`` ends with where a sentence says why nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a job's ledger; ``at_s`` by the machine's steady clock."""

    word: str
    pid: int
    at_s: float
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A ``fallow run`` of the chaos: how it ended, and what was done to it on purpose.

    ``status`` is its exit code, ``None`` when it had to be ended by the auditor. ``hurt`` says that its
    launcher or its worker was killed: then it may fail or be lost, but not hang or leave anything behind.
    ``unheard`` says that no service was there for as long as a launcher asks before it says so and ends, as
    one that takes its time to start again on a busy machine: then the job may not have been taken at all.
    """

    key: str
    status: int | None
    hurt: bool
    restarts: int
    lines: tuple[Line, ...]
    unheard: bool = False

    @property
    def was_not_taken(self) -> bool:
        """Its launcher ended with the status of a refusal, before anything of it ran, for nobody answered."""
        return self.unheard and self.status == REFUSED and not self.lines


def read_ledger(folder: Path, key: str) -> tuple[Line, ...]:
    """What a job wrote; nothing when it never began."""
    path = folder / f"{key}.log"
    if not path.exists():
        return ()
    rows = (line.split(" ") for line in path.read_text().splitlines())
    return tuple(
        Line(word=word, pid=int(pid), at_s=float(at), gpus=tuple(filter(None, gpus.split(","))))
        for word, pid, at, gpus in rows
    )


def faults(jobs: Iterable[Ran]) -> list[str]:
    """What went wrong with jobs: lost, doubled, run too often, run on nothing. Empty when all is well."""
    found = []
    for job in jobs:
        begun = [line for line in job.lines if line.word == "begun"]
        found += [
            f"{job.key}: GPU {line.gpus} had another holder" for line in job.lines if line.word == "doubled"
        ]
        found += [f"{job.key}: began without a GPU" for line in job.lines if line.word == "without"]
        if len(begun) > 1 + job.restarts:
            found.append(f"{job.key}: began {len(begun)} times, {1 + job.restarts} allowed")
        if job.status is None:
            found.append(f"{job.key}: its launcher did not end")
        if job.status == 0 and not any(line.word == "ended" for line in job.lines):
            found.append(f"{job.key}: said to be done, and never ran to its end")
        if job.status not in (0, None) and not job.hurt and not job.was_not_taken:
            found.append(f"{job.key}: failed with {job.status}, and nothing was done to it")
    return found


def leftovers(before: Mapping[str, int], after: Mapping[str, int], most: Mapping[str, int]) -> list[str]:
    """What grew by more than it may: descriptors, memory, files."""
    return [
        f"{name}: {before[name]} before, {after[name]} after, {most[name]} more allowed"
        for name in most
        if name in before and name in after and after[name] - before[name] > most[name]
    ]


def tracebacks(log: str) -> list[str]:
    """Each traceback in a log: where it was raised last, and what."""
    found = []
    for piece in log.split("Traceback (most recent call last):")[1:]:
        lines = piece.splitlines()
        end = next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), len(lines) - 1)
        places = [line.strip() for line in lines[:end] if line.startswith("  File ")]
        found.append(f"{places[-1] if places else 'somewhere'}: {lines[end] if lines else ''}")
    return found
