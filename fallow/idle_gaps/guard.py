"""Protects the foreground: how much of its gaps may be filled, by comparing its own steps. Pure.

Every twentieth step is a control step: nobody computes beside it. The share of a gap that pieces may take
follows the ratio of the steps with a background job to those without. A moving average instead would take the
foreground's own changes for the background's doing; control steps change with it.
"""

from collections import deque
from statistics import median

CONTROL_EVERY = 20
"""One step in so many is a control: 5% of the gaps is what it costs to know."""

FIRST_CONTROLS = 8
"""Steps at the start beside which nobody computes: what later ones are compared with."""

CONTROLS_KEPT, RECENT_KEPT = 8, 16
"""Steps of each sort of which the median counts: a change of the foreground is known after as many."""

JUDGED_EVERY = 8
"""Steps between two changes of the share: half of those whose median counts, so that the change shows in
it.
"""

TOO_SLOW = 1.05
"""A ratio above this halves the share. Jitter of a median of 16 steps stays below it on a quiet machine."""

FIRST_SHARE, LEAST_SHARE, SHARE_STEP = 0.5, 0.05, 0.1
"""Half of a gap at first; a tenth more while the foreground keeps its speed; never so little that nothing is
learnt."""


class Guard:
    """One foreground's guard. Call ``end_step`` after each of its steps with what it took, in seconds."""

    def __init__(self) -> None:
        self._alone: deque[float] = deque(maxlen=CONTROLS_KEPT)
        self._beside: deque[float] = deque(maxlen=RECENT_KEPT)
        self._steps = 0
        self._since_judged = 0
        self._share = FIRST_SHARE

    @property
    def is_control(self) -> bool:
        """Whether nobody may compute beside the step that runs now."""
        return self._steps < FIRST_CONTROLS or self._steps % CONTROL_EVERY == 0

    @property
    def share(self) -> float:
        """The part of each gap that may be filled in the step that runs now: 0 to 1."""
        return 0.0 if self.is_control else self._share

    @property
    def alone_s(self) -> float | None:
        """The median step without anybody beside it."""
        return median(self._alone) if self._alone else None

    @property
    def recent_s(self) -> float | None:
        """The median of the last steps with gaps open."""
        return median(self._beside) if self._beside else None

    def end_step(self, seconds: float) -> None:
        """A step has ended that took so long."""
        (self._alone if self.is_control else self._beside).append(seconds)
        self._steps += 1
        self._since_judged += 1
        if len(self._beside) >= JUDGED_EVERY and self._since_judged >= JUDGED_EVERY:
            self._judge()

    def _judge(self) -> None:
        alone, recent = self.alone_s, self.recent_s
        if alone is None or recent is None or alone <= 0:
            return
        self._since_judged = 0
        if recent / alone > TOO_SLOW:
            self._share = max(LEAST_SHARE, self._share / 2)
            self._beside.clear()  # those steps ran under the larger share
        else:
            self._share = min(1.0, self._share + SHARE_STEP)
