"""Which running jobs to move so that a waiting gang fits, when that pays for every move. Pure.

The queue is asked first, with nobody giving way: whoever it starts, refuses for a limit or a guarantee, or
has promised GPUs to, is its affair. For each gang that it then refuses for want of room: on every node, the
jobs that would have to go are those whose GPUs are cheapest to empty, each onto the fullest GPU that still
holds it. The node with the smallest cost is taken, no more GPUs are emptied than are needed, none that is
promised to another, and the advice stands only if what the gang gains is ``move_pays`` times what all moves
cost together. What it gains is the time that it would else wait (``advisor.policies.wait_cost``), and no more
than it runs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from advisor.actions import Action, Move, Start
from advisor.planner.free_gpus import Pool
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.placement import Board, may_share
from advisor.planner.plan import Abstain, Advice, Rule
from advisor.planner.quota import Cover, quota_cover
from advisor.planner.transition import SHARE_SLACK, Draft, StepError, replay
from advisor.planner.working_state import WorkingState
from advisor.policies.exemptions import restraint, silence
from advisor.policies.phrases import job_name, money_of
from advisor.policies.queue import fill
from advisor.policies.wait_cost import Freeing, freeing, spared_s
from advisor.state.model import ActionClass, ClusterState, Job, Phase, Use, held_gpus
from analytics import text
from analytics.model import Evidence
from collector.model import GpuUuid, JobId, NodeName

# The moves are certain; that the gang then starts depends on what others submit meanwhile.
CONFIDENCE = 0.8

_Shape = tuple[int, int | None, tuple[str, ...], tuple[GpuUuid, ...]]
"""What a gang asks for, as far as moves are concerned: two of one shape get one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """GPUs that could be emptied for a gang: the moves that do it, and what they cost in GPU-seconds."""

    gpus: tuple[GpuUuid, ...]
    moves: tuple[Move, ...]
    cost_gpu_s: float


def advise(
    state: ClusterState, observed: Observed, limits: Limits, rules: PlannerConfig
) -> tuple[Advice | Abstain, ...]:
    """One answer for each waiting gang that the queue has no room for; the first in line first."""
    if not any(job.phase is Phase.PENDING and job.share >= 1 for job in state.jobs.values()):
        return ()
    # The bounds with starts alone: nobody gives way, and nobody grows.
    schedule = ActionClass.SCHEDULE
    off = dict.fromkeys(ActionClass, Mode.OFF)
    own = {
        name: {schedule: modes[schedule]} for name, modes in limits.project_modes.items() if schedule in modes
    }
    queue = WorkingState(
        state, replace(limits, modes={**off, schedule: limits.mode(schedule)}, project_modes=own)
    )
    fill(queue)
    state = replay(state, queue.plan().steps)
    cover = quota_cover(state)
    stuck = {
        job_id: reason
        for job_id in state.placements
        if (reason := _stays(state, state.jobs[job_id], (limits, rules), cover)) is not None
    }
    barren: dict[_Shape, Abstain | None] = {}
    answers: list[Advice | Abstain | None] = []
    before: dict[int, int] = {}
    forecast: Freeing | None = None
    place = _Place(state, queue.board, rules, stuck, Draft(state))
    for gang in _crowded_out(queue):
        ahead = dict(before)
        before[gang.min_gpus] = before.get(gang.min_gpus, 0) + gang.min_gpus
        shape = (gang.min_gpus, gang.memory_bytes, gang.gpu_models, queue.board.reserved_for(gang.id))
        if shape in barren:
            earlier = barren[shape]
            answers.append(None if earlier is None else replace(earlier, job=gang.id))
            continue
        result = _cheapest(place, gang)
        if isinstance(result, Clearing):
            forecast = freeing(state, rules.horizon_s, observed.endings) if forecast is None else forecast
            spared = (gang, spared_s(forecast, gang, ahead))
            answers.append(_weighed(state, observed, rules, spared, result))
        else:
            answers.append(result)
            barren[shape] = result
    return tuple(answer for answer in answers if answer is not None)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where moves are looked for: the cluster once the queue had its turn, and what it holds back."""

    state: ClusterState
    board: Board
    rules: PlannerConfig
    stuck: Mapping[JobId, str]
    lies: Draft

    def bars(self, uuid: GpuUuid, gang: JobId) -> bool:
        """Whether the GPU is nobody's to give away, or promised to another."""
        return self.board.pool_of(uuid) is None or any(
            each != gang for each in self.board.promised_heads((uuid,))
        )


def _crowded_out(queue: WorkingState) -> Iterator[Job]:
    """The gangs that wait for room and nothing else, in the order of their turns."""
    for refusal in queue.refused:
        job = queue.state.jobs[refusal.job]
        if refusal.rule is Rule.NO_ROOM and job.phase is Phase.PENDING and job.share >= 1:
            yield job


def _stays(state: ClusterState, job: Job, bounds: tuple[Limits, PlannerConfig], cover: Cover) -> str | None:
    """Why this running job is not moved."""
    limits, rules = bounds
    if len(state.placements[job.id].gpus) > 1:
        return "it is a gang itself"
    result = silence(state, job, ActionClass.CONSOLIDATE, limits, rules) or restraint(
        state, job, ActionClass.CONSOLIDATE, limits, cover
    )
    if result is None and not job.checkpointable:
        return "nothing can checkpoint it"
    return None if result is None else result.reason


def _cheapest(place: _Place, gang: Job) -> Clearing | Abstain:
    """The cheapest clearing for it."""
    result = [
        clearing
        for accepted in _accepted(place, gang)
        if (clearing := _clearing(place, gang, accepted)) is not None
    ]
    if not result:
        return Abstain(
            action=ActionClass.CONSOLIDATE,
            job=gang.id,
            reason=f"no moves of jobs that may be moved would free {gang.min_gpus} GPUs on one node",
            would_change="jobs that end, or that may be moved",
        )
    return min(result, key=lambda clearing: (clearing.cost_gpu_s, len(clearing.moves), clearing.gpus))


def _weighed(
    state: ClusterState, observed: Observed, rules: PlannerConfig, spared: tuple[Job, float], best: Clearing
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
                f"{len(best.moves)} moves cost {text.amount(best.cost_gpu_s / 3600)} GPU-hours, the gang "
                f"would gain {text.amount(gain / 3600)}: less than {rules.move_pays:g} times as much"
            ),
        )
    net = (gain - best.cost_gpu_s) / 3600
    steps: tuple[Action, ...] = (
        *best.moves,
        Start(job=gang.id, gpus=best.gpus, reason="the moves before leave its GPUs free together"),
    )
    moved = [state.jobs[move.job] for move in best.moves]
    return Advice(
        action=ActionClass.CONSOLIDATE,
        what=f"Move {', '.join(job_name(job) for job in moved)} so that {job_name(gang)} fits",
        why=(
            f"It waits for {gang.min_gpus} GPUs at once; after {len(moved)} moves they are free on "
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


def _clearing(place: _Place, gang: Job, accepted: Iterable[GpuUuid]) -> Clearing | None:
    """The cheapest way to have the gang's GPUs free among these; ``None`` when there is none."""
    state, rules = place.state, place.rules
    ready: list[GpuUuid] = []
    costs: list[tuple[float, GpuUuid]] = []
    for uuid in accepted:
        tenants = place.lies.on(uuid)
        if not tenants:
            ready.append(uuid)
        elif not any(tenant in place.stuck for tenant in tenants):
            costs.append((sum(_cost(state, state.jobs[tenant], rules) for tenant in tenants), uuid))
    if len(ready) + len(costs) < gang.min_gpus:
        return None
    ready = ready[: gang.min_gpus]
    gpus = [uuid for _, uuid in sorted(costs)[: gang.min_gpus - len(ready)]]
    draft, moves = Draft(state), list[Move]()
    for uuid in gpus:
        for tenant in draft.on(uuid):
            move = _elsewhere(place, draft, (tenant, gang.id), {*ready, *gpus})
            if move is None:
                return None
            moves.append(move)
    cost = sum(_cost(state, state.jobs[move.job], rules) for move in moves)
    return Clearing(gpus=tuple(sorted((*ready, *gpus))), moves=tuple(moves), cost_gpu_s=cost)


def _elsewhere(place: _Place, draft: Draft, both: tuple[JobId, JobId], spare: set[GpuUuid]) -> Move | None:
    """A move of a tenant, for a gang, to the fullest other GPU of its model that takes it, done in the draft.

    Idle neighbours are no reason to stay away, unknown ones are: ``Draft`` refuses what may not share memory.
    """
    tenant, gang = both
    job, own = draft.jobs[tenant], place.state.gpus[draft.placements[tenant].gpus[0]]
    offers = [
        (-sum(draft.placements[job].share for job in draft.on(gpu.uuid)), gpu.uuid)
        for gpu in place.state.gpus.values()
        if gpu.uuid not in spare
        and (gpu.model, gpu.cluster) == (own.model, own.cluster)
        and not place.bars(gpu.uuid, gang)
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


def _accepted(place: _Place, gang: Job) -> list[list[GpuUuid]]:
    """GPUs that the gang may lie on, those of one kind and node together.

    Nobody is moved for memory that is not known to do.
    """
    kinds = {id(pool) for pool in place.board.may_use(gang) if _is_known_to_do(gang, pool)}
    result: dict[tuple[NodeName, int], list[GpuUuid]] = {}
    for uuid, gpu in sorted(place.state.gpus.items()):
        kind = id(place.board.pool_of(uuid))
        if kind in kinds and not place.bars(uuid, gang.id):
            result.setdefault((gpu.node, kind), []).append(uuid)
    return list(result.values())


def _is_known_to_do(gang: Job, pool: Pool) -> bool:
    return gang.memory_bytes is None or pool.memory_bytes is not None


def _cost(state: ClusterState, job: Job, rules: PlannerConfig) -> float:
    """GPU-seconds that moving this job loses."""
    measured = None if job.profile is None else job.profile.resize_s
    seconds = float(rules.move_s) if measured is None else measured
    return seconds * max(SHARE_SLACK, held_gpus(state.placements[job.id], state.gpus))
