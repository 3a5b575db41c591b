"""What is wrong with the machine: counters that contradict, memory left behind, a GPU that is gone."""

from collections.abc import Collection

from analytics import text
from analytics.findings.lost import error_of
from analytics.findings.window import (
    MS_PER_S,
    NOISE_RATIO,
    Doubt,
    bins_in,
    contradictions,
    copying,
    cover,
    doubt,
    doubts,
    known,
    mean,
    memory_floor_bytes,
    presence,
    until_measured,
)
from analytics.findings.words import gpu_name, holder_name, measured_by
from analytics.model import BIN_MS, Bins, Evidence, Finding, FindingKind, GpuPast, Unknown
from analytics.thresholds import Thresholds
from collector.model import Basis, Holder

DOUBTED = "its counters contradict each other"


def suspect(past: GpuPast, t: Thresholds) -> Finding | Unknown | None:
    """Counters that contradict each other for the whole window: kernels without work, or work without any."""
    expected = bins_in(t.fault_window_s)
    seen = until_measured(past.bins)
    window = seen.last(expected)
    which = doubts(past, seen)
    always = [each is not None for each in which]
    odd = always[-expected:]
    if not odd or not odd[-1]:
        return None
    unsure = doubt(past, window, expected, t, FindingKind.SUSPECT_COUNTERS)
    if unsure is not None:
        return unsure
    valid = len(known(window.busiest))
    if sum(odd) < t.idle_bins_ratio * valid:
        return None
    shown = mean(known(window.gpu_utilization))
    power = mean(known(window.power_mw))
    return _finding(
        past,
        FindingKind.SUSPECT_COUNTERS,
        window,
        since_ms=window.end_ms - _run_of(always) * BIN_MS,
        sentence=(
            f"{gpu_name(past)} {_contradiction(past, which[-1], shown, power)} over the last "
            f"{text.length(t.fault_window_s)}: its counters are not to be believed, and nothing is concluded "
            f"from them."
        ),
        evidence=(
            Evidence(name="gpu_utilization_mean_ratio", value=shown),
            Evidence(name="utilization_mean_ratio", value=mean(known(window.utilization))),
            Evidence(name="suspect_bins", value=sum(odd)),
            Evidence(name="valid_bins", value=valid),
            Evidence(name="power_mean_w", value=None if power is None else power / 1000),
            Evidence(
                name="idle_power_w", value=None if past.idle_power_mw is None else past.idle_power_mw / 1000
            ),
            Evidence(name="process_count", value=window.processes[-1]),
        ),
    )


def _contradiction(past: GpuPast, doubt: Doubt | None, shown: float | None, power: float | None) -> str:
    """What contradicts what; ``power`` in mW."""
    watts = "" if power is None else text.watts(power / 1000)
    if doubt is Doubt.WORKING_POWER:
        return f"draws {watts}, which no idle board of its kind does, and reports no activity"
    why = "with no process on it"
    if doubt is Doubt.IDLE_POWER:
        why = "at the power it draws when idle"
    if doubt is Doubt.NOTHING_ACTIVE:
        engine = "the graphics engine" if past.rung is Basis.GRAPHICS_ACTIVE else "its SMs"
        why = f"while {engine} did nothing ({measured_by(past.rung)})"
    drawing = f", drawing {watts}" if watts else ""
    return f"reports {text.percent(shown or 0.0)} GPU utilization {why}{drawing}"


def unless_doubted(past: GpuPast, answer: Finding, t: Thresholds, *, is_idle: bool) -> Finding | Unknown:
    """A finding by how a GPU was used; unknown where its counters contradict each other within its window.

    Who is told idle did nothing at all, so one bin of doubt is enough; of use a window may lack some bins.
    """
    bins = max(1, (past.bins.end_ms - answer.window_from_ms) // BIN_MS)
    odd = contradictions(past, past.bins.last(bins))
    if sum(odd) <= (0.0 if is_idle else (1.0 - t.coverage_ratio) * len(odd)):
        return answer
    return Unknown(uuid=past.uuid, kinds=(answer.kind,), reason=DOUBTED)


def of_holders(past: GpuPast, kinds: Collection[FindingKind]) -> Unknown | None:
    """Whether a holder does anything on a GPU is not known while its counters contradict each other.

    For a minute, at least: at the end of a process one bin may count its kernels and no process.
    """
    odd = contradictions(past, past.bins.last(bins_in(60)))
    if not odd or not all(odd):
        return None
    return Unknown(uuid=past.uuid, kinds=tuple(sorted(kinds)), reason=DOUBTED)


def zombie(past: GpuPast, t: Thresholds) -> Finding | Unknown | None:
    """Memory above the idle floor on a GPU that nobody holds, no process is on and that does nothing.

    Who uses a GPU is alive, whatever a count of processes says.
    """
    if past.claims:
        return None
    expected = bins_in(t.fault_window_s)
    seen = until_measured(past.bins)
    window = seen.last(expected)
    floor = memory_floor_bytes(past)
    always = [
        processes == 0
        and memory is not None
        and memory > floor
        and (busy is None or busy <= NOISE_RATIO)
        and not copies
        for processes, memory, busy, copies in zip(
            seen.processes, seen.memory_bytes, seen.busiest, copying(seen), strict=True
        )
    ]
    left = always[-expected:]
    if not left or not left[-1]:
        return None
    unsure = doubt(past, window, expected, t, FindingKind.ZOMBIE_MEMORY)
    if unsure is not None:
        return unsure
    valid = sum(there is not None for there in presence(past, window))
    if sum(left) < t.idle_bins_ratio * valid:
        return None
    memory = window.memory_bytes[-1] or 0
    return _finding(
        past,
        FindingKind.ZOMBIE_MEMORY,
        window,
        since_ms=window.end_ms - _run_of(always) * BIN_MS,
        sentence=(
            f"{gpu_name(past)} is held by nobody and has no process, yet {text.size(memory)} of its memory "
            f"are taken: left behind by a dead process, or by one that cannot be seen from here."
        ),
        evidence=(
            Evidence(name="memory_used_bytes", value=memory),
            Evidence(name="bins_with_memory", value=sum(left)),
            Evidence(name="valid_bins", value=valid),
        ),
    )


def falling(past: GpuPast, now_ms: int, t: Thresholds) -> Finding | None:
    """A GPU that is silent while its neighbours answer, or of which its driver says that it is lost.

    Rows of one GPU may be missing for other reasons: only the driver, or XID 79, says that it is off the bus.

    A whole node in silence is no finding, for it may be down for maintenance, unless its driver told an
    error of this GPU about when it was last seen.
    """
    seen_ms = past.newest_ms if past.newest_ms is not None else past.lost_ms
    if seen_ms is None or now_ms - seen_ms < t.silent_s * MS_PER_S:
        return None
    reported = past.lost_ms is not None or past.is_off_the_bus
    told = error_of(past)
    if told is None and (past.siblings_fresh is False or (not reported and past.siblings_fresh is None)):
        return None
    silent = f"{text.clock(seen_ms)}, for {text.length((now_ms - seen_ms) / 1000)}"
    others = ", while the other GPUs of its node are" if past.siblings_fresh else ""
    others = ", nor has any other GPU of its node" if past.siblings_fresh is False else others
    said = f"has not been seen since {silent}{others}."
    if past.newest_ms is None:
        said = f"was never measured here, and is silent since {silent}."
    if past.is_off_the_bus:
        how = "the driver reported it lost" if past.lost_ms is not None else "its driver told XID 79"
        how = how if past.newest_ms is not None else "it was never measured here"
        said = f"fell off the bus: {how}; silent since {silent}."
    said += f" Its driver told {told}." if told is not None and not told.startswith("XID 79") else ""
    again = f" It fell {past.falls} times in the last 24 h." if past.falls > 1 else ""
    holders = past.claims or past.last_claims
    names = " and ".join(holder_name(claim) for claim in holders)
    held = f", {'held' if past.claims else 'last held'} by {names}," if names else ""
    return _finding(
        past,
        FindingKind.FALLING_GPU,
        Bins(end_ms=now_ms),
        since_ms=seen_ms,
        sentence=(f"{gpu_name(past)}{held} {said}{again}"),
        evidence=(
            Evidence(name="silent_s", value=(now_ms - seen_ms) // MS_PER_S),
            Evidence(name="reported_lost", value=reported),
            Evidence(name="off_the_bus", value=past.is_off_the_bus),
            Evidence(name="siblings_answer", value=past.siblings_fresh),
            Evidence(name="falls", value=past.falls),
            Evidence(name="error", value=told),
        ),
    )


def _run_of(flags: list[bool]) -> int:
    """How many of the newest flags are true without a break."""
    count = 0
    for flag in reversed(flags):
        if not flag:
            return count
        count += 1
    return count


def _holder(past: GpuPast) -> Holder | None:
    claims = past.claims or past.last_claims
    return claims[0].holder if len(claims) == 1 else None


def _finding(
    past: GpuPast,
    kind: FindingKind,
    window: Bins,
    *,
    since_ms: int,
    sentence: str,
    evidence: tuple[Evidence, ...],
) -> Finding:
    bins = len(window.covered)
    return Finding(
        kind=kind,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=_holder(past),
        since_ms=since_ms,
        window_from_ms=window.end_ms - bins * BIN_MS if bins else since_ms,
        window_to_ms=window.end_ms,
        coverage=cover(window, bins),
        rung=past.rung,
        wasted_gpu_hours=None,
        sentence=sentence,
        evidence=evidence,
    )
