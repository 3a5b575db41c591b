"""Used, again and again, and hardly ever: activity that recurs in at most ``rare_ratio`` of the time.

It is use, so nobody pauses it. What fits a server is a scale to zero, a terminal hours of its own, a job one
for each of its runs; and any of them a share of a GPU, where its memory leaves room for others.
"""

from collections.abc import Mapping

from analytics import text
from analytics.findings.holding import idle_window_ms
from analytics.findings.share import leaves_room, peak_bytes
from analytics.findings.window import FAINT_PART, MS_PER_S, copying, cover, faint_work, known, mean
from analytics.findings.words import IN_USE, gpu_name, holder_name, measured_by
from analytics.model import BIN_MS, Bins, Claim, Evidence, Finding, FindingKind, GpuPast, Rhythm
from analytics.thresholds import IDLE_RATIO, Thresholds
from analytics.vocabulary.findings import FITS_SHARE
from collector.model import Basis, JobKind

LEAST_SPELLS = 3
"""Activity recurs when it has come back twice: once may be a start, and twice its repetition."""
LEAST_THIN_S = 4 * 3600
"""What comes back before ten minutes are over recurs when it was thin for so long: short cells of a notebook,
or the first hours of a training, are over or denser by then."""
LEAST_KNOWN_S = 4 * 3600
"""Under four hours measured a tenth is less than 25 min, which any job's first attempts are."""
AT_TIMES: Mapping[JobKind | None, str] = {
    JobKind.INFERENCE: "a scale to zero or fixed hours",
    JobKind.INTERACTIVE: "fixed hours",
    JobKind.BATCH: "a job for each of its runs",
    None: "fixed hours, or of a server a scale to zero,",
}
"""What would do for who works now and then, whatever its memory is. Only what waits for a caller scales to
zero: a batch job that is scaled down is lost."""
FAINT: Mapping[JobKind | None, str] = {
    JobKind.INFERENCE: "a scale to zero",
    JobKind.INTERACTIVE: "a run without a GPU",
    JobKind.BATCH: "a run without a GPU",
    None: "a run without a GPU, or of a server a scale to zero,",
}
"""The same for who works all the time and hardly at all."""


def rarely_used(past: GpuPast, claim: Claim, t: Thresholds) -> Finding | None:
    """Activity that recurs within the idle window, busy in at most ``rare_ratio`` of 24 h, or of the hold.

    Or work in most bins of that window that is at most 1% of the GPU in each.
    """
    rhythm, end_ms = claim.rhythm, past.bins.end_ms
    if len(past.claims) > 1:  # what was active on a shared GPU is nobody's in particular
        return None
    busy_ms = _busy_ms(rhythm)
    if rhythm.known_ms < LEAST_KNOWN_S * MS_PER_S or busy_ms > t.rare_ratio * rhythm.known_ms:
        return None
    from_ms = max(claim.from_ms, end_ms - 24 * 3600 * MS_PER_S)
    if rhythm.known_ms < t.coverage_ratio * (end_ms - from_ms):
        return None
    is_active = (rhythm.active_until_ms or 0) > end_ms - idle_window_ms(claim, t)
    if not is_active or not _recurs(rhythm, busy_ms, t):
        return _faintly_used(past, claim, from_ms, t)
    busy = busy_ms / rhythm.known_ms
    times = max(rhythm.spells, rhythm.begins)
    least_ms = _least_busy_ms(past, rhythm)
    span = _between(text.length(least_ms / 1000), text.length(rhythm.busy_ms / 1000))
    part = _between(text.percent(least_ms / rhythm.known_ms), text.percent(rhythm.busy_ms / rhythm.known_ms))
    silence_ms = max(rhythm.silence_longest_ms or 0, end_ms - (rhythm.active_until_ms or end_ms))
    return Finding(
        kind=FindingKind.RARELY_USED,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=claim.holder,
        since_ms=from_ms,
        window_from_ms=from_ms,
        window_to_ms=end_ms,
        coverage=min(1.0, rhythm.known_ms / (end_ms - from_ms)),
        rung=past.rung,
        wasted_gpu_hours=rhythm.idle_gpu_hours,
        sentence=(
            f"{holder_name(claim)} has used {gpu_name(past)} for {span} in all "
            f"since {text.clock(from_ms)}, in {times} spells ({part} of the time, "
            f"{_active_by(past.rung)}); its longest silence was {text.length(silence_ms / 1000)}. "
            f"{_remedy(past, claim, AT_TIMES[claim.holder.kind])}"
        ),
        evidence=(
            Evidence(name="busy_minutes", value=round(busy_ms / 60_000, 1)),
            Evidence(name="busy_least_minutes", value=round(least_ms / 60_000, 1)),
            Evidence(name="busy_most_minutes", value=round(rhythm.busy_ms / 60_000, 1)),
            Evidence(name="busy_ratio", value=busy),
            Evidence(name="spells", value=times),
            Evidence(name="silence_longest_minutes", value=silence_ms // 60_000),
            Evidence(name="utilization_active_mean_ratio", value=rhythm.busy_ratio),
            Evidence(name="newest_bins_covered_ratio", value=cover(past.bins, len(past.bins.covered))),
            Evidence(name="share", value=claim.share),
            Evidence(name=FITS_SHARE, value=leaves_room(past, claim)),
        ),
    )


def _remedy(past: GpuPast, claim: Claim, others: str) -> str:
    """What would do, by what its memory leaves; ``others``: what does whatever it keeps."""
    room = leaves_room(past, claim)
    share = "a share of a GPU" if claim.share == 1 else "a smaller share"
    if room is None:
        unknown = f"{share} if its memory, which is not known, fits one"
        return f"{IN_USE}{others} would do, or {unknown}."
    if room:
        return f"{IN_USE}{share}{', ' if ' or ' in others else ' or '}{others} would do."
    kept, less = text.size(peak_bytes(past, claim) or 0), "a share" if claim.share == 1 else "a smaller share"
    return f"{IN_USE}{others} would do; its memory, {kept} at most, leaves no room for {less}."


def _faintly_used(past: GpuPast, claim: Claim, from_ms: int, t: Thresholds) -> Finding | None:
    """SMs that work a little in many bins and in none more than noise: a server of short requests.

    Or memory that is read or written in as many, while they don't: copies.
    """
    window = past.bins.last(min(idle_window_ms(claim, t) // BIN_MS, len(past.bins.covered)))
    level, rhythm = faint_work(past, window), claim.rhythm
    if max(known(window.busiest), default=0.0) > IDLE_RATIO:
        return None
    seen = text.length(len(window.covered) * BIN_MS / MS_PER_S)
    copied = (mean([each or 0.0 for each in window.copies]) or 0.0) if _copies_often(window) else None
    if level is not None:
        does = (
            f"works on {gpu_name(past)} again and again, and uses next to nothing of it: "
            f"{text.percent(level)} {measured_by(past.rung)} over the last {seen}, never more than "
            f"{text.percent(IDLE_RATIO)}"
        )
    elif copied is not None:
        does = (
            f"computes nothing on {gpu_name(past)}, whose memory was read or written {text.percent(copied)} "
            f"of the time over the last {seen}: copies, or the reads of another GPU"
        )
    else:
        return None
    remedy = _remedy(past, claim, FAINT[claim.holder.kind])
    return Finding(
        kind=FindingKind.RARELY_USED,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=claim.holder,
        since_ms=from_ms,
        window_from_ms=from_ms,
        window_to_ms=past.bins.end_ms,
        coverage=min(1.0, rhythm.known_ms / (past.bins.end_ms - from_ms)),
        rung=past.rung,
        wasted_gpu_hours=rhythm.idle_gpu_hours,
        sentence=f"{holder_name(claim)} {does}. {remedy}",
        evidence=(
            Evidence(name="utilization_mean_ratio", value=level),
            Evidence(name="memory_copied_mean_ratio", value=copied),
            Evidence(name="busy_minutes", value=round(_busy_ms(rhythm) / 60_000, 1)),
            Evidence(name="busy_ratio", value=_busy_ms(rhythm) / rhythm.known_ms),
            Evidence(name="newest_bins_covered_ratio", value=cover(past.bins, len(past.bins.covered))),
            Evidence(name="share", value=claim.share),
            Evidence(name=FITS_SHARE, value=leaves_room(past, claim)),
        ),
    )


def _copies_often(window: Bins) -> bool:
    return sum(copying(window)) >= FAINT_PART * max(1, len(window.covered))


def _active_by(rung: Basis) -> str:
    """By what it was active: any counter above noise, where there is more than one."""
    return measured_by(rung) if rung <= Basis.GPU_UTILIZATION else "by any of its counters"


def _busy_ms(rhythm: Rhythm) -> int:
    """How long it was busy in the last 24 hours.

    Work of L seconds that begins at any moment touches ``L / 30 + 1`` bins of 30 s on average: one is taken
    off each time that it begins anew. An exporter's GPU utilization is of an instant, and met in ``L / 30``
    bins: so it is never less than the mean utilization tells, which of either is a part of the time.
    """
    used_ms = round((rhythm.busy_ratio or 0.0) * rhythm.busy_ms)
    return min(
        rhythm.busy_ms, max(rhythm.busy_ms - rhythm.begins * BIN_MS, used_ms, rhythm.begins * MS_PER_S)
    )


def _least_busy_ms(past: GpuPast, rhythm: Rhythm) -> int:
    """How long it was busy at least, as far as samples tell; at most for all of its busy bins.

    Of a sample that shows activity only a part may be active: not less than the mean utilization, nor, on
    average, than all samples of a spell but one, which begins and ends at any moment.
    """
    used_ms = round((rhythm.busy_ratio or 0.0) * rhythm.busy_ms)
    edges_ms = rhythm.begins * max(BIN_MS, past.newest_width_ms)
    return min(rhythm.busy_ms, max(rhythm.busy_ms - edges_ms, used_ms, rhythm.begins * MS_PER_S))


def _between(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _recurs(rhythm: Rhythm, busy_ms: int, t: Thresholds) -> bool:
    """Whether activity comes back: ten minutes apart, or sooner for hours on end and thin all the while."""
    if rhythm.spells >= LEAST_SPELLS:
        return True
    is_long = rhythm.spells_ms >= LEAST_THIN_S * MS_PER_S
    return is_long and rhythm.begins >= LEAST_SPELLS and busy_ms <= t.rare_ratio * rhythm.spells_ms
