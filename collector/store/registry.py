"""Who is who: the ids of GPUs, holders and processes, and what the store already knows of each.

The store's memory of its own dimension tables. It writes a row when something is new or has changed, so a
tick in which nothing changed costs look-ups only. After a rollback it must be thrown away and made anew.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from collector.batch import fitting
from collector.model import Gpu, Holder, JobId, Process, ProcessKey
from collector.store.columns import distinct_uuids
from collector.store.latest import Times, grown
from collector.store.statements import statement

UNKNOWN_NODE = "unknown"
FORGET_MS = 3_600_000
"""Holders and processes that nobody named for so long, or twice that, are forgotten; the file knows them."""
_T = TypeVar("_T", Gpu, Holder, Process)
_K = TypeVar("_K")
_V = TypeVar("_V")


class Registry:
    """Ids by natural key. GPUs are all in memory, holders and processes for as long as they come up.

    What is remembered is in two halves: what was named since the last turn, and what was named before it.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.gpu_ids: dict[str, int] = {}
        self._gpus: dict[str, Gpu] = {}
        self._described: dict[str, tuple[Gpu, ...]] = {}
        self._row_ids: dict[str, tuple[pa.ChunkedArray, pa.Array]] = {}
        self._holders: dict[str, tuple[int, Holder]] = {}
        self._processes: dict[ProcessKey, tuple[int, Process]] = {}
        self._older_holders: dict[str, tuple[int, Holder]] = {}
        self._older_processes: dict[ProcessKey, tuple[int, Process]] = {}
        self._turned_ms = 0
        self.installed_ms: Times = np.zeros(0, dtype=np.int64)
        """Since when each GPU counts as installed, UTC ms, by its id."""
        known = connection.execute(statement("known_gpus")).fetchall()
        for gpu_id, _, *said in known:
            gpu = Gpu(**dict(zip(_GPU_FIELDS, said, strict=True)))
            self.gpu_ids[gpu.uuid] = gpu_id
            self._gpus[gpu.uuid] = gpu
        self._note_installed({gpu_id: installed_ms for gpu_id, installed_ms, *_ in known})

    @property
    def gpus(self) -> Iterable[Gpu]:
        """Every GPU that the store has, those that are gone too."""
        return self._gpus.values()

    def register_gpus(self, gpus: Iterable[Gpu], source: str, installed_from_ms: int) -> None:
        """Add the unknown ones and write down what changed; what is None now keeps its old value.

        A source describes the same GPUs tick after tick: what all of them said is kept while nothing changes.
        """
        described = tuple(gpus)
        if self._described.get(source) == described:
            return
        if self._note_gpus(described, source, installed_from_ms):
            self._described.clear()
        self._described[source] = described

    def _note_gpus(self, gpus: Iterable[Gpu], source: str, installed_from_ms: int) -> bool:
        """The same, one by one; whether anything was learnt."""
        fresh: dict[str, Gpu] = {}
        changed = False
        for gpu in gpus:
            old = self._gpus.get(gpu.uuid)
            if old is gpu or old == gpu:
                continue
            storable = _storable(gpu)
            if old is None:
                fresh[gpu.uuid] = storable
                continue
            merged = _merged(old, storable)
            if merged != old:
                self._connection.execute(statement("update_gpu"), _gpu_row(merged))
                changed = True
            self._gpus[gpu.uuid] = merged
        if fresh:
            self._add_gpus(fresh, source, installed_from_ms)
        return changed or bool(fresh)

    def register_uuids(self, uuids: Iterable[str], source: str, installed_from_ms: int) -> None:
        """Make sure that every UUID has an id, even where nobody described the GPU."""
        missing = set(uuids) - self.gpu_ids.keys()
        if missing:
            bare = {uuid: Gpu(uuid=uuid, node=UNKNOWN_NODE) for uuid in sorted(missing)}  # type: ignore[arg-type]
            self._add_gpus(bare, source, installed_from_ms)

    def install_earlier(self, rows: pa.Table) -> None:
        """A GPU was there from the start of its first sample on, and one of these samples may be it.

        It may be wider than the tick that brings it, or come with a later one.
        """
        incoming = rows.to_reader()  # noqa: F841  DuckDB finds it by its name
        self._note_installed(dict(self._connection.execute(statement("install_earlier")).fetchall()))

    def row_ids(self, samples: pa.Table, source: str, installed_from_ms: int) -> pa.Array:
        """The GPU id of every row of a table of samples, UUIDs never heard of included.

        A source names the same GPUs in the same order tick after tick, so its last answer is kept.
        """
        said = self._row_ids.get(source)
        if said is not None and said[0].equals(samples["uuid"]):
            return said[1]
        uuids, which = distinct_uuids(samples)
        self.register_uuids(uuids, source, installed_from_ms)
        ids = np.fromiter(map(self.gpu_ids.__getitem__, uuids), dtype=np.int32, count=len(uuids))
        rows = pa.array(ids[which.to_numpy(zero_copy_only=False)])
        self._row_ids[source] = (samples["uuid"], rows)
        return rows

    def holder_ids(self, holders: Iterable[Holder], at_ms: int) -> dict[str, int]:
        """The id of each holder's job; unknown holders are added, and what was learnt is written down."""
        self._turn(at_ms)
        wanted = {holder.job: holder for holder in holders}
        self._recall_holders([job for job in wanted if job not in self._holders])
        fresh = []
        for job, holder in wanted.items():
            known = self._holders.get(job)
            if known is None:
                fresh.append(holder)
            elif known[1] is not holder and known[1] != holder:
                merged = _merged(known[1], holder)
                if merged != known[1]:
                    self._connection.execute(statement("update_holder"), _holder_row(merged))
                self._holders[job] = (known[0], merged)
        self._add_holders(fresh, at_ms)
        return {job: self._holders[job][0] for job in wanted}

    def process_ids(self, processes: Iterable[Process], at_ms: int) -> dict[ProcessKey, int]:
        """The id of each process; unknown ones are added, and what was learnt is written down."""
        self._turn(at_ms)
        wanted = {process.key: process for process in processes}
        self._recall_processes([key for key in wanted if key not in self._processes])
        fresh = []
        for key, process in wanted.items():
            known = self._processes.get(key)
            if known is None:
                fresh.append(process)
            elif known[1] is not process and known[1] != process:
                merged = _merged(known[1], process)
                if merged != known[1]:
                    self._connection.execute(
                        statement("update_process"), {**_process_row(merged), "process_id": known[0]}
                    )
                self._processes[key] = (known[0], merged)
        self._add_processes(fresh, at_ms)
        return {key: self._processes[key][0] for key in wanted}

    def owned_ids(self, owners: Mapping[ProcessKey, JobId]) -> dict[ProcessKey, tuple[int, int]]:
        """Process and holder ids of those owners of which both are known by now."""
        self._recall_processes([key for key in owners if key not in self._processes])
        self._recall_holders(sorted({job for job in owners.values() if job not in self._holders}))
        return {
            key: (self._processes[key][0], self._holders[job][0])
            for key, job in owners.items()
            if key in self._processes and job in self._holders
        }

    def _turn(self, at_ms: int) -> None:
        """Forget what was not named since the last turn, when that is long ago. Never in the past."""
        if at_ms - self._turned_ms >= FORGET_MS:
            self._older_holders, self._holders = self._holders, {}
            self._older_processes, self._processes = self._processes, {}
            self._turned_ms = at_ms

    def _note_installed(self, since_ms: Mapping[int, int]) -> None:
        self.installed_ms = grown(self.installed_ms, max(since_ms, default=0))
        self.installed_ms[list(since_ms)] = list(since_ms.values())

    def _add_gpus(self, fresh: dict[str, Gpu], source: str, installed_from_ms: int) -> None:
        rows = [{**_gpu_row(gpu), "source": source, "from_ms": installed_from_ms} for gpu in fresh.values()]
        added = self._insert("insert_gpus", rows, _GPU_ARROW)
        for gpu_id, uuid in added:
            self.gpu_ids[uuid] = gpu_id
            self._gpus[uuid] = fresh[uuid]
        self._note_installed({gpu_id: installed_from_ms for gpu_id, _ in added})

    def _add_holders(self, fresh: list[Holder], at_ms: int) -> None:
        if not fresh:
            return
        by_job = {holder.job: holder for holder in fresh}
        rows = [{**_holder_row(holder), "at_ms": at_ms} for holder in fresh]
        for holder_id, job in self._insert("insert_holders", rows, _HOLDER_ARROW):
            self._holders[job] = (holder_id, by_job[job])

    def _add_processes(self, fresh: list[Process], at_ms: int) -> None:
        if not fresh:
            return
        by_key = {(p.key.node, p.key.pid, p.key.started_ms): p for p in fresh}
        rows = [{**_process_row(process), "at_ms": at_ms} for process in fresh]
        for process_id, node, pid, started_ms in self._insert("insert_processes", rows, _PROCESS_ARROW):
            process = by_key[(node, pid, started_ms)]
            self._processes[process.key] = (process_id, process)

    def _recall_holders(self, jobs: list[str]) -> None:
        unknown = _found(self._older_holders, self._holders, jobs)
        if not unknown:
            return
        for row in self._connection.execute(statement("known_holders"), {"jobs": unknown}).fetchall():
            holder = Holder(**dict(zip(_HOLDER_FIELDS, row[1:], strict=True)))
            self._holders[holder.job] = (row[0], holder)

    def _recall_processes(self, keys: list[ProcessKey]) -> None:
        unknown = _found(self._older_processes, self._processes, keys)
        if not unknown:
            return
        parameters = {
            "nodes": [key.node for key in unknown],
            "pids": [key.pid for key in unknown],
            "started": [key.started_ms for key in unknown],
        }
        for row in self._connection.execute(statement("known_processes"), parameters).fetchall():
            process = _process_from(row)
            self._processes[process.key] = (row[0], process)

    def _insert(self, name: str, rows: list[dict[str, object]], schema: pa.Schema) -> list[tuple[Any, ...]]:
        cursor = self._connection
        cursor.register("incoming", pa.Table.from_pylist(rows, schema=schema))
        try:
            return cursor.execute(statement(name)).fetchall()
        finally:
            with suppress(duckdb.Error):  # where the statement failed, that is what is to be said
                cursor.unregister("incoming")


_GPU_FIELDS = tuple(column.name for column in fields(Gpu))
_HOLDER_FIELDS = tuple(column.name for column in fields(Holder))
_GPU_ARROW = pa.schema(
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
        ("source", pa.string()),
        ("from_ms", pa.int64()),
    ]
)
_HOLDER_ARROW = pa.schema([*((name, pa.string()) for name in _HOLDER_FIELDS), ("at_ms", pa.int64())])
_PROCESS_ARROW = pa.schema(
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


def _found(older: dict[_K, _V], newer: dict[_K, _V], keys: list[_K]) -> list[_K]:
    """Take up in ``newer`` what ``older`` has of these keys; the others."""
    for key in keys:
        if key in older:
            newer[key] = older[key]
    return [key for key in keys if key not in older]


def _merged(old: _T, new: _T) -> _T:
    """``new`` where it says something, ``old`` where it doesn't."""
    learnt = {
        column.name: value
        for column in fields(new)
        if (value := getattr(new, column.name)) is not None
        and (value != () or getattr(old, column.name) is None)
    }
    return replace(old, **learnt)


def _storable(gpu: Gpu) -> Gpu:
    """The GPU without the numbers that no column holds."""
    said = {name: getattr(gpu, name) for name in _GPU_FIELDS}
    held = {name: fitting((said[name],), _GPU_ARROW.field(name).type)[0] for name in _GPU_FIELDS}
    return gpu if held == said else replace(gpu, **held)


def _gpu_row(gpu: Gpu) -> dict[str, object]:
    return {name: getattr(gpu, name) for name in _GPU_FIELDS}


def _holder_row(holder: Holder) -> dict[str, object]:
    return {name: getattr(holder, name) for name in _HOLDER_FIELDS}


def _process_row(process: Process) -> dict[str, object]:
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


def _process_from(row: tuple[object, ...]) -> Process:
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
