"""Where those who give way can go on, so that they lose their place and not their turn. Pure.

A guarantee needs a place: four half GPUs that lie on four GPUs, or jobs that would run anywhere on the only
H100s, keep an owner out although there is enough for all. Whoever is on it moves; who is elastic may shrink
on the way.
"""

from advisor.actions import Move
from advisor.planner.placement import share_on
from advisor.planner.working_state import WorkingState
from advisor.policies.preemption_trial import PreemptionTrial
from advisor.state.model import ActionClass, Job, Placement
from collector.model import JobId


def may_move(job: Job) -> bool:
    """Whether its owner lets it go on elsewhere, and an engine here can have it do so."""
    return "move" not in job.withheld and "move" not in job.cannot


def elsewhere(round: WorkingState, job: Job, room: PreemptionTrial) -> dict[JobId, Placement]:
    """Where each of those who leave for ``job`` can go on, those left out who can nowhere.

    Nobody goes to a GPU that another one leaves: then the steps can be taken in any order. ``room`` is undone
    afterwards, as if nothing had been tried.
    """
    board, place = round.board, room.place()
    chosen, before = room.chosen(), {id: round.placements[id] for id, _ in room.chosen()}
    room.undo()
    assert place is not None, "room was made for the job"
    vacated = (uuid for placement in before.values() for uuid in placement.gpus)
    board.promise(job.id, round.now_ms, dict.fromkeys((*place, *vacated)))
    after: dict[JobId, Placement | None] = {}
    places: dict[JobId, Placement] = {}
    for id, gpus_after in chosen:
        victim = round.state.jobs[id]
        board.vacate(id, before[id])
        after[id] = (
            Placement(gpus=gpus_after, share=before[id].share)
            if gpus_after
            else _place(round, victim, before[id])
        )
        if (place_after := after[id]) is not None:
            board.occupy(victim, place_after)
            if not gpus_after:
                places[id] = place_after
    for id, place_after in after.items():
        if place_after is not None:
            board.vacate(id, place_after)
    for id in after:
        board.occupy(round.state.jobs[id], before[id])
    board.fulfil(job.id)
    return places


def go_on(round: WorkingState, victim: Job, place: Placement, job: Job) -> None:
    """Have the victim go on there."""
    reason = f"{job.id} of {job.project} is guaranteed a place, and can have it only here"
    before = round.placements[victim.id]
    if len(place.gpus) != len(before.gpus):
        round.resize(victim, place.gpus, reason, job.id)
        return
    share = None if place.share == before.share else place.share
    step = Move(
        job=victim.id,
        gpus=place.gpus,
        share=share,
        for_job=job.id,
        action=ActionClass.FAIR_SHARE,
        reason=reason,
    )
    round.move(step)


def _place(round: WorkingState, victim: Job, before: Placement) -> Placement | None:
    """As many GPUs elsewhere as it has; of an elastic job as many as there are, if it can run on these."""
    if not may_move(victim):
        return None
    least = victim.min_gpus if victim.elastic and victim.share >= 1 else len(before.gpus)
    for count in range(len(before.gpus), least - 1, -1):
        gpus = round.board.find(victim, count)
        if gpus is not None:
            return Placement(gpus=gpus, share=share_on(victim, gpus, round.state.gpus))
    return None
