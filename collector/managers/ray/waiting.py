"""Who waits for GPUs at a Ray cluster: placement groups, and actors and tasks outside of them. Pure.

Equal actors or tasks of one job are one entry. An actor or task of a placement group isn't counted beside
it. ``since_ms`` is Ray's word where it has one; else the time at which it was first seen waiting.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from collector.managers.model import Ask, JobKey, JobState, ManagedJob, WaitCause
from collector.managers.ray.answers import Demand, Group
from collector.managers.ray.naming import Named, Names

FirstSeen = Callable[[str], int]
"""When the entry of this key was seen first, UTC ms."""

SCHEDULING = {
    "NO_RESOURCES": WaitCause.RESOURCES,
    "PENDING": WaitCause.UNSAID,
    "INFEASIBLE": WaitCause.NODES,
    "FAILED_TO_COMMIT_RESOURCES": WaitCause.RESOURCES,
}
"""``PlacementGroupStats.SchedulingState`` in gcs.proto. What no node that is there could take may still
begin: an autoscaler may add one."""
TOO_LARGE = "INFEASIBLE"


def waiting(
    groups: Iterable[Group],
    demands: Iterable[Demand],
    names: Names,
    largest: int,
    first_seen: FirstSeen,
    *,
    cluster: str,
) -> Iterator[ManagedJob]:
    """An entry for each placement group and each kind of demand; ``largest``: GPUs of the largest node."""
    for group in groups:
        gpus = sum(count for where, count in group.bundles if not where)
        if gpus:
            job = names.of(group.job)
            named = f"{job.shown_id} {group.name}".strip()
            yield _entry(
                job,
                JobKey(
                    cluster=cluster, id=f"{names.cluster}{job.key}:{group.id}", submitted_ms=group.asked_ms
                ),
                shown_id=named,
                gpus=gpus,
                reason=group.scheduling,
                cause=SCHEDULING.get(group.scheduling, WaitCause.OTHER),
            )
    alike: defaultdict[tuple[str, bool, float, str], list[Demand]] = defaultdict(list)
    for demand in demands:
        alike[demand.job, bool(demand.actor), demand.gpus, demand.state].append(demand)
    for (driver, is_actor, gpus, state), each in alike.items():
        job = names.of(driver)
        what = "actors" if is_actor else "tasks"
        key = f"{names.cluster}{job.key}:{what}:{gpus:g}:{state}"
        told = [demand.since_ms for demand in each if demand.since_ms is not None]
        since_ms = min(told) if told else first_seen(key)
        is_ready = state != "DEPENDENCIES_UNREADY"
        is_too_large = is_ready and gpus > largest
        yield _entry(
            job,
            JobKey(cluster=cluster, id=key, submitted_ms=since_ms),
            shown_id=f"{job.shown_id} {what}",
            gpus=gpus,
            reason=TOO_LARGE if is_too_large else state,
            cause=WaitCause.DEPENDENCY
            if not is_ready
            else WaitCause.NODES
            if is_too_large
            else WaitCause.RESOURCES,
            tasks=len(each),
        )


def _entry(
    job: Named,
    key: JobKey,
    *,
    shown_id: str,
    gpus: float,
    reason: str,
    cause: WaitCause,
    tasks: int = 1,
) -> ManagedJob:
    return ManagedJob(
        key=key,
        holder=job.holder,
        state=JobState.PENDING,
        ask=Ask(nodes=1, gpus=math.ceil(gpus)),
        shown_id=shown_id,
        state_name="pending",
        reason=reason,
        cause=cause,
        tasks=tasks,
    )
