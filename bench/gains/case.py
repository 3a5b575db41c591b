"""One advice: what was expected of it, and what came."""

from dataclasses import dataclass

GPU_MINUTE_H = 1 / 60


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
