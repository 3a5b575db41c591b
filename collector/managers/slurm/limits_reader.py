"""Asks Slurm for the limits that jobs wait for, while any does: their numbers, and what is used of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from collector.inventory.slurm_programs import NoAnswer
from collector.managers.model import JobState, Limit, ManagedJob, WaitCause
from collector.managers.slurm import limits
from collector.managers.slurm.limits import Kind, Shown

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

    def told(
        self, ask: Ask, jobs: tuple[ManagedJob, ...], cluster: str, now_ms: int
    ) -> tuple[ManagedJob, ...]:
        """The jobs, each that waits for a limit with that limit. Blocks where it asks; never raises NoAnswer:
        what can't be read is unknown, and all else of the look is as it was."""
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
