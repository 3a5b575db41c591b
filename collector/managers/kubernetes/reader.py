"""One look at a Kubernetes cluster: who was given GPUs and who waits, believed only where lists are whole.

Pods and nodes have to be listed; claims and slices, Kueue's workloads and KAI's pod groups where the cluster
says that it has their group: of one that it doesn't have, a list is refused like one that may not be read. A
list that is forbidden or cut off makes the whole look Unavailable, and what was known holds on: without
claims a pod could look as if it held nothing. Never "nobody holds anything".
"""

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from collector.managers.kubernetes.api import Account, Get, NoAnswer, Object, connected, groups_of, list_of
from collector.managers.kubernetes.batch import suspended_jobs, with_words
from collector.managers.kubernetes.devices import claims_of
from collector.managers.kubernetes.pods import jobs_of, nodes_of
from collector.managers.kubernetes.queues import waiting_workloads, with_reasons
from collector.managers.model import Look
from collector.model import Unavailable

CLUSTER = "kubernetes"
"""What its cluster is called: an API server knows no name of its own."""
PODS, NODES, BATCH = "/api/v1/pods", "/api/v1/nodes", "/apis/batch/v1/jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of a group that a cluster may have; the newest version of ours that it serves is read."""

    group: str
    versions: tuple[str, ...]
    plural: str


CLAIMS = Kind(group="resource.k8s.io", versions=("v1", "v1beta2", "v1beta1"), plural="resourceclaims")
SLICES = Kind(group="resource.k8s.io", versions=("v1", "v1beta2", "v1beta1"), plural="resourceslices")
WORKLOADS = Kind(group="kueue.x-k8s.io", versions=("v1beta2", "v1beta1"), plural="workloads")
GROUPS = Kind(group="scheduling.run.ai", versions=("v2alpha2",), plural="podgroups")


class KubernetesManager:
    """The cluster that an API server speaks for. ``jobs``: its Jobs are read too, because some are paused."""

    name = "kubernetes"
    tells_which = False

    def __init__(
        self,
        account: Callable[[], Account],
        cluster: str = CLUSTER,
        *,
        get: Get | None = None,
        jobs: bool = False,
    ) -> None:
        self._account, self._cluster, self._get, self._jobs = account, cluster, get, jobs

    def look(self, now_ms: int) -> Look | Unavailable:
        """Blocks for as long as the lists take."""
        try:
            if self._get is not None:
                return self._looked(self._get, now_ms)
            with contextmanager(connected)(self._account()) as connection:
                return self._looked(connection.get, now_ms)
        except NoAnswer as failure:
            return Unavailable(source=self.name, at_ms=now_ms, reason=str(failure))

    def _looked(self, get: Get, now_ms: int) -> Look:
        pods, nodes = _must(get, PODS, "pods"), _must(get, NODES, "nodes")
        batch_jobs = _must(get, BATCH, "jobs") if self._jobs else ()
        served = groups_of(get)
        claims = claims_of(_of(get, served, CLAIMS), _of(get, served, SLICES))
        workloads, groups = _of(get, served, WORKLOADS), _of(get, served, GROUPS)
        jobs = with_reasons(jobs_of(pods, claims, self._cluster), pods, workloads, groups)
        jobs = with_words(jobs, pods, batch_jobs)
        waiting = waiting_workloads(workloads, self._cluster)
        return Look(
            cluster=self._cluster,
            at_ms=now_ms,
            jobs=(*jobs, *waiting, *suspended_jobs(batch_jobs, workloads, self._cluster)),
            nodes=nodes_of(nodes, jobs, claims),
        )


def _must(get: Get, path: str, kind: str) -> tuple[Object, ...]:
    found = list_of(get, path, kind)
    if found is None:
        raise NoAnswer(f"what answers there knows no {kind}: it is no Kubernetes API server")
    return found


def _of(get: Get, served: Mapping[str, frozenset[str]], kind: Kind) -> tuple[Object, ...]:
    """The list of a kind; empty where the cluster has none of it. Raises ``NoAnswer``."""
    there = served.get(kind.group, frozenset())
    version = next((each for each in kind.versions if each in there), None)
    if version is None:
        if there:
            versions = ", ".join(kind.versions)
            raise NoAnswer(
                f"the cluster serves {kind.group} as {', '.join(sorted(there))}, and this version of Fallow "
                f"reads {versions}"
            )
        return ()
    return list_of(get, f"/apis/{kind.group}/{version}/{kind.plural}", kind.plural) or ()
