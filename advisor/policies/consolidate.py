"""Which running jobs to move so that a waiting gang fits, when that pays for every move. Pure.

For each gang that waits while enough GPUs are free or half-used, but not in one place: on every node, the
jobs that would have to go are those whose GPUs are cheapest to empty, each onto the fullest GPU that still
holds it. The node with the smallest cost is taken, no more GPUs are emptied than are needed, and the advice
stands only if what the gang gains is ``move_pays`` times what all moves cost together. What it gains is the
time that it would else wait (``advisor.policies.waiting``), and no more than it runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.advice import Abstain, Advice
from advisor.arithmetic.placement import may_share
from advisor.arithmetic.pool import kind_of, takes
from advisor.arithmetic.projects import is_usable
from advisor.arithmetic.quota import Cover, quota_cover
from advisor.limits import Limits
from advisor.live.observed import Observed
from advisor.model import ActionClass, ClusterState, Gpu, Job, Phase, Use
from advisor.policies.protection import restraint, silence
from advisor.policies.sayings import job_name, money_of
from advisor.policies.waiting import Freeing, freeing, spared_s
from advisor.rules import AdviceRules
from advisor.steps import Move, Start, Step
from advisor.transition import SHARE_SLACK, Draft, StepError
from analytics.model import Evidence
from collector.model import GpuUuid, JobId, NodeName

CONFIDENCE = 0.8

_Shape = tuple[int, int | None, tuple[str, ...]]
"""What a gang asks for, as far as moves are concerned: two of one shape get one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """GPUs that could be emptied for a gang: the moves that do it, and what they cost in GPU-seconds."""

    gpus: tuple[GpuUuid, ...]
    moves: tuple[Move, ...]
    cost_gpu_s: float


def advise(
    state: ClusterState, observed: Observed, limits: Limits, rules: AdviceRules
) -> tuple[Advice | Abstain, ...]:
    """One answer for each waiting gang that does not fit as things lie; the first in line first.

    A gang that fits without a move, or has a promise, is the queue's affair and gets no answer.
    """
    cover = quota_cover(state)
    stuck = {
        job_id: reason
        for job_id in state.placements
        if (reason := _stays(state, state.jobs[job_id], (limits, rules), cover)) is not None
    }
    waiting = [job for job in state.jobs.values() if job.phase is Phase.PENDING and job.share >= 1]
    waiting.sort(key=lambda job: (-job.priority, job.submitted_ms, job.id))
    barren: dict[_Shape, Abstain | None] = {}
    answers: list[Advice | Abstain | None] = []
    before: dict[int, int] = {}
    seen: Freeing | None = None
    for gang in waiting:
        ahead = dict(before)
        before[gang.min_gpus] = before.get(gang.min_gpus, 0) + gang.min_gpus
        shape = (gang.min_gpus, gang.memory_bytes, gang.gpu_models)
        if shape in barren:
            known = barren[shape]
            answers.append(None if known is None else replace(known, job=gang.id))
            continue
        found = _cheapest(state, rules, stuck, gang)
        if isinstance(found, Clearing):
            seen = freeing(state, rules.horizon_s, observed.endings) if seen is None else seen
            spared = (gang, spared_s(seen, gang, ahead))
            answers.append(_weighed(state, observed, rules, spared, found))
        else:
            answers.append(found)
            barren[shape] = found
    return tuple(answer for answer in answers if answer is not None)


def _stays(state: ClusterState, job: Job, bounds: tuple[Limits, AdviceRules], cover: Cover) -> str | None:
    """Why this running job is not moved."""
    limits, rules = bounds
    if len(state.placements[job.id].gpus) > 1:
        return "it is a gang itself"
    found = silence(state, job, ActionClass.CONSOLIDATE, limits, rules) or restraint(
        state, job, ActionClass.CONSOLIDATE, limits, cover
    )
    if found is None and not job.checkpointable:
        return "nothing can checkpoint it"
    return None if found is None else found.reason


def _cheapest(
    state: ClusterState, rules: AdviceRules, stuck: Mapping[JobId, str], gang: Job
) -> Clearing | Abstain | None:
    """The cheapest clearing for it; ``None`` when it fits without one."""
    if _open_node(state, gang) is not None:
        return None
    found = [
        clearing
        for node in sorted({gpu.node for gpu in state.gpus.values()})
        if (clearing := _clearing(state, rules, stuck, gang, node)) is not None
    ]
    if not found:
        return Abstain(
            action=ActionClass.CONSOLIDATE,
            job=gang.id,
            reason=f"no moves of jobs that may be moved would free {gang.min_gpus} GPUs on one node",
            would_change="jobs that end, or that may be moved",
        )
    return min(found, key=lambda clearing: (clearing.cost_gpu_s, len(clearing.moves), clearing.gpus))


def _weighed(
    state: ClusterState, observed: Observed, rules: AdviceRules, spared: tuple[Job, float], best: Clearing
) -> Advice | Abstain:
    """The advice, if the GPU time that the gang has instead of waiting pays for all the moves."""
    gang, seconds = spared
    gain = seconds * gang.min_gpus
    if gain < rules.move_pays * best.cost_gpu_s:
        return Abstain(
            action=ActionClass.CONSOLIDATE,
            job=gang.id,
            gpus=best.gpus,
            reason=(
                f"{len(best.moves)} moves cost {best.cost_gpu_s / 3600:.2f} GPU-hours, the gang would gain "
                f"{gain / 3600:.2f}: less than {rules.move_pays:g} times as much"
            ),
        )
    net = (gain - best.cost_gpu_s) / 3600
    steps: tuple[Step, ...] = (
        *best.moves,
        Start(job=gang.id, gpus=best.gpus, reason="the moves before leave its GPUs free together"),
    )
    moved = [state.jobs[move.job] for move in best.moves]
    return Advice(
        action=ActionClass.CONSOLIDATE,
        what=f"Move {', '.join(job_name(job) for job in moved)} so that {job_name(gang)} fits",
        why=(
            f"It waits for {gang.min_gpus} GPUs in one place; after {len(moved)} moves they are free on "
            f"{state.gpus[best.gpus[0]].node}."
        ),
        job=gang.id,
        gpus=best.gpus,
        steps=steps,
        evidence=(
            Evidence(name="moves", value=len(moved)),
            Evidence(name="cost_gpu_hours", value=round(best.cost_gpu_s / 3600, 4)),
            Evidence(name="gang_gpu_hours", value=round(gain / 3600, 4)),
            Evidence(name="spared_wait_s", value=round(seconds)),
        ),
        gain_gpu_hours=net,
        gain_money=money_of(state, observed, best.gpus, net),
        horizon_s=float(rules.horizon_s),
        risk="each moved job stands still while it moves; nothing is lost",
        risk_to=tuple(sorted({job.user for job in moved if job.user is not None})),
        confidence=CONFIDENCE,
    )


def _clearing(
    state: ClusterState, rules: AdviceRules, stuck: Mapping[JobId, str], gang: Job, node: NodeName
) -> Clearing | None:
    """The cheapest way to have the gang's GPUs free on ``node``; ``None`` when there is none."""
    draft = Draft(state)
    ready: list[GpuUuid] = []
    costs: list[tuple[float, GpuUuid]] = []
    for gpu in _accepted(state, gang, node):
        tenants = draft.on(gpu.uuid)
        if not tenants:
            ready.append(gpu.uuid)
        elif not any(tenant in stuck for tenant in tenants):
            costs.append((sum(_cost(state, state.jobs[tenant], rules) for tenant in tenants), gpu.uuid))
    if len(ready) + len(costs) < gang.min_gpus:
        return None
    ready = ready[: gang.min_gpus]
    wanted = [uuid for _, uuid in sorted(costs)[: gang.min_gpus - len(ready)]]
    moves: list[Move] = []
    for uuid in wanted:
        for tenant in draft.on(uuid):
            move = _elsewhere(state, draft, (tenant, gang.id), {*ready, *wanted})
            if move is None:
                return None
            moves.append(move)
    cost = sum(_cost(state, state.jobs[move.job], rules) for move in moves)
    return Clearing(gpus=tuple(sorted((*ready, *wanted))), moves=tuple(moves), cost_gpu_s=cost)


def _elsewhere(
    state: ClusterState, draft: Draft, both: tuple[JobId, JobId], kept_free: set[GpuUuid]
) -> Move | None:
    """A move of a tenant, for a gang, to the fullest other GPU of its model that takes it, done in the draft.

    Idle neighbours are no reason to stay away, unknown ones are: ``Draft`` refuses what may not share memory.
    """
    tenant, gang = both
    job, own = draft.jobs[tenant], state.gpus[draft.placements[tenant].gpus[0]]
    offers = [
        (-_given(draft, gpu.uuid), gpu.uuid)
        for gpu in state.gpus.values()
        if gpu.uuid not in kept_free
        and gpu.model == own.model
        and is_usable(gpu, state)
        and all(_friendly(job, draft.jobs[other]) for other in draft.on(gpu.uuid))
    ]
    for _, uuid in sorted(offers):
        move = Move(job=tenant, gpus=(uuid,), for_job=gang, reason="frees a GPU that a gang waits for")
        try:
            draft.take(move)
        except StepError:
            continue
        return move
    return None


def _friendly(job: Job, other: Job) -> bool:
    return may_share(job, other) and other.use is not Use.UNKNOWN


def _given(draft: Draft, uuid: GpuUuid) -> float:
    return sum(draft.placements[job].share for job in draft.on(uuid))


def _accepted(state: ClusterState, gang: Job, node: NodeName) -> list[Gpu]:
    """GPUs of the node that the gang may lie on, of one model: the one with the most of them.

    Nobody is moved for memory that is not known to do.
    """
    by_model: dict[str | None, list[Gpu]] = {}
    for gpu in sorted(state.gpus.values(), key=lambda each: each.uuid):
        known = gang.memory_bytes is None or gpu.memory_bytes is not None
        if gpu.node == node and is_usable(gpu, state) and known and takes(gang, kind_of(gpu)):
            by_model.setdefault(gpu.model, []).append(gpu)
    return max(by_model.values(), key=len, default=[])


def _open_node(state: ClusterState, gang: Job) -> NodeName | None:
    """A node on which the gang fits as things lie."""
    taken = {uuid for placement in state.placements.values() for uuid in placement.gpus}
    for node in sorted({gpu.node for gpu in state.gpus.values()}):
        if sum(gpu.uuid not in taken for gpu in _accepted(state, gang, node)) >= gang.min_gpus:
            return node
    return None


def _cost(state: ClusterState, job: Job, rules: AdviceRules) -> float:
    """GPU-seconds that moving this job loses."""
    measured = None if job.profile is None else job.profile.resize_s
    seconds = float(rules.move_s) if measured is None else measured
    return seconds * max(SHARE_SLACK, state.placements[job.id].size_gpus)
