"""Slurm's jobs as acting sees them: who allows what with each, what can be done, and which Fallow holds.

Joined to every look at the cluster by ``complete``. A job may be paused where its owner says so, in the job's
own comment or by `fallow consent`, or where the site says it of its QOS or partition; all are asked again
of the job as it is in the moment before Slurm is told (``against``).
"""

import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.engines.slurm import NAME, SlurmEngine, SlurmEngineDependencies, is_slurms
from advisor.engines.slurm_outcomes import run_of
from advisor.jobs.consent_store import ConsentStore
from advisor.jobs.external_jobs import Holder
from advisor.jobs.manager_acts import ManagerAct, ManagerActStore
from advisor.journal.journal import StoreJournal
from advisor.live.snapshot import NO_PROJECT
from advisor.planner.consent import Kind, OwnerReply, in_force, refusal
from advisor.state.model import ClusterState, Job, Phase, ProjectName, Use
from collector.inventory.slurm_programs import answer
from collector.managers.model import JobState, Look, ManagedJob, WaitCause
from collector.model import GpuUuid, JobId
from collector.snapshot import Snapshot

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.store.database import Store
    from service.config.model import Config

LATE_MS = 300_000
"""A look that is older says nothing of what an owner allows now: ten of the usual waits between two."""
ON_ITS_WAY = "what was asked of Slurm about it has not been seen yet"
UNASKED = "Slurm is not asked here (collect.slurm)"
SIMULATED = "its cluster is simulated"
HOW = (
    "nobody allowed it: its owner says --comment=fallow:pause at submission, or later "
    "`scontrol update JobId={number} Comment=fallow:pause`, or `fallow consent --allow pause --job {job}`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedJobsDependencies:
    """``words`` are what owners said by `fallow consent`, ``actor_of`` who gave an order, by its intent."""

    book: ManagerActStore
    config: "Config"
    clock: "Clock"
    snapshot: Callable[[], Snapshot]
    words: Callable[[], Sequence[OwnerReply]]
    actor_of: Callable[[int], str | None]
    account: str
    simulated: bool = False
    run: Callable[[Sequence[str], float], str] = answer


class ManagedJobs:
    """The managed half of acting; ``engine`` carries out, ``complete`` is for every look at the cluster."""

    def __init__(self, parts: ManagedJobsDependencies) -> None:
        self._parts, self._book, self._clock = parts, parts.book, parts.clock
        self._consent = parts.config.consent
        off = SIMULATED if parts.simulated else None if parts.config.collect.slurm else UNASKED
        self.engine = SlurmEngine(
            SlurmEngineDependencies(
                book=parts.book,
                run=parts.run,
                clock=parts.clock,
                looks=self._looks,
                against=self.against,
                gpus_of=self._gpus_of,
                rest_s=parts.config.acting.manager_rest_s,
                account=parts.account,
                switched_off=off,
            )
        )

    def complete(self, state: ClusterState) -> ClusterState:
        """The state with all that is known of Slurm's jobs. Reads the store; asks Slurm nothing."""
        if not any(map(is_slurms, state.jobs)) and not self._looks():
            return state
        open_ones = [each for each in self._book.open() if is_slurms(each.asked.job)]
        moving = {each.asked.job for each in open_ones if each.outcome is None}
        jobs = {
            id: self._with_manager_state(job, moving) if is_slurms(id) else job
            for id, job in state.jobs.items()
        }
        placements = dict(state.placements)
        for act in open_ones:
            if act.holds and self._still_holds(act):
                held = held_job(act, state, is_awaited=somebody_waits(self._looks(), act.asked.run.cluster))
                jobs[act.asked.job] = self._with_manager_state(held, moving)
                placements.pop(act.asked.job, None)  # measured before it left
        return replace(state, jobs=jobs, placements=placements)

    def against(self, job: ManagedJob, intent: int) -> str | None:
        """Why nobody allows this job, as it is now, to be paused; ``None``: somebody does.

        Its owner's own order is a yes; a no of `fallow consent` goes before everything else.
        """
        id, user = job.holder.job, job.holder.user
        stand_in = Job(id=id, project=ProjectName(""), user=user)
        consent = in_force(self._parts.words(), stand_in, self._clock.now_ms()).get(Kind.PAUSE)
        ordered = user is not None and self._parts.actor_of(intent) == f"user {user}"
        if ordered or (consent is not None and consent.allowed and self._consent.owners):
            return None
        # The owner's no goes before what the job's comment or the site allows.
        if consent is not None and consent.allowed is False:
            return refusal(Kind.PAUSE, user)
        if self._by_owner(job) or self._by_site(job):
            return None
        # A part of a misspelt word may allow what its owner meant to bound (docs/decisions/0085).
        if job.word is not None and job.word.problem:
            return f"its comment {job.word.text!r} allows nothing: {job.word.problem}"
        return HOW.format(number=job.key.id, job=id)

    def before(self, settle: Callable[[], None]) -> Callable[[], None]:
        """What goes before every cycle: ``settle``, and Slurm is asked how it is. Blocks for a moment."""

        def prepare() -> None:
            settle()
            self.engine.look_again()

        return prepare

    def _with_manager_state(self, job: Job, moving: set[JobId]) -> Job:
        """The job with what its manager's newest look says of it."""
        shown, cannot = self.engine.shown(job.id), self.engine.can(job.id)
        if job.id in moving:
            cannot |= {"pause": ON_ITS_WAY, "resume": ON_ITS_WAY}
        if shown is None or self._is_late():
            return replace(job, manager=NAME, cannot=cannot, preemptible=False, checkpointable=False)
        by_owner, by_site = self._by_owner(shown), self._by_site(shown)
        return replace(
            job,
            manager=NAME,
            cannot=cannot,
            kind=shown.holder.kind or job.kind,
            preemptible=by_owner or by_site,
            checkpointable=by_owner or by_site,
            allowed_in_job=frozenset({Kind.PAUSE.value} if by_owner else ()),
        )

    def _by_owner(self, job: ManagedJob) -> bool:
        return self._consent.owners and job.word is not None and job.word.pause

    def _by_site(self, job: ManagedJob) -> bool:
        return job.qos in self._consent.qos or bool(
            set(job.partition.split(",")) & set(self._consent.partitions)
        )

    def _still_holds(self, act: ManagerAct) -> bool:
        """Whether the newest look has it held; what is over is closed here. A look before the pause says
        nothing."""
        looks = [look for look in self._looks() if look.cluster == act.asked.run.cluster]
        # A look from before the pause shows it running still.
        if not looks or act.after is None or looks[0].at_ms <= (act.seen_ms or act.begun_ms):
            return True
        same = [job for job in looks[0].jobs if job.key.id == act.asked.run.number]
        if any(run_of(job) == act.after and job.is_held for job in same):
            return True
        is_same_user = any(run_of(job).user == act.asked.run.user for job in same)
        self._book.over(act.intent, "released" if is_same_user else "gone")
        return False

    def _looks(self) -> tuple[Look, ...]:
        return self._parts.snapshot().looks

    def _is_late(self) -> bool:
        newest_ms = max((look.at_ms for look in self._looks()), default=0)
        return self._clock.now_ms() - newest_ms > LATE_MS

    def _gpus_of(self, job: JobId) -> tuple[GpuUuid, ...]:
        allocations = self._parts.snapshot().allocations or ()
        return tuple(each.uuid for each in allocations if each.holder.job == job)


def held_job(act: ManagerAct, state: ClusterState, *, is_awaited: bool) -> Job:
    """A job that Fallow holds with its manager. While somebody waits there for GPUs it stays so. Pure."""
    asked = act.asked
    return paused_job(
        asked.job, asked.holder, state, gpus=asked.gpus, since_ms=act.begun_ms, is_held=is_awaited
    )


def paused_job(
    job: JobId,
    holder: Holder,
    state: ClusterState,
    *,
    gpus: Sequence[GpuUuid],
    since_ms: int,
    is_held: bool,
) -> Job:
    """A job that was taken off ``gpus``: held, where asked for or where none of them is left. Pure."""
    left = tuple(uuid for uuid in gpus if uuid in state.gpus)
    return Job(
        id=job,
        project=holder.project or NO_PROJECT,
        user=holder.user,
        name=holder.name,
        kind=holder.kind,
        phase=Phase.PAUSED,
        min_gpus=max(1, len(left)),
        max_gpus=max(1, len(left)),
        submitted_ms=since_ms,
        acted_ms=since_ms,
        paused_on=left,
        held=not left or is_held,
        use=Use.IDLE,
    )


def somebody_waits(looks: Sequence[Look], cluster: str) -> bool:
    """Whether a job of that cluster waits for GPUs that others have. Pure."""
    return any(
        job.cause is WaitCause.RESOURCES and job.ask.gpus != 0
        for look in looks
        if look.cluster == cluster
        for job in look.jobs
        if job.state is JobState.PENDING
    )


def managed_jobs(
    store: "Store",
    config: "Config",
    clock: "Clock",
    snapshot: Callable[[], Snapshot],
    consents: ConsentStore,
    *,
    simulated: bool,
) -> ManagedJobs:
    """The managed half of a service that acts on this store."""
    journal = StoreJournal(store, clock)

    def actor_of(intent: int) -> str | None:
        deed = journal.deed(intent) if intent else None
        return None if deed is None else deed.actor

    parts = ManagedJobsDependencies(
        book=ManagerActStore(store, clock),
        config=config,
        clock=clock,
        snapshot=snapshot,
        words=consents.words,
        actor_of=actor_of,
        account=_account(),
        simulated=simulated,
    )
    return ManagedJobs(parts)


def _account() -> str:
    """The name of the account that this service runs as; its number where it has none."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
