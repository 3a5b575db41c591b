"""What people order of jobs that Fallow did not launch: pause and resume, by its owner or an operator.

An order is a consent, so the modes are not asked; the preconditions of a checkpoint are
(``advisor.engines``).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.model import ActionClass, Phase
from advisor.steps import Action, Pause, Resume
from collector.model import JobId
from service.acting.applying import Applying, Approval
from service.api.port import Caller, Role, Row
from service.order_errors import BadOrder, NotAllowed, UnknownJob, WrongState

if TYPE_CHECKING:
    from advisor.model import ClusterState, Job
    from service.acting.taking import FreeGpus


class ExternalJobOrders:
    """Orders about foreign jobs, through the same journal and engine as everything else."""

    def __init__(self, observe: "Callable[[], ClusterState]", applying: Applying, taking: "FreeGpus") -> None:
        self._observe, self._applying, self._taking = observe, applying, taking

    def pause(self, caller: Caller, job: JobId, because: str) -> Row:
        """Take it off its GPUs until it is resumed, or its terminal is typed at. Blocks for a moment."""
        result = self._own(caller, job)
        if result.phase is Phase.PAUSED:
            raise WrongState(f"{job} is paused already; `fallow resume {job}` brings it back")
        return self._done(caller, Pause(job=job, action=ActionClass.SCHEDULE, reason=because))

    def resume(self, caller: Caller, job: JobId, because: str) -> Row:
        """Bring it back onto the GPUs it left; not while acting is stopped, nor onto what was promised since.

        Blocks for a moment.
        """
        result = self._own(caller, job)
        if result.phase is not Phase.PAUSED:
            raise WrongState(f"{job} is not paused")
        if "resume" in result.cannot:
            raise WrongState(f"{job} stays paused: {result.cannot['resume']}")
        step = Resume(job=job, gpus=result.paused_on, reason=because)
        self._taking.must_act(f"{job} stays paused")
        if caller.role is not Role.OPERATOR:
            self._taking.must_be_nobodys(step, self._observe())
        return self._done(caller, step)

    def refuse(self, caller: Caller, job: JobId, verb: str) -> BadOrder:
        """Why ``verb`` cannot be ordered of it. Raises as ``pause`` does for somebody else's job."""
        result = self._own(caller, job)
        return BadOrder(result.cannot.get(verb) or f"Fallow did not launch {job}")

    def _own(self, caller: Caller, job: JobId) -> "Job":
        result = self._observe().jobs.get(job)
        if result is None:
            raise UnknownJob(f"no job {job} runs or is paused; `fallow status` lists those that do")
        known = caller.role is Role.OPERATOR or result.user is not None
        if not known or not caller.may_act_for(result.user or ""):
            raise NotAllowed(
                f"{job} is {result.user or 'somebody'}'s; {caller.name} may look and not change it"
            )
        return result

    def _done(self, caller: Caller, step: Action) -> Row:
        work = self._applying.carry_out(Approval(actor=f"user {caller.name}", steps=((1, step),)))
        row = {name: value for name, value in work.row().items() if name != "steps"}
        match row["outcome"]:
            case "unsupported":
                raise BadOrder(row["message"])
            case "stale" | "failed":
                raise WrongState(row["message"])
            case _:
                return row
