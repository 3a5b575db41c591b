"""A job that starts, computes for a moment, dies and is started again: a crash loop that has computed.

One that never computes is told in ``analytics.findings.holding``. This one looks like rare use from its GPU
alone; its processes tell: dozens in six hours, of which none lived for more than minutes. Nobody acts on it.
"""

from analytics import text
from analytics.findings.window import MS_PER_S, cover
from analytics.findings.words import DAY_MS, MINUTE_MS, gpu_name, holder_name
from analytics.model import Claim, Evidence, Finding, FindingKind, GpuPast
from analytics.thresholds import Thresholds
from collector.model import JobKind

TRIES = 24
"""In six hours: one in fifteen minutes. Kubernetes waits five minutes at most between two tries (pod
lifecycle, "CrashLoopBackOff"), so a loop has more; what is started by the hour has six."""
LIVES_MS = 300_000
"""Trainings and servers whose processes are gone within five minutes each time do nothing of value."""
BUSY_RATIO = 0.25
"""A sweep of short tasks has as many processes, and keeps its GPU busy."""


def crash_loop(past: GpuPast, claim: Claim, t: Thresholds) -> Finding | None:
    """Short lives again and again, with little use of the GPU between them, six hours after it was given."""
    rhythm, end_ms = claim.rhythm, past.bins.end_ms
    if len(past.claims) > 1 or claim.holder.kind is JobKind.INTERACTIVE:
        return None
    if end_ms - claim.from_ms < max(t.forgive_s, t.start_limit_s) * MS_PER_S:
        return None
    lived_ms = claim.longest_life_ms
    if claim.processes_started < TRIES or lived_ms is None or lived_ms > LIVES_MS:
        return None
    if not rhythm.known_ms or rhythm.busy_ms > BUSY_RATIO * rhythm.known_ms or not rhythm.busy_ms:
        return None
    from_ms = max(claim.from_ms, end_ms - DAY_MS)
    under_ms = (lived_ms // MINUTE_MS + 1) * MINUTE_MS
    hours = rhythm.idle_gpu_hours
    return Finding(
        kind=FindingKind.CRASH_LOOP,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=claim.holder,
        since_ms=from_ms,
        window_from_ms=from_ms,
        window_to_ms=end_ms,
        coverage=min(1.0, rhythm.known_ms / (end_ms - from_ms)),
        rung=past.rung,
        wasted_gpu_hours=hours,
        sentence=(
            f"{holder_name(claim)} has held {gpu_name(past)} since {text.clock(claim.from_ms)}, and "
            f"{claim.processes_started} of its processes started within the last 6 h, of which none lived "
            f"for {text.length(under_ms / 1000)}: it seems to crash and start again. {text.gpu_hours(hours)} "
            f"since {text.clock(from_ms)} were between its tries."
        ),
        evidence=(
            Evidence(name="processes_started", value=claim.processes_started),
            Evidence(name="longest_life_s", value=lived_ms // MS_PER_S),
            Evidence(name="busy_minutes", value=round(rhythm.busy_ms / MINUTE_MS, 1)),
            Evidence(name="idle_gpu_hours", value=round(hours, 4)),
            Evidence(name="newest_bins_covered_ratio", value=cover(past.bins, len(past.bins.covered))),
            Evidence(name="share", value=claim.share),
        ),
    )
