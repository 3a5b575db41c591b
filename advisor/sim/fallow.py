"""Fallow's own policies as a scheduler of a simulated world: the very code that runs live."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from advisor.decide import decide
from advisor.limits import Limits, Order
from advisor.model import Phase, Profile
from advisor.sim.scheduler import Sight
from advisor.steps import Action


@dataclass(slots=True)
class Fallow:
    """The whole decision as it runs live: quotas, queues, back-fill, reclaim, elastic sizes."""

    limits: Limits = field(default_factory=Limits)
    again_s: float | None = 60.0

    def decide(self, sight: Sight) -> Sequence[Action]:
        """The plan's steps."""
        return decide(sight.observe(), self.limits).steps


@dataclass(slots=True)
class Foretold(Fallow):
    """The same as told by an oracle: each queue in the order of the GPU time that its jobs will take.

    Beside what Fallow gets, it tells how much of the waiting is a matter of order. For jobs that are rigid.
    """

    def decide(self, sight: Sight) -> Sequence[Action]:
        """The plan's steps."""
        state = sight.observe()
        foretold = {
            name: replace(job, profile=Profile(step_s={job.min_gpus: 1.0}, steps_left=sight.left_s(name)))
            for name, job in state.jobs.items()
            if job.phase is not Phase.RUNNING
        }
        known = replace(state, jobs={**state.jobs, **foretold})
        return decide(known, replace(self.limits, order=Order.SHORTEST)).steps
