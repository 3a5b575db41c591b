"""The engine for Kubernetes' Jobs: one whose own annotation agrees is suspended, and let go on again.

Kubernetes decides who gets GPUs. What is done here gives back: ``spec.suspend`` of a Job (batch/v1), or
``spec.active`` of the workload of a Job that Kueue has, because Kueue starts a suspended Job that it has
admitted again. Both in one merge patch with a nonce, on the very version of the object that was read: where
it has changed since, the server refuses (409), and nothing is done. What came of it is read from the object,
never from the answer. No real cluster has been seen.

Sources: kubernetes.io, "Jobs" (suspending a Job); kueue.sigs.k8s.io, Workload (active).
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from urllib.parse import quote

from advisor.actions import Action, Pause, Resume
from advisor.engines.kubernetes_outcomes import (
    is_suspended,
    is_workload,
    observation,
    run_of,
)
from advisor.engines.slurm_outcomes import OutcomeSeen
from advisor.engines.watched import WATCH_S, OutcomeWait, Watched
from advisor.jobs.external_jobs import Holder
from advisor.jobs.manager_acts import Asked, ManagerAct, ManagerActStore
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported
from advisor.state.model import ActionClass, ProjectName
from advisor.tags import verb_of
from collector.clock import Clock
from collector.inventory.kubernetes import is_pod
from collector.managers.kubernetes.api import (
    Answer,
    Connection,
    NoAnswer,
    Object,
    groups_of,
    list_of,
    said,
)
from collector.managers.kubernetes.batch import (
    INTENT,
    allowed_by,
    controller_of,
    is_over,
    meta,
    parallelism,
    part,
)
from collector.managers.kubernetes.reader import WORKLOADS
from collector.managers.model import Look, ManagedJob
from collector.managers.owner_word import OwnerWord
from collector.model import GpuUuid, JobId

NAME = "Kubernetes"
UNFIT_MS = 600_000
"""How long it is remembered that a pod cannot be paused: its Job, and what this account may do, change
seldom."""
OWN_CONTROLLER = "kubernetes.io/job-controller"
"""``spec.managedBy`` of a Job that Kubernetes runs itself, where that is said (batch/v1)."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

CANNOT: Mapping[str, str] = {
    "start": "Kubernetes decides when and where pods start",
    "move": "Kubernetes decides where pods run",
    "requeue": "a pause suspends its Job, and a release lets Kubernetes start it anew",
    ActionClass.RESIZE.value: "a pod has its GPUs for its whole life",
    "hold-for-job": "it waits in no queue of Fallow's",
    "release-memory": "Fallow did not launch it and has no word with what runs inside it",
    "set-env-at-restart": "Fallow did not launch it, so it cannot launch it anew",
    "cancel": "Fallow ends no pod of Kubernetes",
    "start-background": "Kubernetes decides when and where pods start",
}
"""The steps that are Kubernetes' own, or nobody's, by verb, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesEngineDependencies:
    """What the engine works with. ``connect`` opens a connection as the account that may change Jobs.

    ``looks`` are the newest of the readers. ``against`` says why nobody allows a pause, by the owner's word
    as it is now, and with how kubectl begins to annotate the Job. ``gpus_of`` are the GPUs that a job has.
    ``is_on``: the site lets Fallow act there.
    """

    book: ManagerActStore
    connect: Callable[[], AbstractContextManager[Connection]]
    clock: Clock
    looks: Callable[[], tuple[Look, ...]]
    against: Callable[[OwnerWord | None, str], str | None]
    gpus_of: Callable[[JobId], tuple[GpuUuid, ...]]
    is_on: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """What is to be written down, and the change that is asked for then."""

    asked: Asked
    patch: Object


class KubernetesEngine:
    """Carries out what can be done to pods of Jobs; safe from any thread. ``interrupt`` ends every wait."""

    def __init__(self, parts: KubernetesEngineDependencies) -> None:
        self._parts, self._book, self._clock = parts, parts.book, parts.clock
        self._acting = threading.Lock()
        self._waiting = OutcomeWait(self.found)
        self._unfit: dict[str, tuple[int, str]] = {}

    def has(self, job: JobId) -> bool:
        """Whether the job is a pod, where the site lets Fallow act on them."""
        return self._parts.is_on and is_pod(job)

    def interrupt(self) -> None:
        """The service stops: every wait, now and later, ends with ``Interrupted``."""
        self._waiting.interrupt()

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Pause or resume, and wait a while for what is seen of it; everything else is unsupported."""
        ongoing = self.give(step, intent)
        return self.wait(ongoing, WATCH_S) if isinstance(ongoing, Watched) else ongoing

    def wait(self, watched: Watched, at_most_s: float | None = None) -> Outcome:
        """What is seen of it, or ``Late``. Raises ``Interrupted``."""
        return self._waiting.wait(watched, at_most_s)

    def give(self, step: Action, intent: int = 0) -> Watched | Outcome:
        """Ask Kubernetes to suspend a Job or to let it go on, if it may be; all else is unsupported."""
        if not isinstance(step, Pause | Resume):
            return Unsupported(why=CANNOT.get(verb_of(step), f"{NAME} has no such step"))
        with self._acting:
            try:
                with self._parts.connect() as server:
                    return self._given(server, step, intent)
            except NoAnswer as failure:
                return Stale(found=f"{NAME} did not answer, and nothing was done: {failure}")

    def found(self, intent: int) -> Outcome | None:
        """What is seen of what was asked by that intent; nothing is done. ``None``: nothing was asked."""
        act = self._book.act(intent)
        if act is None:
            return None
        if act.outcome is not None:
            return Done(note="it was seen before") if act.outcome == "done" else Failed(found="it failed")
        try:
            with self._parts.connect() as server:
                of = _object(server, act.asked.target)
                pod = _object(server, _pod_path(act.asked.job))
        except NoAnswer as failure:
            return Late(found=f"{NAME} does not answer: {failure}")
        there = pod is not None and meta(pod).get("uid") == act.asked.part
        current = observation(act, of, pod_is_there=there, now_ms=self._clock.now_ms())
        match current.outcome:
            case OutcomeSeen.WAITS:
                return Late(found=current.found)
            case OutcomeSeen.FAILED:
                self._settle(act, "failed")
                return Failed(found=current.found)
        if of is not None:
            self._book.seen(intent, run_of(act.asked.run.cluster, of))
        self._settle(act, "done")
        took_s = max(0, self._clock.now_ms() - act.begun_ms) / 1000
        return Done(took_s=took_s, note=current.found)

    def can(self, job: JobId) -> dict[str, str]:
        """The steps that cannot be done to it now, by verb, each with the reason. Asks nobody."""
        shown, now_ms = self.shown(job), self._clock.now_ms()
        if shown is None:
            why: str | None = f"{NAME}'s newest answer does not show it"
        else:
            at_ms, reason = self._unfit.get(shown.key.id, (0, None))
            why = reason if now_ms - at_ms < UNFIT_MS else None
        return dict(CANNOT) if why is None else {**CANNOT, "pause": why}

    def shown(self, job: JobId) -> ManagedJob | None:
        """The pod in the newest look that has it."""
        looks = self._parts.looks()
        return next((each for look in looks for each in look.jobs if each.holder.job == job), None)

    def _given(self, server: Connection, step: Pause | Resume, intent: int) -> Watched | Outcome:
        if any(each.asked.job == step.job and each.outcome is None for each in self._book.open()):
            return Stale(found="what was asked about it before has not been seen yet")
        ready = self._pause(server, step) if isinstance(step, Pause) else self._resume(server, step)
        if not isinstance(ready, _Ready):
            return ready
        # Before Kubernetes is asked: after a crash what was asked is still looked for.
        self._book.begin(ready.asked, intent)
        try:
            answer = server.patch(ready.asked.target, ready.patch)
        except NoAnswer:  # it may have been heard all the same: that is seen
            return Watched(step=step, intent=intent)
        refused = self._refused(answer, ready.asked)
        if refused is None:
            return Watched(step=step, intent=intent)
        self._book.settle(intent, "failed")
        return refused

    def _refused(self, answer: Answer, asked: Asked) -> Outcome | None:
        """What a clear no means, after which nothing was done; ``None``: that has to be seen."""
        told = f"HTTP {answer.status}{said(answer)}"
        match answer.status:
            case 401 | 403:
                why = f"this account may not change it ({told}): docs/kubernetes.md says what it takes"
                self._note_unfit(asked.part, why)
                return Unsupported(why=why)
            case 404 | 410:
                return Stale(found=f"it is gone ({told})")
            case 409:
                return Stale(found=f"it changed while it was asked for, and nothing was done ({told})")
            case 400 | 405 | 415 | 422:
                return Failed(found=f"{NAME} refused it, and nothing was done ({told})")
        return None

    def _pause(self, server: Connection, step: Pause) -> _Ready | Outcome:
        shown = self.shown(step.job)
        pod = None if shown is None else _object(server, _pod_path(step.job))
        if shown is None or pod is None or meta(pod).get("uid") != shown.key.id:
            return Stale(found=f"{NAME} does not show the pod that was seen")
        job = _job_of(server, pod)
        if isinstance(job, str):
            return self._unfitting(shown, job)
        forbidden = self._parts.against(allowed_by(job), _kubectl(job))
        if forbidden is not None:
            return Stale(found=forbidden)
        if is_over(job) or meta(job).get("deletionTimestamp") or is_suspended(job):
            return Stale(found="its Job has ended, is being deleted, or is suspended already")
        if meta(pod).get("deletionTimestamp"):
            return Stale(found="it is ending already")
        unfit = _unfit(job, pod)
        of = job if unfit is not None else _queued(server, job)
        if unfit is not None or isinstance(of, str):
            return self._unfitting(shown, unfit or str(of))
        if is_suspended(of):
            return Stale(found="Kueue was told already not to run it")
        holder, path = shown.holder, _path(of)
        project = None if holder.project is None else ProjectName(holder.project)
        asked = Asked(
            job=step.job,
            verb="pause",
            run=run_of(shown.key.cluster, of),
            target=path,
            holder=Holder(user=holder.user, project=project, name=holder.name, kind=holder.kind),
            gpus=self._parts.gpus_of(step.job),
            began_ms=0,
            nonce=secrets.token_hex(8),
            part=shown.key.id,
        )
        return _Ready(asked=asked, patch=_change(of, asked.nonce, suspended=True))

    def _resume(self, server: Connection, step: Resume) -> _Ready | Outcome:
        hold = next((each for each in self._book.open() if each.holds and each.asked.job == step.job), None)
        if hold is None or hold.after is None:
            return Stale(found="Fallow does not hold it; `kubectl` lets go what somebody else suspended")
        of = _object(server, hold.asked.target)
        if of is None or meta(of).get("uid") != hold.asked.run.number:
            return Stale(found="it was deleted since")
        is_ours = part(meta(of), "annotations").get(INTENT) == hold.asked.nonce
        # Who let it go on and suspended it again changed its spec twice: that suspension isn't Fallow's.
        if not is_suspended(of) or not is_ours or run_of(hold.asked.run.cluster, of) != hold.after:
            return Stale(found="somebody changed it since Fallow suspended it: it is theirs to let go on")
        asked = Asked(
            job=step.job,
            verb="resume",
            run=hold.after,
            target=hold.asked.target,
            holder=hold.asked.holder,
            gpus=hold.asked.gpus,
            began_ms=0,
            nonce=secrets.token_hex(8),
            part=hold.asked.part,
        )
        return _Ready(asked=asked, patch=_change(of, asked.nonce, suspended=False))

    def _settle(self, act: ManagerAct, outcome: str) -> None:
        self._book.settle(act.intent, outcome)
        if act.asked.verb == "resume" and outcome == "done":
            for each in self._book.open():
                if each.holds and each.asked.job == act.asked.job:
                    self._book.over(each.intent, "released")

    def _unfitting(self, shown: ManagedJob, why: str) -> Outcome:
        self._note_unfit(shown.key.id, why)
        return Unsupported(why=why)

    def _note_unfit(self, pod: str, why: str) -> None:
        now_ms = self._clock.now_ms()
        fresh = {key: value for key, value in self._unfit.items() if now_ms - value[0] < UNFIT_MS}
        self._unfit = {**fresh, pod: (now_ms, why)}


def _change(of: Object, nonce: str, *, suspended: bool) -> Object:
    """The merge patch. Version and uid make it one of this very object as it was read, or of none."""
    version = {key: meta(of)[key] for key in ("uid", "resourceVersion")}
    spec = {"active": not suspended} if is_workload(of) else {"suspend": suspended}
    return {"metadata": {**version, "annotations": {INTENT: nonce}}, "spec": spec}


def _job_of(server: Connection, pod: Object) -> Object | str:
    """The Job that controls a pod, or why there is none."""
    owner = controller_of(pod)
    if (owner.get("apiVersion"), owner.get("kind")) != ("batch/v1", "Job"):
        kind = str(owner.get("kind") or "nothing")
        return f"it is no pod of a Job ({kind} controls it), and only a Job can be suspended"
    namespace = str(meta(pod).get("namespace", ""))
    job = _object(server, _named("/apis/batch/v1", namespace, "jobs", str(owner.get("name", ""))))
    if job is None or meta(job).get("uid") != owner.get("uid"):
        return "the Job that its pod names does not exist"
    return job


def _unfit(job: Object, pod: Object) -> str | None:
    """Why a Job could not be suspended for the sake of one pod."""
    owner, spec = controller_of(job), part(job, "spec")
    if owner:
        return f"its Job belongs to {owner.get('kind')} {owner.get('name')}, which decides over it"
    if spec.get("managedBy") not in (None, OWN_CONTROLLER):
        return f"its Job is run by {spec['managedBy']}"
    # A pod may name any Job of its namespace as its controller: one that the Job counts bears its labels.
    wanted = part(part(spec, "selector"), "matchLabels")
    labels = part(meta(pod), "labels")
    if not wanted or any(labels.get(key) != value for key, value in wanted.items()):
        return "its Job does not count it among its pods"
    active = part(job, "status").get("active")
    if parallelism(job) != 1 or active != 1:
        return "its Job runs other pods beside it, and a pause would end them all"
    return None


def _queued(server: Connection, job: Object) -> Object | str:
    """Kueue's workload of a Job, the Job itself where it has none, or why neither can be told."""
    versions = groups_of(server.get).get(WORKLOADS.group, frozenset())
    version = next((each for each in WORKLOADS.versions if each in versions), None)
    if version is None:
        is_plain = not versions and QUEUE_LABEL not in part(meta(job), "labels")
        return job if is_plain else "its Job is in a queue of Kueue's, and which can't be read"
    root = f"/apis/{WORKLOADS.group}/{version}"
    namespace = str(meta(job).get("namespace", ""))
    listed = list_of(server.get, _named(root, namespace, WORKLOADS.plural), WORKLOADS.plural) or ()
    own = [each for each in listed if controller_of(each).get("uid") == meta(job).get("uid")]
    if not own:
        is_plain = QUEUE_LABEL not in part(meta(job), "labels")
        return job if is_plain else "its Job is in a queue of Kueue's, which shows no workload of it"
    if len(own) > 1:
        return "Kueue has several workloads of its Job"
    return {"kind": "Workload", "apiVersion": f"{WORKLOADS.group}/{version}", **own[0]}


def _object(server: Connection, path: str) -> Object | None:
    """The object at a path; ``None``: there is none. Raises ``NoAnswer``."""
    answer = server.get(path)
    if answer.status in (404, 410):
        return None
    if answer.status != 200 or answer.body is None or not meta(answer.body).get("resourceVersion"):
        raise NoAnswer(f"{path} could not be read: HTTP {answer.status}{said(answer)}")
    return answer.body


def _path(of: Object) -> str:
    plural = WORKLOADS.plural if is_workload(of) else "jobs"
    root = f"/apis/{of.get('apiVersion')}" if is_workload(of) else "/apis/batch/v1"
    return _named(root, str(meta(of).get("namespace", "")), plural, str(meta(of).get("name", "")))


def _kubectl(job: Object) -> str:
    """How ``kubectl`` begins to annotate this Job."""
    return f"-n {meta(job).get('namespace')} annotate job {meta(job).get('name')}"


def _pod_path(job: JobId) -> str:
    namespace, _, name = job.partition(":")[2].partition("/")
    return _named("/api/v1", namespace, "pods", name)


def _named(root: str, namespace: str, plural: str, name: str | None = None) -> str:
    path = f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"
    return path if name is None else f"{path}/{quote(name, safe='')}"
