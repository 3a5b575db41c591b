"""What a Ray dashboard tells, as values: nodes, workers with GPUs, placement groups, actors, tasks, jobs.

A worker's GPUs are those that its raylet has leased to it: slots, counted from 0 on its node, and of each a
part. The dashboard asks each raylet every 15 s. What is in use on a node comes from the autoscaler's process,
which asks the GCS every 5 s, or, with the autoscaler's second version, from the GCS, as text; it is what
proves that a node's workers are all there. Pure.

Sources: ``ray.util.state.common`` (NodeState, PlacementGroupState, ActorState, TaskState), GetNodeStatsReply
in node_manager.proto, JobDetails of the Jobs API; Ray 2.60.0.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from collector.managers.ray.api import NoAnswer, Object, number, part, parts, text

GPU = "GPU"
_GROUP = re.compile(r"gpugroup([0-9a-f]{36})")
"""``GPU_group_ID``, what is used of a placement group, as the dashboard writes names of resources (in camel
case); that of one bundle has the bundle's number before the id, and says the same once more."""
_HEX = re.compile(r"[0-9a-f]{8,64}")
NOBODY = re.compile(r"f+")
"""An actor's id that means none."""
SUPERVISOR = "_ray_internal_job_actor_"
"""What the actor is called that starts a submission's entry point and has its ``entrypoint_num_gpus``."""
SUPERVISOR_NAMESPACE = "SUPERVISOR_ACTOR_RAY_NAMESPACE"
OLD_MS = 60_000
"""The autoscaler's process writes every 5 s; after a minute it is taken for away."""
_IN_USE = re.compile(
    r"(?P<used>\S+)/\S+ GPU(?: \((?P<within>\S+) used of (?P<reserved>\S+) reserved in placement groups\))?"
)
"""A node's line of GPUs where the autoscaler's second version runs: of placement groups it counts what is
used (``parse_usage`` in ``ray.autoscaler._private.util``)."""
MOST_SLOTS = 128
"""GPUs of one node; a larger slot is no GPU's."""

Slots = tuple[tuple[int, float], ...]
"""Which GPUs of a node by Ray's count, and what part of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process of Ray's, whose job it works for, and its GPUs: its own, and those of placement groups."""

    pid: int
    job: str
    actor: str
    slots: Slots
    of_groups: Mapping[str, Slots]


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A node that is alive. ``used``: GPUs in use by Ray's own count; ``workers`` is ``None``: not told.

    ``is_alone``: no other of Ray's nodes is on a host of that name.
    """

    id: str
    host: str
    address: str
    gpus: int
    used: float | None
    is_head: bool
    is_draining: bool
    started_ms: int
    gpu_type: str
    workers: tuple[Worker, ...] | None
    is_alone: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A placement group that is there or waits. ``bundles``: the node (empty: none yet) and GPUs of each."""

    id: str
    name: str
    job: str
    state: str
    scheduling: str
    asked_ms: int
    bundles: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """An actor or a task that waits for GPUs outside of placement groups; ``since_ms``: if it is told."""

    job: str
    actor: str
    gpus: float
    state: str
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RayJob:
    """A driver, or what was submitted (``submission``), which has a driver once it has begun with Ray."""

    driver: str
    submission: str
    status: str
    began_ms: int | None
    entrypoint: str
    metadata: Mapping[str, str]


def nodes_of(listed: Iterable[Object], summary: Object, used: Mapping[str, float]) -> tuple[RayNode, ...]:
    """The nodes that are alive by the GCS, with what their raylets and the autoscaler tell of them."""
    told: dict[str, Object] = {}
    for each in parts(summary, "summary"):
        told[str(part(each, "raylet").get("nodeId"))] = each
    nodes = []
    for entry in listed:
        id_ = _id(entry.get("node_id"), "a node")
        total = number(part(entry, "resources_total").get(GPU)) or 0.0
        raylet = part(told.get(id_, {}), "raylet")
        stats = raylet.get("coreWorkersStats")
        nodes.append(
            RayNode(
                id=id_,
                host=text(raylet.get("nodeManagerHostname")) or text(entry.get("node_name")),
                address=text(entry.get("node_ip")),
                gpus=int(total),
                used=used.get(id_),
                is_head=entry.get("is_head_node") is True,
                is_draining=part(raylet, "stateSnapshot").get("state") == "DRAINING",
                started_ms=int(number(entry.get("start_time_ms")) or 0),
                gpu_type=text(part(entry, "labels").get("ray.io/accelerator-type")),
                workers=tuple(map(_worker, parts(raylet, "coreWorkersStats")))
                if isinstance(stats, list)
                else None,
            )
        )
    hosts = Counter(node.host for node in nodes)
    return tuple(replace(node, is_alone=hosts[node.host] == 1) for node in nodes)


def used_of(status: Object, at_ms: int | None, summary: Object) -> dict[str, float]:
    """GPUs in use by node; empty where the autoscaler's process doesn't say, or hasn't for a minute."""
    if status.get("clusterStatus") is None:
        return _used_by_text(part(summary, "nodeLogicalResources"))
    cluster = part(status, "clusterStatus")
    told_s = number(cluster.get("time"))
    if at_ms is None or told_s is None or at_ms - told_s * 1000 > OLD_MS:
        return {}
    usage = part(part(cluster, "loadMetricsReport"), "usageByNode")
    counts = {}
    for node, resources in usage.items():
        if isinstance(resources, Mapping):
            pair = resources.get(GPU, [0.0])
            count = number(pair[0]) if isinstance(pair, list) and pair else None
            if count is not None:
                counts[str(node)] = count
    return counts


def _used_by_text(nodes: Object) -> dict[str, float]:
    """The same where no autoscaler of the first version ever ran: the GCS was asked for this answer."""
    counts = {}
    for node, lines in nodes.items():
        for line in str(lines).split("\n"):
            if match := _IN_USE.fullmatch(line):
                try:
                    used, within, reserved = (
                        float(match[each] or 0) for each in ("used", "within", "reserved")
                    )
                except ValueError:
                    continue
                counts[str(node)] = used - within + reserved
    return counts


def groups_of(listed: Iterable[Object]) -> tuple[Group, ...]:
    """The placement groups that have GPUs or want them."""
    groups = []
    for entry in listed:
        bundles = tuple(
            (str(bundle.get("node_id") or ""), gpus)
            for bundle in parts(entry, "bundles")
            if (gpus := number(part(bundle, "unit_resources").get(GPU)))
        )
        if bundles:
            stats = part(entry, "stats")
            groups.append(
                Group(
                    id=_id(entry.get("placement_group_id"), "a placement group"),
                    name=text(entry.get("name")),
                    job=_id(entry.get("creator_job_id"), "a placement group's job"),
                    state=text(entry.get("state")),
                    scheduling=text(stats.get("scheduling_state")),
                    asked_ms=_count(stats.get("creation_request_received_ns")) // 1_000_000,
                    bundles=bundles,
                )
            )
    return tuple(groups)


def demands_of(actors: Iterable[Object], tasks: Iterable[Object]) -> tuple[Demand, ...]:
    """The actors and tasks that wait for GPUs; those of a placement group wait for the group's."""
    listed = tuple(tasks)
    since = {
        str(task.get("actor_id")): int(number(task.get("creation_time_ms")) or 0)
        for task in listed
        if task.get("type") == "ACTOR_CREATION_TASK"
    }
    demands = []
    for actor in actors:
        gpus = number(part(actor, "required_resources").get(GPU))
        state, id_ = text(actor.get("state")), str(actor.get("actor_id"))
        if gpus and state in ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING"):
            job = _id(actor.get("job_id"), "an actor's job")
            demands.append(
                Demand(job=job, actor=id_, gpus=gpus, state=state, since_ms=since.get(id_) or None)
            )
    for task in listed:
        gpus = number(part(task, "required_resources").get(GPU))
        if gpus and task.get("type") == "NORMAL_TASK":
            demands.append(
                Demand(
                    job=_id(task.get("job_id"), "a task's job"),
                    actor="",
                    gpus=gpus,
                    state=text(task.get("state")),
                    since_ms=int(number(task.get("creation_time_ms")) or 0) or None,
                )
            )
    return tuple(demands)


def supervised(actors: Iterable[Object]) -> dict[str, str]:
    """By the id of an actor that starts an entry point the submission that it starts."""
    return {
        str(actor.get("actor_id")): name.removeprefix(SUPERVISOR)
        for actor in actors
        if (name := _word(actor.get("name"))).startswith(SUPERVISOR)
        and actor.get("ray_namespace") == SUPERVISOR_NAMESPACE
    }


def jobs_listed(listed: Iterable[Object], nodes: Iterable[RayNode]) -> tuple[RayJob, ...]:
    """The jobs. A driver is a submission's by its own word: one on another node than the submission isn't."""
    addresses = {node.id: node.address for node in nodes}
    jobs = []
    for entry in listed:
        driver = text(entry.get("job_id"))
        submission = _word(entry.get("submission_id"))
        where = addresses.get(str(entry.get("driver_node_id")))
        is_elsewhere = submission and part(entry, "driver_info").get("node_ip_address") != where
        jobs.append(
            RayJob(
                driver="" if is_elsewhere else driver,
                submission=submission,
                status=text(entry.get("status")),
                began_ms=int(number(entry.get("start_time")) or 0) or None,
                entrypoint=text(entry.get("entrypoint")),
                metadata={str(key): text(value) for key, value in part(entry, "metadata").items()},
            )
        )
    return tuple(jobs)


def _worker(stats: Object) -> Worker:
    used = part(stats, "usedResources")
    of_groups = {}
    for name in used:
        if match := _GROUP.fullmatch(name.lower()):
            of_groups[match[1]] = _slots(part(used, name))
    actor = str(stats.get("actorId", ""))
    return Worker(
        pid=_count(stats.get("pid")),
        job=str(stats.get("jobId", "")),
        actor="" if NOBODY.fullmatch(actor) else actor,
        slots=_slots(part(used, GPU)),
        of_groups=of_groups,
    )


def _slots(resource: Object) -> Slots:
    """Raises ``NoAnswer`` where what was given of it isn't told slot by slot."""
    slots = []
    for each in parts(resource, "resourceSlots"):
        slot, share = _count(each.get("slot", "0")), number(each.get("allocation"))
        if share is None or slot >= MOST_SLOTS or share > 1:
            raise NoAnswer("the GPUs of a worker are not told as Ray 2.60 does")
        if share:
            slots.append((slot, share))
    return tuple(slots)


def _word(value: object) -> str:
    """A name as it is, by which others are told apart."""
    return value if isinstance(value, str) else ""


def _id(value: object, what: str) -> str:
    if isinstance(value, str) and _HEX.fullmatch(value):
        return value
    raise NoAnswer(f"the id of {what} is none that Ray 2.60 gives")


def _count(value: object) -> int:
    """A whole number, which Ray's JSON writes as text where it may be large."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else 0
