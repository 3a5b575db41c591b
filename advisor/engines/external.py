"""The engine for jobs that Fallow did not launch: it can tell their owners, and pause by CUDA's checkpoint.

Nothing else can be done to such a job from outside, and nothing else is tried: no signal is ever sent (a
client of CUDA's multi-process service that is stopped takes its neighbours with it). Each pause is written
down before the driver is asked, so that whoever starts after a crash finds it and can look.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, assert_never

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
from advisor.engines.cuda_checkpoint import Deed, unfit
from advisor.engines.cuda_checkpointer import LONGEST_S, Checkpointer
from advisor.engines.effects import Preview, of_checkpoint, of_notice, of_restore, pids
from advisor.engines.memory_transfers import Moving, memory_held, sentence, took
from advisor.engines.notify_owner import Notice, Notifier, tell
from advisor.jobs.external_jobs import ExternalJobStore, Paused, Seen
from advisor.outcomes import SLICE_S, Done, Failed, Interrupted, Late, Outcome, Stale, Unsupported
from advisor.tags import verb_of
from collector.model import GpuUuid, JobId, NodeName

AT_REST = frozenset({"running", "checkpointed", "failed"})
"""Any other state, or one that the driver does not say, may be a restore that goes on."""
GIVEN_ELSEWHERE = {"pod:": "Kubernetes", "ray:": "Ray"}
"""Whose jobs keep their GPUs while they are paused: what a pause frees there, nobody could use. By what their
ids begin with; Slurm's have an engine of their own."""
OFF = "jobs that Fallow did not launch are only paused where [foreign] checkpoint is on"
ENDED_MEANWHILE = "its processes have ended meanwhile"
BEGUN_BEFORE = "a process that a service began before this one is bringing it back"
KEEP_HINT = "Do you need it? `fallow keep {job} --hours 4` keeps it (4, 8 or 24 h)."

Sightings = Callable[[JobId], tuple[Seen, ...]]
"""The processes of a job that are on GPUs now."""


class Lease(Protocol):
    """Keeps GPUs from everybody else while memory comes back onto them: a restore that meets too little of it
    loses the job (``gpu_room``)."""

    def reserve(self, job: JobId, uuids: Sequence[GpuUuid]) -> str | None:
        """Keep them for the job; why not, and then none is kept."""
        ...

    def release(self, job: JobId) -> None:
        """It runs again, or will not come back now."""
        ...

    def descriptors(self, job: JobId) -> tuple[int, ...]:
        """What keeps them while it is open, in whichever process: the one that restores gets it too."""
        ...

    def under_way(self, job: JobId, uuids: Sequence[GpuUuid]) -> bool:
        """Whether a process that another service began brings the job back; its GPUs are kept here then."""
        ...


class NoLease:
    """Where nobody else gives out GPUs."""

    def reserve(self, job: JobId, uuids: Sequence[GpuUuid]) -> str | None:
        """Nothing to keep them from."""
        return None

    def release(self, job: JobId) -> None:
        """Nothing was kept."""

    def descriptors(self, job: JobId) -> tuple[int, ...]:
        """None."""
        return ()

    def under_way(self, job: JobId, uuids: Sequence[GpuUuid]) -> bool:
        """Nobody can tell."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEngineDependencies:
    """What the engine works with. ``checkpointer``: ``None`` while pausing is off. ``node``: this machine.

    ``account_uid`` is the number of an account by its name, ``None`` when there is none here. ``listed`` are
    those that the driver lists on this machine's GPUs. ``lease`` keeps GPUs for a job that comes back.
    """

    book: ExternalJobStore
    sightings: Sightings
    ways: Sequence[Notifier]
    checkpointer: Checkpointer | None
    node: NodeName
    account_uid: Callable[[str], int | None]
    listed: Callable[[], frozenset[int]] = frozenset
    lease: Lease = field(default_factory=NoLease)


class ExternalEngine:
    """Carries out what can be done to jobs that Fallow did not launch; safe from any thread.

    ``interrupt`` ends every wait. What moves meanwhile goes on.
    """

    def __init__(self, parts: ExternalEngineDependencies) -> None:
        self._book, self._sightings = parts.book, parts.sightings
        self._ways, self._checkpointer = tuple(parts.ways), parts.checkpointer
        self._node, self._account_uid = parts.node, parts.account_uid
        self._listed, self._lease = parts.listed, parts.lease
        self._moving: dict[JobId, Moving] = {}
        # Until when a restore may go on whose child was killed: a driver may say checkpointed meanwhile.
        self._restored_by_s: dict[JobId, float] = {}
        self._beginning = threading.Lock()
        self._stopping = threading.Event()

    def interrupt(self) -> None:
        """The service stops: every wait, now and later, ends with ``Interrupted``."""
        self._stopping.set()

    def moving(self) -> frozenset[JobId]:
        """The jobs whose GPU memory is on its way: neither on their GPUs nor off them."""
        with self._beginning:
            return frozenset(self._moving)

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Tell, pause or resume, and wait while GPU memory moves; everything else is unsupported."""
        ongoing = self.give(step, intent)
        return self.wait(ongoing) if isinstance(ongoing, Moving) else ongoing

    def give(self, step: Action, intent: int = 0) -> Moving | Outcome:
        """Tell, or begin to pause or resume; everything else is unsupported."""
        match step:
            case Notify():
                return self._tell(step)
            case Pause() | Resume():
                with self._beginning:
                    if step.job in self._moving:
                        return Stale(found=_under_way(self._moving[step.job]).found)
                    return self._pause(step, intent) if isinstance(step, Pause) else self._resume(step)
            case Start() | Resize() | Move() | Requeue() | HoldForJob() | ReleaseMemory() | SetEnvAtRestart():
                return Unsupported(why=beyond(step.job)[verb_of(step)])
            case Cancel() | StartBackground():
                return Unsupported(why=beyond(step.job)[verb_of(step)])
            case _:
                assert_never(step)

    def wait(self, moving: Moving, at_most_s: float | None = None) -> Outcome:
        """What came of it, or ``Late`` when it still goes on. Raises ``Interrupted``."""
        until_s = math.inf if at_most_s is None else time.monotonic() + at_most_s
        while True:
            outcome = moving.outcome(min(SLICE_S, max(0.0, until_s - time.monotonic())))
            if outcome is not None:
                self._forget(moving)
                return outcome
            if self._stopping.is_set():
                raise Interrupted
            if time.monotonic() >= until_s:
                return _under_way(moving)

    def settle(self, step: Action) -> Outcome | None:
        """What came of a step that nobody saw the end of; ``None`` when nobody can say. Asks the driver."""
        if not isinstance(step, Pause | Resume) or self._checkpointer is None:
            return None
        moving = self._moving.get(step.job)
        if moving is not None:
            outcome = moving.outcome()
            if outcome is None:
                return _under_way(moving)
            self._forget(moving)
            if type(moving.step) is type(step):
                return outcome
        return self._by_states(step)

    def _by_states(self, step: Pause | Resume) -> Outcome:
        """What came of it by the driver's states; its GPUs are kept while one is unknown or on its way."""
        assert self._checkpointer is not None
        open_one = self._book.paused(step.job)
        if open_one is None:
            self._lease.release(step.job)
            return self._closed(step)
        if isinstance(step, Resume) and self._lease.under_way(step.job, open_one.paused.gpus):
            return Late(found=f"{BEGUN_BEFORE}; look at {step.job}")
        targets = self._checkpointer.targets(open_one.paused.processes)
        alive = [each.pid for each in targets if each.now is not None]
        if not alive:
            self._lease.release(step.job)
            self._book.end(step.job, "gone")
            return Failed(found=ENDED_MEANWHILE)
        looked = self._checkpointer.look(alive)
        states = set(looked.states.values())
        is_cut_off = isinstance(step, Resume) and time.monotonic() < self._restored_by_s.get(step.job, 0.0)
        if states and states <= (AT_REST - {"checkpointed"} if is_cut_off else AT_REST):
            self._lease.release(step.job)
        else:  # what a service that ended, or a child that was killed, began
            self._lease.reserve(step.job, open_one.paused.gpus)
        if states == {"checkpointed"} and is_cut_off:
            return Late(
                found="it is still paused, or the driver goes on to bring it back: nobody can say yet"
            )
        is_pause = isinstance(step, Pause)
        if states == {"checkpointed"}:
            return Done(note="it is off its GPUs") if is_pause else Failed(found="it is still paused")
        if states == {"running"}:
            self._book.end(step.job, "failed" if is_pause else "resumed")
            return Failed(found="it runs as before") if is_pause else Done(note="it runs again")
        if not states:
            return Late(found=f"how its processes stand is not known: {looked.found}; look at {step.job}")
        named = ", ".join(f"process {pid} is {state}" for pid, state in looked.states.items())
        return Late(found=f"the driver has not finished: {named}; look at {step.job}")

    def _closed(self, step: Pause | Resume) -> Outcome:
        """What came of a step where the job is not paused any more."""
        ended = [each.ended_as for each in self._book.checkpoints(0) if each.paused.job == step.job]
        if ended and ended[-1] == "gone":
            return Failed(found=ENDED_MEANWHILE)
        return Done(note="it was resumed") if isinstance(step, Resume) else Failed(found="it was not paused")

    def _came_of(self, step: Pause | Resume, deed: Deed) -> Outcome:
        """The outcome of a failed step; where nobody said how its processes stand, the driver is asked."""
        if not deed.states and not deed.undone:
            if isinstance(step, Resume):
                self._restored_by_s[step.job] = time.monotonic() + LONGEST_S
            outcome = self._by_states(step)
            if isinstance(outcome, Failed | Late):
                return replace(outcome, found=f"{deed.found}; {outcome.found}")
            return outcome
        if isinstance(step, Resume):
            self._lease.release(step.job)
        elif deed.undone:
            self._book.end(step.job, "failed")
        return Failed(found=deed.found)

    def _tell(self, step: Notify) -> Outcome:
        holder = self._book.holder(step.job)
        user = None if holder is None else holder.user
        uid = next((each.uid for each in self._sightings(step.job) if each.uid is not None), None)
        if uid is None and user is not None:
            uid = self._account_uid(user)
        hint = KEEP_HINT.format(job=step.job)
        notice = Notice(job=step.job, user=user, uid=uid, message=step.message, hint=hint)
        notice_result = tell(notice, self._ways)
        self._book.told(step.job, "tell", step.message, notice_result.reached)
        if notice_result.reached:
            return Done(note=f"reached {', '.join(notice_result.reached)}")
        return Done(note=f"nobody was reached: {'; '.join(notice_result.missed)}")

    def preview(self, step: Action) -> Preview:
        """What the step would do. Reads /proc and the store; nothing is begun, told, kept or written."""
        moving = self._moving.get(step.job)
        match step:
            case Notify():
                return of_notice(step.message, self._book.holder(step.job), len(self._ways))
            case Pause() | Resume() if moving is not None:
                return Stale(found=_under_way(moving).found)
            case Pause():
                leaving = self._pausable(step)
                return of_checkpoint(leaving) if isinstance(leaving, Paused) else leaving
            case Resume():
                paused = self._resumable(step)
                return of_restore(*paused) if isinstance(paused, tuple) else paused
            case _:
                return Unsupported(why=beyond(step.job)[verb_of(step)])

    def _pausable(self, step: Pause) -> Paused | Stale | Unsupported:
        """What would be taken off its GPUs; why it cannot be."""
        if self._checkpointer is None:
            return Unsupported(why=OFF)
        if self._book.paused(step.job) is not None:
            return Stale(found="it is paused already")
        processes, holder = self._sightings(step.job), self._book.holder(step.job)
        if not processes or holder is None:
            return Stale(found="no process of it is seen on a GPU")
        why = self.unfit(step.job, processes)
        if why is not None:
            return Unsupported(why=why)
        gpus = tuple(dict.fromkeys(uuid for each in processes for uuid in each.uuids))
        return Paused(job=step.job, holder=holder, processes=processes, gpus=gpus)

    def _pause(self, step: Pause, intent: int) -> Moving | Outcome:
        leaving = self._pausable(step)
        if not isinstance(leaving, Paused):
            return leaving
        assert self._checkpointer is not None
        processes = leaving.processes
        self._book.begin(leaving, intent)  # first: a restore needs what each process held

        def conclude(deed: Deed) -> Outcome:
            if deed.ok:
                return Done(took_s=took(deed), note=sentence(deed))
            return self._came_of(step, deed)

        return self._follow(
            Moving(step, self._checkpointer.pause(pids(processes), memory_held(processes)), conclude)
        )

    def unfit(self, job: JobId, processes: Sequence[Seen]) -> str | None:
        """Why this job cannot be paused here and now; ``None`` when it can be tried. Reads /proc."""
        if self._checkpointer is None:
            return OFF
        leaving = next((each for each in list(self._moving.values()) if isinstance(each.step, Pause)), None)
        if leaving is not None:
            return f"{_under_way(leaving).found}, and one at a time is: the host's room is known after it"
        giver = next((name for prefix, name in GIVEN_ELSEWHERE.items() if job.startswith(prefix)), None)
        if giver is not None:
            return f"{giver} gave it its GPUs: what a pause frees, nobody could use"
        away = next((each for each in processes if each.node != self._node), None)
        if away is not None:
            return f"it runs on {away.node}: only processes of {self._node} can be checkpointed from here"
        boxed = next((each for each in processes if each.container is not None), None)
        if boxed is not None:
            return f"process {boxed.pid} is in a container, whose memory and devices are not ours to judge"
        return unfit(self._checkpointer.host(), self._checkpointer.targets(processes), self._listed())

    def _resumable(self, step: Resume) -> tuple[Paused, tuple[int, ...]] | Stale | Unsupported:
        """What would come back, and which of its processes still are; why it cannot."""
        open_one = self._book.paused(step.job)
        if open_one is None:
            return Stale(found="it is not paused")
        if self._checkpointer is None:
            return Unsupported(why=f"{OFF}; it waits in host memory until that is on again")
        paused = open_one.paused
        if set(step.gpus) != set(paused.gpus):
            return Unsupported(why=f"it can only come back to the GPUs it left: {', '.join(paused.gpus)}")
        targets = self._checkpointer.targets(paused.processes)
        pids = tuple(each.pid for each in targets if each.now is not None)
        if not pids:
            return Stale(found=ENDED_MEANWHILE)
        if self._lease.under_way(step.job, paused.gpus):
            return Stale(found=BEGUN_BEFORE)
        return paused, pids

    def _resume(self, step: Resume) -> Moving | Outcome:
        result = self._resumable(step)
        if not isinstance(result, tuple):
            if result == Stale(found=ENDED_MEANWHILE):
                self._lease.release(step.job)
                self._book.end(step.job, "gone")
            return result
        paused, pids = result
        assert self._checkpointer is not None
        # From before free memory is read until it runs nobody else is given these (docs/decisions/0054).
        refused = self._lease.reserve(step.job, paused.gpus)
        if refused is not None:
            return Stale(found=f"it stays paused: {refused}")

        def conclude(deed: Deed) -> Outcome:
            if not deed.ok:
                return self._came_of(step, deed)
            self._lease.release(step.job)
            self._book.end(step.job, "resumed")
            return Done(took_s=took(deed), note=sentence(deed))

        self._restored_by_s.pop(step.job, None)
        locks = self._lease.descriptors(step.job)
        begun = self._checkpointer.resume(pids, memory_held(paused.processes), locks)
        return self._follow(Moving(step, begun, conclude))

    def _follow(self, moving: Moving) -> Moving:
        self._moving[moving.step.job] = moving
        return moving

    def _forget(self, moving: Moving) -> None:
        if self._moving.get(moving.step.job) is moving:
            del self._moving[moving.step.job]


def beyond(job: JobId | str) -> dict[str, str]:
    """The steps that nobody can carry out on a foreign job, by verb, each with the reason."""
    elsewhere = "Fallow did not launch it, so it cannot launch it anew"
    inside = "Fallow did not launch it and has no word with what runs inside it"
    return {
        "start": elsewhere,
        "resize": inside,
        "move": elsewhere,
        "requeue": elsewhere,
        "hold-for-job": "it waits in no queue of Fallow's",
        "release-memory": inside,
        "set-env-at-restart": elsewhere,
        "start-background": elsewhere,
        "cancel": f"Fallow did not launch {job}, and never ends what it did not launch",
    }


def _under_way(moving: Moving) -> Late:
    where = "off its GPUs" if isinstance(moving.step, Pause) else "back onto its GPUs"
    return Late(found=f"the memory of {moving.step.job} is being moved {where}")
