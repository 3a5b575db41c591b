"""What nodes are called in the store: by their cluster too, once another cluster was seen to have the name.

All that stands in the column ``node`` of the table ``gpus`` is called so, the past as well: it belongs to the
GPU. A name that bears its cluster keeps it, whoever is seen later (``collector.clusters``).
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

import duckdb

from collector.clusters import called, clusters_of_nodes, shared_of, suffix
from collector.model import Gpu, GpuUuid, NodeName
from collector.store.statements import statement

log = logging.getLogger(__name__)


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

    def tell_apart(self, described: Iterable[Gpu], known: Iterable[Gpu]) -> None:
        """Call nodes that are ``described`` by their cluster, where one of another cluster has the name."""
        names = {gpu.node for gpu in described if gpu.cluster is not None} - self._shared
        if not names:
            return
        for host, clusters in shared_of(clusters_of_nodes(gpu for gpu in known if gpu.node in names)).items():
            self._shared.add(host)
            log.warning(
                "clusters have a node of one name: it bears its cluster from now on, its past too",
                extra={"node": host, "clusters": sorted(clusters)},
            )
            for cluster in sorted(clusters):
                named = {"host": host, "cluster": cluster, "node": f"{host}{suffix(cluster)}"}
                self._connection.execute(statement("node_named_apart"), named)
