"""When the simulated collector itself is blind: a restart, a hung driver call. Pure, by week."""

from dataclasses import dataclass

from collector.sources.simulated.people import DAY_MS, MINUTE_MS
from collector.sources.simulated.timeline import draw_from

_WEEK_MS = 7 * DAY_MS
_REASONS = (
    "the collector was restarted",
    "the driver did not answer in time",
    "the service was being updated",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blindness:
    """A time ``[from_ms, to_ms)`` in which nothing was measured on any node, and why."""

    from_ms: int
    to_ms: int
    reason: str


def blind_times(seed: int, from_ms: int, to_ms: int) -> tuple[Blindness, ...]:
    """Every blindness that touches ``[from_ms, to_ms)``, whole."""
    outages: list[Blindness] = []
    for week in range(from_ms // _WEEK_MS - 1, to_ms // _WEEK_MS + 1):
        draw = draw_from(seed, "blind", week)
        for _ in range(int(draw.integers(1, 4))):
            begin = week * _WEEK_MS + int(draw.integers(7 * 24 * 60)) * MINUTE_MS
            lasts = int(draw.integers(2, 26)) * MINUTE_MS
            reason = _REASONS[int(draw.integers(len(_REASONS)))]
            outages.append(Blindness(from_ms=begin, to_ms=begin + lasts, reason=reason))
    touching = [b for b in outages if b.from_ms < to_ms and b.to_ms > from_ms]
    return tuple(sorted(touching, key=lambda blind: blind.from_ms))
