"""What decides in a simulated world, and what it may look at: Fallow's own policies and baselines alike."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from advisor.model import ClusterState
from advisor.steps import Action
from collector.model import JobId


class Sight(Protocol):
    """What there is to see of a world. Only an oracle looks at ``left_s``."""

    @property
    def state(self) -> ClusterState:
        """Who holds what."""
        ...

    def observe(self) -> ClusterState:
        """The same with what jobs report of themselves."""
        ...

    @property
    def queues(self) -> Mapping[str, Sequence[tuple[float, JobId]]]:
        """The waiting jobs of each project as (second of submission, job), in that order."""
        ...

    def attained_gpu_s(self, job: JobId) -> float:
        """GPU-seconds that a job has held so far: any scheduler can count them."""
        ...

    def left_s(self, job: JobId) -> float:
        """The seconds that a job still needs: only an oracle knows them."""
        ...


class Scheduler(Protocol):
    """Decides what to do now; called at ticks at which something has changed.

    ``again_s``: it also wants to be asked this often while jobs wait, ``None``: never.
    """

    @property
    def again_s(self) -> float | None:
        """See above."""
        ...

    def decide(self, sight: Sight) -> Sequence[Action]:
        """Steps to take now, in order."""
        ...
