"""Who asked for more GPU than they use, and what would do: fewer, a slice, a share, another model. Pure.

Measured over at least ``fit_window_s`` of running: peak memory, and SM active in the busiest minutes,
because a mean hides what a job needs when it works. Who reads or writes memory for over a tenth of the time
(``fit_controller``) is given none of them, a share neither: its neighbour takes of the same bandwidth. A
slice must hold the peak with room, and give the SMs of the busiest minutes with room. Of MISO's measured
A100 jobs (SoCC '22) the three that pass kept 0.91 to 0.98 of their speed on the slice they would be advised;
one that passes but for reading memory over a tenth of the time fell to 0.85: it is advised none.
Slices smaller than 4g are not in those measurements.

Above the busiest minutes the job's own peaks decide (``advisor.policies.peaks``).

Nothing is done to a running job: it is advice for the next request, so its steps are empty.

Which slices there are is from NVIDIA's MIG User Guide, by model; their memory and SMs are what the driver
lists, which is less than their names say. A model that is not listed there can't be cut, as far as is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import JobUse, Observed
from advisor.planner.plan import Abstain, Advice
from advisor.policies.exemptions import silence
from advisor.policies.mig_profiles import slices_of
from advisor.policies.peaks import keeps_speed, longer_ratio
from advisor.policies.phrases import job_name, money_of
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Use
from analytics import text
from analytics.findings.share import EXACT, tenths
from analytics.findings.window import empty_memory_bytes
from analytics.model import Evidence
from analytics.thresholds import LEAST_SAVING
from collector.model import Basis, JobKind

MIG_WORST = 0.9
"""The slowest that a job which passes these rules ran on its slice in MISO's measurements; see the tests."""
HANGS = ("it may hang: what it does now says nothing of what it needs", "its work going on")
# Shares are given in tenths.
ALWAYS_RATIO = 0.9
"""Kernels that run for so much of the time leave no pauses in which a slower one would catch up: SMs that are
half active on average may be all active in turns, and nobody measured that."""
UNREAD = "; how much it reads and writes memory is not measured, and a neighbour takes its part of that"
OR_OF_A_DAY = ", or that of its newest 24 h,"
"""The queries tell the larger of the two (``excess_ratios``)."""
ENGINES = "; it uses video engines, and a neighbour may too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A smaller thing that would do: what to ask for, its part of the present hours, and the risk.

    ``room``: how much room is left in it, as a sentence with a space before it, where that decides its size.
    ``longer_ratio``: by how much longer its peaks make its work take on it (``advisor.policies.peaks``).
    """

    ask: str
    hours_ratio: float
    risk: str
    confidence: float
    room: str = ""
    longer_ratio: float | None = None


def advise(
    state: ClusterState, observed: Observed, limits: Limits, rules: PlannerConfig
) -> tuple[Advice | Abstain, ...]:
    """One answer for each running job that was measured long enough, or the reason why there is none."""
    answers: list[Advice | Abstain] = []
    for job_id in sorted(state.placements):
        job = state.jobs[job_id]
        if job.use is Use.IDLE:
            continue  # an idle job is reclaimed: what it needs when it works is not what it does now
        silent = silence(state, job, ActionClass.RIGHT_SIZE, limits, rules)
        thin = _thin(job, observed.uses.get(job_id), len(state.placements[job_id].gpus), rules)
        if silent is not None:
            answers.append(_abstain(state, job, silent.reason, silent.would_change))
        elif observed.may_hang(job_id):
            answers.append(_abstain(state, job, *HANGS))
        elif thin is not None:
            answers.append(_abstain(state, job, *thin))
        elif _is_one_instance(state, job):
            answers.append(_abstain(state, job, "it has a MIG instance, which nobody cuts or shares", ""))
        elif (fit := _smallest(state, observed, job, rules)) is None:
            answers.append(_abstain(state, job, *_no_smaller(state, observed.uses[job_id], rules)))
        else:
            answers.append(_advice(state, observed, job, fit))
    return tuple(sorted(answers, key=lambda each: -each.gain_gpu_hours if isinstance(each, Advice) else 1.0))


def _thin(job: Job, use: JobUse | None, gpus: int, rules: PlannerConfig) -> tuple[str, str] | None:
    """Why what was measured is not enough to say how much it needs, and what would change that.

    Of several GPUs it is how many. Nothing that Fallow measures would change it for servers and engines.
    """
    if job.kind is JobKind.INFERENCE:
        return "it serves others: minutes say nothing of how fast it has to answer", ""
    if use is None or use.measured_s < rules.fit_window_s * rules.coverage_ratio:
        length_s = 0.0 if use is None else use.measured_s
        takes = text.length(rules.fit_window_s)
        return f"measured for {text.length(length_s)}; it takes {takes} to tell", "a longer record of it"
    if use.coverage_ratio < rules.coverage_ratio:
        part = text.percent(use.coverage_ratio)
        return f"only {part} of its time was measured", "a record with fewer gaps"
    if use.others:
        return (
            "its GPU had others on it, so what was measured is not its own",
            "a record of it alone on its GPU",
        )
    if use.crowded:
        return "its GPU was full with others on it: what it would use alone is not known", "an emptier GPU"
    if use.by_engines and gpus == 1:
        return "it works on video engines: how busy the SMs are does not say what it needs", ""
    busy = use.utilization_p95_ratio if gpus == 1 else use.utilization_mean_ratio
    if busy is None or use.memory_peak_bytes is None:
        return "its utilization or memory is not measured", "a source that measures both"
    touched = use.controller_p95_ratio
    if gpus == 1 and touched is not None and touched > rules.fit_controller:
        return (
            f"its memory is read or written for {text.percent(touched)} of the time while it works: it "
            f"would be slower with a part of it",
            "less traffic to its memory",
        )
    return None


def _no_smaller(state: ClusterState, use: JobUse, rules: PlannerConfig) -> tuple[str, str]:
    """Why nothing smaller would do, and what would change that."""
    placement = state.placements[use.job]
    gpus, total_bytes = len(placement.gpus), state.gpus[placement.gpus[0]].memory_bytes
    if gpus > 1 and _keeps_data(use, total_bytes):
        return (
            f"it computes on {use.gpus_used} of its {gpus} GPUs, and keeps data on the others, "
            f"{text.size(use.memory_unused_bytes)} on the fullest: on fewer it may run out of memory, "
            "and how many it needs is not known",
            "a run that keeps no data on the GPUs on which it does not compute",
        )
    if gpus > 1:
        if use.gpus_used and use.gpus_used < gpus:
            saving = text.percent(LEAST_SAVING)
            return f"it computes on {use.gpus_used} of its {gpus} GPUs: fewer saves under {saving}", ""
        return "no size is known for several GPUs", ""
    if use.uses_engines and use.gpus_used == 1:
        return "it uses video engines, of which a slice has a part or none, and no other size would do", ""
    if use.rung is Basis.SM_ACTIVE and total_bytes is not None:
        least = tenths(max(_needs(use, total_bytes, rules)))
        if least <= (1 - LEAST_SAVING) * placement.share and not keeps_speed(use, least):
            return f"its busiest minutes need what it has: {_too_slow(use, least)}", "flatter peaks"
    return "what it has fits what it uses", "using less"


def _is_one_instance(state: ClusterState, job: Job) -> bool:
    """It has the name of its board and its own memory, so what smaller profiles the board has isn't known."""
    gpus = state.placements[job.id].gpus
    return len(gpus) == 1 and state.gpus[gpus[0]].part_of_device is not None


def _smallest(state: ClusterState, observed: Observed, job: Job, rules: PlannerConfig) -> Fit | None:
    """The cheapest of what would do; ``None`` when nothing saves enough to be worth a change."""
    use, placement = observed.uses[job.id], state.placements[job.id]
    gpu = state.gpus[placement.gpus[0]]
    fits = (
        [_fewer(use, [state.gpus[uuid] for uuid in placement.gpus])]
        if len(placement.gpus) > 1
        else [
            _slice(use, gpu, placement.share, rules),
            _share(use, gpu, placement.share, rules),
            _model(state, observed, use, gpu) if placement.share == 1 else None,
        ]
    )
    worth = [fit for fit in fits if fit is not None and fit.hours_ratio <= 1 - LEAST_SAVING]
    return min(worth, key=lambda fit: (fit.hours_ratio, fit.ask), default=None)


def _fewer(use: JobUse, mine: Sequence[Gpu]) -> Fit | None:
    """Of several GPUs some never computed, and hold nothing: who keeps data there may not fit on fewer."""
    gpus = len(mine)
    if use.gpus_used is None or not 0 < use.gpus_used < gpus or _keeps_data(use, mine[0].memory_bytes):
        return None
    nouns = "GPUs" if any(gpu.part_of_device is None for gpu in mine) else "MIG instances"
    return Fit(
        ask=f"{use.gpus_used} instead of {gpus} {nouns}",
        hours_ratio=use.gpus_used / gpus,
        risk="none seen: the others never computed, and hold no data"
        if use.memory_unused_bytes is not None
        else "the others never computed; what memory they hold is not measured: it may not fit on fewer",
        confidence=0.95 if use.memory_unused_bytes is not None else 0.5,
    )


def _keeps_data(use: JobUse, total_bytes: int | None) -> bool:
    """Whether more memory is taken than an empty GPU has, on one on which it never computed."""
    return (use.memory_unused_bytes or 0) > empty_memory_bytes(total_bytes)


def _slice(use: JobUse, gpu: Gpu, share: float, rules: PlannerConfig) -> Fit | None:
    """The smallest MIG profile of this model that holds it; none for who uses video engines.

    A profile has a part of them or none: of an A100's five decoders the smallest has none, and none of its
    profiles up to 4g has an engine for JPEG (NVIDIA's guide).
    """
    busy, peak = use.utilization_p95_ratio or 0.0, use.memory_peak_bytes or 0
    if use.controller_p95_ratio is None or use.uses_engines:
        return None  # who reads more than a slice gives has been turned away before
    part = "a whole" if share == 1 else f"{share:g} of a"
    for piece in slices_of(gpu.model, gpu.memory_bytes):
        is_wide = busy <= rules.fit_p95 * piece.sm_ratio and keeps_speed(use, piece.sm_ratio)
        if is_wide and peak <= rules.fit_memory * piece.memory_bytes:
            return Fit(
                ask=f"a {piece.name} slice instead of {part} {gpu.model}",
                hours_ratio=piece.hours_ratio / share,
                risk=f"it may run at {text.percent(MIG_WORST)} of its speed (the slowest such job of MISO's)"
                f"{_peaks(use, piece.sm_ratio)}{_slower(use)}",
                confidence=0.8 if use.rung is Basis.SM_ACTIVE else 0.7,
                longer_ratio=longer_ratio(use, piece.sm_ratio),
            )
    return None


def _peaks(use: JobUse, part: float) -> str:
    """How much longer its peaks make its work take on so much of a GPU, for the risk."""
    longer = longer_ratio(use, part)
    if use.excess_ratios is None:
        return (
            f"; its busiest twentieth of minutes may make its work take up to {text.percent(longer)} longer"
        )
    if longer < 10**-EXACT / 100:
        return "; no minute of its work filled more than that"
    return f"; its peaks would have made its work{OR_OF_A_DAY} take {text.percent(longer)} longer"


def _slower(use: JobUse) -> str:
    """What a smaller size costs a job whose kernels run all the time, for the risk; else nothing."""
    if (use.kernels_ratio or 0.0) < ALWAYS_RATIO:
        return ""
    part = text.percent(use.kernels_ratio)
    return (
        f"; its kernels run {part} of the time while it works: with fewer SMs they may take longer, and it "
        f"with them"
    )


def _share(use: JobUse, gpu: Gpu, share: float, rules: PlannerConfig) -> Fit | None:
    """A fraction of the GPU in tenths, for sites that give fractions; it holds compute and memory both."""
    if gpu.memory_bytes is None or use.rung is not Basis.SM_ACTIVE:
        return None
    compute, memory = _needs(use, gpu.memory_bytes, rules)
    least = tenths(max(compute, memory))
    # The smallest share from least on that leaves the job its speed.
    needed = next((at / 10 for at in range(round(least * 10), 10) if keeps_speed(use, at / 10)), 1.0)
    if needed >= share:
        return None
    room = gpu.memory_bytes - rules.shared_reserve_bytes
    of = text.size(room) if rules.shared_reserve_bytes else ""
    sharing = f" A GPU that is shared gives {of}, the rest of its memory is left free." if of else ""
    if needed > least:
        spare = f" Its peaks decide the share: {_too_slow(use, least)}."
    elif memory > compute:
        to_spare = text.percent(1 - rules.fit_memory)
        spare = f" Memory decides the share, with {to_spare} to spare.{sharing}"
    else:
        spare = f" The busiest minutes decide the share, with {text.percent(1 - rules.fit_p95)} to spare."
    return Fit(
        ask=f"{needed:g} of a {gpu.model or 'GPU'} instead of {share:g}",
        hours_ratio=needed / share,
        risk=(
            "it has a neighbour then, and nothing isolates the two"
            if share == 1
            else "others get what it leaves, and nothing isolates it from them"
        )
        + _peaks(use, needed)
        + _slower(use)
        + ("" if use.controller_p95_ratio is not None else UNREAD)
        + (ENGINES if use.uses_engines else ""),
        confidence=0.6,
        room=spare,
        longer_ratio=longer_ratio(use, needed),
    )


def _needs(use: JobUse, memory_bytes: int, rules: PlannerConfig) -> tuple[float, float]:
    """What parts of a GPU it needs: of its SMs by its busiest minutes, of what of its memory is shared."""
    room = memory_bytes - rules.shared_reserve_bytes
    memory = (use.memory_peak_bytes or 0) / rules.fit_memory / room if room > 0 else 1.0
    return (use.utilization_p95_ratio or 0.0) / rules.fit_p95, memory


def _too_slow(use: JobUse, part: float) -> str:
    longer = text.percent(longer_ratio(use, part))
    if use.excess_ratios is None:
        return f"{part:g} may make its work take up to {longer} longer"
    return f"{part:g} would have made its work{OR_OF_A_DAY} take {longer} longer"


def _model(state: ClusterState, observed: Observed, use: JobUse, gpu: Gpu) -> Fit | None:
    """A cheaper model that is here and has the memory; how fast it would run there nobody measured."""
    mine = observed.price_of(gpu.model)
    if mine is None or mine.per_gpu_hour <= 0:
        return None
    peak, busy = use.memory_peak_bytes or 0, use.utilization_p95_ratio or 0.0
    offers = []
    for other in state.gpus.values():
        price = observed.price_of(other.model)
        roomy = other.memory_bytes is not None and peak <= 0.85 * other.memory_bytes
        is_unpartitioned = other.part_of_device is None  # an instance bears its board's name
        if other.model not in (None, gpu.model) and is_unpartitioned and roomy and price is not None:
            offers.append((price.per_gpu_hour / mine.per_gpu_hour, str(other.model)))
    if not offers or busy > 0.25:
        return None
    ratio, name = min(offers)
    return Fit(
        ask=f"{name} instead of {gpu.model}",
        hours_ratio=ratio,
        risk=f"how fast it runs on {name} was never measured: try it for an hour first",
        confidence=0.4,
    )


MAY_SERVE = "; whether it serves others, and how fast it then has to answer, is not known"
"""Servers are given no smaller size; a job of unknown kind may be one."""


def _advice(state: ClusterState, observed: Observed, job: Job, fit: Fit) -> Advice:
    use, placement = observed.uses[job.id], state.placements[job.id]
    gpu = state.gpus[placement.gpus[0]]
    gain = use.held_gpu_hours * (1 - fit.hours_ratio)
    window_s = (use.to_ms - use.from_ms) / 1000
    device = "MIG instance" if gpu.part_of_device is not None else gpu.model or "GPU"
    took, of = (
        text.size(use.memory_peak_bytes or 0),
        "" if gpu.memory_bytes is None else f" of {text.size(gpu.memory_bytes)}",
    )
    return Advice(
        action=ActionClass.RIGHT_SIZE,
        what=f"Next time, ask for {fit.ask} for {job_name(job)}",
        why=(
            f"It used {took}{of} and {text.percent(use.utilization_p95_ratio or 0.0)} of a "
            f"{device} at most in 19 of 20 minutes of its work, over {text.length(window_s)}.{fit.room}"
        ),
        job=job.id,
        gpus=placement.gpus,
        evidence=_evidence(use, fit),
        gain_gpu_hours=gain,
        gain_money=money_of(state, observed, placement.gpus, gain),
        gain_is_past=True,
        horizon_s=window_s,
        risk=fit.risk if job.kind is not None else f"{fit.risk}{MAY_SERVE}",
        risk_to=() if job.user is None else (job.user,),
        confidence=fit.confidence,
    )


def _evidence(use: JobUse, fit: Fit) -> tuple[Evidence, ...]:
    return (
        Evidence(name="window_s", value=round((use.to_ms - use.from_ms) / 1000)),
        Evidence(name="coverage_ratio", value=round(use.coverage_ratio, 3)),
        Evidence(name="rung", value=use.rung.name.lower()),
        Evidence(name="utilization_p95_ratio", value=use.utilization_p95_ratio),
        Evidence(name="utilization_mean_ratio", value=use.utilization_mean_ratio),
        Evidence(name="longer_by_peaks_ratio", value=fit.longer_ratio),
        Evidence(name="memory_controller_p95_ratio", value=use.controller_p95_ratio),
        Evidence(name="memory_peak_bytes", value=use.memory_peak_bytes),
        Evidence(name="gpus_used", value=use.gpus_used),
        Evidence(name="held_gpu_hours", value=round(use.held_gpu_hours, 3)),
    )


def _abstain(state: ClusterState, job: Job, reason: str, would_change: str) -> Abstain:
    gpus = state.placements[job.id].gpus
    return Abstain(
        action=ActionClass.RIGHT_SIZE, reason=reason, would_change=would_change, job=job.id, gpus=gpus
    )
