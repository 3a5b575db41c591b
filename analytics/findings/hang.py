"""A job that may hang: kernels run all the time, and the boards draw far less than they did. Pure.

Processes that wait for each other in a collective run its kernel without end: 100% GPU utilization at little
more than idle power (NVIDIA/nccl#968: about 70 W; nebius/soperator#796 looks for the same two). So does a
phase of small kernels. What tells them apart from outside is that it fell on all of the job's GPUs at once,
from twice as much or more, that it has stood still since, and that memory is hardly read or written. It
stays a suspicion: only the job's log and stacks can tell.
"""

from collections.abc import Sequence
from typing import NamedTuple

from analytics import text
from analytics.findings.window import bins_in, contradictions, cover, known, mean, percentile
from analytics.findings.words import gpu_names, holder_name, measured_by
from analytics.model import BIN_MS, Bins, Claim, Evidence, Finding, FindingKind, GpuPast, Verdict
from analytics.thresholds import LOW_RATIO, WORKING_POWER_OF_LIMIT, Thresholds, at_least, at_most
from collector.model import Basis, JobKind

ALWAYS_RATIO = 0.99
"""A kernel that never ends shows as 100%; rounding and the ends of a bin cost less than one."""
STILL_RATIO = 0.1
"""What spins draws the same all the time: the middle nine tenths of its bins lie within a tenth of their
mean. Epochs, batches and requests make work vary by more (docs/decisions/0121)."""
FELL_TO_RATIO = 0.5
"""It draws at most half of what it drew; a phase of other work, evaluation for one, rarely falls so far."""
READ_RATIO = 0.05
"""A spinning kernel polls a few words; who decodes with a large model reads its weights all the time."""
TOGETHER_MS = 300_000
"""Ranks stop within one step of each other; steps take minutes at most."""
OWN_USE = frozenset(
    {FindingKind.LOW_SATURATION, FindingKind.MEMORY_HOG, FindingKind.RARELY_USED, FindingKind.STRAGGLER}
)
"""What is said of how a job uses its GPUs; of one that hangs it says nothing."""


class Held(NamedTuple):
    """One GPU of a job, the claim on it, and what was said of it."""

    past: GpuPast
    claim: Claim
    verdict: Verdict


def looks_stuck(past: GpuPast, t: Thresholds) -> bool:
    """Whether its newest hour looks like a kernel that never ends; what it drew before is not asked here."""
    expected = bins_in(t.idle_window_s)
    window = past.bins.last(expected)
    if len(past.claims) != 1 or past.intruders or past.mig_profile is not None:
        return False
    if cover(window, expected) < t.coverage_ratio or any(contradictions(past, window)):
        return False
    kernels, power = known(window.gpu_utilization), known(window.power_mw)
    enough = t.coverage_ratio * expected
    if len(power) < enough or sum(at_least(value, ALWAYS_RATIO) for value in kernels) < enough:
        return False
    level, drawn = mean(known(window.utilization)), mean(power) or 0.0
    if past.rung is not Basis.GPU_UTILIZATION and (level is None or at_least(level, LOW_RATIO)):
        return False
    if not at_most(mean(known(window.memory_controller)) or 0.0, READ_RATIO):
        return False
    if past.power_limit_mw and not at_most(drawn, WORKING_POWER_OF_LIMIT * past.power_limit_mw):
        return False
    low, high = percentile(power, 0.05) or 0.0, percentile(power, 0.95) or 0.0
    return at_most(high - low, STILL_RATIO * drawn)


def may_hang(held: Sequence[Held], t: Thresholds) -> Finding | None:
    """A batch job on whose GPUs a kernel never ends since all fell together; some may be empty, or lost."""
    if held[0].claim.holder.kind in (JobKind.INFERENCE, JobKind.INTERACTIVE):
        return None
    stuck = [each for each in held if looks_stuck(each.past, t) and _has_fallen(each, t)]
    if not stuck or not all(each in stuck or _is_gone(each) for each in held):
        return None
    if len(held) == 1 and held[0].past.rung is Basis.GPU_UTILIZATION:
        return None  # one GPU, of which nobody sees how little of it works
    fell = [each.past.power_fall.fell_ms for each in stuck if each.past.power_fall is not None]
    if max(fell) - min(fell) > TOGETHER_MS:
        return None
    return _finding(held, stuck, max(fell), stuck[0].past.bins.last(bins_in(t.idle_window_s)))


def without_hung(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """``findings`` but for those of how jobs that may hang use their GPUs."""
    jobs = {f.holder.job for f in findings if f.kind is FindingKind.MAY_HANG and f.holder is not None}
    return tuple(
        finding
        for finding in findings
        if finding.kind not in OWN_USE or finding.holder is None or finding.holder.job not in jobs
    )


def _has_fallen(held: Held, t: Thresholds) -> bool:
    fall = held.past.power_fall
    if fall is None or fall.measured_ratio < t.coverage_ratio:
        return False
    is_long = held.past.bins.end_ms - fall.fell_ms >= t.idle_window_s * 1000
    return is_long and at_most(fall.now_mw, FELL_TO_RATIO * fall.before_mw)


def _is_gone(held: Held) -> bool:
    """No process is on it any more, or the GPU itself is lost: that is why others may wait."""
    gone = (FindingKind.ALLOCATED_EMPTY, FindingKind.FALLING_GPU)
    return any(found.kind in gone for found in held.verdict.findings)


def _finding(held: Sequence[Held], stuck: Sequence[Held], since_ms: int, window: Bins) -> Finding:
    first, pasts = stuck[0], [each.past for each in stuck]
    falls = [past.power_fall for past in pasts if past.power_fall is not None]
    before_w = (mean([fall.before_mw for fall in falls]) or 0.0) / 1000
    now_w = (mean([fall.now_mw for fall in falls]) or 0.0) / 1000
    hours = (
        (window.end_ms - since_ms)
        / 3_600_000
        * sum(past.share_of_device * each.claim.share for past, each in zip(pasts, stuck, strict=True))
    )
    level = mean(known(window.utilization))
    active = (
        ""
        if level is None or first.past.rung is Basis.GPU_UTILIZATION
        else (f" at {text.percent(level)} ({measured_by(first.past.rung)})")
    )
    each_ = " each" if len(stuck) > 1 else ""
    rest = len(held) - len(stuck)
    gone = f" Nothing is seen on {text.many(rest, 'other GPU')} of it." if rest else ""
    return Finding(
        kind=FindingKind.MAY_HANG,
        uuid=first.past.uuid,
        node=first.past.node,
        gpu_index=first.past.gpu_index,
        holder=first.claim.holder,
        since_ms=since_ms,
        window_from_ms=window.end_ms - len(window.covered) * BIN_MS,
        window_to_ms=window.end_ms,
        coverage=cover(window, len(window.covered)),
        rung=first.past.rung,
        wasted_gpu_hours=None,
        sentence=(
            f"{holder_name(first.claim)} may hang: {gpu_names(pasts)} "
            f"{'have' if len(stuck) > 1 else 'has'} drawn {text.watts(now_w)}{each_} since "
            f"{text.clock(since_ms)}, for {text.length((window.end_ms - since_ms) / 1000)}, "
            f"and {text.watts(before_w)} before; in the last "
            f"{text.length(len(window.covered) * BIN_MS / 1000)} kernels ran all the time{active}.{gone} "
            f"Processes that wait for each other look so, and so may a long phase of small kernels."
        ),
        evidence=(
            Evidence(name="gpus", value=len(held)),
            Evidence(name="gpus_stuck", value=len(stuck)),
            Evidence(name="power_mean_w", value=now_w),
            Evidence(name="power_before_w", value=before_w),
            Evidence(name="stuck_gpu_hours", value=hours),
            Evidence(name="utilization_mean_ratio", value=level),
            Evidence(name="memory_controller_mean_ratio", value=mean(known(window.memory_controller))),
        ),
    )
