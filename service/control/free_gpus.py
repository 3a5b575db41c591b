"""What people's orders may take: free GPUs that nobody else was promised, and none while acting is stopped.

Giving back (a pause, a shrink, an end) is never asked about here. Waiting times, modes and consents are not
either: who orders it has agreed, and what a person does to own jobs is no disturbance.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.actions import Action, Move, Resize, Resume, Start
from advisor.planner.limits import Limits
from advisor.planner.placement import shrunk
from collector.model import GpuUuid
from service.control.errors import WrongState

if TYPE_CHECKING:
    from advisor.jobs.model import JobRecord
    from advisor.planner.working_state import WorkingState
    from advisor.state.model import ClusterState


class FreeGpus:
    """Asks the world as it is now; ``halted`` is the switch. Safe from any thread."""

    def __init__(
        self, observe: "Callable[[], ClusterState]", limits: Limits, halted: Callable[[], str | None]
    ) -> None:
        self._observe, self._limits, self.halted = observe, limits, halted

    def sized(self, entry: "JobRecord", gpus: int) -> tuple[GpuUuid, ...]:
        """The job's own devices, less or more; those that come lie beside its own. Raises WrongState."""
        state, size = self._observe(), len(entry.gpus)
        if gpus <= size:
            return shrunk(state, entry.gpus, gpus)
        self.must_act(f"{entry.id} gets no GPUs")
        return (*entry.gpus, *_beside(state, self._limits, entry, gpus - size))

    def must_act(self, undone: str) -> None:
        """Raise WrongState, with what is left ``undone``, while acting is stopped."""
        halt = self.halted()
        if halt is not None:
            raise WrongState(f"{undone}: {halt}")

    def must_be_nobodys(self, step: Action, state: "ClusterState") -> None:
        """Raise WrongState where the step takes what was promised to somebody who waits."""
        comes = taken(step, state)
        if not comes or not state.reservations:
            return
        board = _round(state, self._limits).board
        heir = next((head for head in board.promised_heads(comes) if head != step.job), None)
        if heir is not None:
            lost = ", ".join(uuid for uuid in comes if heir in board.promised_heads((uuid,)))
            raise WrongState(f"{lost}: promised to {heir}, which waits; `fallow queue` says until when")


def taken(step: Action, state: "ClusterState") -> tuple[GpuUuid, ...]:
    """The GPUs that a step brings its job beside those that it holds. Pure."""
    if not isinstance(step, Start | Resume | Resize | Move):
        return ()
    placement = state.placements.get(step.job)
    uuids = () if placement is None else placement.gpus
    return tuple(uuid for uuid in step.gpus if uuid not in uuids)


def _beside(state: "ClusterState", limits: Limits, entry: "JobRecord", more: int) -> tuple[GpuUuid, ...]:
    job, round = state.jobs.get(entry.id), _round(state, limits)
    result = None if job is None else round.board.find_beside(job, entry.gpus, more)
    if job is None or result is None:
        reserved_gpus = round.board.all_free_gpus - round.board.free_gpus
        promised = f" ({reserved_gpus} free GPUs are promised to who waits)" if reserved_gpus else ""
        raise WrongState(
            f"{more} more GPUs for {entry.id} are not free now{promised}; `fallow queue` says who waits"
        )
    over = round.over_limit(job, more * job.share)
    if over is not None:
        raise WrongState(
            f"{more} more GPUs for {entry.id} are over the limit of {over}, "
            f"{round.tree.projects[over].limit_gpus:g} GPUs; its jobs hold {round.given[over]:g}"
        )
    return result


def _round(state: "ClusterState", limits: Limits) -> "WorkingState":
    """A decision in which nothing is decided, with what earlier ones promised held back."""
    from advisor.planner.working_state import WorkingState
    from advisor.policies.promised_starts import Promises  # it takes a while, and callers are answered by now

    round = WorkingState(state, limits)
    Promises(round)
    return round
