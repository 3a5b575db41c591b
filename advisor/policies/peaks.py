"""What a job's peaks cost on a part of a GPU: the minutes that fill more than that part. Pure.

A minute that fills ``u`` of a GPU takes ``u / s`` minutes on a smaller part ``s`` of one, so that the work of
a job takes longer by the mean, over the minutes in which it worked, of ``max(0, u - s) / s``. What is shorter
than a minute is in no minute's mean, and is not known.
"""

from advisor.planner.observed import JobUse
from advisor.planner.pairing import PairingRules

LEAST_SPEED = PairingRules().foreground_floor
"""Of its present speed: a neighbour that takes more than a tenth of it is moved away again, so no size that
would is advised. The same tenth is what the slowest of MISO's jobs lost on its slice."""
MOST_LONGER = 1 / LEAST_SPEED - 1
PERCENTILE = 0.95
"""That of ``utilization_p95_ratio``."""
STEPS = 20
"""``excess_ratios`` are told for each twentieth of a GPU but the last, over which nothing goes."""


def longer_ratio(use: JobUse, part: float) -> float:
    """By how much longer its work takes on ``part`` of a GPU, above its 95th percentile: 0.1 is a tenth.

    Where its peaks are not measured, the bound: the twentieth of minutes above the percentile at all of it.
    """
    if use.excess_ratios is None:
        return (1 - PERCENTILE) * (1 - part) / part
    return _excess(use.excess_ratios, part) / part


def keeps_speed(use: JobUse, part: float) -> bool:
    """Whether its peaks leave it ``LEAST_SPEED`` on ``part`` of a GPU."""
    return longer_ratio(use, part) < MOST_LONGER


def _excess(ratios: tuple[float, ...], part: float) -> float:
    """The mean excess over ``part``: on the chord between two twentieths, which is never less than it is.

    It is convex, and falls by no more than the part grows: below the first twentieth by just that.
    """
    edges = (ratios[0] + 1 / STEPS, *ratios, 0.0)
    at = min(STEPS - 1, int(part * STEPS))
    over = part * STEPS - at
    return edges[at] * (1 - over) + edges[at + 1] * over
