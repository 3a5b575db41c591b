"""Asks Slurm for the limits that jobs wait for, while any does: their numbers, and what is used of them.

Licences too, which are no limit of anybody's, but as many as there are.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from collector.inventory.slurm_programs import NoAnswer
from collector.managers.model import JobState, Limit, ManagedJob, WaitCause
from collector.managers.slurm import licences, limits
from collector.managers.slurm.limits import Kind, Shown
from collector.managers.slurm.queue_text import NotQueue, format_of, records

LIMITS_MS = 60_000
"""How often they are asked for: 0.7 kB an association, 0.4 kB for each person who uses a QOS (22.05.8)."""
PARTITIONS_MS = 600_000
"""How often what partitions are is asked for: an administrator changes it."""

Ask = Callable[[Sequence[str]], str]


class LimitsReader:
    """What was shown last, for the jobs that waited for a limit then."""

    def __init__(self) -> None:
        self._shown: tuple[int, frozenset[str], Shown | str] | None = None
        self._partitions: tuple[int, str] | None = None
        self._licences: tuple[int, frozenset[str], Mapping[str, Limit]] | None = None

    def told(
        self, ask: Ask, jobs: tuple[ManagedJob, ...], cluster: str, now_ms: int
    ) -> tuple[ManagedJob, ...]:
        """The jobs, each that waits for a limit or a licence with that. Blocks where it asks; never raises
        NoAnswer: what can't be read is unknown, and all else of the look is as it was."""
        return self._licensed(ask, self._limited(ask, jobs, cluster, now_ms), now_ms)

    def _licensed(self, ask: Ask, jobs: tuple[ManagedJob, ...], now_ms: int) -> tuple[ManagedJob, ...]:
        waiting = frozenset(
            job.key.id for job in jobs if job.state is JobState.PENDING and job.reason == licences.REASON
        )
        if not waiting:
            return jobs
        known = self._licences
        if known is None or not 0 <= now_ms - known[0] < LIMITS_MS or not waiting <= known[1]:
            known = self._licences = (now_ms, waiting, _licences(ask, waiting))
        found = known[2]
        return tuple(
            replace(job, limit=found.get(job.key.id)) if job.reason == licences.REASON else job
            for job in jobs
        )

    def _limited(
        self, ask: Ask, jobs: tuple[ManagedJob, ...], cluster: str, now_ms: int
    ) -> tuple[ManagedJob, ...]:
        kinds = {
            job.key: kind
            for job in jobs
            if job.state is JobState.PENDING
            and job.cause is WaitCause.LIMIT
            and (kind := limits.kind_of(job.reason)) is not None
        }
        if not kinds:
            return jobs
        waiting = [job for job in jobs if job.key in kinds]
        shown = self._read(ask, waiting, set(kinds.values()), now_ms)
        found = {job.key: _limit(job, shown, cluster) for job in waiting}
        return tuple(replace(job, limit=found[job.key]) if job.key in found else job for job in jobs)

    def _read(self, ask: Ask, jobs: Sequence[ManagedJob], kinds: set[Kind], now_ms: int) -> Shown | str:
        """What Slurm shows of these limits, or why it shows nothing."""
        scopes = {kind.scope for kind in kinds}
        names = {job.qos for job in jobs} if "QOS" in scopes else set()
        wanted = frozenset(scopes | names)
        known = self._shown
        if known is not None and 0 <= now_ms - known[0] < LIMITS_MS and wanted <= known[1]:
            return known[2]
        shown: Shown | str
        try:
            text = self._of_partitions(ask, now_ms) if scopes & {"QOS", "Partition"} else ""
            partitions = limits.partitions_of(text)
            used = {
                partitions[part] for job in jobs for part in job.partition.split(",") if part in partitions
            }
            shown = Shown(
                qos=limits.qos_of(_asked(ask, _of_names(names | used))) if "QOS" in scopes else {},
                associations=limits.associations_of(_asked(ask, limits.ASSOCIATIONS_COMMAND))
                if "Assoc" in scopes
                else (),
                partitions=partitions,
                times=limits.times_of(text),
            )
        except NoAnswer as failure:
            shown = f"Slurm's limits could not be read: {failure}"
        self._shown = (now_ms, wanted, shown)
        return shown

    def _of_partitions(self, ask: Ask, now_ms: int) -> str:
        known = self._partitions
        if known is None or not 0 <= now_ms - known[0] < PARTITIONS_MS:
            known = self._partitions = (now_ms, ask(limits.PARTITIONS_COMMAND))
        return known[1]


def _limit(job: ManagedJob, shown: Shown | str, cluster: str) -> Limit | None:
    if isinstance(shown, str):
        return Limit(name="", unseen=shown)
    return limits.limit_of(job, shown, cluster)


def _licences(ask: Ask, numbers: frozenset[str]) -> dict[str, Limit]:
    """The licence that each of these jobs waits for, or why that isn't known."""
    mark = f"\x1f{secrets.token_hex(8)}\x1f"
    wanted = f"--Format={format_of(mark, licences.FIELDS)}"
    try:
        there = licences.licences_of(ask(licences.COMMAND))
        text = ask(("squeue", "--noheader", "--all", "--states=PENDING", wanted))
        asked = {row["JobID"]: row["Licenses"] for row in records(text, mark, licences.FIELDS)}
    except (NoAnswer, NotQueue) as failure:
        return dict.fromkeys(numbers, Limit(name="", unseen=f"Slurm's licences could not be read: {failure}"))
    return {number: licences.limit_of(asked.get(number), there) for number in numbers}


def _of_names(names: set[str]) -> tuple[str, ...]:
    """Those QOS alone: with each come the numbers of everybody who uses it."""
    plain = sorted(name for name in names if name and "," not in name)
    return (*limits.QOS_COMMAND, f"qos={','.join(plain)}")


def _asked(ask: Ask, command: Sequence[str]) -> str:
    """The answer. Raises NoAnswer for a text that is none: an empty one proves nothing."""
    text = ask(command)
    if not text.startswith(limits.STARTS_WITH):
        raise NoAnswer(f"scontrol show assoc_mgr printed {text[:40]!r}")
    return text
