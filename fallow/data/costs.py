"""What a rank's part of a step takes, from how long it took with the shares it has had. Pure.

A step costs a worker a fixed time (launches, what the script does once) and a time a sample. Shares in
proportion to speed leave the fixed time out, and give a slow worker too much: with three workers of 17 ms +
2.7 ms a sample, one half as fast and a global batch of 32, it gets 4 and takes 55.6 ms where 44.8 will do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

OTHER_SPEED = 1.25
"""A rank that takes so many times what it took is at another speed: what was measured before counts no more.
A median of ten steps with 5% noise is never so far off."""
MEMORY_WINDOWS = 5
"""An older mean counts at most as so many windows, so that slow changes are followed."""
MEMORY_SHARES = 4
"""So many different shares are remembered: two give a line, more even out noise."""
NOISE = 0.02
"""The relative error of a window's median when single steps vary by 5%: 0.05 * 1.25 / sqrt(10)."""
SPREAD = 0.5
"""How far from the other ranks' a rank's fixed part of its time may well be: as good as anything."""
LEAST_SLOPE = 0.02
"""A sample takes at least this part of its proportional time; taking none, one rank would get all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """``fixed_s + unit_s * n`` seconds for ``n`` samples (or micro-batches); none take no time.

    A rank gets at least ``least`` and, unless it is ``None``, at most ``most`` of them.
    """

    fixed_s: float
    unit_s: float
    least: int = 0
    most: int | None = None

    def seconds(self, count: int) -> float:
        """How long a part of so many takes."""
        return self.fixed_s + self.unit_s * count if count else 0.0


@dataclass(frozen=True, slots=True)
class Timing:
    """``count`` samples took ``seconds``, a mean over so many ``windows`` of steps."""

    count: int
    seconds: float
    windows: int = 1


@dataclass(frozen=True, slots=True)
class History:
    """What one rank took with each of its shares, the newest last."""

    timings: tuple[Timing, ...] = ()

    def after(self, count: int, seconds: float) -> "History":
        """With another window's median."""
        same = next((each for each in self.timings if each.count == count), None)
        if same is None:
            longer = History((*self.timings[1 - MEMORY_SHARES :], Timing(count, seconds)))
            return longer if longer._is_a_line() else History((Timing(count, seconds),))
        if not 1 / OTHER_SPEED < seconds / same.seconds < OTHER_SPEED:
            return History((Timing(count, seconds),))
        windows = min(same.windows + 1, MEMORY_WINDOWS)
        newest = Timing(count, same.seconds + (seconds - same.seconds) / windows, windows)
        return History((*[each for each in self.timings if each is not same], newest))

    def cost(self, fixed_part: float) -> Cost:
        """The line that fits best; of one share only, the one whose fixed time is ``fixed_part`` of it.

        Least squares of relative errors, with ``fixed_part`` as one more, weak, observation. Neither time
        gets negative.
        """
        newest = self.timings[-1]
        weight = 1 / SPREAD**2 / newest.seconds**2
        aa, ab, bb, ay, by = weight, 0.0, 0.0, weight * fixed_part * newest.seconds, 0.0
        for each in self.timings:
            weight = each.windows / (NOISE * each.seconds) ** 2
            aa, ab, bb = aa + weight, ab + weight * each.count, bb + weight * each.count**2
            ay, by = ay + weight * each.seconds, by + weight * each.count * each.seconds
        determinant = aa * bb - ab * ab
        fixed_s, unit_s = (ay * bb - by * ab) / determinant, (aa * by - ab * ay) / determinant
        if fixed_s < 0:
            fixed_s, unit_s = 0.0, by / bb
        if unit_s < (least := LEAST_SLOPE * newest.seconds / newest.count):
            fixed_s, unit_s = max(0.0, (ay - ab * least) / aa), least
        return Cost(fixed_s=fixed_s, unit_s=unit_s)

    def fixed_part(self) -> float:
        """Which part of its newest time the fixed one is."""
        cost = self.cost(0.0)
        return cost.fixed_s / cost.seconds(self.timings[-1].count)

    def _is_a_line(self) -> bool:
        newest = self.timings[-1]
        told = self.cost(0.0).seconds(newest.count) / newest.seconds
        return 1 / OTHER_SPEED < told < OTHER_SPEED


def fitted(histories: Sequence[History], fixed_part: float | None = None) -> tuple[Cost, ...]:
    """The cost of each rank, each of which has had samples at least once.

    ``fixed_part`` is taken for who has had one share only; ``None``: that of the others, and none where
    nobody has had two.
    """
    if fixed_part is None:
        parts = [each.fixed_part() for each in histories if len(each.timings) > 1]
        fixed_part = median(parts) if parts else 0.0
    return tuple(each.cost(fixed_part) for each in histories)


def limited(costs: Sequence[Cost], least: int, most: int | None) -> tuple[Cost, ...]:
    """The same with these limits for every rank."""
    return tuple(replace(cost, least=least, most=most) for cost in costs)
