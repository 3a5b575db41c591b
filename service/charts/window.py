"""The stretch of time that charts and their queries are about, and the steps it is cut into. Pure."""

import math
from dataclasses import dataclass
from datetime import datetime

STEPS_S = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
MOST_POINTS = 170
MOST_STEPS = 3_000
"""What a query cuts a window into at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A half-open stretch of whole minutes, UTC without a zone as queries take it, and a chart's step."""

    from_ts: datetime
    to_ts: datetime
    step_s: int

    @property
    def seconds(self) -> int:
        """Its length."""
        return int((self.to_ts - self.from_ts).total_seconds())

    @property
    def span(self) -> dict[str, datetime]:
        """The window as query parameters, without the step."""
        return {"from_ts": self.from_ts, "to_ts": self.to_ts}

    @property
    def steps(self) -> dict[str, object]:
        """The window and its step as query parameters."""
        return {**self.span, "step_s": self.step_s}


def step_for(seconds: float, *, points: int = MOST_POINTS) -> int:
    """The shortest round step that cuts ``seconds`` into at most ``points``; of years a day, or several."""
    day_s = STEPS_S[-1]
    fitting = (step for step in STEPS_S if seconds / step <= points)
    return next(fitting, day_s * math.ceil(seconds / day_s / MOST_STEPS))
