"""What nodes and jobs are called in the store once several clusters were seen: by their cluster as well.

A node is called so when another cluster has its name, in the column ``node`` of the table ``gpus``, the past
as well: it belongs to the GPU. A job that labels name is called so from the second cluster on; one that was
stored before goes on under the new id. A name that bears its cluster keeps it (``collector.clusters``).
"""

import logging
import re
from collections.abc import Collection, Container, Iterable
from dataclasses import replace

import duckdb
import pyarrow as pa

from collector.clusters import called, clusters_of_nodes, shared_of, suffix
from collector.model import Gpu, GpuUuid, NodeName
from collector.store.statements import statement

log = logging.getLogger(__name__)

_AGAIN = re.compile(r"([^@]*)(@\d{9,10})?")
"""A job's id, and the second that tells an id which came again from the first (``store.runs``)."""


def known_clusters(connection: duckdb.DuckDBPyConnection) -> dict[GpuUuid, str]:
    """The cluster of each GPU that was told to be in one."""
    return dict(connection.execute(statement("known_clusters")).fetchall())


def known_nodes(connection: duckdb.DuckDBPyConnection) -> frozenset[NodeName]:
    """What the nodes in the store are called."""
    return frozenset(NodeName(node) for (node,) in connection.execute(statement("known_nodes")).fetchall())


class NodeNames:
    """The names that nodes of several clusters have, or had, read once; for one writer."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        rows = connection.execute(statement("nodes_named_apart")).fetchall()
        self._shared = {NodeName(host) for (host,) in rows}
        self.several = len(set(known_clusters(connection).values())) > 1
        """Whether GPUs of more than one cluster are known."""

    @property
    def shared(self) -> frozenset[NodeName]:
        """The names that are given with a cluster."""
        return frozenset(self._shared)

    def of(self, gpu: Gpu) -> NodeName:
        """What the GPU's node is called."""
        return called(gpu, self._shared)

    def of_node(self, node: NodeName | None, cluster: str | None) -> NodeName | None:
        """What a node of a cluster is called."""
        return NodeName(f"{node}{suffix(cluster)}") if node in self._shared else node

    def told(self, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
        """The GPUs with their nodes as they are called."""
        return tuple(gpu if gpu.node not in self._shared else replace(gpu, node=self.of(gpu)) for gpu in gpus)

    def tell_apart(self, described: Iterable[Gpu], known: Collection[Gpu]) -> tuple[str, ...]:
        """Call nodes that are ``described`` by their cluster, where one of another cluster has the name.

        With a second cluster jobs are called so too: their ids of before.
        """
        names = {gpu.node for gpu in described if gpu.cluster is not None}
        if names - self._shared:
            self._tell_nodes_apart(names - self._shared, known)
        if not names or self.several or len({gpu.cluster for gpu in known} - {None}) < 2:
            return ()
        self.several = True
        return self._tell_jobs_apart()

    def _tell_nodes_apart(self, names: Container[NodeName], known: Iterable[Gpu]) -> None:
        for host, clusters in shared_of(clusters_of_nodes(gpu for gpu in known if gpu.node in names)).items():
            self._shared.add(host)
            log.warning(
                "clusters have a node of one name: it bears its cluster from now on, its past too",
                extra={"node": host, "clusters": sorted(clusters)},
            )
            for cluster in sorted(clusters):
                named = {"host": host, "cluster": cluster, "node": f"{host}{suffix(cluster)}"}
                self._connection.execute(statement("node_named_apart"), named)

    def _tell_jobs_apart(self) -> tuple[str, ...]:
        rows = self._connection.execute(statement("jobs_of_one_cluster")).fetchall()
        if not rows:
            return ()
        renamed = []
        for job, cluster in rows:
            own = _AGAIN.fullmatch(job)
            assert own is not None, "the statement gives ids without a cluster alone"
            end = suffix(cluster)
            renamed.append({"job": job, "to_job": f"{own[1]}{end}{own[2] or ''}", "ending": end})
        self._connection.register("renamed", pa.Table.from_pylist(renamed))
        self._connection.execute(statement("name_replies_apart"))
        self._connection.execute(statement("name_jobs_apart"))
        self._connection.unregister("renamed")
        log.warning(
            "a second cluster is there: jobs bear their cluster from now on, those that were stored too",
            extra={"jobs": len(renamed)},
        )
        return tuple(row["job"] for row in renamed)
