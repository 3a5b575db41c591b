"""What smaller sizes and memory settings would have given back, and what later jobs say of them. Pure.

What would have been advised from the first half of the window stands beside what the second half of the same
kinds of job allows (``backtest_sizes``, ``backtest_memory``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import Observed, PastJob, Price
from advisor.planner.plan import Advice
from advisor.policies import memory_cap, right_size
from advisor.policies.pack import profile_of
from advisor.state.model import ClusterState, Gpu, Phase, Placement, Telemetry, Use
from advisor.whatif.estimate import Foreseen, Given
from analytics.vocabulary.actions import ActionClass
from collector.model import GpuUuid, NodeName

HOUR_MS = 3_600_000
LATER_S = 21_600
"""A job of the later half that was measured for so long says whether a size would have done."""
SLACK_S = 1.0


def sized(jobs: Sequence[PastJob], prices: Mapping[str, Price], rules: PlannerConfig) -> Given:
    """Every job of the window measured long enough, asked for the size that would have done."""
    advised = _sizes(jobs, prices, rules)
    return Given(
        action=ActionClass.RIGHT_SIZE.value,
        how="asked for what would have done",
        gpu_hours=sum(each.gain_gpu_hours for each in advised),
        jobs=len(advised),
        times=len(advised),
    )


def capped(jobs: Sequence[PastJob], prices: Mapping[str, Price], rules: PlannerConfig) -> Given:
    """Every job that said how much memory it needed, and took more, launched with a cap at that."""
    result = _freed(jobs, prices, rules)
    return Given(
        action=ActionClass.CAP_MEMORY.value,
        how="launched with a cap at the memory that they said to need",
        gpu_hours=sum(part * _device_s(past) for past, part in result) / 3600,
        jobs=len(result),
        times=len(result),
    )


def backtest_sizes(
    earlier: Sequence[PastJob], later: Sequence[PastJob], prices: Mapping[str, Price], rules: PlannerConfig
) -> tuple[Foreseen, ...]:
    """For each later job of a kind that was advised a smaller size: what was expected, and what it allows.

    A size that would have been advised from the later time as well would have done; one that would not is
    counted as no gain at all, although it may have done without its margins. GPU-seconds.
    """
    saved: dict[tuple[str, int], float] = {}
    for advice in _sizes(earlier, prices, rules):
        past = next(past for past in earlier if past.job.id == advice.job)
        if past.use.held_gpu_hours > 0:
            saved[_kind(past)] = advice.gain_gpu_hours / past.use.held_gpu_hours
    least = replace(rules, fit_window_s=min(rules.fit_window_s, LATER_S))
    again = {advice.job: advice.gain_gpu_hours for advice in _sizes(later, prices, least)}
    result = []
    for past in later:
        part, held_s = saved.get(_kind(past)), past.use.held_gpu_hours * 3600
        if part is None or past.use.measured_s < least.fit_window_s * rules.coverage_ratio:
            continue
        allows = again.get(past.job.id, 0.0) * 3600
        came_s = part * held_s if allows >= part * held_s - SLACK_S else 0.0
        result.append(Foreseen(expected_s=part * held_s, came_s=came_s))
    return tuple(result)


def backtest_memory(
    earlier: Sequence[PastJob], later: Sequence[PastJob], prices: Mapping[str, Price], rules: PlannerConfig
) -> tuple[Foreseen, ...]:
    """For each later job of a kind whose memory would have been capped: what was expected, and what it frees.

    A cap that the later job would have run into frees nothing. GPU-seconds.
    """
    caps: dict[tuple[str, int], tuple[int, float]] = {}
    for past, part in _freed(earlier, prices, rules):
        cap = memory_cap.cap_bytes(past.use, past.memory_total_bytes or 0, rules)
        limit = caps.get(_kind(past))
        if cap is not None and (limit is None or cap > limit[0]):
            caps[_kind(past)] = (cap, part)
    result = []
    for past in later:
        needed, total, busy = (
            past.use.memory_needed_bytes,
            past.memory_total_bytes,
            past.use.utilization_p95_ratio,
        )
        if _kind(past) not in caps or needed is None or not total or busy is None:
            continue
        cap, part = caps[_kind(past)]
        frees = min(part, 1 - cap / total, 1 - busy) if needed + rules.context_bytes <= cap else 0.0
        result.append(Foreseen(expected_s=part * _device_s(past), came_s=max(0.0, frees) * _device_s(past)))
    return tuple(result)


def _sizes(jobs: Sequence[PastJob], prices: Mapping[str, Price], rules: PlannerConfig) -> list[Advice]:
    """Smaller sizes for these jobs, as they would be advised."""
    state, observed = _as_state(jobs, prices)
    answers = right_size.advise(state, observed, Limits(), rules)
    return [each for each in answers if isinstance(each, Advice)]


def _freed(
    jobs: Sequence[PastJob], prices: Mapping[str, Price], rules: PlannerConfig
) -> list[tuple[PastJob, float]]:
    """The jobs whose memory would have been capped, each with the part of its GPUs that this frees."""
    state, observed = _as_state(jobs, prices)
    answers = memory_cap.advise(state, observed, Limits(), rules)
    advised = {each.job for each in answers if isinstance(each, Advice)}
    parts = (
        (past, memory_cap.freed_part(state, state.jobs[past.job.id], past.use, rules))
        for past in jobs
        if past.job.id in advised
    )
    return [(past, part) for past, part in parts if part > 0]


def _device_s(past: PastJob) -> float:
    """Seconds that it was on its GPUs, each counted whole, of a MIG instance its part of the device."""
    return past.use.held_gpu_hours / past.job.share * 3600


def _kind(past: PastJob) -> tuple[str, int]:
    """Jobs that the next one is like: the same owner, name and number of GPUs."""
    return profile_of(past.job), past.gpus


def _as_state(jobs: Sequence[PastJob], prices: Mapping[str, Price]) -> tuple[ClusterState, Observed]:
    """Every job of the window as if it ran now, each on GPUs of its own, which are all like its first."""
    owned = {past.job.id: tuple(_uuid(past, at) for at in range(past.gpus)) for past in jobs}
    alike = {past.job.id: gpu_of(past) for past in jobs}
    state = ClusterState(
        as_of_ms=max((past.to_ms for past in jobs), default=0) + HOUR_MS,
        gpus={uuid: alike[job] for job, uuids in owned.items() for uuid in uuids},
        jobs={past.job.id: replace(past.job, phase=Phase.RUNNING, use=Use.ACTIVE) for past in jobs},
        placements={past.job.id: Placement(gpus=owned[past.job.id], share=past.job.share) for past in jobs},
        projects={},
    )
    return state, Observed(uses={past.job.id: past.use for past in jobs}, prices=prices)


def _uuid(past: PastJob, at: int) -> GpuUuid:
    return GpuUuid(f"{past.job.id}#{at}")


def gpu_of(past: PastJob) -> Gpu:
    """The first GPU that it had."""
    return Gpu(
        uuid=_uuid(past, 0),
        node=NodeName("past"),
        model=past.model,
        memory_bytes=past.memory_total_bytes,
        part_of_device=past.part_of_device,
        telemetry=Telemetry.GOOD,
    )
