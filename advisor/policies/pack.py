"""Which running jobs should share a GPU, so that another one becomes free. Pure.

Who may share: each p95 of SM active at most half, the sum at most 90%, peak memory beside each other with 2
GiB left, one GPU each and so no NCCL, past start-up, the same user or both opted in. Who should: the
pairing of the largest expected joint speed on *that* GPU model (``pairing``). The first windows are the
trial: a foreground that gets more than 10% slower for three of them is alone again. Environment caps are no
isolation, and one fault can end both; every advice says so.
"""

from collections import defaultdict

from advisor.actions import Move
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import JobUse, Observed
from advisor.planner.pairing import Experience, Pairing, PairingRules, choose_pairs, turned
from advisor.planner.placement import may_share
from advisor.planner.plan import Abstain, Advice, Rule
from advisor.planner.protection import Objection
from advisor.planner.quota import Cover, quota_cover
from advisor.policies.exemptions import restraint, silence
from advisor.policies.phrases import job_name, money_of
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Use
from analytics import text
from analytics.model import Evidence
from collector.model import Basis, GpuUuid

PAIRING = PairingRules()
"""10% slower, three windows in a row."""
# Both speeds were measured side by side; the jobs may still change.
MEASURED_CONFIDENCE = 0.9
SETTLES_S, UNDO_WINDOW_S = 60, 30
"""As ``register.pair_watch.Span`` has it."""
# Nobody gets less than a tenth: a share that rounds to nothing would stop its job.
LEAST_SHARE, MOST_SHARE = 0.1, 0.9


def advise(
    state: ClusterState, observed: Observed, limits: Limits, rules: PlannerConfig
) -> tuple[Advice | Abstain, ...]:
    """A pairing for each GPU model of a cluster, and for every other running job why it is not in one."""
    cover = quota_cover(state)
    able: dict[tuple[str, str], list[Job]] = defaultdict(list)
    answers: list[Advice | Abstain] = []
    for job_id in sorted(state.placements):
        job = state.jobs[job_id]
        if job.use is Use.IDLE:
            continue  # an idle job is reclaimed, not packed
        result = _unfit(state, observed, job, (limits, rules), cover)
        gpu = state.gpus[state.placements[job_id].gpus[0]]
        if result is None and gpu.model is not None:
            able[gpu.model, gpu.cluster or ""].append(job)
        else:
            result = result or _load("which model its GPU is, is not known")
            answers.append(_abstain(state, job, result))
    for (model, _), jobs in sorted(able.items(), key=lambda each: each[0]):
        answers += _paired(state, observed, rules, model, jobs)
    return tuple(sorted(answers, key=lambda each: -each.gain_gpu_hours if isinstance(each, Advice) else 1.0))


def crowding(gpu: Gpu, first: JobUse, second: JobUse, rules: PlannerConfig) -> str | None:
    """Why these two do not fit beside each other on ``gpu``; ``None`` when they do. Both must be measured."""
    busy = (first.utilization_p95_ratio or 0.0) + (second.utilization_p95_ratio or 0.0)
    if busy > rules.pack_p95_sum:
        return f"together they are {text.percent(busy)} busy in their busiest minutes"
    memory = (first.memory_peak_bytes or 0) + (second.memory_peak_bytes or 0)
    if gpu.memory_bytes is None or memory > gpu.memory_bytes - rules.shared_reserve_bytes:
        return f"together they took {text.size(memory)}"
    return None


def _unfit(
    state: ClusterState,
    observed: Observed,
    job: Job,
    bounds: tuple[Limits, PlannerConfig],
    cover: Cover,
) -> Objection | None:
    """Why this job shares with nobody, whoever it is."""
    limits, rules = bounds
    silent = silence(state, job, ActionClass.PACK, limits, rules)
    if silent is not None:
        return silent
    if observed.may_hang(job.id):
        return _load("it may hang: what it does now says nothing of what it needs")
    placement = state.placements[job.id]
    if len(placement.gpus) > 1:
        return _load(f"it runs on {len(placement.gpus)} GPUs: jobs that speak NCCL are never packed")
    if placement.share < 1:
        return _load("it shares its GPU already")
    load = too_busy(observed.uses.get(job.id), rules)
    if load is not None:
        return _load(load)
    objection = restraint(state, job, ActionClass.PACK, limits, cover)
    if objection is not None or job.checkpointable:
        return objection
    return Objection(
        rule=Rule.DOES_NOT_PAY, reason="it cannot be moved", would_change="a way to checkpoint it"
    )


def _load(reason: str) -> Objection:
    return Objection(rule=Rule.NOT_MEASURED, reason=reason, would_change="another load, or a longer record")


def too_busy(use: JobUse | None, rules: PlannerConfig) -> str | None:
    """Why a job with this use shares with nobody: too little known of it, or too busy; ``None``: it may."""
    if use is None or use.coverage_ratio < rules.coverage_ratio:
        cover = 0.0 if use is None else use.coverage_ratio
        return f"only {text.percent(cover)} of its time was measured"
    if use.measured_s < rules.pack_window_s * rules.coverage_ratio:
        return f"it was measured for {text.length(use.measured_s)} only"
    if use.others:
        return "its GPU had others on it, so what was measured is not its own"
    if use.crowded:
        return "its GPU was full with others on it: what it would use alone is not known"
    if use.by_engines:
        return "it works on video engines: how busy the SMs are does not say what room it leaves"
    if use.utilization_p95_ratio is None or use.memory_peak_bytes is None:
        return "its utilization or memory is not measured"
    if use.rung is not Basis.SM_ACTIVE:
        return "SM active is not measured here, and GPU utilization does not tell what room there is"
    if use.utilization_p95_ratio > rules.pack_p95:
        return f"it is {text.percent(use.utilization_p95_ratio)} busy in its busiest minutes"
    return None


def _paired(
    state: ClusterState, observed: Observed, rules: PlannerConfig, model: str, jobs: list[Job]
) -> list[Advice | Abstain]:
    experience = observed.experience.get(model) or Experience(gpu_model=model)

    def may(first: int, second: int) -> bool:
        one, two = jobs[first], jobs[second]
        gpu = state.gpus[state.placements[one.id].gpus[0]]
        uses = observed.uses[one.id], observed.uses[two.id]
        return may_share(one, two) and crowding(gpu, *uses, rules) is None

    chosen = choose_pairs([profile_of(job) for job in jobs], experience, PAIRING, may)
    pairs = [turned(pair) if _is_watched_turned(jobs, pair) else pair for pair in chosen]
    paired = {place for pair in pairs for place in (pair.foreground, pair.guest)}
    answers: list[Advice | Abstain] = [
        _advice(state, observed, rules, (jobs[pair.foreground], jobs[pair.guest]), pair) for pair in pairs
    ]
    lonely = Objection(
        rule=Rule.NO_ROOM,
        reason="nobody who may share with it fits beside it, or none that is worth it",
        would_change="another job of the same user, or two owners' consent to share",
    )
    return answers + [_abstain(state, job, lonely) for place, job in enumerate(jobs) if place not in paired]


def _is_watched_turned(jobs: list[Job], pair: Pairing) -> bool:
    """Whether only the guest counts its steps: of two that nobody tried, it is the foreground then."""
    return not pair.measured and jobs[pair.guest].paced and not jobs[pair.foreground].paced


def profile_of(job: Job) -> str:
    """What jobs have in common that behave alike: their owner and their name; else only themselves."""
    return f"{job.user}/{job.name}" if job.user and job.name else job.id


def _advice(
    state: ClusterState,
    observed: Observed,
    rules: PlannerConfig,
    both: tuple[Job, Job],
    pair: Pairing,
) -> Advice:
    host, guest = both
    target, freed = state.placements[host.id].gpus, state.placements[guest.id].gpus
    together_s = observed.endings.all_run_s(state, both, rules.horizon_s)
    gain = max(0.0, pair.gain) * state.gpus[freed[0]].part * together_s / 3600
    where = state.gpus[target[0]]
    return Advice(
        action=ActionClass.PACK,
        what=f"Move {job_name(guest)} beside {job_name(host)} on {where.node}, freeing one {where.model}",
        why=_why(observed, host, guest, pair),
        job=guest.id,
        gpus=(*target, *freed),
        steps=_steps(observed, host, guest, target),
        evidence=(
            *_evidence(observed, host, guest, pair),
            Evidence(name="expected_together_s", value=round(together_s)),
        ),
        gain_gpu_hours=gain,
        gain_money=money_of(state, observed, freed, gain),
        horizon_s=float(rules.horizon_s),
        risk=_risk(host, pair),
        risk_to=tuple(sorted({user for user in (host.user, guest.user) if user is not None})),
        confidence=MEASURED_CONFIDENCE if pair.measured else round(pair.chance, 2),
    )


def _risk(host: Job, pair: Pairing) -> str:
    undone = (
        f"for {SETTLES_S + PAIRING.undo_windows * UNDO_WINDOW_S} s before it is undone"
        if host.paced
        else "for as long as they share it: nobody counts its steps here, so it is not undone by itself"
    )
    return (
        f"{host.user or 'the owner'} may run at {text.percent(pair.foreground_worst)} of full speed "
        f"{undone}; nothing isolates the two, and a fault of one can end both"
    )


def _steps(observed: Observed, host: Job, guest: Job, target: tuple[GpuUuid, ...]) -> tuple[Move, ...]:
    """The host gives up a part of its GPU, then the guest comes; shares follow what each was seen to use."""
    mine = observed.uses[host.id].utilization_p95_ratio or 0.0
    other = observed.uses[guest.id].utilization_p95_ratio or 0.0
    share = 0.5 if mine + other == 0 else min(MOST_SHARE, max(LEAST_SHARE, mine / (mine + other)))
    share = round(share, 2)
    return (
        Move(job=host.id, gpus=target, share=share, action=ActionClass.PACK, reason="stays, and shares"),
        Move(
            job=guest.id,
            gpus=target,
            share=round(1 - share, 2),
            action=ActionClass.PACK,
            reason="both leave room",
        ),
    )


def _why(observed: Observed, host: Job, guest: Job, pair: Pairing) -> str:
    uses = [observed.uses[job.id] for job in (host, guest)]
    busy = " and ".join(text.percent(use.utilization_p95_ratio or 0.0) for use in uses)
    took = " and ".join(text.size(use.memory_peak_bytes or 0) for use in uses)
    how = (
        "measured side by side"
        if pair.measured
        else f"never tried; what is known of this model gives them a chance of {text.percent(pair.chance)}"
    )
    return (
        f"In their busiest minutes they fill {busy} of a GPU and take {took}. Together they run at "
        f"{text.percent(pair.foreground_speed)} and {text.percent(pair.guest_speed)} of full speed ({how})."
    )


def _evidence(observed: Observed, host: Job, guest: Job, pair: Pairing) -> tuple[Evidence, ...]:
    rows = []
    for role, job in (("foreground", host), ("guest", guest)):
        use = observed.uses[job.id]
        rows += [
            Evidence(name=f"{role}_job", value=job.id),
            Evidence(name=f"{role}_sm_active_p95_ratio", value=use.utilization_p95_ratio),
            Evidence(name=f"{role}_memory_peak_bytes", value=use.memory_peak_bytes),
        ]
    return (
        *rows,
        Evidence(name="foreground_expected_speed", value=round(pair.foreground_speed, 3)),
        Evidence(name="guest_expected_speed", value=round(pair.guest_speed, 3)),
        Evidence(name="foreground_worst_speed", value=round(pair.foreground_worst, 3)),
        Evidence(name="measured_side_by_side", value=pair.measured),
    )


def _abstain(state: ClusterState, job: Job, objection: Objection) -> Abstain:
    return Abstain(
        action=ActionClass.PACK,
        reason=objection.reason,
        would_change=objection.would_change,
        job=job.id,
        gpus=state.placements[job.id].gpus,
    )
