"""How findings speak: who, which GPU, since when, how much. Times in sentences are UTC."""

from collections.abc import Sequence

from analytics import text
from analytics.model import Claim, GpuPast
from collector.model import Basis

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_LATE_MS = 15_000
"""A scrape each minute (Prometheus' default) that is late is still one each minute."""
MOST_NAMES = 8
"""So many GPUs are named one by one: a whole node of them."""
IN_USE, FREED_BY = "It is in use, and ", "It would be freed by changing "
"""How the sentence of a remedy begins: what is doubted is said before it."""


def gpu_name(past: GpuPast) -> str:
    """ "GPU 3 of node1", "GPU 0/1g.10gb#7 of node1", or the UUID where no index is known.

    What goes by its node and index for want of a UUID ("m1/0") is "GPU 0 of m1".
    """
    within = past.uuid.removeprefix(f"{past.node}/")
    which = past.uuid if past.gpu_place is None and within == past.uuid else f"GPU {past.gpu_place or within}"
    return f"{which} of {past.node}"


def by_place(past: GpuPast) -> tuple[str, int, str]:
    """The key by which GPUs are told in order: by node, then by index."""
    return past.node, past.gpu_index or 0, past.uuid


def gpu_names(pasts: Sequence[GpuPast]) -> str:
    """ "GPU 1, 2 and 3 of node1", or each by its own name where they are of several nodes."""
    places = [past.gpu_place for past in pasts if past.gpu_place is not None]
    if len(places) == len(pasts) and len({past.node for past in pasts}) == 1:
        return f"GPU {listed(places)} of {pasts[0].node}"
    return listed([gpu_name(past) for past in pasts])


def listed(names: Sequence[str]) -> str:
    """ "a, b and c"; of many, the first ones and how many more."""
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def holder_name(claim: Claim) -> str:
    """ "amara (job sweep)": the user and the job, as far as they are known."""
    holder = claim.holder
    job = holder.name or holder.job
    return f"job {job}" if holder.user is None else f"{holder.user} (job {job})"


def seldom_ms(past: GpuPast) -> int:
    """The time between two samples, where one is an instant of more than a minute; else 0."""
    return past.newest_width_ms if past.newest_width_ms > MINUTE_MS + _LATE_MS else 0


def read_seldom(pasts: Sequence[GpuPast]) -> str:
    """That work between two samples is not seen, as a sentence after another, where they are far apart."""
    apart_ms = max(seldom_ms(past) for past in pasts)
    if not apart_ms:
        return ""
    return f" It is read every {text.length(apart_ms / 1000)}: work between two readings is not seen."


def measured_of(past: GpuPast, claim: Claim) -> str:
    """What stands behind a holder's own utilization: the counter is the GPU's, and the part of one of several
    holders is by another, the use that is told of each process (NVML) or pod (dcgm-exporter).
    """
    counter = measured_by(past.rung)
    if claim.bins is None:
        return counter
    return f"{counter} of the whole GPU, its part by the use told of each process or pod"


def measured_by(rung: Basis) -> str:
    """What stands behind a utilization, for brackets; the lowest rung is never called efficiency."""
    match rung:
        case Basis.SM_ACTIVE:
            return "SM active"
        case Basis.GRAPHICS_ACTIVE:
            return "graphics engine active"
        case Basis.GPU_UTILIZATION:
            return "GPU utilization, an upper bound"
        case Basis.UNKNOWN:
            return "utilization not measured"
