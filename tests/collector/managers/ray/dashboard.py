"""A Ray dashboard's answers, as a real 2.60.0 gave them, and worlds made of them by a change.

Recorded on 27 November 2026 from ``ray start --head --num-gpus=4`` and a job ``train@2``, submitted with the
metadata ``user: ann``, whose driver (number 05000000) did this, by its own program: an actor with half a GPU;
a placement group of two bundles of a GPU, with an actor on the first; a task with a GPU. Then, while no GPU
was left: a group of two bundles of 4 GPUs, an actor of 2, an actor of 9, three tasks of 1. The actors and the
task said themselves which GPUs they had (``ray.get_gpu_ids()``): 0, 1 and 3.

The jobs ``train-1`` and ``entry-1`` before it were stopped. Host name and address are changed; what nothing
here reads is left out.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from collector.managers.ray.api import Answer

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "ray_2_60.json").read_text())
NODE = RECORDED["nodes"]["data"]["result"]["result"][0]["node_id"]
CLUSTER = RECORDED["cluster_id"]["data"]["clusterId"]
BEGAN_MS = RECORDED["nodes"]["data"]["result"]["result"][0]["start_time_ms"]
TOLD_MS = round(RECORDED["cluster_status"]["data"]["clusterStatus"]["time"] * 1000)
DRIVER = "05000000"
HALF, GROUPED, TASK = 28649, 28719, 28808
"""The pids of the actor with half a GPU, of the group's, and of the worker with the task."""

PATHS = {
    "/api/version": "version",
    "/api/v0/nodes": "nodes",
    "/api/v0/placement_groups": "placement_groups",
    "/api/v0/actors": "actors",
    "/api/v0/tasks": "tasks",
    "/api/jobs/": "jobs",
    "/api/cluster_status": "cluster_status",
    "/nodes": "summary",
    "/cluster_id": "cluster_id",
}


class Dashboard:
    """What is answered; ``change`` it, or put an ``Answer`` in the place of one."""

    def __init__(self) -> None:
        self.bodies: dict[str, Any] = deepcopy(RECORDED)
        self.instead: dict[str, Answer] = {}
        self.at_ms: int | None = TOLD_MS + 3_000

    def get(self, path: str) -> Answer:
        name = PATHS[path.partition("?")[0]]
        return self.instead.get(name) or Answer(status=200, body=self.bodies[name], at_ms=self.at_ms)

    def listed(self, name: str) -> list[dict[str, Any]]:
        """The entries of a list of the state API; what is taken out or added is counted."""
        entries: list[dict[str, Any]] = self.bodies[name]["data"]["result"]["result"]
        return entries

    def only(self, name: str, keep: Callable[[dict[str, Any]], bool]) -> None:
        result = self.bodies[name]["data"]["result"]
        result["result"] = [each for each in result["result"] if keep(each)]
        result["total"] = result["num_after_truncation"] = len(result["result"])

    def raylet(self, at: int = 0) -> dict[str, Any]:
        told: dict[str, Any] = self.bodies["summary"]["data"]["summary"][at]["raylet"]
        return told

    def worker(self, pid: int) -> dict[str, Any]:
        return next(each for each in self.raylet()["coreWorkersStats"] if each["pid"] == pid)

    def without_worker(self, pid: int) -> None:
        raylet = self.raylet()
        raylet["coreWorkersStats"] = [each for each in raylet["coreWorkersStats"] if each["pid"] != pid]

    def use(self, gpus: float) -> None:
        usage = self.bodies["cluster_status"]["data"]["clusterStatus"]["loadMetricsReport"]["usageByNode"]
        usage[NODE]["GPU"] = [gpus, 4.0]

    def second_node(self, host: str = "gpu-b", id_: str = "b" * 56) -> None:
        """A further node with 4 GPUs, none in use."""
        self.listed("nodes").append(
            self.listed("nodes")[0]
            | {"node_id": id_, "node_ip": "10.0.0.6", "node_name": "10.0.0.6", "is_head_node": False}
        )
        result = self.bodies["nodes"]["data"]["result"]
        result["total"] = result["num_after_truncation"] = len(result["result"])
        other = deepcopy(self.bodies["summary"]["data"]["summary"][0])
        other["raylet"] |= {"nodeId": id_, "nodeManagerHostname": host, "coreWorkersStats": []}
        self.bodies["summary"]["data"]["summary"].append(other)
        usage = self.bodies["cluster_status"]["data"]["clusterStatus"]["loadMetricsReport"]["usageByNode"]
        usage[id_] = {"GPU": [0.0, 4.0]}
