"""Kubernetes' pods as acting sees them: what their owners allow, what can be done, which Fallow suspended.

Joined to every look at the cluster by ``complete``, where the site lets Fallow act there
(``foreign.kubernetes``). A pod may be paused where the annotation of its own Job says so, and in no other
way: Kubernetes knows no people, and neither a namespace nor an order says that a program saves itself.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from advisor.engines.kubernetes import NAME, KubernetesEngine, KubernetesEngineDependencies
from advisor.jobs.manager_acts import ManagerAct, ManagerActStore
from advisor.planner.consent import Kind
from advisor.state.model import ClusterState, Job
from collector.inventory.kubernetes import is_pod
from collector.managers.kubernetes.api import NoAnswer, account_of, connected
from collector.managers.kubernetes.batch import ALLOW
from collector.managers.kubernetes.reader import CLUSTER
from collector.managers.model import Look, WaitCause
from collector.managers.owner_word import OwnerWord
from collector.model import GpuUuid, JobId
from service.control.managed_jobs import LATE_MS, held_job, somebody_waits

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from collector.clock import Clock
    from collector.managers.kubernetes.api import Account, Connection
    from collector.snapshot import Snapshot
    from collector.store.database import Store
    from service.config.model import Config

ON_ITS_WAY = "what was asked of Kubernetes about it has not been seen yet"
HOW = "its owner has not allowed it: `kubectl {annotate} " + ALLOW + "=pause`, where it saves itself"
ASK_S = 10.0
"""For one request about one object; kubectl waits for ever, and an API server that is well needs 0.1 s
(Kubernetes' own objective is 1 s for 99 of 100 calls that change something)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesJobsDependencies:
    """``connect`` opens a connection to the API server."""

    book: ManagerActStore
    clock: "Clock"
    snapshot: "Callable[[], Snapshot]"
    connect: "Callable[[], AbstractContextManager[Connection]]"
    elsewhere: Callable[[JobId], bool] = lambda job: False
    """Whether a hook of the site's has the job."""
    is_on: bool = True
    """The site lets Fallow act there."""
    takes_words: bool = True
    """The site takes an owner's yes (``consent.owners``)."""


class KubernetesJobs:
    """The half of acting for pods; ``engine`` carries out, ``complete`` is for every look at the cluster."""

    def __init__(self, parts: KubernetesJobsDependencies) -> None:
        self._parts, self._book = parts, parts.book
        self.engine = KubernetesEngine(
            KubernetesEngineDependencies(
                book=parts.book,
                connect=parts.connect,
                clock=parts.clock,
                looks=self._looks,
                against=self.against,
                gpus_of=self._gpus_of,
                is_on=parts.is_on,
            )
        )

    def against(self, word: OwnerWord | None, annotate: str = "annotate job NAME") -> str | None:
        """Why a Job's annotation does not allow a pause, and how ``kubectl`` allows it; ``None``: it does."""
        if not self._parts.takes_words:
            return "this site takes no yes from owners (consent.owners)"
        if word is not None and word.problem:
            return f"its annotation {word.text!r} allows nothing: {word.problem}"
        return None if word is not None and word.pause else HOW.format(annotate=annotate)

    def complete(self, state: ClusterState) -> ClusterState:
        """The state with all that is known of Kubernetes' pods. Reads the store; asks nobody."""
        if not self._parts.is_on:
            return state
        open_ones = [each for each in self._book.open() if is_pod(each.asked.job)]
        moving = {each.asked.job for each in open_ones if each.outcome is None}
        pods = {id for id in state.jobs if is_pod(id) and not self._parts.elsewhere(id)}
        jobs = {id: self._with_word(job, moving) if id in pods else job for id, job in state.jobs.items()}
        placements = dict(state.placements)
        for act in open_ones:
            if act.holds and self._still_holds(act):
                awaited = somebody_waits(self._looks(), act.asked.run.cluster)
                job = held_job(act, state, is_awaited=awaited)
                cannot = self.engine.can(job.id) | {"pause": "it is suspended already"}
                cannot |= {"resume": ON_ITS_WAY} if job.id in moving else {}
                jobs[job.id] = replace(
                    job, manager=NAME, cannot=cannot, preemptible=True, checkpointable=True
                )
                placements.pop(job.id, None)  # measured before it left
        return replace(state, jobs=jobs, placements=placements)

    def _with_word(self, job: Job, moving: set[JobId]) -> Job:
        shown, cannot = self.engine.shown(job.id), self.engine.can(job.id)
        if job.id in moving:
            cannot |= {"pause": ON_ITS_WAY, "resume": ON_ITS_WAY}
        allows = shown is not None and not self._is_late() and self.against(shown.word) is None
        return replace(
            job,
            manager=NAME,
            cannot=cannot,
            preemptible=allows,
            checkpointable=allows,
            allowed_in_job=frozenset({Kind.PAUSE.value} if allows else ()),
        )

    def _still_holds(self, act: ManagerAct) -> bool:
        """Whether the newest look has it suspended; what is over is closed here. A look before the pause
        says nothing."""
        looks = [look for look in self._looks() if look.cluster == act.asked.run.cluster]
        if not looks or looks[0].at_ms <= (act.seen_ms or act.begun_ms):
            return True
        if any(job.key.id == act.asked.run.number and job.cause is WaitCause.HELD for job in looks[0].jobs):
            return True
        self._book.over(act.intent, "released")
        return False

    def _looks(self) -> tuple[Look, ...]:
        return tuple(look for look in self._parts.snapshot().looks if look.cluster == CLUSTER)

    def _is_late(self) -> bool:
        newest_ms = max((look.at_ms for look in self._looks()), default=0)
        return self._parts.clock.now_ms() - newest_ms > LATE_MS

    def _gpus_of(self, job: JobId) -> tuple[GpuUuid, ...]:
        allocations = self._parts.snapshot().allocations or ()
        return tuple(each.uuid for each in allocations if each.holder.job == job)


def kubernetes_jobs(
    store: "Store",
    config: "Config",
    clock: "Clock",
    snapshot: "Callable[[], Snapshot]",
    elsewhere: Callable[[JobId], bool],
    *,
    simulated: bool,
) -> KubernetesJobs:
    """The half of acting for pods; it does nothing where the site doesn't let Fallow act there."""
    collect = config.collect
    files = collect.kubernetes_token_file, collect.kubernetes_ca_file
    named = account_of(collect.kubernetes, *files)
    is_on = named is not None and config.foreign.kubernetes and not simulated
    account = named if named is not None and is_on else _nobody
    parts = KubernetesJobsDependencies(
        book=ManagerActStore(store, clock),
        clock=clock,
        snapshot=snapshot,
        connect=lambda: contextmanager(partial(connected, timeout_s=ASK_S))(account()),
        elsewhere=elsewhere,
        is_on=is_on,
        takes_words=config.consent.owners,
    )
    return KubernetesJobs(parts)


def _nobody() -> "Account":
    raise NoAnswer("Kubernetes' Jobs are left alone here (foreign.kubernetes)")
