"""Used, but hardly: low saturation, and memory that is taken and not needed."""

from collections.abc import Sequence
from dataclasses import replace

from analytics import text
from analytics.findings.reserving import kind_of_server
from analytics.findings.window import (
    bins_in,
    contradictions,
    cover,
    doubt,
    has_computed,
    known,
    mean,
    newest,
    percentile,
    presence,
    since,
)
from analytics.findings.words import FREED_BY, gpu_name, holder_name, measured_by, measured_of
from analytics.model import BIN_MS, Bins, Claim, Evidence, Finding, FindingKind, GpuPast, Onset, Unknown
from analytics.thresholds import IDLE_RATIO, LOW_RATIO, STILL_RATIO, Thresholds, at_least, at_most
from analytics.vocabulary.findings import KERNELS_RAN, MEMORY_FULL, MEMORY_READ
from collector.model import Basis, JobKind

MS_PER_S = 1000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LOOKS_BUSY_RATIO = 0.5
HARDLY_ANY_RATIO = 0.1
UNSEEN = "no process of it is seen: a server would reserve its memory on purpose"
WHOSE_MEMORY = "several hold it, and its memory or its work is told of all of them together"
WHOSE_READING = "several hold it, and whose work reads and writes its memory is not told"
WHOSE_WORK = "several hold it, and whose work it does is not told"
STILL = "kernels ran on it, and the measure of its use stood at 0"
UNHEARD = "whether its processes listen could not be read: a server would reserve its memory on purpose"


def low_saturation(past: GpuPast, claim: Claim, now_ms: int, t: Thresholds) -> Finding | Unknown | None:
    """Active, and under ``low_ratio`` over the newest ``low_active_s`` of active bins and the active 24 h.

    What is filled is what the job was given: of a share of a GPU that share. On a GPU that several hold
    each is judged by its own work, where it is told.
    """
    if now_ms - claim.from_ms < t.low_run_s * MS_PER_S:
        return None
    kind = FindingKind.LOW_SATURATION
    board = since(past.bins.last(bins_in(t.low_lookback_s)), claim.from_ms)
    expected = len(board.covered)
    active = _active(past, board, board)
    if not _is_recent(active, expected, t):
        return None
    unsure = doubt(past, board, max(expected, bins_in(t.low_active_s)), t, kind)
    if unsure is not None:
        return unsure
    window = board
    if len(past.claims) > 1:
        if claim.bins is None or not _is_work_told(claim, board, active, t):
            return Unknown(uuid=past.uuid, kinds=(kind,), reason=WHOSE_WORK)
        window = claim.bins.last(expected)
        active = _active(past, board, window)
        if not _is_recent(active, expected, t):
            return None
    wanted = bins_in(t.low_active_s)
    measured = [place for place in active if window.utilization[place] is not None]
    newest_work = measured[-wanted:]
    average = mean(known([window.utilization[place] for place in newest_work]))
    if average is None and len(active) >= wanted:
        return Unknown(uuid=past.uuid, kinds=(kind,), reason="its utilization is not measured")
    if len(newest_work) < wanted or average is None or at_least(_of_share(average, claim), LOW_RATIO):
        return None
    if at_least(_day_ratio(past, claim), LOW_RATIO):
        return None
    if not at_least(average, STILL_RATIO):
        return Unknown(uuid=past.uuid, kinds=(kind,), reason=STILL)
    return _low_finding(past, claim, window, (measured, newest_work), average)


def memory_hog(past: GpuPast, claim: Claim, now_ms: int, t: Thresholds) -> Finding | Unknown | None:
    """Most of the memory taken, little computed, little of it touched. A suspicion, from outside.

    A server's memory is reserved by design: another kind, as no allocator setting of its framework touches a
    KV cache. A job that has used its GPU well within a day needs its memory for that, and is no hog. On a GPU
    that several hold, each is judged by its own memory and work, where they are told.
    """
    expected = bins_in(t.hog_window_s)
    total = past.memory_total_bytes
    if total is None or claim.from_ms > past.bins.end_ms - expected * BIN_MS:
        return None
    window = past.bins.last(expected)
    taken = _always_taken(window.memory_bytes, total)
    if taken < t.hog_memory_ratio or not has_computed(past, claim):
        return None
    if not newest(tuple(presence(past, window))):
        return None
    if at_least(claim.rhythm.busy_ratio or 0.0, t.hog_utilization_ratio):
        return None
    if len(past.claims) > 1:
        own = _own_window(claim, window, t)
        if own is None:
            kinds = (FindingKind.MEMORY_HOG, FindingKind.RESERVED_BY_DESIGN)
            return Unknown(uuid=past.uuid, kinds=kinds, reason=WHOSE_MEMORY)
        window, taken = own, _always_taken(own.memory_bytes, total)
        if taken < t.hog_memory_ratio:
            return None
    serves = claim.holder.kind is JobKind.INFERENCE
    kind = FindingKind.RESERVED_BY_DESIGN if serves else FindingKind.MEMORY_HOG
    unsure = doubt(past, window, expected, t, kind)
    if unsure is not None:
        return unsure
    unseen = None if serves else _unseen(claim)
    if unseen is not None:
        return Unknown(uuid=past.uuid, kinds=(kind, FindingKind.RESERVED_BY_DESIGN), reason=unseen)
    controller = known(window.memory_controller)
    # A request reads all of a model's weights: a server's peaks say how often it is asked, not what it needs.
    used, touched = (
        mean(known(window.utilization)),
        mean(controller) if serves else percentile(controller, 0.95),
    )
    is_still = used is not None and not at_least(used, STILL_RATIO)
    if used is None or touched is None or (is_still and _have_kernels_run(window)):
        reason = STILL if is_still else "its memory controller is not measured"
        return Unknown(uuid=past.uuid, kinds=(kind,), reason=reason)
    if at_least(used, t.hog_utilization_ratio):
        return None
    if at_least(touched, t.hog_controller_ratio):
        return Unknown(uuid=past.uuid, kinds=(kind,), reason=WHOSE_READING) if len(past.claims) > 1 else None
    return _hog_finding(past, claim, window, taken=taken, used=used, touched=touched, t=t)


def _have_kernels_run(window: Bins) -> bool:
    return at_least(mean(known(window.gpu_utilization)) or 0.0, LOW_RATIO)


def _always_taken(memory: Sequence[int | None], total: int) -> float:
    """The part of the board's memory that was taken in 95% of the bins in which that is known; 0 of none."""
    return percentile([value / total for value in known(memory)], 0.05) or 0.0


def _own_window(claim: Claim, window: Bins, t: Thresholds) -> Bins | None:
    """The window as one of several holders used it; ``None`` where its memory or its work is not told apart.

    The memory controller's part is the board's: as much as all of them read and wrote.
    """
    bins = len(window.covered)
    memory = claim.memory_bytes[-bins:]
    used = window if claim.bins is None else claim.bins.last(bins)
    enough = t.coverage_ratio * bins
    if len(known(memory)) < enough or len(known(used.utilization)) < enough:
        return None
    return replace(used, memory_bytes=memory)


def _unseen(claim: Claim) -> str | None:
    """Why it may be a server all the same. That processes were counted tells nothing of what they are.

    A framework is known of processes that were looked at: a peer tells it, and no command.
    """
    if claim.listening_unknown:
        return UNHEARD
    seen = (claim.process_started_ms, claim.holder.command, claim.holder.framework)
    return UNSEEN if all(each is None for each in seen) else None


def _active(past: GpuPast, board: Bins, window: Bins) -> list[int]:
    """The bins of ``window`` with work in them, without that of video engines; ``board``: the whole GPU."""
    odd = contradictions(past, board)
    # Who encodes or decodes video works with engines beside the SMs, which may be still.
    video = [value is not None and value > IDLE_RATIO for value in board.video] or [False] * len(odd)
    return [
        place
        for place, busy in enumerate(window.busiest)
        if busy is not None and busy > IDLE_RATIO and not odd[place] and not video[place]
    ]


def _is_work_told(claim: Claim, board: Bins, active: list[int], t: Thresholds) -> bool:
    """Whether it is told of nearly all bins in which the GPU worked how much of that was this holder's."""
    if claim.bins is None:
        return False
    own = claim.bins.last(len(board.covered)).busiest
    return len(known([own[place] for place in active])) >= t.coverage_ratio * len(active)


def _of_share(level: float, claim: Claim) -> float:
    """A level of the GPU as one of the holder's share of it: more than its share is all of it."""
    return min(1.0, level / claim.share) if claim.share > 0 else level


def _day_ratio(past: GpuPast, claim: Claim) -> float:
    """How much of its share it filled while it worked, over 24 h; 0 where that is not known."""
    return _of_share(claim.rhythm.busy_ratio or 0.0, claim)


def _is_recent(active: list[int], bins: int, t: Thresholds) -> bool:
    return bool(active) and bins - active[-1] <= bins_in(t.low_recent_s)


def _low_finding(
    past: GpuPast, claim: Claim, window: Bins, work: tuple[list[int], list[int]], average: float
) -> Finding:
    """``average`` is of the whole GPU over the newest active bins; ``window`` the holder's own where several
    hold it; ``work`` all its active bins in which that was measured, and the newest of them.
    """
    active, newest_work = work
    others, day = len(past.claims) - 1, claim.rhythm.busy_ratio
    filled = _of_share(average, claim)
    unused = sum(1.0 - _of_share(window.utilization[place] or 0.0, claim) for place in active)
    # Nobody tells a process's GPU utilization, only its part of the work.
    shown = None if others else mean(known([window.gpu_utilization[place] for place in newest_work]))
    # What reads and writes the memory is told of the whole GPU alone.
    read = None if others else mean(known([window.memory_controller[place] for place in newest_work]))
    looks_busy = (
        past.rung is Basis.SM_ACTIVE
        and shown is not None
        and at_least(shown, LOOKS_BUSY_RATIO)
        and at_most(average, HARDLY_ANY_RATIO * shown)
    )
    return _finding(
        past,
        claim,
        window,
        FindingKind.LOW_SATURATION,
        sentence=_low_sentence(past, claim, window, len(newest_work), average)
        + (f" It looks busy ({text.percent(shown)} GPU utilization), and is not." if looks_busy else ""),
        evidence=(
            Evidence(name="utilization_active_mean_ratio", value=filled),
            Evidence(name="gpu_active_mean_ratio", value=average),
            Evidence(name="day_active_mean_ratio", value=None if day is None else _of_share(day, claim)),
            Evidence(name="active_bins", value=len(active)),
            Evidence(
                name="unused_gpu_hours",
                value=unused * BIN_MS / HOUR_MS * past.share_of_device * claim.share,
            ),
            Evidence(name=KERNELS_RAN, value=shown),
            Evidence(name=MEMORY_READ, value=read),
            Evidence(name="looks_busy", value=looks_busy),
            Evidence(name="run_minutes", value=(window.end_ms - claim.from_ms) // 60_000),
            Evidence(name="share", value=claim.share),
            Evidence(name="others", value=others),
            Evidence(name=MEMORY_FULL, value=_peak_taken(past, window)),
        ),
    )


def _peak_taken(past: GpuPast, window: Bins) -> float | None:
    """The most of the GPU's memory that was taken in the window, by all who hold it; ``None``: not known."""
    taken = [held for held in past.bins.last(len(window.covered)).memory_bytes if held is not None]
    return max(taken) / past.memory_total_bytes if taken and past.memory_total_bytes else None


def _low_sentence(past: GpuPast, claim: Claim, window: Bins, newest_bins: int, average: float) -> str:
    """How long it has held the GPU, and what it filled of it in its newest work and in that of the day."""
    held_for = text.length((window.end_ms - claim.from_ms) / MS_PER_S)
    lately = text.length(newest_bins * BIN_MS / MS_PER_S)
    by = " by its own work" if len(past.claims) > 1 else ""
    share = f" of its share of {text.percent(claim.share)}"
    of_share = f", {_under(_of_share(average, claim))}{share}" if claim.share < 1 else ""
    day, is_young = claim.rhythm.busy_ratio, window.end_ms - claim.from_ms < DAY_MS
    in_all = "all its work so far" if is_young else "all its work of the last 24 h"
    of_day = share if claim.share < 1 else ""
    whole = "" if day is None else f", and over {in_all} {_under(_of_share(day, claim))}{of_day}"
    return (
        f"{holder_name(claim)} has held {gpu_name(past)}{_beside(past)} for {held_for}, and{by} filled "
        f"{_under(average)} of it over its last {lately} of work{of_share} "
        f"({_measured(past, claim)}){whole}."
    )


def _under(level: float) -> str:
    """A level under the bound never reads as the bound: 24.99% is 24.9%."""
    return text.coverage(level) if text.percent(level) == text.percent(LOW_RATIO) else text.percent(level)


def _measured(past: GpuPast, claim: Claim) -> str:
    """Who has a GPU alone is judged by all that was done on it, with a stranger on it too."""
    return measured_of(past, claim) if len(past.claims) > 1 else measured_by(past.rung)


def _beside(past: GpuPast) -> str:
    others = len(past.claims) - 1
    return f", which {text.many(others, 'other')} hold{'s' if others == 1 else ''} too," if others else ""


def _hog_finding(
    past: GpuPast, claim: Claim, window: Bins, *, taken: float, used: float, touched: float, t: Thresholds
) -> Finding:
    others = len(past.claims) - 1
    if claim.holder.kind is JobKind.INFERENCE:
        return _reserved_finding(past, claim, window, taken=taken, used=used, touched=touched)
    signature = None if past.onset is None else _is_tensorflow_like(past.onset, t)
    hours = len(window.covered) * BIN_MS / HOUR_MS * past.share_of_device * claim.share
    likeness = (
        " It took it all at first use and never gave any back, as TensorFlow does." if signature else ""
    )
    return _finding(
        past,
        claim,
        window,
        FindingKind.MEMORY_HOG,
        sentence=(
            f"{holder_name(claim)} keeps {text.percent(taken)} of the memory of "
            f"{gpu_name(past)}{_beside(past)} and hardly touches it: over the last {_length(window)} "
            f"{text.percent(used)} busy ({_measured(past, claim)}), memory read or written "
            f"{text.percent(touched)} of the time at most. Suspected to need far less.{likeness}"
        ),
        evidence=(
            Evidence(name="memory_used_p5_ratio", value=taken),
            Evidence(name="utilization_mean_ratio", value=used),
            Evidence(name="unused_gpu_hours", value=hours * (1.0 - used)),
            Evidence(name="memory_controller_p95_ratio", value=touched),
            Evidence(name="tensorflow_signature", value=signature),
            Evidence(name="others", value=others),
            Evidence(name="framework", value=claim.holder.framework),
            Evidence(name="share", value=claim.share),
        ),
    )


def _reserved_finding(
    past: GpuPast, claim: Claim, window: Bins, *, taken: float, used: float, touched: float
) -> Finding:
    hours = len(window.covered) * BIN_MS / HOUR_MS * past.share_of_device * claim.share
    name, remedy = kind_of_server(claim.holder)
    design = "as model servers do" if name is None else f"as {name} does"
    return _finding(
        past,
        claim,
        window,
        FindingKind.RESERVED_BY_DESIGN,
        sentence=(
            f"{holder_name(claim)} serves on {gpu_name(past)} and reserves {text.percent(taken)} of its "
            f"memory, {design} by design: over the last {_length(window)} {text.percent(used)} busy "
            f"({_measured(past, claim)}), memory read or written {text.percent(touched)} of the time. "
            f"{FREED_BY}{remedy}, after which a share of a GPU may do, or by a scale to "
            "zero."
        ),
        evidence=(
            Evidence(name="memory_used_p5_ratio", value=taken),
            Evidence(name="utilization_mean_ratio", value=used),
            Evidence(name="unused_gpu_hours", value=hours * (1.0 - used)),
            Evidence(name="memory_controller_mean_ratio", value=touched),
            Evidence(name="server", value=name),
            Evidence(name="framework", value=claim.holder.framework),
            Evidence(name="share", value=claim.share),
        ),
    )


def _length(window: Bins) -> str:
    return text.length(len(window.covered) * BIN_MS / MS_PER_S)


def _is_tensorflow_like(onset: Onset, t: Thresholds) -> bool:
    """Nearly all memory within seconds of first use, then flat (TensorFlow's default, without growth)."""
    return (
        onset.full_after_ms is not None
        and onset.full_after_ms <= t.signature_rise_s * MS_PER_S
        and onset.flat
    )


def _finding(
    past: GpuPast,
    claim: Claim,
    window: Bins,
    kind: FindingKind,
    *,
    sentence: str,
    evidence: tuple[Evidence, ...],
) -> Finding:
    return Finding(
        kind=kind,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=claim.holder,
        since_ms=claim.from_ms,
        window_from_ms=window.end_ms - len(window.covered) * BIN_MS,
        window_to_ms=window.end_ms,
        coverage=cover(window, len(window.covered)),
        rung=past.rung,
        wasted_gpu_hours=None,  # used, if hardly: waste is what was not used at all
        sentence=sentence,
        evidence=evidence,
    )
