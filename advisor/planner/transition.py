"""What a step means: ``transition(state, step) -> state``, for planner, simulator and tests alike.

Pure. There is no other place that knows what starting, resizing or pausing does to a cluster. A rollback is
dropping the new state. ``Draft`` is the same meaning for many steps at once: it copies the maps of a state
once and works in its own copy, so that a plan of thousands of steps costs what its steps cost.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from advisor.actions import (
    Action,
    Cancel,
    HoldForJob,
    Move,
    Notify,
    Pause,
    ReleaseMemory,
    Requeue,
    Resize,
    Resume,
    SetEnvAtRestart,
    Start,
    StartBackground,
)
from advisor.state.model import ActionTaken, ClusterState, Gpu, Job, Phase, Placement, Reservation
from advisor.tags import tag_of, verb_of
from analytics.thresholds import SHARED_RESERVE_BYTES
from collector.model import GpuUuid, JobId, NodeName

SHARE_SLACK = 1e-9
"""Rounding: three thirds of a GPU are one GPU."""


class StepError(ValueError):
    """The step cannot be taken in this state; the message names the step and what was found."""


def transition(state: ClusterState, step: Action) -> ClusterState:
    """The state after ``step``, at the same instant. Raises StepError when the step is impossible."""
    return replay(state, (step,))


def replay(state: ClusterState, steps: Iterable[Action]) -> ClusterState:
    """The state after all ``steps``, in order. Raises StepError at the first impossible one."""
    draft = Draft(state)
    for step in steps:
        draft.take(step)
    return draft.state()


def memory_charged(job: Job) -> int | None:
    """Bytes that the job occupies on each of its GPUs: what it holds or will need, whichever is more."""
    if job.memory_held_bytes is None:
        return job.memory_bytes
    return max(job.memory_held_bytes, job.memory_bytes or 0)


def memory_beside(job: Job, gpu: Gpu, share: float) -> int | None:
    """Bytes to set aside for the job on a shared GPU: what is known, else its share of what jobs may use.

    That is what a sharing job is told that it may use, so two halves are one GPU.
    """
    charged = memory_charged(job)
    if charged is not None or gpu.memory_bytes is None:
        return charged
    return share_of_memory(gpu.memory_bytes, share)


def share_of_memory(memory_bytes: int, share: float) -> int:
    """The bytes of a share of a GPU's memory; what is kept free on shared GPUs is nobody's."""
    return max(0, int((memory_bytes - SHARED_RESERVE_BYTES) * share))


@dataclass(frozen=True, slots=True)
class Before:
    """How a draft had one job before a step: what it takes to have it so again."""

    id: JobId
    job: Job | None
    placement: Placement | None
    reservation: Reservation | None
    actions: int


class Draft:
    """A state in the making: private to one decision, never shared, never kept."""

    def __init__(self, state: ClusterState) -> None:
        self._origin = state
        self.jobs = dict(state.jobs)
        self.placements = dict(state.placements)
        self.reservations = dict(state.reservations)
        self.beside = dict(state.beside)
        self._actions: list[ActionTaken] = []
        self._on: defaultdict[GpuUuid, list[JobId]] = defaultdict(list)
        for job, placement in state.placements.items():
            for uuid in placement.gpus:
                self._on[uuid].append(job)

    def state(self) -> ClusterState:
        """The snapshot as it is now; the draft may go on afterwards."""
        return replace(
            self._origin,
            jobs=dict(self.jobs),
            placements=dict(self.placements),
            reservations=dict(self.reservations),
            beside=dict(self.beside),
            actions=(*self._origin.actions, *self._actions),
        )

    def on(self, uuid: GpuUuid) -> tuple[JobId, ...]:
        """The jobs on a GPU, in the order in which they came."""
        return tuple(self._on.get(uuid, ()))

    def before(self, step: Action) -> Before:
        """What ``restore`` needs to undo the step once it was taken, if nothing was taken since."""
        id = step.job
        placement, promised = self.placements.get(id), self.reservations.get(id)
        return Before(id, self.jobs.get(id), placement, promised, len(self._actions))

    def restore(self, before: Before) -> None:
        """Have the job as it was."""
        if before.id in self.placements and before.job is not None:
            self._leave(before.job)
        if before.id in self._origin.background and before.id not in self._origin.beside:
            self.beside.pop(before.id, None)
        if before.placement is not None:
            self._enter(before.id, before.placement)
        if before.job is not None:
            self.jobs[before.id] = before.job
        if before.reservation is not None:
            self.reservations[before.id] = before.reservation
        else:
            self.reservations.pop(before.id, None)
        del self._actions[before.actions :]

    def take(self, step: Action) -> None:
        """Do one step, or raise StepError and leave the draft as it was."""
        if isinstance(step, StartBackground):
            self._start_background(step)
            return
        job = self.jobs.get(step.job)
        if job is None:
            raise StepError(f"{_verb(step)} {step.job}: there is no such job in this state")
        match step:
            case Start():
                self._expect(step, job, Phase.PENDING)
                self._run(step, job, Placement(gpus=step.gpus, share=step.share))
            case Resume():
                self._expect(step, job, Phase.PAUSED)
                self._resume(step, job)
            case Resize():
                self._expect(step, job, Phase.RUNNING)
                self._resize(step, job)
            case Move():
                self._expect(step, job, Phase.RUNNING)
                self._move(step, job)
            case Pause():
                self._pause(step, job)
            case Requeue():
                self._requeue(step, job)
            case Cancel():
                self._cancel(step, job)
            case ReleaseMemory():
                self._release(step, job)
            case SetEnvAtRestart() | Notify() | HoldForJob():
                self._record(step, job)
            case _:
                assert_never(step)

    def _start_background(self, step: StartBackground) -> None:
        host, pairs = self.placements.get(step.beside), set(self.beside.values())
        if step.job not in self._origin.background or step.job in self.beside:
            raise StepError(f"StartBackground {step.job}: it is no background job that waits")
        if len(step.gpus) != 1 or host is None or step.gpus[0] not in host.gpus:
            raise StepError(f"StartBackground {step.job}: {step.beside} does not run on {step.gpus}")
        if any(gpu == step.gpus[0] for _, gpu in pairs):
            raise StepError(f"StartBackground {step.job}: another one is in these idle gaps already")
        self.beside[step.job] = step.beside, step.gpus[0]

    @property
    def _now(self) -> int:
        return self._origin.as_of_ms

    def _put(self, job: Job, **changes: object) -> None:
        self.jobs[job.id] = replace(job, **changes)  # type: ignore[arg-type]

    def _expect(self, step: Action, job: Job, *phases: Phase) -> None:
        if job.phase not in phases:
            allowed = " or ".join(phase.value for phase in phases)
            raise StepError(f"{_verb(step)} {job.id}: the job is {job.phase.value}, and must be {allowed}")

    def _run(self, step: Start | Resume, job: Job, placement: Placement) -> None:
        if not job.min_gpus <= len(placement.gpus) <= job.max_gpus:
            raise StepError(
                f"{_verb(step)} {job.id}: it runs on {job.min_gpus} to {job.max_gpus} GPUs, "
                f"not on {len(placement.gpus)}"
            )
        self._settle(step, job, placement)
        self.reservations.pop(job.id, None)
        self._put(job, phase=Phase.RUNNING, started_ms=self._now, paused_on=())

    def _resume(self, step: Resume, job: Job) -> None:
        if step.places:
            self._let_wait(step, job)
            return
        nodes = sorted(self._node(uuid) for uuid in job.paused_on)
        if nodes and sorted(self._node(uuid) for uuid in step.gpus) != nodes:
            raise StepError(
                f"Resume {job.id}: its state lies in the memory of {', '.join(sorted(set(nodes)))}"
            )
        share = job.share if step.share is None else step.share
        self._run(step, job, Placement(gpus=step.gpus, share=share))

    def _let_wait(self, step: Resume, job: Job) -> None:
        """It is left to its manager, which chooses its GPUs and when: none are taken here."""
        count = sum(gpus for _, gpus in step.places)
        if job.manager is None:
            raise StepError(f"Resume {job.id}: no workload manager has it that could choose its GPUs")
        if step.gpus or not job.min_gpus <= count <= job.max_gpus:
            sizes = f"{job.min_gpus} to {job.max_gpus} GPUs"
            raise StepError(f"Resume {job.id}: it runs on {sizes}, not on {count}")
        self.reservations.pop(job.id, None)
        self._put(job, held=True, paused_on=())

    def _resize(self, step: Resize, job: Job) -> None:
        if not job.min_gpus <= len(step.gpus) <= job.max_gpus:
            raise StepError(
                f"Resize {job.id}: it runs on {job.min_gpus} to {job.max_gpus} GPUs, not on {len(step.gpus)}"
            )
        before = self._leave(job)
        self._settle_or_return(step, job, before, Placement(gpus=step.gpus, share=before.share))
        self._put(job, resized_ms=self._now)

    def _move(self, step: Move, job: Job) -> None:
        before = self._leave(job)
        share = before.share if step.share is None else step.share
        if len(step.gpus) != len(before.gpus):
            self._enter(job.id, before)
            raise StepError(f"Move {job.id}: from {len(before.gpus)} GPUs to {len(step.gpus)} is a resize")
        self._settle_or_return(step, job, before, Placement(gpus=step.gpus, share=share))
        self._note(step, before)
        self._put(job, acted_ms=self._now)

    def _pause(self, step: Pause, job: Job) -> None:
        self._expect(step, job, Phase.RUNNING)
        placement = self._leave(job)
        self._note(step, placement)
        self._put(job, phase=Phase.PAUSED, paused_on=placement.gpus, acted_ms=self._now, started_ms=None)

    def _requeue(self, step: Requeue, job: Job) -> None:
        self._expect(step, job, Phase.RUNNING, Phase.PAUSED)
        if job.phase is Phase.RUNNING:
            self._note(step, self._leave(job))
        self._put(
            job,
            phase=Phase.PENDING,
            started_ms=None,
            paused_on=(),
            memory_held_bytes=None,
            acted_ms=self._now,
            requeues=job.requeues + 1,
        )

    def _cancel(self, step: Cancel, job: Job) -> None:
        if job.phase is Phase.RUNNING:
            self._note(step, self._leave(job))
        self.reservations.pop(job.id, None)
        del self.jobs[job.id]

    def _release(self, step: ReleaseMemory, job: Job) -> None:
        self._expect(step, job, Phase.RUNNING)
        charged = memory_charged(job)
        if charged is None or step.frees_bytes > charged:
            raise StepError(f"ReleaseMemory {job.id}: {step.frees_bytes} bytes of {charged} cannot be freed")
        self._put(job, memory_held_bytes=charged - step.frees_bytes)

    def _record(self, step: SetEnvAtRestart | Notify | HoldForJob, job: Job) -> None:
        match step:
            case SetEnvAtRestart():
                others = tuple(pair for pair in job.next_launch if pair[0] not in dict(step.settings))
                self._put(job, next_launch=others + step.settings)
            case Notify():
                first = job.notified_ms if job.notified_ms is not None else self._now
                self._put(job, notified_ms=first, notifications=job.notifications + 1)
            case HoldForJob(gpus=()):
                self.reservations.pop(step.job, None)
            case HoldForJob():
                self.reservations[step.job] = Reservation(start_ms=step.start_ms, gpus=step.gpus)

    def _settle_or_return(self, step: Action, job: Job, before: Placement, after: Placement) -> None:
        try:
            self._expect_one_cluster(step, job, (*before.gpus, *after.gpus))
            self._settle(step, job, after)
        except StepError:
            self._enter(job.id, before)
            raise

    def _settle(self, step: Action, job: Job, placement: Placement) -> None:
        if not placement.gpus or len(set(placement.gpus)) != len(placement.gpus):
            raise StepError(f"{_verb(step)} {job.id}: a job needs GPUs, each named once: {placement.gpus}")
        if job.on_one_node and len({self._node(uuid) for uuid in placement.gpus}) > 1:
            raise StepError(f"{_verb(step)} {job.id}: it runs on one node only, not on {placement.gpus}")
        self._expect_one_cluster(step, job, placement.gpus)
        if not 0 < placement.share <= 1:
            raise StepError(f"{_verb(step)} {job.id}: a share is above 0 and at most 1: {placement.share}")
        for uuid in placement.gpus:
            problem = self._objection(job, uuid, placement.share)
            if problem is not None:
                raise StepError(f"{_verb(step)} {job.id} on {uuid}: {problem}")
        self._enter(job.id, placement)

    def _expect_one_cluster(self, step: Action, job: Job, gpus: Iterable[GpuUuid]) -> None:
        """A job has no way into another cluster; a GPU of no named one is in another, for all we know."""
        clusters = {gpu.cluster for uuid in gpus if (gpu := self._origin.gpus.get(uuid)) is not None}
        if len(clusters) > 1:
            named = " and ".join(sorted(each or "no named cluster" for each in clusters))
            raise StepError(f"{_verb(step)} {job.id}: its GPUs would be in {named}")

    def _objection(self, job: Job, uuid: GpuUuid, share: float) -> str | None:
        gpu = self._origin.gpus.get(uuid)
        if gpu is None:
            return "there is no such GPU in this state"
        if not gpu.healthy or gpu.occupied:
            return "the GPU is not healthy" if not gpu.healthy else "somebody uses it whom nobody gave it"
        others = self._on.get(uuid, ())
        if not others:
            need = memory_charged(job)
            if need is not None and gpu.memory_bytes is not None and need > gpu.memory_bytes:
                return f"it needs {need} bytes and the GPU has {gpu.memory_bytes}"
            return None
        allocated = sum(self.placements[other].share for other in others)
        if allocated + share > 1 + SHARE_SLACK:
            return f"{allocated:g} of it is given to {', '.join(others)}, {share:g} more is too much"
        beside = [memory_beside(self.jobs[other], gpu, self.placements[other].share) for other in others]
        needs = [memory_beside(job, gpu, share), *beside]
        if gpu.memory_bytes is None or any(need is None for need in needs):
            return "what it and its neighbours need of the memory is not known"
        total = sum(need for need in needs if need is not None)
        if total > gpu.memory_bytes - SHARED_RESERVE_BYTES:
            return f"{total} bytes beside each other exceed {gpu.memory_bytes} less 2 GiB"
        return None

    def _enter(self, job: JobId, placement: Placement) -> None:
        self.placements[job] = placement
        for uuid in placement.gpus:
            self._on[uuid].append(job)

    def _leave(self, job: Job) -> Placement:
        placement = self.placements.pop(job.id)
        for uuid in placement.gpus:
            self._on[uuid].remove(job.id)
        return placement

    def _node(self, uuid: GpuUuid) -> NodeName:
        gpu = self._origin.gpus.get(uuid)
        if gpu is None:
            raise StepError(f"{uuid}: there is no such GPU in this state")
        return gpu.node

    def _note(self, step: Action, placement: Placement) -> None:
        nodes = tuple(dict.fromkeys(self._node(uuid) for uuid in placement.gpus))
        self._actions.append(ActionTaken(at_ms=self._now, job=step.job, verb=verb_of(step), nodes=nodes))


def _verb(step: Action) -> str:
    return tag_of(type(step))
