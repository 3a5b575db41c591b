"""Claims of launchers to GPUs that Fallow never gave them: told, and held against nobody else.

They say nothing of what the GPU does, and nobody's holding is judged differently for them.
"""

from analytics.findings.words import gpu_name
from analytics.model import Evidence, Finding, FindingKind, GpuPast

LASTS_S = 600
"""A launcher reports every few seconds: what it has not said again for ten minutes, it says no more."""


def unproven_claim(past: GpuPast) -> Finding | None:
    """What is claimed of the GPU now, without a proof."""
    if not past.unproven:
        return None
    first = past.unproven[0]
    more = len(past.unproven) - 1
    others = "" if not more else f", and {more} more" if more > 1 else ", and one more"
    return Finding(
        kind=FindingKind.UNPROVEN_CLAIM,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=past.claims[0].holder if len(past.claims) == 1 else None,
        since_ms=first.from_ms,
        window_from_ms=first.from_ms,
        window_to_ms=max(each.last_ms for each in past.unproven),
        coverage=1.0,
        rung=past.rung,
        wasted_gpu_hours=None,
        sentence=(
            f"{gpu_name(past)} is claimed by {first.user}'s {first.job}{others}, and was not given to it: "
            f"{first.why}. It holds nothing by that."
        ),
        evidence=(
            Evidence(name="claims", value=len(past.unproven)),
            Evidence(name="user", value=first.user),
            Evidence(name="job", value=first.job),
        ),
    )
