"""What each project held lately, as a world remembers it: the memory that fairness charges.

A sample each ``SAMPLE_S`` (KAI-Scheduler's and policy's five minutes), decayed and cut off as
``advisor.planner.fair_share.remembered`` does it, of which this is the running sum.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.planner.limits import Limits
from advisor.state.model import ProjectName, Usage

# As often as the service samples use (policy: each 5 minutes).
SAMPLE_S = 300
WINDOW_SAMPLES = round(Limits().window_s / SAMPLE_S)
"""A sample is forgotten when so many have come after it."""

DECAY = 0.5 ** (SAMPLE_S / Limits().half_life_s)
FORGOTTEN = DECAY ** (WINDOW_SAMPLES + 1)


@dataclass(slots=True)
class UseMemory:
    """Use of a cluster of ``capacity_gpus`` by project; ``due_ms`` is when the next sample is taken."""

    capacity_gpus: float
    due_ms: int
    _held: dict[str, float] = field(default_factory=dict)
    _weight: float = 0.0
    _samples: deque[dict[str, float]] = field(default_factory=deque)

    def sample_to(self, to_ms: int, held_gpus: Mapping[str, float]) -> None:
        """Take all samples that are due by ``to_ms`` of what was held the whole time.

        Those that would be forgotten by then are left out: years of the same cost as much as a week.
        """
        step_ms = SAMPLE_S * 1000
        due = (to_ms - self.due_ms) // step_ms + 1
        self.due_ms += max(due - WINDOW_SAMPLES - 1, 0) * step_ms
        while self.due_ms <= to_ms:
            self.sample(held_gpus)

    def sample(self, held_gpus: Mapping[str, float]) -> None:
        """Take the sample that is due: the GPUs that each project holds."""
        now = {name: gpus for name, gpus in held_gpus.items() if gpus > 0}
        self._samples.append(now)
        is_full = len(self._samples) > WINDOW_SAMPLES + 1
        oldest = self._samples.popleft() if is_full else {}
        self._weight = self._weight * DECAY + 1.0 - is_full * FORGOTTEN
        self._held = {
            name: self._held.get(name, 0.0) * DECAY + now.get(name, 0.0) - oldest.get(name, 0.0) * FORGOTTEN
            for name in self._held.keys() | now.keys()
        }
        self.due_ms += SAMPLE_S * 1000

    def usage(self) -> dict[ProjectName, Usage]:
        """The remembered use of every project that held anything in the window."""
        total = self._weight * self.capacity_gpus
        return {
            ProjectName(name): Usage(allocated_ratio=max(0.0, gpus / total))
            for name, gpus in sorted(self._held.items())
        }
