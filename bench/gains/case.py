"""One advice: what was expected of it, and what came."""

from dataclasses import dataclass

GPU_MINUTE_H = 1 / 60
TOLD, GUESSED = "told", "guessed"
"""Of jobs that report what is left of them, and of those that do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """In GPU-hours over the horizon; ``kind`` tells it apart from others in the same table."""

    kind: str
    expected: float
    came: float

    @property
    def error(self) -> float:
        """Relative to what came; under a GPU-minute, to that."""
        return abs(self.expected - self.came) / max(self.came, GPU_MINUTE_H)
