"""What was begun for a waiting job and is not finished: others give way, and it has not started yet. Pure.

A job that is asked to give way gets its grace, and the service goes on meanwhile. Until all who were asked
have given way, nobody else is asked for the same job; what they leave is held back for it, so that nobody
borrows it under its eyes; and what was begun under the bound on disturbances is finished, because half a
gang helps nobody. Everything is read from the journal, so it outlives a restart.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.actions import Move, Pause, Requeue, Resize, Resume, Start
from advisor.journal.records import FALLOW, ActionRecord, Moment, Result, age_ms
from advisor.state.model import ClusterState, Phase, Reservation
from collector.model import GpuUuid, JobId

HELD_MS = 120_000
"""So long after the last one gave way its GPUs are held back; who has not started by then stands in line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgress:
    """What is on its way to a waiting job: who still gives way, what was given up for it, and the number
    of the plan that all this is of.
    """

    coming: tuple[JobId, ...] = ()
    freed: tuple[GpuUuid, ...] = ()
    plan: int | None = None


def owed(deeds: Iterable[ActionRecord], state: ClusterState, now: Moment) -> dict[JobId, InProgress]:
    """What is owed to each job of the state that waits, or is to grow, by ``deeds`` of the last hour."""
    begun: defaultdict[JobId, list[ActionRecord]] = defaultdict(list)
    started: dict[JobId, int] = {}
    for deed in deeds:
        if isinstance(deed.step, Start | Resume) or _has_grown(deed):
            started[deed.job] = max(started.get(deed.job, 0), deed.number)
        heir = _heir(deed)
        if heir is not None:
            begun[heir].append(deed)
    result: dict[JobId, InProgress] = {}
    for heir, records in begun.items():
        job = state.jobs.get(heir)
        if job is None or (job.phase is Phase.RUNNING and not job.elastic):
            continue
        since = [deed for deed in records if deed.number > started.get(heir, 0)]
        fresh = [deed for deed in since if deed.result is None or _age_since_end_ms(deed, now) <= HELD_MS]
        if fresh:
            result[heir] = _in_progress(since)
    return result


def with_owed(
    state: ClusterState, in_progress: Mapping[JobId, InProgress], places: Mapping[JobId, tuple[GpuUuid, ...]]
) -> ClusterState:
    """The state in which nobody else is asked for those jobs, and what was given up for them is theirs.

    ``places`` are the GPUs that their plans start them on, the free ones among them included.
    """
    if not in_progress:
        return state
    occupied = {uuid for placement in state.placements.values() for uuid in placement.gpus}
    jobs, reservations = dict(state.jobs), dict(state.reservations)
    for heir, what in in_progress.items():
        if jobs[heir].phase is Phase.RUNNING:  # it grows before anybody borrows: nothing need be held back
            continue
        if what.coming:
            jobs[heir] = replace(jobs[heir], held=True)
        gpus = dict.fromkeys((*what.freed, *places.get(heir, ())))
        free = tuple(uuid for uuid in gpus if uuid in state.gpus and uuid not in occupied)
        if free:
            reservations[heir] = Reservation(start_ms=state.as_of_ms, gpus=free)
    begun = {heir: what.coming for heir, what in in_progress.items()}
    return replace(state, jobs=jobs, reservations=reservations, begun=begun)


def _heir(deed: ActionRecord) -> JobId | None:
    """For whom somebody was asked to give way; none where it came to nothing, or a person ordered it."""
    if deed.actor != FALLOW and deed.plan is None:
        return None
    if deed.result not in (None, Result.DONE):
        return None
    return deed.step.for_job if isinstance(deed.step, Pause | Requeue | Resize | Move) else None


def _has_grown(deed: ActionRecord) -> bool:
    had = () if deed.stood is None else deed.stood.gpus
    return isinstance(deed.step, Resize) and deed.result is Result.DONE and len(deed.step.gpus) > len(had)


def _in_progress(deeds: Sequence[ActionRecord]) -> InProgress:
    coming = tuple(dict.fromkeys(deed.job for deed in deeds if deed.result is None))
    freed = (uuid for deed in deeds if deed.result is Result.DONE for uuid in _freed(deed))
    plans = [deed.plan for deed in deeds if deed.plan is not None]
    return InProgress(coming=coming, freed=tuple(dict.fromkeys(freed)), plan=max(plans, default=None))


def _freed(deed: ActionRecord) -> tuple[GpuUuid, ...]:
    had = () if deed.stood is None else deed.stood.gpus
    gpus = deed.step.gpus if isinstance(deed.step, Resize | Move) else ()
    return tuple(uuid for uuid in had if uuid not in gpus)


def _age_since_end_ms(deed: ActionRecord, now: Moment) -> int:
    """How long ago it ended; no clock that was set back makes it longer than since its beginning."""
    ended_ms = max(0, now.at_ms - (deed.settled_ms or now.at_ms))
    return min(ended_ms, age_ms(deed.begun, now))
