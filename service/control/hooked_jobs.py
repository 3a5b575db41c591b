"""Jobs that a site's hooks are for: who allows what with each, which are held, and the engine for them.

Joined to every look at the cluster by ``complete``, after Slurm's and the other foreign jobs. A site's rule
(``idle_hours``, in a file of root's) stands for consent in the places that the hook names; an owner's no, a
keep and the site's protection go before it.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.actions import Action
from advisor.engines.hook_commands import BadHook, Ended, Hook, fault, filled, hook_at, pod_of, run
from advisor.engines.hooks import HookedJob, HookEngine, HookEngineDependencies, about_job, gpus_held
from advisor.engines.notify_owner import Notice, Told
from advisor.engines.slurm import is_slurms
from advisor.jobs.consent_store import ConsentStore
from advisor.jobs.external_jobs import ExternalJobStore, Holder
from advisor.jobs.hook_acts import HookAct, HookActStore, HookCall
from advisor.jobs.manager_acts import ManagerActStore
from advisor.journal.journal import StoreJournal
from advisor.planner.consent import Kind, OwnerReply, in_force, refusal
from advisor.state.model import ClusterState, Job, ProjectName
from advisor.state.site_protection import Protect, with_protection
from collector.file_trust import ROOT_UID
from collector.managers.model import HOLDING, Look, ManagedJob
from collector.model import JobId
from collector.snapshot import Snapshot
from collector.store.errors import StoreError
from service.config.hooks import hooks_of, idle_rule
from service.control.managed_jobs import paused_job
from service.usecases.advice import site_of

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.store.database import Store
    from service.config.model import Config

log = logging.getLogger(__name__)

HELD_MS = 30 * 86_400_000
"""A held job that was not seen for so long may be gone; nobody here can tell, so it is shown no more."""
ON_ITS_WAY = "what its hook was asked has not been seen yet"
SIMULATED = "its cluster is simulated"
TELLING_AT_ONCE = 8
"""So many messages of hooks are on their way at the same time; the others are told an hour later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedJobsDependencies:
    """``words`` are what owners said by `fallow consent`, ``actor_of`` who gave an order, by its intent.

    ``held_elsewhere``: the jobs that another engine has off its GPUs, or on their way.
    """

    book: HookActStore
    told: ExternalJobStore
    config: "Config"
    clock: "Clock"
    snapshot: Callable[[], Snapshot]
    words: Callable[[], Sequence[OwnerReply]]
    actor_of: Callable[[int], str | None]
    protect: Protect
    held_elsewhere: Callable[[], frozenset[JobId]] = frozenset
    simulated: bool = False


class HookedJobs:
    """The hooked half of acting; ``engine`` carries out, ``complete`` is for every look at the cluster."""

    def __init__(self, parts: HookedJobsDependencies) -> None:
        self._parts, self._clock = parts, parts.clock
        self._hooks = hooks_of(parts.config.hooks)
        self._account = os.geteuid()
        # Both are asked for each job at every look: read once a look.
        self._elsewhere = parts.held_elsewhere() if self._hooks else frozenset()
        self._by_job: tuple[tuple[Look, ...], dict[JobId, ManagedJob]] = ((), {})
        self.engine = HookEngine(
            HookEngineDependencies(
                book=parts.book,
                clock=parts.clock,
                snapshot=parts.snapshot,
                hooked=self.hooked,
                against=self.against,
                trusted=self.trusted,
                switched_off=SIMULATED if parts.simulated else None,
            )
        )

    def owns(self, job: JobId) -> bool:
        """Whether a hook pauses and resumes the job, or holds it. Asks nobody."""
        if self.engine.has(job):
            return True
        hook = self.hook_of(job)
        return hook is not None and bool(hook.pause) and job not in self._elsewhere

    def hook_of(self, job: JobId) -> Hook | None:
        """The hook of a job, by the place where it runs; ``None``: no hook has it."""
        if not self._hooks:
            return None
        if is_slurms(job):
            managed = self._managed(job)
            return None if managed is None else hook_at(self._hooks, None, managed.partition, managed.qos)
        return hook_at(self._hooks, pod_of(job)[0])

    def trusted(self, hook: Hook) -> frozenset[int]:
        """Who may have written a hook's programs: root alone, where its rule stands for consent."""
        return frozenset({ROOT_UID} if hook.idle_s is not None else {ROOT_UID, self._account})

    def hooked(self, job: JobId) -> HookedJob | None:
        """The job with its hook, as it is now or as it was held."""
        look, hook = self._parts.snapshot(), self.hook_of(job)
        held = next((each for each in self._parts.book.open() if each.call.job == job), None)
        if hook is None and held is not None:
            hook = next((each for each in self._hooks if each.name == held.call.hook), None)
        if hook is None:
            return None
        if held is not None:
            call = held.call
        else:
            holder = next((each.holder for each in look.allocations or () if each.holder.job == job), None)
            if holder is None:
                return None
            call = HookCall(
                job=job,
                hook=hook.name,
                verb="",
                command=(),
                holder=Holder(
                    user=holder.user,
                    project=None if holder.project is None else ProjectName(holder.project),
                    name=holder.name,
                    kind=holder.kind,
                ),
                gpus=gpus_held(look, job),
                manager="Slurm" if is_slurms(job) else "Kubernetes",
            )
        return HookedJob(hook=hook, values=self._values(job, call.holder.user), call=call)

    def against(self, step: Action, intent: int) -> str | None:
        """Why nobody allows this step now; ``None``: somebody does. To let a job go on needs nobody's yes."""
        hooked = self.hooked(step.job)
        if hooked is None:
            return "it is not seen any more"
        if hooked.call.verb == "pause":  # it is held: this gives it back
            return None
        user = hooked.call.holder.user
        stand_in = Job(id=step.job, project=ProjectName(""), user=user)
        reply = in_force(self._parts.words(), stand_in, self._clock.now_ms()).get(Kind.PAUSE)
        ordered = user is not None and self._parts.actor_of(intent) == f"user {user}"
        if ordered or (reply is not None and reply.allowed and self._parts.config.consent.owners):
            return None
        if reply is not None and reply.allowed is False:
            return refusal(Kind.PAUSE, user)
        if hooked.hook.idle_s is not None:
            return None
        return f"nobody allowed it: `fallow consent --allow pause --job {step.job}` is its owner's yes"

    def complete(self, state: ClusterState) -> ClusterState:
        """The state with what hooks can do, and which jobs they hold. Reads the store; runs nothing."""
        if not self._hooks and not self._parts.book.open():
            return state
        acts, self._elsewhere = self.engine.look_again(), self._parts.held_elsewhere()
        moving = {each.call.job for each in acts if each.outcome is None}
        jobs = {id: self._with_hook(job, moving) for id, job in state.jobs.items()}
        placements = dict(state.placements)
        for act in acts:
            if act.holds and not self._is_forgotten(act):
                jobs[act.call.job] = self._held(act, state, moving)
                placements.pop(act.call.job, None)  # measured before it left
        held = replace(state, jobs=jobs, placements=placements)
        return with_protection(held, self._parts.protect)

    def notify(self, notice: Notice) -> Told:
        """Have a job's hook tell its owner, on a thread; whom it reached is noted once it ended."""
        hook = self.hook_of(notice.job)
        if hook is None or not hook.tell or self._parts.simulated:
            return Told()
        hooked = self.hooked(notice.job)
        if hooked is None:
            return Told(missed=(f"hook {hook.name}: the job is not seen",))
        message = f"{notice.message} {notice.hint}".strip()
        try:
            command = filled(hook.tell, {**hooked.values, "message": message})
        except BadHook as error:
            return Told(missed=(f"hook {hook.name}: {error}",))
        wrong = fault(command, self.trusted(hook))
        if wrong is not None:
            return Told(missed=(f"hook {hook.name} is not run: {wrong}",))
        if sum(each.name == f"hook tell {hook.name}" for each in threading.enumerate()) >= TELLING_AT_ONCE:
            return Told(missed=(f"hook {hook.name}: {TELLING_AT_ONCE} of its messages are on their way",))
        about = about_job(replace(hooked, call=replace(hooked.call, verb="tell")), message)

        def tell() -> None:
            ended: Ended = run(command, about, hook.limit_s)
            try:
                if ended.is_well:
                    self._parts.told.told(notice.job, "tell", notice.message, (f"hook {hook.name}",))
            except StoreError as error:  # the service stops: it is told once more
                log.warning("a message of hook %s was not noted: %s", hook.name, error)

        threading.Thread(target=tell, name=f"hook tell {hook.name}", daemon=True).start()
        return Told(missed=(f"hook {hook.name}: on its way",))

    def _with_hook(self, job: Job, moving: set[JobId]) -> Job:
        hook = self.hook_of(job.id)
        if hook is None or not hook.pause or (job.id not in moving and job.id in self._elsewhere):
            return job
        cannot = {verb: why for verb, why in job.cannot.items() if verb not in ("pause", "resume")}
        if job.id in moving:
            cannot |= {"pause": ON_ITS_WAY, "resume": ON_ITS_WAY}
        elif self._parts.simulated:
            cannot |= {"pause": SIMULATED}
        by_rule = hook.idle_s is not None
        return replace(
            job,
            manager="Slurm" if is_slurms(job.id) else "Kubernetes",
            hook=hook.name,
            cannot=cannot,
            idle_rule=idle_rule(hook),
            preemptible=by_rule,
            checkpointable=by_rule,
            allowed_in_job=frozenset(),
        )

    def _held(self, act: HookAct, state: ClusterState, moving: set[JobId]) -> Job:
        """A job that a hook took off its GPUs: only a person lets it go on."""
        call = act.call
        return replace(
            paused_job(call.job, call.holder, state, gpus=call.gpus, since_ms=act.begun_ms, is_held=True),
            manager=call.manager,
            hook=call.hook,
            cannot={"resume": ON_ITS_WAY} if call.job in moving else {},
        )

    def _is_forgotten(self, act: HookAct) -> bool:
        if self._clock.now_ms() - act.begun_ms <= HELD_MS:
            return False
        self._parts.book.over(act.intent, "unknown")
        return True

    def _values(self, job: JobId, user: str | None) -> dict[str, str | None]:
        namespace, pod = pod_of(job)
        managed = self._managed(job) if is_slurms(job) else None
        return {
            "job": job,
            "user": user,
            "namespace": namespace,
            "pod": pod,
            "partition": None if managed is None else managed.partition,
            "qos": None if managed is None else managed.qos,
            "number": None if managed is None else managed.key.id,
        }

    def _managed(self, job: JobId) -> ManagedJob | None:
        looks = self._parts.snapshot().looks
        if self._by_job[0] is not looks:
            jobs = sorted(
                (each for look in looks for each in look.jobs), key=lambda each: each.state in HOLDING
            )
            self._by_job = (
                looks,
                {each.holder.job: each for each in jobs},
            )  # of several runs, that which holds
        return self._by_job[1].get(job)


def hooked_jobs(
    store: "Store",
    config: "Config",
    clock: "Clock",
    snapshot: Callable[[], Snapshot],
    *,
    simulated: bool,
) -> HookedJobs:
    """The hooked half of a service that acts on this store."""
    journal, foreign = StoreJournal(store, clock), ExternalJobStore(store, clock)
    managers = ManagerActStore(store, clock)

    def held_elsewhere() -> frozenset[JobId]:
        by_managers = (each.asked.job for each in managers.open())
        return frozenset(
            (*by_managers, *(each.paused.job for each in foreign.checkpoints() if not each.ended_as))
        )

    def actor_of(intent: int) -> str | None:
        deed = journal.deed(intent) if intent else None
        return None if deed is None else deed.actor

    parts = HookedJobsDependencies(
        book=HookActStore(store, clock),
        told=foreign,
        config=config,
        clock=clock,
        snapshot=snapshot,
        words=ConsentStore(store, clock).words,
        actor_of=actor_of,
        protect=site_of(config).protect,
        held_elsewhere=held_elsewhere,
        simulated=simulated,
    )
    return HookedJobs(parts)
