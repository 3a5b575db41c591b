"""What a screen on the wall shows, and when it turns to the next: read from the address. Pure.

``?kiosk=1`` turns through all panels, ``?kiosk=cluster`` holds one; ``every`` is how long each stays.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

PANELS: Mapping[str, str] = {
    "overview": "Overview",
    "cluster": "Cluster",
    "findings": "Findings",
    "projects": "Projects",
    "queue": "Queue",
}
"""The panels in the order in which they come, and what they are called."""

PARAMETER = "kiosk"
EVERY = "every"
EVERY_S, LEAST_S, MOST_S = 20, 5, 3_600
FRESH_S = 10.0
"""No figure on the wall is older than a tick, however slowly it turns."""
EARLY_S = 0.5
"""A drawing that comes this much early is still the panel's last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """What an address asks for. ``held`` is the panel that stays; ``None`` when they turn."""

    held: str | None
    every_s: int

    @property
    def beat_s(self) -> float:
        """How often it is drawn anew: an even part of a panel's time, so that a turn falls on a drawing."""
        if self.held is not None:
            return FRESH_S
        return self.every_s / math.ceil(self.every_s / FRESH_S)

    @property
    def params(self) -> dict[str, str]:
        """The query parameters that ask for it."""
        slow = {} if self.every_s == EVERY_S else {EVERY: str(self.every_s)}
        return {PARAMETER: self.held or "1", **slow}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The panel that is shown and since when, in seconds of any clock that never goes back."""

    panel: str
    since_s: float


def wall_of(params: Mapping[str, str]) -> Wall | None:
    """The wall that an address asks for; ``None`` when it asks for a page. Bad seconds are the default."""
    asked = params.get(PARAMETER)
    if not asked or asked == "0":
        return None
    try:
        every_s = round(float(params.get(EVERY, EVERY_S)))
    except (ValueError, OverflowError):
        every_s = EVERY_S
    return Wall(held=asked if asked in PANELS else None, every_s=min(max(every_s, LEAST_S), MOST_S))


def turned(turn: Turn | None, wall: Wall, now_s: float) -> Turn:
    """What is shown at ``now_s``: the next panel once the last has had its time, as near as drawings come."""
    order = list(PANELS)
    if wall.held is not None:
        return Turn(panel=wall.held, since_s=now_s)
    if turn is None:
        return Turn(panel=order[0], since_s=now_s)
    if now_s - turn.since_s < wall.every_s - EARLY_S:
        return turn
    return Turn(panel=order[(order.index(turn.panel) + 1) % len(order)], since_s=now_s)
