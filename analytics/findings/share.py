"""Whether a holder's memory leaves room for others on its GPU, so that a share of one is a remedy. Pure.

As the advice on sizes counts it by its defaults (``advisor.policies.right_size``): shares are tenths, of what
a shared GPU gives; the peak fills no more than 0.85 of one; less than a quarter saved is not worth a change.
"""

from math import ceil

from analytics.model import Claim, GpuPast
from analytics.thresholds import LEAST_SAVING, SHARED_RESERVE_BYTES
from analytics.vocabulary.findings import FULL_RATIO

SMALLEST_SHARE = 0.1
EXACT = 5
"""Decimals of a number of tenths: utilization is kept to a ten-thousandth, and 24% is no hair above three
tenths of 80% because a computer has no exact 0.24."""


def tenths(part: float) -> float:
    """The smallest share that holds this part of a GPU: shares are told in tenths."""
    return max(SMALLEST_SHARE, ceil(round(part * 10, EXACT)) / 10)


def fits_share(peak_bytes: int | None, total_bytes: int | None, share: float = 1.0) -> bool | None:
    """Whether a share that saves a quarter of ``share`` holds the peak; ``None``: one is not measured."""
    if peak_bytes is None or total_bytes is None:
        return None
    room = total_bytes - SHARED_RESERVE_BYTES
    needed = tenths(peak_bytes / FULL_RATIO / room) if room > 0 else 1.0
    return needed <= (1 - LEAST_SAVING) * share


def peak_bytes(past: GpuPast, claim: Claim) -> int | None:
    """The most memory that was measured of a holder in the bins; of a GPU that others use, only its own."""
    is_alone = len(past.claims) == 1 and not past.intruders
    memory = claim.memory_bytes or (past.bins.memory_bytes if is_alone else ())
    return max((round(each) for each in memory if each is not None), default=None)


def leaves_room(past: GpuPast, claim: Claim) -> bool | None:
    """Whether a smaller share than it has would hold its memory; ``None``: not known."""
    return fits_share(peak_bytes(past, claim), past.memory_total_bytes, claim.share)
