"""Jobs that Fallow did not launch: what is known of them, the engine for them, and what people order of them.

Five things come to a state that was read from the store: what the site protects, which of these jobs are
paused, which are on their way off their GPUs or back, whether somebody sits at an interactive one, and what
cannot be done to each. The first levels of an escalation need no more; whatever is not known here protects.

Pause and resume may be ordered by a job's owner or an operator. An order is a consent, so the modes are not
asked; the preconditions of a checkpoint are (``advisor.engines``).
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.actions import Action, Pause, Resume
from advisor.engines.cuda_checkpointer import Checkpointer, LocalCheckpointer
from advisor.engines.external import ExternalEngine, ExternalEngineDependencies, Lease, NoLease, beyond
from advisor.engines.external_processes import OLDEST_MS, processes_of
from advisor.engines.notify_owner import Notifier, TerminalNotifier
from advisor.engines.slurm import is_slurms
from advisor.jobs.external_jobs import Checkpoint, ExternalJobStore, Seen
from advisor.live.snapshot import NO_PROJECT
from advisor.planner.targets import left_to
from advisor.state.model import (
    MAY_BE_SAT_AT,
    ActionClass,
    ClusterState,
    Job,
    Phase,
    Placement,
    Telemetry,
    Use,
)
from advisor.state.site_protection import Protect, with_protection
from collector.model import GpuUuid, JobId, NodeName, ProcessKey
from collector.procfs.accounts import uid_of
from collector.procfs.terminals import terminal_of, tty_of
from collector.snapshot import Snapshot
from service.control.errors import BadOrder, NotAllowed, UnknownJob, WrongState
from service.control.executor import Applying, Approval
from service.control.interface import Caller, Role
from service.privileged.client import HandCheckpointer, HandNotifier, hand_socket
from service.schemas.answer import Row, to_row
from service.schemas.control import Done

if TYPE_CHECKING:
    from collector.clock import Clock
    from service.config.deciding import ExternalJobsConfig
    from service.config.model import Config
if TYPE_CHECKING:
    from advisor.state.model import ClusterState, Job
    from service.control.free_gpus import FreeGpus


TOUCH_SLACK_MS = 10_000
"""The kernel stamps terminals in steps of 8 s: what was typed just before a pause is no touch after it."""
UNSEEN_TICKS = 3
"""So many ticks after its return a job holds its GPUs without being seen on them."""
ON_ITS_WAY = "its GPU memory is on its way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Where foreign jobs are seen. ``simulated``: they are nobody's, and nobody is told anything.

    ``messages`` are ways to tell their owners beside terminals.
    """

    snapshot: Callable[[], Snapshot]
    simulated: bool = False
    messages: tuple[Notifier, ...] = ()


class ExternalJobs:
    """The foreign half of acting; ``engine`` carries out, ``complete`` is for every look at the cluster."""

    def __init__(
        self,
        book: ExternalJobStore,
        config: "Config",
        clock: "Clock",
        protect: Protect,
        sight: Sight,
        *,
        lease: Lease | None = None,
    ) -> None:
        self._book, self._clock, self._protect, self._sight = book, clock, protect, sight
        self._node = NodeName(socket.gethostname())
        self._attended_ms = config.foreign.attended_s * 1000
        self._rehearsal = config.rehearsal
        self._unseen_ms = round(config.collect.tick_s * UNSEEN_TICKS * 1000)
        ways: tuple[Notifier, ...] = ()
        if not sight.simulated:
            ways = ((_terminals(),) if config.foreign.terminals else ()) + sight.messages
        checks = config.foreign.checkpoint and not sight.simulated
        checkpointer = self._checkpointer(config.foreign) if checks else None
        self.engine = ExternalEngine(
            ExternalEngineDependencies(
                book=book,
                sightings=self.processes,
                ways=ways,
                checkpointer=checkpointer,
                node=self._node,
                account_uid=uid_of,
                listed=self._listed,
                lease=lease or NoLease(),
            )
        )

    def processes(self, job: JobId) -> tuple[Seen, ...]:
        """The processes of a foreign job that are on GPUs now."""
        oldest_ms = round(OLDEST_MS * self._rehearsal.speed)
        return processes_of(self._sight.snapshot(), job, self._clock.now_ms(), oldest_ms)

    def _listed(self) -> frozenset[int]:
        """The processes that the driver listed on this machine's GPUs at the newest look."""
        samples = self._sight.snapshot().process_samples
        return frozenset(each.key.pid for each in samples if each.key.node == self._node)

    def complete(self, state: ClusterState, *, by_launcher: Callable[[JobId], bool]) -> ClusterState:
        """The state with all that is known of foreign jobs, which are those without a launcher of ours.

        Reads the store and /proc; blocks briefly.
        """
        moving = self.engine.moving()
        checkpoints = self._checkpoints()
        moving |= self.engine.moving()  # what ended in between stands in the book as it stood before
        paused = [c for c in checkpoints if c.ended_as is None and c.paused.job not in moving]
        present = [c for c in checkpoints if c.ended_as == "resumed" or c.paused.job in moving]
        state = with_present(with_protection(state, self._protect), present)
        state = with_paused(state, paused, self._typed_ms, look=self._sight.snapshot())
        jobs = {
            id: job if by_launcher(id) or is_slurms(id) else self._completed(job, moving)
            for id, job in state.jobs.items()
        }
        return replace(state, jobs=jobs)

    def _completed(self, job: Job, moving: "frozenset[JobId]") -> Job:
        if job.phase is Phase.PAUSED:
            return job
        processes = self.processes(job.id)
        cannot = beyond(job.id)
        if job.id in moving:
            cannot |= {"pause": ON_ITS_WAY, "resume": ON_ITS_WAY}
        elif job.use is Use.IDLE and job.preemptible and job.checkpointable:
            # Only of these: /proc is read for each process of such a job.
            why = self.engine.unfit(job.id, processes)
            if why is not None:
                cannot["pause"] = why
        attached = job.attached
        if job.kind in MAY_BE_SAT_AT:
            attached = attended(self._typed_ms(processes), self._clock.now_ms(), self._attended_ms)
        return replace(job, attached=attached, cannot=cannot)

    def _checkpoints(self) -> list[Checkpoint]:
        """Those that are open, and those that ended of late; whose processes are all gone is closed here."""
        result = []
        for each in self._book.checkpoints(self._clock.now_ms() - self._unseen_ms):
            if any(tty_of(one.pid, one.started_ms) is not None for one in each.paused.processes):
                result.append(each)
            elif each.ended_as is None:
                self._book.end(each.paused.job, "gone")
        return result

    def _typed_ms(self, processes: Sequence[Seen]) -> "tuple[int | None, ...]":
        """When each process's terminal was last typed at; ``None``: it has none, or is elsewhere."""
        typed = (_input_ms(each) if each.node == self._node else None for each in processes)
        return tuple(None if at_ms is None else self._dated(at_ms) for at_ms in typed)

    def _dated(self, at_ms: int) -> int:
        """An instant of the machine's clock in the service's calendar, which runs faster in a rehearsal."""
        since_ms = self._rehearsal.since_ms
        return round(since_ms + (at_ms - since_ms) * self._rehearsal.speed)

    def _checkpointer(self, config: "ExternalJobsConfig") -> Checkpointer:
        hand = hand_socket()
        if hand is None:
            return LocalCheckpointer(self._driver, config.lock_timeout_s, config.drivers)
        return HandCheckpointer(hand, self._driver, drivers=config.drivers)

    def _driver(self) -> str | None:
        gpus = (gpu for gpu in self._sight.snapshot().gpus if gpu.node == self._node)
        return next((gpu.driver_version for gpu in gpus if gpu.driver_version is not None), None)


def _terminals() -> Notifier:
    hand = hand_socket()
    return TerminalNotifier() if hand is None else HandNotifier(hand)


def attended(typed_ms: Sequence[int | None], now_ms: int, quiet_ms: int) -> bool | None:
    """Whether somebody sits at a job whose terminals were typed at then; ``None``: nobody can tell. Pure.

    One terminal in use is enough; that nobody sits there is known only when every process has a terminal.
    """
    if any(at_ms is not None and now_ms - at_ms < quiet_ms for at_ms in typed_ms):
        return True
    return None if not typed_ms or None in typed_ms else False


def with_paused(
    state: ClusterState,
    checkpoints: Sequence[Checkpoint],
    typed_ms: Callable[[Sequence[Seen]], Sequence[int | None]],
    *,
    look: Snapshot | None = None,
) -> ClusterState:
    """The state with the foreign jobs that are off their GPUs: each held until its terminal is typed at.

    ``look``: the newest, which may be older than a pause, or newer than what ``state`` was made of.
    """
    jobs, placements = dict(state.jobs), dict(state.placements)
    for each in checkpoints:
        paused = each.paused
        # A GPU of it is gone: there is nowhere that it could come back to.
        if any(uuid not in state.gpus for uuid in paused.gpus):
            continue
        placements.pop(paused.job, None)
        touched = any(
            at is not None and at > each.begun_ms + TOUCH_SLACK_MS for at in typed_ms(paused.processes)
        )
        jobs[paused.job] = _paused_job(each, touched, _why_away(each, state, placements, look))
    return replace(state, jobs=jobs, placements=placements)


def with_present(state: ClusterState, checkpoints: Sequence[Checkpoint]) -> ClusterState:
    """The state with the foreign jobs that are on their way, or back and not seen yet: they hold their GPUs.

    Where the measuring shows one, or somebody else has a GPU of it, the state stays as it is.
    """
    jobs, placements = dict(state.jobs), dict(state.placements)
    for each in checkpoints:
        job, gpus = each.paused.job, each.paused.gpus
        are_present = all(uuid in state.gpus for uuid in gpus)
        if are_present and job not in placements and _held_one(placements, gpus) is None:
            jobs[job] = _job(each, Phase.RUNNING, beyond(job))
            placements[job] = Placement(gpus=gpus)
    return replace(state, jobs=jobs, placements=placements)


def _paused_job(checkpoint: Checkpoint, touched: bool, why_away: str | None) -> Job:
    cannot = beyond(checkpoint.paused.job)
    if why_away is not None:
        cannot["resume"] = why_away
    job = _job(checkpoint, Phase.PAUSED, cannot)
    use = Use.UNKNOWN if touched else Use.IDLE
    return replace(job, paused_on=checkpoint.paused.gpus, held=not touched, use=use)


def _job(checkpoint: Checkpoint, phase: Phase, cannot: dict[str, str]) -> Job:
    paused, holder = checkpoint.paused, checkpoint.paused.holder
    sizes = [each.memory_bytes for each in paused.processes]
    return Job(
        id=paused.job,
        project=holder.project or NO_PROJECT,
        user=holder.user,
        name=holder.name,
        kind=holder.kind,
        framework=holder.framework,
        phase=phase,
        min_gpus=len(paused.gpus),
        max_gpus=len(paused.gpus),
        memory_bytes=None if None in sizes else sum(size for size in sizes if size is not None) or None,
        submitted_ms=checkpoint.begun_ms,
        acted_ms=checkpoint.begun_ms,
        cannot=cannot,
    )


def _why_away(
    checkpoint: Checkpoint,
    state: ClusterState,
    placements: "Mapping[JobId, Placement]",
    look: Snapshot | None,
) -> str | None:
    """Why a paused job cannot come back to its GPUs; ``None``: nothing is known to be in its way."""
    gpus = checkpoint.paused.gpus
    holder = _held_one(placements, gpus)
    occupant = holder or next(
        (
            uuid
            for uuid in gpus
            if state.gpus[uuid].occupied and not _is_free_of_others(checkpoint, uuid, look)
        ),
        None,
    )
    if occupant is None:
        return None
    if holder is None and state.gpus[occupant].telemetry is Telemetry.UNKNOWN:
        return f"it can only come back to {occupant}, and that was not measured of late: it may be in use"
    return f"it can only come back to {occupant}, and that is in use"


def _is_free_of_others(checkpoint: Checkpoint, uuid: GpuUuid, look: Snapshot | None) -> bool:
    """Whether the newest look has nobody on a GPU but the paused job, listed there before it was paused.

    Somebody who came since then is found by the free memory that a restore asks for first.
    """
    if look is None:
        return False
    there = {sample.key for sample in look.process_samples if sample.uuid == uuid}
    if there:
        return there <= {
            ProcessKey(node=each.node, pid=each.pid, started_ms=each.started_ms)
            for each in checkpoint.paused.processes
        }
    return any(
        sample.uuid == uuid and sample.process_count == 0 and sample.at_ms > checkpoint.begun_ms
        for sample in look.samples
    )


def _held_one(placements: "Mapping[JobId, Placement]", gpus: Sequence[GpuUuid]) -> GpuUuid | None:
    uuids = {uuid for placed in placements.values() for uuid in placed.gpus}
    return next((uuid for uuid in gpus if uuid in uuids), None)


def _input_ms(process: Seen) -> int | None:
    tty = tty_of(process.pid, process.started_ms)
    terminal = terminal_of(tty) if tty else None
    return None if terminal is None else terminal.input_ms


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
        # A manager is asked when the step is done; what was known of it may be from when it was away.
        if "resume" in result.cannot and result.manager is None:
            raise WrongState(f"{job} stays paused: {result.cannot['resume']}")
        step = left_to(result.manager, Resume(job=job, gpus=result.paused_on, reason=because))
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
        has_owner = caller.role is Role.OPERATOR or result.user is not None
        if not has_owner or not caller.may_act_for(result.user or ""):
            raise NotAllowed(
                f"{job} is {result.user or 'somebody'}'s; {caller.name} may look and not change it"
            )
        return result

    def _done(self, caller: Caller, step: Action) -> Row:
        work = self._applying.carry_out(Approval(actor=f"user {caller.name}", steps=((1, step),)))
        came = work.came()
        row = to_row(Done(action=came.action, outcome=came.outcome, message=came.message))
        match row["outcome"]:
            case "unsupported":
                raise BadOrder(row["message"])
            case "stale" | "failed":
                raise WrongState(row["message"])
            case _:
                return row
