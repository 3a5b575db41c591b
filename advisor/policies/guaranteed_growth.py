"""Elastic jobs have a guarantee up to their project's quota, not only for their smallest world. Pure.

Before anybody borrows, each grows as far as a quota covers it and growing pays: onto free GPUs, and where
there are none onto what others borrow of its guarantee. What it has then its quota covers, so nobody takes it
back. Beyond the quota, growth is only for GPUs that nobody needs (``elastic``).
"""

from dataclasses import replace

from advisor.planner.throughput import speedup
from advisor.planner.working_state import WorkingState
from advisor.policies.elastic import Sizes
from advisor.policies.preemption import Reclaimer
from advisor.policies.preemption_reasons import Short
from advisor.state.model import ActionClass, Job, Phase
from collector.model import GpuUuid


def grow_guaranteed(round: WorkingState, reclaimer: Reclaimer) -> None:
    """Give elastic jobs what their quotas guarantee them; not while somebody of their project waits."""
    if not round.limits.ever(ActionClass.RESIZE):
        return
    sizes = Sizes(round, guaranteed=True)
    sizes.settle()
    before = {id: round.placements[id].gpus for id in sizes.size}
    wanting = [id for id, size in sizes.size.items() if size > len(before[id])]
    for id in sorted(wanting, key=lambda each: (-round.state.jobs[each].priority, each)):
        job, own, now = round.state.jobs[id], before[id], round.placements.get(id)
        if now is None or now.gpus != own:  # it gave way itself, for another's guarantee
            continue
        gpus = _room(round, reclaimer, job, own, sizes.size[id] - len(own))
        if gpus:
            grown = (*own, *gpus)
            gain = None if job.profile is None else speedup(job.profile, len(own), len(grown))
            reason = f"{job.project} is guaranteed {len(gpus)} more, and its owner asked for {job.max_gpus}"
            if gain is not None:
                reason = (
                    f"{job.project} is guaranteed {len(gpus)} more, on which it is {gain:.2f} times as fast"
                )
            round.resize(job, grown, reason)


def _room(
    round: WorkingState, reclaimer: Reclaimer, job: Job, own: tuple[GpuUuid, ...], most: int
) -> tuple[GpuUuid, ...]:
    """Where it grows, by up to ``most`` GPUs, others having given way if need be; else the reason is kept.

    Who finds room for many finds it for fewer, so half as many are tried next.
    """
    more, result = most, None
    while more > 0:
        free = round.board.find_beside(job, own, more)
        if free is not None:
            return free
        if not round.state.begun.get(job.id):
            wish = replace(job, min_gpus=more, max_gpus=more, phase=Phase.PENDING, paused_on=())
            result = reclaimer.make_room(wish, beside=own)
            if not isinstance(result, Short):
                return result
        more //= 2
    if isinstance(result, Short) and job.id not in round.new:
        reason = f"{job.project} is guaranteed {most} more GPUs for it: {result.reason}"
        round.refuse(job, result.rule, reason, result.would_change, ActionClass.RESIZE)
    return ()
