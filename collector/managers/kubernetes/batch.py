"""Jobs of Kubernetes' own kind (batch/v1): what their owners allow, and which are suspended. Pure.

An owner's word stands in the Job's own annotation ``fallow/allow``; who may write it there may suspend or
delete the Job as well. A word in the template of its pods counts for nothing: pods are made by other means
too. Sources: batch/v1 Job (suspend, parallelism, managedBy; conditions Complete and Failed; active and
terminating pods), metav1 OwnerReference.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from collector.managers.kubernetes.api import Object
from collector.managers.kubernetes.pods import asked_of, at_ms
from collector.managers.kubernetes.queues import PREFIX
from collector.managers.model import Ask, JobKey, JobState, ManagedJob, WaitCause
from collector.managers.owner_word import PROGRAM, OwnerWord, word_of
from collector.model import Holder, JobId

ALLOW = "fallow/allow"
"""The annotation of a Job with its owner's word: ``pause``. What the system writes itself bears a prefix."""
INTENT = "fallow/intent"
"""The annotation in which Fallow says by which of its intents the object was changed last."""


def with_words(
    jobs: Sequence[ManagedJob], pods: Iterable[Object], batch_jobs: Sequence[Object]
) -> tuple[ManagedJob, ...]:
    """The jobs, each pod of a Job with what that Job's annotation allows."""
    words = {str(meta(each).get("uid")): allowed_by(each) for each in batch_jobs}
    by_pod = {str(meta(pod).get("uid")): words.get(str(controller_of(pod).get("uid"))) for pod in pods}
    return tuple(replace(job, word=by_pod.get(job.key.id)) for job in jobs)


def suspended_jobs(
    batch_jobs: Iterable[Object], workloads: Iterable[Object], cluster: str
) -> tuple[ManagedJob, ...]:
    """Suspended Jobs that ask for GPUs, have no pod left, and are in no queue of Kueue's."""
    queued = {str(controller_of(each).get("uid")) for each in workloads}
    suspended = []
    for each in batch_jobs:
        of, spec = meta(each), part(each, "spec")
        gpus = asked_of(part(spec, "template")) * parallelism(each)
        namespace, name, uid = (str(of.get(key, "")) for key in ("namespace", "name", "uid"))
        if not is_at_rest(each) or is_over(each) or not gpus or not uid or uid in queued:
            continue
        suspended.append(
            ManagedJob(
                key=JobKey(cluster=cluster, id=uid, submitted_ms=at_ms(of.get("creationTimestamp")) or 0),
                holder=Holder(job=JobId(f"{PREFIX}{namespace}/{name}"), project=namespace or None, name=name),
                state=JobState.PENDING,
                ask=Ask(nodes=1, gpus=gpus),
                shown_id=f"{namespace}/{name}",
                state_name="Suspended",
                reason="it is suspended (spec.suspend)",
                cause=WaitCause.HELD,
            )
        )
    return tuple(suspended)


def allowed_by(job: Object) -> OwnerWord | None:
    """The owner's word in a Job's annotation; ``None`` where there is none."""
    said = part(meta(job), "annotations").get(ALLOW)
    return None if said is None else word_of(f"{PROGRAM}:{'_'.join(str(said).split()) or '_'}")


def is_at_rest(job: Object) -> bool:
    """Whether a Job is suspended and none of its pods is left."""
    status = part(job, "status")
    is_suspended = part(job, "spec").get("suspend") is True
    return is_suspended and not status.get("active") and not status.get("terminating")


def is_over(job: Object) -> bool:
    """Whether a Job, or a workload of Kueue, has ended."""
    conditions = part(job, "status").get("conditions")
    return any(
        isinstance(each, Mapping)
        and each.get("type") in ("Complete", "Failed", "Finished")
        and each.get("status") == "True"
        for each in (conditions if isinstance(conditions, list) else ())
    )


def parallelism(job: Object) -> int:
    """How many pods of a Job run at once; 1 where nothing is said."""
    said = part(job, "spec").get("parallelism")
    return said if isinstance(said, int) and not isinstance(said, bool) else 1


def controller_of(of: Object) -> Object:
    """The reference to what controls an object; an empty one where nothing does."""
    owners = meta(of).get("ownerReferences")
    listed = [each for each in owners if isinstance(each, Mapping)] if isinstance(owners, list) else []
    return next((each for each in listed if each.get("controller") is True), {})


def meta(of: Object) -> Object:
    """An object's metadata."""
    return part(of, "metadata")


def part(of: Object, name: str) -> Object:
    """The object of that name; an empty one where there is none."""
    value = of.get(name)
    return value if isinstance(value, Mapping) else {}
