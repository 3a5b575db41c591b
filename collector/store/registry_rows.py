"""Rows of the tables that say who is who: from GPUs, holders and processes of ``collector.model``, and back.

No statement is run here: that is the registry's.
"""

from dataclasses import fields, replace

import pyarrow as pa

from collector.arrow import fitting
from collector.model import Gpu, Holder, NodeName, Process, ProcessKey

GPU_FIELDS = tuple(column.name for column in fields(Gpu))
HOLDER_FIELDS = tuple(column.name for column in fields(Holder))
GPU_ARROW = pa.schema(
    [
        ("uuid", pa.string()),
        ("node", pa.string()),
        ("index", pa.int32()),
        ("model", pa.string()),
        ("memory_total_bytes", pa.int64()),
        ("driver_version", pa.string()),
        ("power_limit_mw", pa.int32()),
        ("parent_uuid", pa.string()),
        ("mig_profile", pa.string()),
        ("share_of_device", pa.float64()),
        ("persistence_mode", pa.bool_()),
        ("gpu_instance", pa.int32()),
        ("compute_instance", pa.int32()),
        ("cluster", pa.string()),
        ("host", pa.string()),
        ("source", pa.string()),
        ("from_ms", pa.int64()),
    ]
)
HOLDER_ARROW = pa.schema([*((name, pa.string()) for name in HOLDER_FIELDS), ("at_ms", pa.int64())])
PROCESS_ARROW = pa.schema(
    [
        ("node", pa.string()),
        ("pid", pa.int32()),
        ("started_ms", pa.int64()),
        ("user_name", pa.string()),
        ("uid", pa.int64()),
        ("process_name", pa.string()),
        ("command", pa.string()),
        ("frameworks", pa.list_(pa.string())),
        ("container", pa.string()),
        ("pod", pa.string()),
        ("pod_namespace", pa.string()),
        ("slurm_job", pa.string()),
        ("notebook", pa.string()),
        ("parent_pid", pa.int32()),
        ("environment_keys", pa.list_(pa.string())),
        ("environment_values", pa.list_(pa.string())),
        ("unreadable", pa.list_(pa.string())),
        ("listens", pa.list_(pa.int32())),
        ("at_ms", pa.int64()),
    ]
)


def storable(gpu: Gpu) -> Gpu:
    """The GPU without the numbers that no column holds."""
    said = {name: getattr(gpu, name) for name in GPU_FIELDS}
    held = {name: fitting((said[name],), GPU_ARROW.field(name).type)[0] for name in GPU_FIELDS}
    return gpu if held == said else replace(gpu, **held)


def gpu_row(gpu: Gpu, node: NodeName) -> dict[str, object]:
    """A GPU as parameters of a statement; ``node`` is what its node is called here."""
    named = {"node": node, "host": None if node == gpu.node else gpu.node}
    return {name: getattr(gpu, name) for name in GPU_FIELDS} | named


def holder_row(holder: Holder) -> dict[str, object]:
    """A holder as parameters of a statement."""
    return {name: getattr(holder, name) for name in HOLDER_FIELDS}


def process_row(process: Process) -> dict[str, object]:
    """A process as parameters of a statement."""
    return {
        "node": process.key.node,
        "pid": process.key.pid,
        "started_ms": process.key.started_ms,
        "user_name": process.user,
        "uid": process.uid,
        "process_name": process.name,
        "command": process.command,
        "frameworks": list(process.frameworks),
        "container": process.container,
        "pod": process.pod,
        "pod_namespace": process.namespace,
        "slurm_job": process.slurm_job,
        "notebook": process.notebook,
        "parent_pid": process.parent_pid,
        "environment_keys": [key for key, _ in process.environment],
        "environment_values": [value for _, value in process.environment],
        "unreadable": list(process.unreadable),
        "listens": None if process.listens is None else list(process.listens),
    }


def process_from(row: tuple[object, ...]) -> Process:
    """The process of a row of ``known_processes``."""
    _, node, pid, started_ms, user, uid, name, command, frameworks, *rest = row
    container, pod, namespace, slurm_job, notebook, parent_pid, environment, unreadable, listens = rest
    return Process(
        key=ProcessKey(node=node, pid=pid, started_ms=started_ms),  # type: ignore[arg-type]
        user=user,  # type: ignore[arg-type]
        uid=uid,  # type: ignore[arg-type]
        name=name,  # type: ignore[arg-type]
        command=command,  # type: ignore[arg-type]
        frameworks=tuple(frameworks or ()),  # type: ignore[arg-type]
        container=container,  # type: ignore[arg-type]
        pod=pod,  # type: ignore[arg-type]
        namespace=namespace,  # type: ignore[arg-type]
        slurm_job=slurm_job,  # type: ignore[arg-type]
        notebook=notebook,  # type: ignore[arg-type]
        parent_pid=parent_pid,  # type: ignore[arg-type]
        environment=tuple((environment or {}).items()),  # type: ignore[attr-defined]
        unreadable=tuple(unreadable or ()),  # type: ignore[arg-type]
        listens=None if listens is None else tuple(listens),  # type: ignore[arg-type]
    )
