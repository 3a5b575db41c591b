"""Fallow's own policies as a scheduler of a simulated world: the very code that runs live."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from advisor.decide import decide
from advisor.limits import Limits
from advisor.sim.scheduler import Sight
from advisor.steps import Step


@dataclass(slots=True)
class Fallow:
    """The whole decision as it runs live: quotas, queues, back-fill, reclaim, elastic sizes."""

    limits: Limits = field(default_factory=Limits)
    again_s: float | None = 60.0

    def decide(self, sight: Sight) -> Sequence[Step]:
        """The plan's steps."""
        return decide(sight.observe(), self.limits).steps
