"""The engine for jobs that a site's own commands pause and resume, whoever gave them their GPUs.

What a command says of itself isn't believed: a pause is done when the job is seen to hold no GPU any more, on
GPUs that are measured anew, and a job is back when it holds some. Each command is written down before it is
run, so that whoever starts after a crash looks, and runs nothing twice.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from advisor.actions import Action, Pause, Resume
from advisor.engines.effects import Effect, EffectKind, Preview
from advisor.engines.hook_commands import BadHook, Ended, Hook, fault, filled, run, shown
from advisor.jobs.hook_acts import HookAct, HookActStore, HookCall
from advisor.outcomes import SLICE_S, Done, Failed, Interrupted, Late, Outcome, Stale, Unsupported
from advisor.tags import verb_of
from collector.clock import Clock
from collector.model import GpuUuid, JobId
from collector.snapshot import KEPT_MS, Snapshot

SEEN_MS = 300_000
"""How long a job may be seen on its GPUs after its command ended well. By default a pod has 30 s to end
(Kubernetes, terminationGracePeriodSeconds), and so has a job of Slurm (KillWait)."""
WATCH_S = 60.0
"""How long whoever gave an order waits for its end; after it the journal finds out."""
AT_ONCE = 4
"""So many commands run at the same time; a manager that hangs must not fill the service with waiting ones."""
NO_PAUSE = "its hook has no command for this"
BUSY = f"{AT_ONCE} commands of hooks are running; it is looked at again"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedJob:
    """A job and the hook that has it: what may be filled in, and what its commands are told of it."""

    hook: Hook
    values: Mapping[str, str | None]
    call: HookCall


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEngineDependencies:
    """What the engine works with.

    ``hooked`` is a job as it is now, with its hook, holding GPUs or held; ``None``: no hook has it.
    ``against`` says why nobody allows the step now, for this intent. ``trusted`` are the uids that may have
    written a hook's program. ``switched_off``: why nothing is ever run here.
    """

    book: HookActStore
    clock: Clock
    snapshot: Callable[[], Snapshot]
    hooked: Callable[[JobId], HookedJob | None]
    against: Callable[[Action, int], str | None]
    trusted: Callable[[Hook], frozenset[int]]
    switched_off: str | None = None
    run: Callable[[tuple[str, ...], Mapping[str, object], float], Ended] = run


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A command that was begun, and whose outcome is looked for."""

    step: Action
    intent: int


class HookEngine:
    """Runs a site's commands; safe from any thread. ``interrupt`` ends every wait, and no command."""

    def __init__(self, parts: HookEngineDependencies) -> None:
        self._parts, self._book, self._clock = parts, parts.book, parts.clock
        self._beginning = threading.Lock()
        self._stopping = threading.Event()
        self._running: dict[int, threading.Thread] = {}
        self._jobs = frozenset(each.call.job for each in parts.book.open())

    def interrupt(self) -> None:
        """The service stops: every wait, now and later, ends with ``Interrupted``."""
        self._stopping.set()

    def has(self, job: JobId) -> bool:
        """Whether it holds the job, or something that was asked about it is not known yet. Asks nobody."""
        return job in self._jobs

    def look_again(self) -> tuple[HookAct, ...]:
        """What is open, read anew; a pause whose job has GPUs again is over. Blocks for the store."""
        acts = self._book.open()
        for act in acts:
            if act.holds and self._is_back(act):
                self._book.over(act.intent, "released")
        acts = self._book.open() if acts else ()
        self._jobs = frozenset(each.call.job for each in acts)
        return acts

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Pause or resume, and wait a while for what is seen of it; everything else is unsupported."""
        ongoing = self.give(step, intent)
        return self.wait(ongoing, WATCH_S) if isinstance(ongoing, Running) else ongoing

    def give(self, step: Action, intent: int = 0) -> Running | Outcome:
        """Begin the command, if it may be; everything else is unsupported."""
        with self._beginning:
            ready = self._ready(step)
            if not isinstance(ready, HookedJob):
                return ready
            if len(self._running) >= AT_ONCE:
                return Stale(found=BUSY)
            forbidden = self._parts.against(step, intent)
            if forbidden is not None:
                return Stale(found=forbidden)
            # Before it is run: after a crash what was asked is still looked for.
            self._book.begin(ready.call, intent)
            self._jobs |= {step.job}
            doing = threading.Thread(target=self._run, args=(ready, step, intent), name="hook", daemon=True)
            self._running[intent] = doing
            doing.start()
        return Running(step=step, intent=intent)

    def wait(self, running: Running, at_most_s: float | None = None) -> Outcome:
        """What is seen of it, or ``Late``. Raises ``Interrupted``."""
        until_s = time.monotonic() + (math.inf if at_most_s is None else at_most_s)
        while True:
            outcome = self.found(running.intent) or Stale(found="it was not written down")
            if not isinstance(outcome, Late) or time.monotonic() >= until_s:
                return outcome
            if self._stopping.wait(min(SLICE_S, max(0.0, until_s - time.monotonic()))):
                raise Interrupted

    def found(self, intent: int) -> Outcome | None:
        """What is seen of what was asked by that intent; nothing is run. ``None``: nothing was asked."""
        act = self._book.act(intent)
        if act is None:
            return None
        if act.outcome is not None:
            return Done(note="it was seen before") if act.outcome == "done" else Failed(found="it failed")
        if intent in self._running:
            return Late(found=f"the command of hook {act.call.hook} is running")
        if act.call.verb == "resume":
            return self._resumed(act)
        said = act.ended_as or "nobody saw how its command ended"
        if self._is_off(act):
            self._book.settle(intent, "done")
            return Done(took_s=self._took_s(act), note=f"it holds no GPU any more; {said}")
        if not self._is_decided(act):
            return Late(found=f"{said}; it still holds its GPUs, or they were not measured since")
        self._book.settle(intent, "failed")
        return Failed(found=f"it holds its GPUs as before; {said}")

    def preview(self, step: Action) -> Preview:
        """What would be run. Reads the store and the files' owners; nothing is run, told or written."""
        ready = self._ready(step)
        if not isinstance(ready, HookedJob):
            return ready
        command, limit_s = ready.call.command, ready.hook.limit_s
        what = "posts to" if command[0].startswith("http") else "runs"
        return (
            Effect(
                kind=EffectKind.COMMAND,
                text=f"hook {ready.hook.name} {what} {shown(command)}, for {limit_s:g} s at most",
            ),
        )

    def _ready(self, step: Action) -> HookedJob | Stale | Unsupported:
        """The job with its command filled in; why nothing is run else."""
        if not isinstance(step, Pause | Resume):
            return Unsupported(why=f"a hook has no {verb_of(step)}")
        if self._parts.switched_off is not None:
            return Unsupported(why=self._parts.switched_off)
        acts = [each for each in self._book.open() if each.call.job == step.job]
        if any(each.outcome is None for each in acts):
            return Stale(found="what was asked about it before has not been seen yet")
        if isinstance(step, Resume) and not acts:
            return Stale(found="no hook holds it")
        hooked = self._parts.hooked(step.job)
        if hooked is None:
            return Stale(found="it is not seen, or no hook has it any more")
        if isinstance(step, Pause) and not self._holds_now(step.job):
            return Stale(found="it is not seen to hold a GPU now")
        command = hooked.hook.pause if isinstance(step, Pause) else hooked.hook.resume
        try:
            if not command:
                raise BadHook(NO_PAUSE)
            command = filled(command, hooked.values)
        except BadHook as error:
            return Unsupported(why=str(error))
        wrong = fault(command, self._parts.trusted(hooked.hook))
        if wrong is not None:
            return Unsupported(why=f"hook {hooked.hook.name} is not run: {wrong}")
        call = hooked.call
        return HookedJob(
            hook=hooked.hook,
            values=hooked.values,
            call=HookCall(
                job=call.job,
                hook=hooked.hook.name,
                verb=verb_of(step),
                command=command,
                holder=call.holder,
                gpus=call.gpus,
                manager=call.manager,
            ),
        )

    def _run(self, ready: HookedJob, step: Action, intent: int) -> None:
        about = about_job(ready, step.reason)
        try:
            ended = self._parts.run(ready.call.command, about, ready.hook.limit_s)
            self._book.ended(intent, ended.found if ended.is_well else f"its command failed: {ended.found}")
            if isinstance(step, Resume) and not ended.is_well:
                self._book.settle(intent, "failed")
        finally:
            with self._beginning:
                self._running.pop(intent, None)

    def _resumed(self, act: HookAct) -> Outcome:
        """A resume gives back, so its command's word is enough; the job counts as held until it is seen."""
        if act.ended_as is None:
            self._book.settle(act.intent, "failed")
            return Failed(found="nobody saw how its command ended; it can be resumed once more")
        self._book.settle(act.intent, "done")
        seen = (
            "it has GPUs again" if self._holds_now(act.call.job) else "it has no GPU yet, and counts as held"
        )
        return Done(took_s=self._took_s(act), note=f"{act.ended_as}; {seen}")

    def _is_off(self, act: HookAct) -> bool:
        """Whether it is seen to hold nothing, and each of its GPUs was measured since its command ended."""
        look, since_ms = self._parts.snapshot(), act.ended_ms or act.begun_ms
        measured = {each.uuid for each in look.samples if each.at_ms > since_ms}
        return (
            look.allocations is not None
            and look.at_ms > since_ms
            and measured.issuperset(act.call.gpus)
            and not self._holds_now(act.call.job)
        )

    def _is_decided(self, act: HookAct) -> bool:
        """Whether a job that still has its GPUs keeps them: so long after its command it would have left."""
        return self._clock.now_ms() - (act.ended_ms or act.begun_ms) > SEEN_MS

    def _is_back(self, act: HookAct) -> bool:
        return self._holds_now(act.call.job)

    def _holds_now(self, job: JobId) -> bool:
        look = self._parts.snapshot()
        if self._clock.now_ms() - look.at_ms > KEPT_MS:
            return False  # too old to say that it does
        return any(each.holder.job == job for each in look.allocations or ())

    def _took_s(self, act: HookAct) -> float:
        return max(0, (act.ended_ms or act.begun_ms) - act.begun_ms) / 1000


def about_job(ready: HookedJob, message: str) -> dict[str, object]:
    """What a command is told of its job on its input, as JSON."""
    call = ready.call
    return {
        "hook": ready.hook.name,
        "verb": call.verb,
        "reason": message,
        "gpus": list(call.gpus),
        "project": call.holder.project,
        "name": call.holder.name,
        "manager": call.manager,
        **ready.values,
    }


def gpus_held(look: Snapshot, job: JobId) -> tuple[GpuUuid, ...]:
    """The GPUs that a job has by the newest look."""
    return tuple(each.uuid for each in look.allocations or () if each.holder.job == job)
