"""One look at a Ray cluster: who holds GPUs and who waits, believed only where all of it was told.

Nothing of Ray is imported: its dashboard tells over HTTP what is needed (docs/decisions/0154). The GCS is
asked first, because without it the dashboard goes on to tell what it knew of workers.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from collector.managers.model import Ask, JobKey, JobState, Look, ManagedJob
from collector.managers.ray import answers
from collector.managers.ray.api import (
    Account,
    Get,
    NoAnswer,
    asking,
    data_of,
    jobs_of,
    state_list,
    version_of,
)
from collector.managers.ray.holding import Held, grants_of, held_on, managed, on_hosts
from collector.managers.ray.naming import Named, names_of
from collector.managers.ray.waiting import waiting
from collector.model import NodeName, Unavailable

CLOCK_MS = 5_000
"""Between the head's clock and this machine's, at most, where both keep time."""
FORGET_MS = 3_600_000
"""What is not seen to wait for an hour begins anew when it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The cluster that answered last, and when."""

    cluster_id: str
    at_ms: int


class RayManager:
    """The cluster that a dashboard speaks for. ``user_key``: of jobs' metadata, whose word is believed."""

    name = "ray"
    tells_which = False

    def __init__(self, account: Account, *, user_key: str = "", get: Get | None = None) -> None:
        self._account, self._user_key, self._get = account, user_key, get
        self._known: Known | None = None
        self._waits: dict[str, tuple[int, int]] = {}

    def look(self, now_ms: int) -> Look | Unavailable:
        """Blocks for as long as the answers take."""
        try:
            if self._get is not None:
                return self._looked(self._get, now_ms)
            with contextmanager(asking)(self._account) as get:
                return self._looked(get, now_ms)
        except NoAnswer as failure:
            return Unavailable(source=self.name, at_ms=now_ms, reason=f"Ray: {failure}")

    def _looked(self, get: Get, now_ms: int) -> Look:
        version = version_of(get)
        try:
            return self._read(get, now_ms)
        except NoAnswer as failure:
            if version.startswith("2.60."):
                raise
            raise NoAnswer(f"{failure} (this is Ray {version}; 2.60 is what was tried)") from failure

    def _read(self, get: Get, now_ms: int) -> Look:
        listed = state_list(get, "nodes", "ALIVE")
        groups = answers.groups_of(state_list(get, "placement_groups", "REMOVED", is_other=True))
        actors = state_list(get, "actors", "DEAD", is_other=True)
        tasks = state_list(get, "tasks", "PENDING_NODE_ASSIGNMENT")
        jobs = jobs_of(get)
        status, at_ms = data_of(get, "/api/cluster_status", "what is in use")
        summary, _ = data_of(get, "/nodes?view=summary&nocache=1", "its workers")
        cluster_id = _cluster_id(get)
        nodes = answers.nodes_of(listed, summary, answers.used_of(status, at_ms, summary))
        self._must_be_the_same(cluster_id, nodes, now_ms)
        names = names_of(cluster_id, answers.jobs_listed(jobs, nodes), self._user_key)
        supervised = answers.supervised(actors)
        held = {
            node.id: held_on(node, groups, names, supervised) for node in nodes if node.gpus or node.workers
        }
        cluster = urlsplit(self._account.url).netloc or "ray"
        started_ms = min((node.started_ms for node in nodes if node.is_head), default=0)
        waits = waiting(
            groups,
            answers.demands_of(actors, tasks),
            names,
            max((node.gpus for node in nodes), default=0),
            lambda key: self._since(key, now_ms),
            cluster=cluster,
        )
        look = Look(
            cluster=cluster,
            at_ms=now_ms,
            jobs=(*_holding(nodes, held, cluster, names.cluster, started_ms), *waits),
            nodes=on_hosts(managed(node, held[node.id]) for node in nodes if node.gpus),
        )
        self._known = Known(cluster_id=cluster_id, at_ms=now_ms)
        self._waits = {key: seen for key, seen in self._waits.items() if now_ms - seen[1] < FORGET_MS}
        return look

    def _must_be_the_same(self, cluster_id: str, nodes: tuple[answers.RayNode, ...], now_ms: int) -> None:
        """A head that began after the last look has replaced the cluster; an older one is another's."""
        known = self._known
        if known is None or known.cluster_id == cluster_id:
            return
        began_ms = min((node.started_ms for node in nodes if node.is_head), default=0)
        if began_ms < known.at_ms - CLOCK_MS:
            raise NoAnswer(
                f"another cluster ({cluster_id[:8]}) answers at {self._account.url} than before "
                f"({known.cluster_id[:8]}), and it began before the last look at that one. If that is meant, "
                "restart the service"
            )

    def _since(self, key: str, now_ms: int) -> int:
        first_ms = self._waits.get(key, (now_ms, now_ms))[0]
        self._waits[key] = (first_ms, now_ms)
        return first_ms


def _cluster_id(get: Get) -> str:
    data, _ = data_of(get, "/cluster_id", "its id")
    id_ = data.get("clusterId")
    if not isinstance(id_, str) or len(id_) < 8 or not all(each in "0123456789abcdef" for each in id_):
        raise NoAnswer("the dashboard doesn't tell its cluster's id as Ray 2.60 does")
    return id_


def _holding(
    nodes: tuple[answers.RayNode, ...],
    held: dict[str, tuple[Held, ...]],
    cluster: str,
    id_: str,
    started_ms: int,
) -> tuple[ManagedJob, ...]:
    """The jobs that hold GPUs, each with what it has on all nodes."""
    by_job: dict[str, tuple[Named, list[tuple[answers.RayNode, Held]]]] = {}
    for node in nodes:
        for each in held.get(node.id, ()):
            by_job.setdefault(each.job.key, (each.job, []))[1].append((node, each))
    jobs = []
    for job, own in by_job.values():
        given = (grant for node, each in own for grant in grants_of(node, (each,)))
        grants = tuple(sorted(given, key=lambda grant: (grant.node, grant.indices)))
        jobs.append(
            ManagedJob(
                key=JobKey(cluster=cluster, id=f"{id_}{job.key}", submitted_ms=job.began_ms or started_ms),
                holder=job.holder,
                state=JobState.RUNNING,
                ask=Ask(nodes=len({node.id for node, _ in own}), gpus=sum(grant.gpus for grant in grants)),
                shown_id=job.shown_id,
                state_name="running",
                nodes=tuple(sorted({NodeName(node.host) for node, _ in own})),
                given=grants,
                started_ms=job.began_ms,
            )
        )
    return tuple(jobs)
