"""One verdict for a job over all its GPUs: it uses a part of them, or all but a few wait for those few. Pure.

Only jobs that have their GPUs to themselves: on a shared GPU the bins are not the job's own. What is said
here bears no hours; those are in the findings of each GPU, so that an hour counts once.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from analytics import text
from analytics.findings.hang import Held, may_hang
from analytics.findings.window import (
    bins_in,
    contradictions,
    copying,
    cover,
    faint_work,
    known,
    mean,
    memory_floor_bytes,
    newest,
)
from analytics.findings.words import by_place, gpu_names, holder_name, measured_by, read_seldom
from analytics.model import BIN_MS, IDLENESS, Bins, Claim, Evidence, Finding, FindingKind, GpuPast, Verdict
from analytics.thresholds import IDLE_RATIO, Thresholds, at_least, at_most
from analytics.vocabulary.findings import IDLE_MEMORY, WORKED_BEFORE
from collector.model import Basis, JobKind

SPINS_RATIO = 0.9
"""Who waits in a collective runs its kernel all the time, and so may who is waited for: one side does."""
WORKS_RATIO = 0.5
"""With so much of its SMs active the busier one of two works, and does not spin: `good` in the ledger."""
ACTIVE_RATIO = 0.9
"""Each GPU takes part in so many bins of the window: one that is idle now and then is not in lock step."""
HOT_RATIO = 0.1
"""Heat that held clocks down for less of the window is no reason for a slow GPU. A GPU says why its clocks
are down (NVML, clocks event reasons: software and hardware thermal slowdown)."""
PARTS = 2
"""The halves of the window must say the same: where work moved between GPUs there is no straggler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """One GPU of a job, the claim on it, and what was said of it."""

    past: GpuPast
    claim: Claim
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Uneven:
    """Which of a job's GPUs (by place) are unlike the others, and the mean level of both, by one measure."""

    few: frozenset[int]
    few_level: float
    rest_level: float
    by_kernels: bool


def judge_jobs(
    pasts: Sequence[GpuPast], verdicts: Sequence[Verdict], thresholds: Thresholds
) -> tuple[Finding, ...]:
    """What is to be said of jobs with GPUs of their own; ``verdicts`` are those of ``pasts``."""
    jobs: defaultdict[str, list[_Held]] = defaultdict(list)
    for past, verdict in zip(pasts, verdicts, strict=True):
        for claim in past.claims:
            jobs[claim.holder.job].append(_Held(past=past, claim=claim, verdict=verdict))
    answers: list[Finding | None] = []
    for job in sorted(jobs):
        held = sorted(jobs[job], key=lambda each: by_place(each.past))
        if any(len(each.past.claims) != 1 for each in held):
            continue
        hung = may_hang([Held(each.past, each.claim, each.verdict) for each in held], thresholds)
        if hung is not None:
            answers.append(hung)
        elif len(held) > 1:
            answers.append(_uses_part(held, thresholds) or _straggler(held, thresholds))
    return tuple(answer for answer in answers if answer is not None)


def _uses_part(held: Sequence[_Held], t: Thresholds) -> Finding | None:
    """Some of its GPUs are idle or empty, as each one's own finding says, while others are in use.

    What is looked at is the whole run: GPUs that have worked in it are needed, as far as anybody knows, and
    their processes may be at work beside them.
    """
    quiet = [(each, found) for each in held for found in each.verdict.findings if found.kind in IDLENESS]
    idle = [each for each, _ in quiet]
    used = [each for each in held if each not in idle and _is_used(each, t)]
    if not idle or not used:
        return None
    unsure = len(held) - len(idle) - len(used)
    since_ms = max(found.since_ms for _, found in quiet)
    names = gpu_names([each.past for each in idle])
    window = idle[0].past.bins.last(bins_in(t.idle_window_s))
    quiet_for = text.length((window.end_ms - since_ms) / 1000)
    have = "has" if len(idle) == 1 else "have"
    least, more = ("at least ", "") if _may_be_longer(quiet, since_ms) else ("", " or more")
    more = "" if len(idle) == 1 else more
    worked = all(each.claim.busy_until_ms is not None for each in idle)
    now, before, may = "", "", ""
    if worked:
        now, before = " now", ", which worked for it before,"
        whose = "its process" if len(idle) == 1 else "their processes"
        may = f" {whose[0].upper()}{whose[1:]} may be at work on the CPU, or have ended."
    most, data = _data_on([each.past for each in idle])
    tail = f" {unsure} more could not be judged." if unsure else ""
    tail += read_seldom([each.past for each in idle])
    return _finding(
        FindingKind.USES_PART,
        idle[0],
        window,
        since_ms=since_ms,
        sentence=(
            f"{holder_name(idle[0].claim)} was given {len(held)} GPUs and uses {len(used)} of them{now}: "
            f"{names}{before} {have} done nothing for it for {least}{quiet_for}{more}.{data}{may}{tail}"
        ),
        evidence=(
            Evidence(name="gpus", value=len(held)),
            Evidence(name="gpus_used", value=len(used)),
            Evidence(name="gpus_idle", value=len(idle)),
            Evidence(name="gpus_not_judged", value=unsure),
            Evidence(name="idle_gpus", value=names),
            *((Evidence(name=WORKED_BEFORE, value=True),) if worked else ()),
            *((Evidence(name=IDLE_MEMORY, value=most),) if most is not None else ()),
        ),
    )


def _data_on(idle: Sequence[GpuPast]) -> tuple[int | None, str]:
    """The most memory that is taken on one of the idle GPUs, and a sentence of it; none where they are empty.

    More than an empty GPU has is data: the job may not fit on fewer.
    """
    taken = [(past, newest(past.bins.memory_bytes)) for past in idle]
    full = [(past, held) for past, held in taken if held is not None and held > memory_floor_bytes(past)]
    if not full:
        return None, ""
    sizes = [held for _, held in full]
    most = max(sizes)
    who = (
        gpu_names([past for past, _ in full]) if len(full) < len(idle) else "It" if len(idle) == 1 else "They"
    )
    up_to = "" if text.size(min(sizes)) == text.size(most) else "up to "
    holds, each = ("holds", "") if len(full) == 1 else ("hold", " each")
    keeps = "may keep" if all(newest(past.bins.processes) == 0 for past, _ in full) else "keeps"
    return most, f" {who} {holds} {up_to}{text.size(most)}{each}: the job {keeps} data there."


def _may_be_longer(quiet: Sequence[tuple[_Held, Finding]], since_ms: int) -> bool:
    """Whether the quiet began with the records of a GPU, before which nobody knows."""
    return any(
        evidence.name == "older_than_records" and evidence.value is True and each.claim.from_ms >= since_ms
        for each, found in quiet
        for evidence in found.evidence
    )


def _straggler(held: Sequence[_Held], t: Thresholds) -> Finding | None:
    """All take part all the time, and a few are busy far less, or far more, than the others.

    Servers have the load that their callers give them, and at a terminal each GPU may have its own program.
    """
    if any(each.claim.holder.kind in (JobKind.INFERENCE, JobKind.INTERACTIVE) for each in held):
        return None
    windows = [each.past.bins.last(bins_in(t.straggler_window_s)) for each in held]
    if not all(_is_steady(each, window, t) for each, window in zip(held, windows, strict=True)):
        return None
    whole = _uneven(windows, held, t)
    if whole is None:
        return None
    half = len(windows[0].covered) // PARTS
    newer = _uneven([window.last(half) for window in windows], held, t)
    older = _uneven([_first(window, half) for window in windows], held, t)
    if newer is None or older is None or {newer.few, older.few} != {whole.few}:
        return None
    return _straggler_finding(held, windows, whole)


def _is_steady(held: _Held, window: Bins, t: Thresholds) -> bool:
    expected = bins_in(t.straggler_window_s)
    if held.claim.from_ms > window.end_ms - expected * BIN_MS or cover(window, expected) < t.coverage_ratio:
        return False
    busy = known(window.busiest)
    if any(contradictions(held.past, window)):  # its level says nothing
        return False
    return sum(value > IDLE_RATIO for value in busy) >= ACTIVE_RATIO * expected


def _uneven(windows: Sequence[Bins], held: Sequence[_Held], t: Thresholds) -> _Uneven | None:
    """Who is unlike the others, by the time in which kernels ran, else by the SMs; ``None``: nobody is."""
    kernels = [mean(known(window.gpu_utilization)) for window in windows]
    levels = [mean(known(window.utilization)) for window in windows]
    measured = len({each.past.rung for each in held}) == 1 and held[0].past.rung is not Basis.UNKNOWN
    found = _split(kernels, t, by_kernels=True)
    if found is not None and len(held) == 2 and measured:
        found = _of_two(found, levels)
    if found is not None:
        return found
    spins = all(value is None or at_least(value, SPINS_RATIO) for value in kernels)
    return _split(levels, t, by_kernels=False) if measured and spins else None


def _split(levels: Sequence[float | None], t: Thresholds, *, by_kernels: bool) -> _Uneven | None:
    """The minority on one side of the widest gap, where that is wide enough and one side is always busy."""
    values = [(value, place) for place, value in enumerate(levels) if value is not None]
    if len(values) < len(levels):
        return None
    values.sort()
    at = min(range(1, len(values)), key=lambda place: values[place - 1][0] / max(values[place][0], 1e-9))
    low, high = values[:at], values[at:]
    if not at_most(low[-1][0], t.straggler_ratio * high[0][0]):
        return None
    if by_kernels and not at_least(high[0][0], SPINS_RATIO):
        return None
    if len(low) == len(high) and len(values) > 2:
        return None
    few, rest = (low, high) if len(low) <= len(high) else (high, low)
    return _Uneven(
        few=frozenset(place for _, place in few),
        few_level=sum(value for value, _ in few) / len(few),
        rest_level=sum(value for value, _ in rest) / len(rest),
        by_kernels=by_kernels,
    )


def _of_two(found: _Uneven, levels: Sequence[float | None]) -> _Uneven:
    """Of two GPUs the less busy one is waited for, unless the busier one truly works all that time."""
    (low,) = found.few
    high = 1 - low
    if not at_least(levels[high] or 0.0, WORKS_RATIO):
        return found
    return _Uneven(
        few=frozenset({high}), few_level=found.rest_level, rest_level=found.few_level, by_kernels=True
    )


def _straggler_finding(held: Sequence[_Held], windows: Sequence[Bins], found: _Uneven) -> Finding:
    few = [held[place] for place in sorted(found.few)]
    rest = len(held) - len(few)
    names = gpu_names([each.past for each in few])
    heat = _heat(windows, found)
    minutes = f"the last {len(windows[0].covered) * BIN_MS // 60_000} min"
    others = f"the {rest} others" if rest > 1 else "the other one"
    whose = "its" if len(few) == 1 else "their"
    waits = (f"those {rest} wait" if rest > 1 else "that one waits") + (
        " for it" if len(few) == 1 else " for them"
    )
    if found.by_kernels:
        figures = f"kernels ran on {names} {text.percent(found.few_level)} of {minutes}, on {others} "
    else:
        were = "was" if len(few) == 1 else "were"
        measure = measured_by(few[0].past.rung)
        figures = f"{names} {were} {text.percent(found.few_level)} busy ({measure}) in {minutes}, {others} "
    return _finding(
        FindingKind.STRAGGLER,
        few[0],
        windows[min(found.few)],
        since_ms=windows[0].end_ms - len(windows[0].covered) * BIN_MS,
        sentence=(
            f"{holder_name(few[0].claim)} works on {len(held)} GPUs unevenly: {figures}"
            f"{text.percent(found.rest_level)}. If they work on one thing together, {waits}."
            + (f" Heat held {whose} clocks down for {text.percent(heat)} of that time." if heat else "")
        ),
        evidence=(
            Evidence(name="gpus", value=len(held)),
            Evidence(name="stragglers", value=len(few)),
            Evidence(name="straggler_gpus", value=names),
            Evidence(name="straggler_ratio", value=found.few_level),
            Evidence(name="others_ratio", value=found.rest_level),
            Evidence(name="by_kernel_time", value=found.by_kernels),
            Evidence(name="held_down_by_heat_ratio", value=heat),
        ),
    )


def _heat(windows: Sequence[Bins], found: _Uneven) -> float | None:
    """How long heat held their clocks down; ``None``: hardly, or not twice as long as of the others."""
    shares = [mean(known(window.hot)) for window in windows]
    few = mean(known([share for place, share in enumerate(shares) if place in found.few]))
    rest = mean(known([share for place, share in enumerate(shares) if place not in found.few])) or 0.0
    return few if few is not None and at_least(few, HOT_RATIO) and rest < few / 2 else None


def _is_used(held: _Held, t: Thresholds) -> bool:
    """Active within the idle window, by counters that are to be believed."""
    window = held.past.bins.last(bins_in(t.idle_window_s))
    odd = contradictions(held.past, window)
    if all(odd):
        return False
    if faint_work(held.past, window) is not None or any(copying(window)):
        return True
    return any(
        busy is not None and busy > IDLE_RATIO and not each
        for busy, each in zip(window.busiest, odd, strict=True)
    )


def _first(bins: Bins, count: int) -> Bins:
    """All but the newest ``count`` bins."""
    keep = len(bins.covered) - count
    return Bins(
        end_ms=bins.end_ms - count * BIN_MS,
        covered=bins.covered[:keep],
        utilization=bins.utilization[:keep],
        busiest=bins.busiest[:keep],
        gpu_utilization=bins.gpu_utilization[:keep],
    )


def _finding(
    kind: FindingKind,
    held: _Held,
    window: Bins,
    *,
    since_ms: int,
    sentence: str,
    evidence: tuple[Evidence, ...],
) -> Finding:
    return Finding(
        kind=kind,
        uuid=held.past.uuid,
        node=held.past.node,
        gpu_index=held.past.gpu_index,
        holder=held.claim.holder,
        since_ms=since_ms,
        window_from_ms=window.end_ms - len(window.covered) * BIN_MS,
        window_to_ms=window.end_ms,
        coverage=cover(window, len(window.covered)),
        rung=held.past.rung,
        wasted_gpu_hours=None,
        sentence=sentence,
        evidence=evidence,
    )
