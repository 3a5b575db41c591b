"""What a look at an object of Kubernetes says of what was asked about it. Pure.

What the API server answered to a change is not believed: whoever answered may have been cut off, and others
change the same object. What counts is the object as it is read, with the nonce of the intent in it, and
that the pod which held the GPUs is gone.
"""

from advisor.engines.slurm_outcomes import Observation, OutcomeSeen
from advisor.jobs.manager_acts import ManagedRun, ManagerAct
from collector.managers.kubernetes.api import Object
from collector.managers.kubernetes.batch import INTENT, is_at_rest, is_over, meta, part
from collector.managers.kubernetes.pods import at_ms

UNHEARD_MS = 60_000
"""How long a change without a clear answer may still come: kube-apiserver works at most this long on a
request (``--request-timeout``, 1 min by default)."""
QUOTA = "QuotaReserved"


def run_of(cluster: str, of: Object) -> ManagedRun:
    """What tells the object from every other of its name; ``restarts`` counts the changes of its spec."""
    generation = meta(of).get("generation")
    return ManagedRun(
        cluster=cluster,
        number=str(meta(of).get("uid", "")),
        user=None,
        name=str(meta(of).get("name", "")),
        submitted_ms=at_ms(meta(of).get("creationTimestamp")) or 0,
        restarts=generation if isinstance(generation, int) else 0,
    )


def is_suspended(of: Object) -> bool:
    """Whether a Job is suspended, or a workload of Kueue is not to run."""
    spec = part(of, "spec")
    return spec.get("active") is False if is_workload(of) else spec.get("suspend") is True


def is_workload(of: Object) -> bool:
    """Whether it is a workload of Kueue, and not a Job."""
    return of.get("kind") == "Workload"


def has_pods(of: Object) -> bool:
    """Whether a suspended object's pods are not all gone, by its own status."""
    if not is_workload(of):
        return not is_at_rest(of)
    conditions = part(of, "status").get("conditions")
    return any(
        isinstance(each, dict) and each.get("type") == QUOTA and each.get("status") == "True"
        for each in (conditions if isinstance(conditions, list) else ())
    )


def observation(act: ManagerAct, of: Object | None, *, pod_is_there: bool, now_ms: int) -> Observation:
    """What came of ``act``, as its object is now; ``None``: there is none of that name."""
    if of is None or str(meta(of).get("uid", "")) != act.asked.run.number:
        return _failed("it was deleted since")
    if part(meta(of), "annotations").get(INTENT) != act.asked.nonce:
        if now_ms - act.begun_ms <= UNHEARD_MS:
            return _waits("Kubernetes doesn't show it yet")
        return _failed("Kubernetes never showed it: it stands as before, or somebody else changed it since")
    if act.asked.verb == "resume":
        if is_suspended(of):
            return _failed("somebody suspended it again")
        found = "it is let go, and Kubernetes starts it when there is room"
        return Observation(outcome=OutcomeSeen.DONE, found=found)
    if is_over(of):
        return _failed("it ended, and nothing is held")
    if not is_suspended(of):
        return _failed("somebody let it go on at once")
    if pod_is_there or has_pods(of):
        return _waits("it is suspended, and its pod is ending")
    return Observation(outcome=OutcomeSeen.DONE, found="it is suspended, and its pod is gone")


def _failed(reason: str) -> Observation:
    return Observation(outcome=OutcomeSeen.FAILED, found=reason)


def _waits(reason: str) -> Observation:
    return Observation(outcome=OutcomeSeen.WAITS, found=reason)
