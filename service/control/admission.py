"""Whether a submission becomes a job: whose project it names, what its owner has, whether it can fit."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from advisor.jobs.model import JobRecord, Submission
from advisor.jobs.with_snapshot import waiting_job
from advisor.planner.free_gpus import kind_of, takes
from advisor.state.model import ClusterState
from analytics import text
from collector.model import JobId
from service.config.bounding import NeverFitting
from service.control.errors import BadOrder, NotAllowed, OverLimit
from service.control.holdings import Held, Holdings
from service.control.interface import Caller, Role
from service.control.membership import Membership, hold_strangers, rules_of

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from advisor.state.model import Job
    from service.config.model import Config

RETRY_S = 60
"""Jobs end by themselves in minutes at best."""
MIB = 1 << 20


class Admission:
    """The door of the queue, ``open`` once for a register. Any thread.

    ``state`` is set to what says how the cluster was last seen; ``holdings`` are what everybody has.
    """

    def __init__(self, config: "Config") -> None:
        self._membership, self.holdings = Membership(rules_of(config)), Holdings()
        self._limits, self._operators = config.limits, frozenset(config.api.operators)
        self.state: Callable[[], ClusterState | None] = lambda: None

    def open(self, register: "Register") -> None:
        """Count what is there, and hold what waits in a project that is not its owner's any more. Blocks."""
        self.holdings.follow(register)
        hold_strangers(register, self._membership, self._operators)

    @contextmanager
    def admitting(self, caller: Caller, submission: Submission) -> Iterator[None]:
        """Raise unless it may be a job; what is kept within the block has its place among its owner's.

        Raises ``NotAllowed``, ``BadOrder``, ``OverLimit``. Blocks as the machine's directory does.
        """
        self.must_be_member(caller, submission)
        if self._limits.never_fitting == NeverFitting.REFUSE:
            why = never_fits(submission, self.state())
            if why is not None:
                raise BadOrder(f"{why}; limits.never_fitting lets such jobs wait")
        # Counted from here on: orders of one person that come at once would each find room.
        with self.holdings.coming(submission) as holdings_of_person:
            if caller.role is not Role.OPERATOR:
                self._must_have_room(holdings_of_person, submission)
            yield

    def must_be_member(self, caller: Caller, submission: Submission) -> None:
        """Raise ``NotAllowed`` for a project that is not its owner's to use. Operators use all."""
        if caller.role is Role.OPERATOR:
            return
        why = self._membership.against(submission.user, submission.uid, submission.project)
        if why is not None:
            raise NotAllowed(why)

    def _must_have_room(self, own: Held, order: Submission) -> None:
        limits = self._limits
        if own.jobs >= limits.jobs:
            raise OverLimit(
                f"{order.user} has {own.jobs:,} jobs that have not ended, as many as one person may have "
                f"(limits.jobs); cancel some, or submit again when some have ended",
                retry_after_s=RETRY_S,
            )
        if own.chars and own.chars > limits.submitted_mib * MIB:
            raise OverLimit(
                f"the commands, folders and names of {order.user}'s {own.jobs:,} jobs have "
                f"{text.size(own.chars)}, as much as one person may have (limits.submitted_mib); put "
                "long commands into scripts, or submit again when some jobs have ended",
                retry_after_s=RETRY_S,
            )


def never_fits(submission: Submission, state: ClusterState | None) -> str | None:
    """Why the whole cluster, with nobody on it, could not hold it; ``None``: it could, or unknown. Pure."""
    if state is None or not state.gpus:
        return None
    job: Job = waiting_job(JobRecord(id=JobId("fallow:0"), submission=submission))
    only_instances = all(gpu.part_of_device is not None for gpu in state.gpus.values())
    kinds = Counter(map(kind_of, state.gpus.values()))
    by_node = Counter((kind_of(gpu), gpu.node) for gpu in state.gpus.values())
    largest = {kind: max(n for (each, _), n in by_node.items() if each == kind) for kind in kinds}
    there_are = largest if job.on_one_node else kinds
    fitting = {kind: n for kind, n in there_are.items() if takes(job, kind, only_instances=only_instances)}
    most = max(fitting.values(), default=0)
    if job.min_gpus <= most:
        return None
    there = ", ".join(f"{n} {kind[0] or 'of an unknown model'}" for kind, n in sorted(kinds.items(), key=str))
    such = f" {' or '.join(submission.gpu_models)}" if submission.gpu_models else ""
    memory = f" with {text.size(submission.memory_bytes)}" if submission.memory_bytes else ""
    gpus = f"{submission.min_gpus}{such} GPU{'' if submission.min_gpus == 1 else 's'}{memory}"
    if job.on_one_node and sum(kinds[kind] for kind in fitting) >= job.min_gpus:
        return (
            f"{gpus} of one kind on one node are more than any node here has, which is {most}; "
            "`--topology prefer-node` takes several where it must"
        )
    return f"{gpus} of one kind at once are more than there ever are here ({there})"
