"""How long an idle stretch goes on, from how long the site's own ones went on. Pure.

Kaplan and Meier's estimator (1958): stretches that still last are cut short, and say only that they were at
least so long. The expectation is of ``min(what is left, horizon)``, given that ``idle_s`` have passed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.observed import IdleStretch
from collector.model import JobKind

FEW = 8
"""Under so many stretches that lasted as long as this one, a narrower group is not listened to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """What is expected of a stretch: seconds of ``horizon_s``, and how much that rests on.

    ``low_s`` and ``high_s`` enclose four of five of the stretches it rests on; ``of`` names them.
    """

    expected_s: float
    low_s: float
    high_s: float
    horizon_s: float
    stretches: int
    of: str


def foresee(
    idle_s: float, horizon_s: float, user: str | None, kind: JobKind, stretches: Iterable[IdleStretch]
) -> Foresight | None:
    """What is left of a stretch that has lasted ``idle_s``; ``None`` when too few lasted as long.

    The person's own stretches of this kind of job are asked first, then everybody's of this kind, then all.
    """
    known = [each for each in stretches if each.length_s >= idle_s]
    groups = (
        (f"{user}'s {kind.value} jobs", [s for s in known if s.user == user and s.kind is kind]),
        (f"all {kind.value} jobs", [s for s in known if s.kind is kind]),
        ("all jobs", known),
    )
    for name, group in groups:
        if sum(not each.open for each in group) >= FEW:
            return _expected(idle_s, horizon_s, group, name)
    return None


def survival(stretches: Iterable[IdleStretch]) -> tuple[tuple[float, float], ...]:
    """(length, the share that lasted longer), at every length at which one ended; shares fall from 1."""
    lengths = sorted((each.length_s, each.open) for each in stretches)
    left, share, steps = len(lengths), 1.0, []
    for length, still_open in lengths:
        if not still_open:
            share *= 1 - 1 / left
            steps.append((length, share))
        left -= 1
    return tuple(steps)


def _expected(idle_s: float, horizon_s: float, group: list[IdleStretch], name: str) -> Foresight:
    """The area under the survival curve from now to the horizon; all of ``group`` lasted until now."""
    curve = survival(group)
    area, at, share = 0.0, idle_s, 1.0
    end = idle_s + horizon_s
    for length, after in curve:
        if length >= end:
            break
        area += share * (length - at)
        at, share = length, after
    area += share * (end - at)
    return Foresight(
        expected_s=area,
        low_s=_quantile(curve, 0.9, idle_s, end) - idle_s,
        high_s=_quantile(curve, 0.1, idle_s, end) - idle_s,
        horizon_s=horizon_s,
        stretches=len(group),
        of=name,
    )


def _quantile(curve: tuple[tuple[float, float], ...], share: float, start: float, end: float) -> float:
    """The length that this share of stretches outlasts, between ``start`` and ``end``."""
    reached = next((length for length, after in curve if after <= share), end)
    return min(end, max(start, reached))
