"""Builds what acts: register, engines, records, loop and job commands, started and stopped in order."""

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.engines.launched import LocalEngine, Patience
from advisor.engines.mps import seldom
from advisor.engines.router import Dispatch
from advisor.jobs.consent_store import ConsentStore
from advisor.jobs.external_jobs import ExternalJobStore
from advisor.jobs.harvest_store import HarvestStore
from advisor.jobs.job_store import open_register
from advisor.jobs.signing import CommandSigner
from advisor.jobs.slowdown_store import SlowdownStore
from advisor.jobs.slowdown_watchdog import Span
from collector.clock import SystemClock
from collector.model import JobId, NodeName
from collector.snapshot import Snapshot
from service.alerts.notifier import LaunchedToo, MessageNotifier
from service.control.acting import Acting
from service.control.activity import Activity
from service.control.admission import Admission
from service.control.approvals import ApprovalDependencies, Papers
from service.control.background_jobs import BackgroundJobs
from service.control.cluster_view import Observing
from service.control.consent import ConsentDependencies, Consenting, Consents
from service.control.engines import engines
from service.control.executor import Applying
from service.control.external_jobs import ExternalJobOrders, ExternalJobs, Sight
from service.control.forced_cancel import ForcedEnd
from service.control.free_gpus import FreeGpus
from service.control.gpu_locks import GpuLocks, RestoreLease, hold_leased
from service.control.hooked_jobs import HookedJobs, hooked_jobs
from service.control.job_commands import Dependencies, JobCommands
from service.control.keep import Keeping
from service.control.kubernetes_jobs import KubernetesJobs, kubernetes_jobs
from service.control.launched_processes import LaunchedProcesses
from service.control.launcher_reports import LauncherReports
from service.control.lease_key import lease_key
from service.control.lease_terms import LeaseTerms
from service.control.liveness import Liveness
from service.control.loop import ActingLoop, Looks, Pace, Parts, after_cycle, settling
from service.control.managed_jobs import ManagedJobs, managed_jobs
from service.control.memory_watchdog import MemoryWatchdog
from service.control.metrics import acting_metrics
from service.control.owner_commands import Orders
from service.control.plan_trial import TrialDependencies, trial
from service.control.records import Records, open_books
from service.control.rejected_reports import Doubts
from service.control.slowdown_watchdog import SlowdownWatchdog
from service.notify.outbox import Undelivered
from service.privileged.client import daemon_finder
from service.usecases.advice import ask_policies, limits_of, site_of

if TYPE_CHECKING:
    from advisor.cycle import Policy
    from advisor.jobs.job_store import Register
    from advisor.planner.limits import Limits
    from advisor.state.model import ClusterState
    from collector.clock import Clock
    from collector.store.database import Store
    from service.alerts.evaluate import AlertEvaluator
    from service.config.model import Config

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlDependencies:
    """What acting stands on. ``simulated``: its GPUs are invented, and nothing real is ever done on them.

    ``last_tick`` is the newest tick in the store, UTC ms; ``trouble`` is told why the last cycle failed.
    """

    config: "Config"
    store: "Store"
    clock: "Clock"
    folder: Path
    last_tick: Callable[[], int | None]
    trouble: Callable[[str | None], None]
    simulated: bool = False
    snapshot: Callable[[], Snapshot] = Snapshot
    """What the collector saw at its newest tick."""
    delivered: Callable[[str | None], None] = lambda trouble: None
    """Told how each round of deliveries ended."""
    launched: LaunchedProcesses = field(default_factory=LaunchedProcesses)
    """Told of launchers that the kernel named."""
    withheld: Callable[[], str | None] = lambda: None
    """Why nothing is done here now, whatever a person says: another head may be the one."""
    locks: GpuLocks = field(default_factory=GpuLocks)
    """One a GPU that is leased, against other services of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dependencies:
    """The organs that look at nothing by themselves; ``brief`` is the engine of who must not wait long."""

    limits: "Limits"
    register: "Register"
    foreign: ExternalJobStore
    foreigners: ExternalJobs
    managed: ManagedJobs
    hooked: HookedJobs
    pods: KubernetesJobs
    books: Records
    consents: Consents
    doubts: Doubts
    admission: Admission
    granting: LeaseTerms
    local: LocalEngine
    dispatch: Dispatch
    engine: LaunchedToo
    brief: LaunchedToo
    watching: MemoryWatchdog
    pairing: SlowdownWatchdog
    background: BackgroundJobs
    messages: MessageNotifier
    activity: Activity


def join_acting(ground: ControlDependencies) -> Acting:
    """The organs, joined and at rest; what a crash left open is settled first. Blocks. Raises StoreError."""
    roots = _roots(ground)
    # First of all: what launchers run on must not be leased by another service while this one starts.
    hold_leased(ground.locks, roots.register)
    settle = settling(roots.books, roots.dispatch)
    settle()  # before anybody orders: an order would rest on a world that a crash left half done
    roots.admission.open(roots.register)
    observing = _observing(ground, roots)
    roots.consents.observe = observing.look
    loop = _loop(ground, roots, observing, settle)
    roots.admission.state, roots.background.stir = lambda: loop.state, loop.stir
    applying = Applying(roots.engine, roots.books.journal, ground.clock)
    desk = JobCommands(_organs(ground, roots, observing, loop, applying))
    managers = (roots.managed.engine, roots.pods.engine, roots.hooked.engine)
    waiting = (roots.local, *managers, roots.foreigners.engine)
    alerts = partial(_alerts, ground, roots, observing, loop)
    metrics = acting_metrics(
        register=roots.register,
        counts=roots.activity.counts,
        halt=roots.books.switch.halt,
        cycle_s=lambda: loop.cycle_s,
        harvested=roots.background.totals,
        undelivered=Undelivered(ground.store.folder, SystemClock()).now,
        now_ms=ground.clock.now_ms,
    )
    return Acting(desk, loop, applying, waiting, alerts, metrics=metrics)


def _alerts(
    ground: ControlDependencies, roots: _Dependencies, observing: Observing, loop: ActingLoop
) -> "AlertEvaluator":
    """The alerts on what acting sees; from now on they carry its messages."""
    from service.alerts.components import join_alerts
    from service.alerts.inputs import Eyes as AlertEyes

    eyes = AlertEyes(
        limits=roots.limits,
        observe=observing.look,
        observed=lambda: observing.observed,
        last_tick=ground.last_tick,
        halt=roots.books.switch.halt,
        waits=lambda: {job: wait.waits_for for job, wait in loop.waits.items()},
        simulated=ground.simulated,
    )
    alerts = join_alerts(ground.config, ground.store, ground.clock, eyes, ground.delivered)
    roots.messages.join(alerts.tell)
    return alerts


def _roots(ground: ControlDependencies) -> _Dependencies:
    config, store, clock, acting = ground.config, ground.store, ground.clock, ground.config.acting
    register = open_register(store, clock, CommandSigner(lease_key(ground.folder)))
    for remark in register.remarks:
        log.warning("%s", remark)
    limits, foreign, messages = limits_of(config), ExternalJobStore(store, clock), MessageNotifier()
    book, is_simulated = ConsentStore(store, clock), ground.simulated
    managed = managed_jobs(store, config, clock, ground.snapshot, book, simulated=is_simulated)
    hooked = hooked_jobs(store, config, clock, ground.snapshot, simulated=is_simulated)
    pods = kubernetes_jobs(store, config, clock, ground.snapshot, hooked.owns, simulated=is_simulated)
    ways = (messages, hooked) if config.hooks else (messages,)
    sight = Sight(snapshot=ground.snapshot, simulated=is_simulated, messages=ways)
    lease, protect = RestoreLease(ground.locks, register.holders), site_of(config).protect
    foreigners = ExternalJobs(foreign, config, clock, protect, sight, lease=lease)
    granting = LeaseTerms(register, seldom(daemon_finder(), clock))
    patience = Patience(answer_s=acting.answer_s, reshape_s=acting.reshape_s)
    local = LocalEngine(register, clock, granting.agree, patience, ground.locks.take)
    others = (managed.engine, pods.engine, foreigners.engine)
    dispatch = Dispatch(engines(local, hooked.engine, *others, hooked=hooked.owns), foreign.told)
    ours, entry_of = dispatch.by_launcher, register.known
    last, off = register.newest_known, ground.withheld
    books = open_books(
        store, clock, ground.folder, entry_of, dispatch.found, by_launcher=ours, known=last, withheld=off
    )
    whose = partial(_user, register)
    # Who approves a plan waits for each outcome; the loop must not, it has others to see to.
    engine = LaunchedToo(dispatch, messages, whose)
    brief = LaunchedToo(dispatch.brief(), messages, whose)
    consenting = ConsentDependencies(
        book=book, register=register, clock=clock, by_launcher=ours, by_owners=config.consent.owners
    )
    journal, halt = books.journal, books.switch.halt
    activity, doubts = Activity(), Doubts(store, clock, register)
    register.listen(activity.job_changed)
    journal.listen(activity.action_begun, activity.action_settled)
    return _Dependencies(
        activity=activity,
        limits=limits,
        register=register,
        foreign=foreign,
        foreigners=foreigners,
        managed=managed,
        hooked=hooked,
        pods=pods,
        books=books,
        consents=Consents(consenting),
        doubts=doubts,
        admission=Admission(config),
        granting=granting,
        local=local,
        dispatch=dispatch,
        engine=engine,
        brief=brief,
        watching=MemoryWatchdog(
            register, engine, journal, clock, limits, snapshot=ground.snapshot, brief=brief, halted=halt
        ),
        pairing=_pairing(ground, register, brief, books, limits),
        background=_background(ground, register, brief, books),
        messages=messages,
    )


def _pairing(
    ground: ControlDependencies, register: "Register", brief: LaunchedToo, books: Records, limits: "Limits"
) -> SlowdownWatchdog:
    return SlowdownWatchdog(
        register,
        brief,
        books.journal,
        ground.clock,
        limits,
        book=SlowdownStore(ground.store, ground.clock),
        span=Span().at_speed(ground.config.rehearsal.speed),
        halted=books.switch.halt,
    )


def _background(
    ground: ControlDependencies, register: "Register", engine: LaunchedToo, books: Records
) -> BackgroundJobs:
    made = BackgroundJobs(
        register,
        engine,
        books.journal,
        ground.clock,
        book=HarvestStore(ground.store),
        snapshot=ground.snapshot,
        halted=books.switch.halt,
    )
    ground.launched.guests = made.guests
    return made


def _observing(ground: ControlDependencies, roots: _Dependencies) -> Observing:
    """The look at the cluster; all that is known beside measurements and register comes to it, in order."""
    # Foreign jobs first: consents, the journal and both watchdogs speak of jobs that the state has by then.
    # Lease terms last: they remember what the others made of it.
    remembering = (
        partial(roots.foreigners.complete, by_launcher=roots.dispatch.by_launcher),
        roots.managed.complete,
        roots.pods.complete,
        roots.hooked.complete,
        roots.consents.complete,
        roots.books.remember,
        roots.watching.remember,
        roots.pairing.remember,
        ground.locks.mark,
        roots.granting.seen,
    )

    def remember(state: "ClusterState") -> "ClusterState":
        for complete in remembering:
            state = complete(state)
        return state

    # The nodes on which launchers of this service can start anything: none of a simulated cluster.
    return Observing(
        ground.store,
        ground.config,
        ground.clock,
        roots.register,
        last_tick=ground.last_tick,
        by_launcher=roots.dispatch.by_launcher,
        here=lambda state: frozenset() if ground.simulated else frozenset({NodeName(socket.gethostname())}),
        remember=remember,
    )


def _loop(
    ground: ControlDependencies, roots: _Dependencies, observing: Observing, settle: "Callable[[], None]"
) -> ActingLoop:
    acting, limits, eyes = ground.config.acting, roots.limits, _eyes(ground, observing)
    parts = Parts(
        register=roots.register,
        observe=observing.look,
        policies=_policies(ground, limits, observing),
        engine=Consenting(roots.brief, roots.consents.against),
        journal=roots.books.journal,
        clock=ground.clock,
        limits=limits,
        looks=Looks(launcher=eyes.launcher, workers=eyes.workers),
        halted=roots.books.switch.halt,
        before=roots.managed.before(settle),
        after=after_cycle(roots.books, limits, (roots.watching, roots.pairing, roots.background)),
        trouble=ground.trouble,
        activity=roots.activity,
    )
    pace = Pace(every_s=acting.every_s, silent_s=acting.silent_s, launcher_grace_s=acting.launcher_grace_s)
    return ActingLoop(parts, pace)


def _policies(ground: ControlDependencies, limits: "Limits", observing: Observing) -> "tuple[Policy, ...]":
    return (lambda state: ask_policies(state, observing.observed, limits, ground.config.advice),)


def _eyes(ground: ControlDependencies, observing: Observing) -> Liveness:
    """One for each thread that looks: the loop's, and those that take reports and orders."""
    is_rehearsal = ground.config.rehearsal.speed != 1
    return Liveness(lambda: observing.taken, snapshot=ground.snapshot, is_rehearsal=is_rehearsal)


def _organs(
    ground: ControlDependencies,
    roots: _Dependencies,
    observing: Observing,
    loop: ActingLoop,
    applying: Applying,
) -> Dependencies:
    config, journal, clock = ground.config, roots.books.journal, ground.clock
    orders, eyes = Orders(roots.local, journal, clock), _eyes(ground, observing)
    attended_s = config.foreign.attended_s / config.rehearsal.speed
    taking = FreeGpus(observing.look, roots.limits, roots.books.switch.halt)
    tried = TrialDependencies(
        observe=observing.look,
        limits=roots.limits,
        policies=_policies(ground, roots.limits, observing),
        preview=roots.dispatch.preview,
        against=roots.consents.against,
        halted=roots.books.switch.halt,
    )
    papers = ApprovalDependencies(
        books=roots.books,
        limits=roots.limits,
        observe=observing.look,
        applying=applying,
        register=roots.register,
        taking=taking,
        by_launcher=roots.dispatch.by_launcher,
        against=roots.consents.against,
    )
    return Dependencies(
        register=roots.register,
        store=ground.store,
        clock=clock,
        journal=journal,
        orders=orders,
        taking=taking,
        loop=loop,
        observe=observing.look,
        papers=Papers(papers),
        trial=partial(trial, tried),
        foreign=ExternalJobOrders(observing.look, applying, taking),
        consents=roots.consents,
        by_launcher=roots.dispatch.by_launcher,
        admission=roots.admission,
        keeping=Keeping(
            roots.foreign, journal, observing.look, clock, config.advice, register=roots.register
        ),
        agree=roots.granting.agree,
        reports=LauncherReports(roots.register, clock, eyes, attended_s, ground.launched.note),
        doubts=roots.doubts,
        background=roots.background,
        forced=ForcedEnd(register=roots.register, orders=orders, eyes=eyes, snapshot=ground.snapshot),
        inner_projects=frozenset(quota.parent for quota in config.quotas.values() if quota.parent),
    )


def _user(register: "Register", job: JobId) -> str | None:
    entry = register.known(job)
    return None if entry is None else entry.submission.user
