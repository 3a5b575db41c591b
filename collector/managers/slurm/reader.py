"""One look at a Slurm cluster: what its own programs print, believed only as far as it is proven.

A poll is two calls, whatever the number of jobs: the queue and the nodes, as text. Which GPUs of its nodes a
job has is asked for once, when it begins (it keeps them until it ends), and again now and then.

Proven means: the program ended well and said nothing of an error; this account sees everybody's jobs; and
nodes do not say that they have given out more GPUs than the jobs shown hold. An account that may not see, a
controller or munge that is away: Unavailable, and what was known holds on. Never "nobody holds anything".
"""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from collector.inventory.slurm_programs import TIMEOUT_S, NoAnswer, answer
from collector.inventory.slurm_rights import Account, account_of
from collector.managers.model import (
    HOLDING,
    Grant,
    JobKey,
    KnownRun,
    Look,
    ManagedJob,
    ManagedNode,
    Reservation,
)
from collector.managers.slurm import node_text, queue_text, reservations
from collector.managers.slurm.details import grants_of
from collector.managers.slurm.limits_reader import LimitsReader
from collector.managers.slurm.one_job import GONE
from collector.managers.slurm.queue_text import NotQueue
from collector.managers.slurm.reuse import Numbers
from collector.model import NodeName, OutOfService, Unavailable

ACCOUNT_MS = 600_000
"""How often the configuration and this account's rights are asked for: an administrator changes them."""

GRANTS_MS = 600_000
"""How often all jobs' indices are asked for again, though a job keeps what it was given."""

RESERVATIONS_MS = 60_000
"""How often reservations are asked for, 0.01 s each time: a new one is seen a minute later at most."""

SINGLY = 4
"""Up to so many new jobs are asked about one by one (0.01 s each); more, all at once (0.76 s of 3,001 jobs,
22.05.8): most of a long queue waits, and says nothing of GPUs."""

Where = tuple[JobKey, tuple[NodeName, ...]]
"""What a job was given holds for this run of it on these nodes."""

Run = Callable[[Sequence[str], float], str]
"""Runs one of Slurm's programs within so many seconds, and gives what it printed. Raises NoAnswer."""


class SlurmManager:
    """The cluster that Slurm's programs find here. ``known`` are the runs that the store knows."""

    name = "slurm"
    tells_which = True

    def __init__(
        self, known: Sequence[KnownRun] = (), *, run: Run = answer, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._run = run
        self._timeout_s = timeout_s
        self._numbers = Numbers(known)
        self._account: tuple[int, Account] | None = None
        self._grants: dict[Where, tuple[Grant, ...] | None] = {}
        self._granted_ms: int | None = None
        self._limits = LimitsReader()
        self._reserved: tuple[int, tuple[Reservation, ...]] | None = None

    def look(self, now_ms: int) -> Look | Unavailable:
        """Blocks up to the timeout, all calls together."""
        ask = _Within(self._run, self._timeout_s)
        try:
            account = self._seen_as(ask, now_ms)
            if account.hidden is not None:
                return self._unavailable(now_ms, account.hidden)
            nodes, jobs = _nodes(ask), self._jobs(ask, account, now_ms)
            if _unshown(nodes, jobs):
                self._grants.clear()  # a job may have begun between the two, or be given something else
                nodes, jobs = _nodes(ask), self._jobs(ask, account, now_ms)
        except NoAnswer as failure:
            return self._unavailable(now_ms, str(failure))
        except NotQueue as error:
            return self._unavailable(now_ms, f"Slurm's answer could not be read: {error}")
        unshown = _unshown(nodes, jobs)
        if unshown and not any(job.given for job in jobs):
            return self._unavailable(now_ms, _not_all(sum(unshown.values()), account))
        reserved = self._reservations(ask, now_ms)
        told = reservations.with_reservations(nodes, reserved, now_ms)
        return Look(
            cluster=account.cluster,
            at_ms=now_ms,
            jobs=self._limits.told(ask, jobs, account.cluster, now_ms),
            nodes=tuple(_doubted(node, unshown, account) for node in told),
            reservations=reserved,
        )

    def _unavailable(self, now_ms: int, reason: str) -> Unavailable:
        return Unavailable(source=self.name, at_ms=now_ms, reason=reason)

    def _seen_as(self, ask: "_Within", now_ms: int) -> Account:
        known = self._account
        if known is None or not 0 <= now_ms - known[0] < ACCOUNT_MS:
            known = self._account = (now_ms, account_of(ask))
        return known[1]

    def _reservations(self, ask: "_Within", now_ms: int) -> tuple[Reservation, ...]:
        """Those that were told last where Slurm doesn't answer: all else of this look is known."""
        known = self._reserved
        if known is None or not 0 <= now_ms - known[0] < RESERVATIONS_MS:
            with suppress(NoAnswer):
                known = self._reserved = (now_ms, reservations.reservations_of(ask(reservations.COMMAND)))
        return () if known is None else known[1]

    def _jobs(self, ask: "_Within", account: Account, now_ms: int) -> tuple[ManagedJob, ...]:
        mark = _mark()
        command = ("squeue", "--noheader", "--all", "--states=all", f"--Format={queue_text.format_of(mark)}")
        listed = queue_text.jobs_of(ask(command), mark, account.cluster)
        if self._granted_ms is None or not 0 <= now_ms - self._granted_ms < GRANTS_MS:
            self._grants, self._granted_ms = {}, now_ms
        holding = {_where(each.job): each for each in listed if each.job.state in HOLDING and each.job.nodes}
        self._grants = {key: given for key, given in self._grants.items() if key in holding}
        new = {key: each for key, each in holding.items() if key not in self._grants}
        names = {each.job.key.id: each.name for each in listed}
        found = _granted(ask, [each.job.key.id for each in new.values()], names)
        self._grants |= {key: found.get(each.job.key.id) for key, each in new.items()}
        jobs = self._numbers.named([each.job for each in listed])
        return tuple(replace(job, given=self._grants.get(_where(job), ())) for job in jobs)


class _Within:
    """Runs commands that have so many seconds all together."""

    def __init__(self, run: Run, budget_s: float) -> None:
        self._run = run
        self._budget_s = budget_s
        self._end_s = time.monotonic() + budget_s

    def __call__(self, command: Sequence[str]) -> str:
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise NoAnswer(f"Slurm took more than {self._budget_s:g} s to answer; is slurmctld busy?")
        return self._run(command, left_s)


def _where(job: ManagedJob) -> Where:
    return job.key, job.nodes


def _mark() -> str:
    """What stands behind each field of one answer: whoever names a job can't know it."""
    return f"\x1f{secrets.token_hex(8)}\x1f"


def _nodes(ask: _Within) -> tuple[ManagedNode, ...]:
    mark = _mark()
    command = ("sinfo", "--noheader", "--all", "--Node", f"--Format={node_text.format_of(mark)}")
    return node_text.nodes_of(ask(command), mark)


def _granted(
    ask: _Within, numbers: Sequence[str], names: Mapping[str, str]
) -> dict[str, tuple[Grant, ...] | None]:
    """What these jobs were given; nothing of one that has ended meanwhile. ``names`` are all jobs'."""
    command = ("scontrol", "--details", "--oneliner", "show", "job")
    found: dict[str, tuple[Grant, ...] | None] = {}
    singly = list(numbers)
    if len(numbers) > SINGLY:
        found = grants_of(ask(command), names)
        singly = [number for number in numbers if found.get(number, ()) is None][:SINGLY]
    for number in singly:
        try:
            found |= grants_of(ask((*command, number)), {number: names[number]})
        except NoAnswer as failure:
            if GONE not in str(failure):
                raise
    return found


def _unshown(nodes: Sequence[ManagedNode], jobs: Sequence[ManagedJob]) -> dict[NodeName, int]:
    """How many GPUs each node says it has given out beyond those that the jobs shown have.

    Nothing is said of a node on which a job has nobody knows what.
    """
    unknown = {node for job in jobs if job.state in HOLDING and job.given is None for node in job.nodes}
    grants = [grant for job in jobs if job.state in HOLDING for grant in job.given or ()]
    whole = Counter[NodeName]()
    for grant in grants:
        whole[grant.node] += 0 if grant.is_shared else grant.gpus
    parted = {grant.node for grant in grants if grant.is_shared}
    found = {}
    for node in nodes:
        more = (node.given_gpus or 0) - whole[node.name]
        if node.name not in unknown and (more > 0 or (node.given_shards and node.name not in parted)):
            found[node.name] = max(more, 1)
    return found


def _doubted(node: ManagedNode, unshown: Mapping[NodeName, int], account: Account) -> ManagedNode:
    """A node of which somebody holds GPUs that no job shown has: none of its GPUs is known to be free."""
    if node.name not in unshown or node.state is not None:
        return node
    return replace(node, state=OutOfService.UNASKED, reason=_not_all(unshown[node.name], account))


def _not_all(count: int, account: Account) -> str:
    """Whose they are, or why nobody can have them: a controller that is killed while a job ends may go on
    counting that job's GPUs, which nobody gets until it counts anew (22.05.8)."""
    what = "1 GPU is" if count == 1 else f"{count} GPUs are"
    if account.is_slurms:
        return (
            f"{what} given out by Slurm's count of the node, and no job has them; "
            "if that lasts, slurmctld miscounts since a crash: `scontrol reconfigure` has it count anew"
        )
    return (
        f"{what} given to jobs that Slurm does not show to this account; "
        "give it AdminLevel=Operator, or run the service as SlurmUser"
    )
