"""Who is who: the ids of GPUs, holders and processes, and what the store already knows of each.

The store's memory of its own dimension tables. It writes a row when something is new or has changed, so a
tick in which nothing changed costs look-ups only. After a rollback it must be thrown away and made anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from collector.model import Gpu, GpuUuid, Holder, JobId, Process, ProcessKey
from collector.store.columns import distinct_uuids
from collector.store.cuts import Decide, Former, Word, as_it_was, former_uuid, is_cut_anew, read_cuts
from collector.store.latest import Times, grown
from collector.store.node_names import NodeNames
from collector.store.registry_rows import (
    GPU_ARROW,
    GPU_FIELDS,
    HOLDER_ARROW,
    HOLDER_FIELDS,
    PROCESS_ARROW,
    gpu_row,
    holder_row,
    process_from,
    process_row,
    storable,
)
from collector.store.rollups import BIN_MS
from collector.store.runs import LATER_RUN, Run
from collector.store.statements import feed, statement

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
        self._again = self._later_runs()
        self._turned_ms = 0
        self.installed_ms: Times = np.zeros(0, dtype=np.int64)
        """Since when each GPU counts as installed, UTC ms, by its id."""
        known = connection.execute(statement("known_gpus")).fetchall()
        for gpu_id, _, *said in known:
            gpu = Gpu(**dict(zip(GPU_FIELDS, said, strict=True)))
            self.gpu_ids[gpu.uuid] = gpu_id
            self._gpus[gpu.uuid] = gpu
        self._note_installed({gpu_id: installed_ms for gpu_id, installed_ms, *_ in known})
        self.names = NodeNames(connection)
        self.cuts = read_cuts(connection)

    @property
    def gpus(self) -> Iterable[Gpu]:
        """Every GPU that the store has, those that are gone too."""
        return self._gpus.values()

    def register_gpus(
        self,
        gpus: Iterable[Gpu],
        source: str,
        installed_from_ms: int,
        decide: Decide,
        rivals: frozenset[str] = frozenset(),
    ) -> None:
        """Add the unknown ones and write down what changed; what is None now keeps its old value.

        A source describes the same GPUs tick after tick: what all of them said is kept while nothing changes.
        ``rivals`` are the other sources of the tick. A GPU that is cut anew, as ``decide`` says, is another
        row from then on (``cuts``).
        """
        described = tuple(gpus)
        if self._described.get(source) == described and not self.cuts.waiting:
            return
        fresh: dict[str, Gpu] = {}
        changed = False
        words: list[tuple[Gpu, Word]] = []
        for gpu in described:
            old = self._gpus.get(gpu.uuid)
            if old is None:
                fresh[gpu.uuid] = storable(gpu)
                continue
            merged = old if old is gpu or old == gpu else _merged(old, storable(gpu))
            if old.node != UNKNOWN_NODE and is_cut_anew(old, merged):
                word = Word(gpu=merged, source=source, since_ms=installed_from_ms, rivals=rivals)
                words.append((old, word))
                merged = as_it_was(old, merged)
            else:
                self.cuts.waiting.pop(gpu.uuid, None)
            changed |= self._update(old, merged)
        if fresh:
            self._add_gpus(fresh, source, installed_from_ms)
        if changed or fresh:
            self.forget_holders(self.names.tell_apart(described, self._gpus.values()))
        for old, word in words:
            cut_ms = decide(old, word, fresh)
            if cut_ms is not None:
                self._cut(word, cut_ms)
                changed = True
        if changed or fresh:
            self._described.clear()
        self._described[source] = described

    def _update(self, old: Gpu, merged: Gpu) -> bool:
        """Write down what is new of a GPU; whether anything is."""
        if merged == old:
            return False
        self._connection.execute(statement("update_gpu"), gpu_row(merged, self.names.of(merged)))
        self._gpus[merged.uuid] = merged
        return True

    def _cut(self, word: Word, cut_ms: int) -> None:
        """The GPU is another row from ``cut_ms`` on; one that was not there before has been so all along."""
        old, gpu_id = self._gpus[word.gpu.uuid], self.gpu_ids[word.gpu.uuid]
        if cut_ms <= self.installed_ms[gpu_id] // BIN_MS * BIN_MS:
            self.cuts.waiting.pop(old.uuid, None)
            self._update(old, word.gpu)
            return
        former = former_uuid(old.uuid, cut_ms)
        told = {"uuid": old.uuid, "former": former, "to_ms": cut_ms}
        self._connection.execute(statement("end_cut"), told)
        self.gpu_ids[former], self._gpus[former] = gpu_id, replace(old, uuid=GpuUuid(former))
        self._add_gpus({old.uuid: word.gpu}, word.source, cut_ms)
        self._connection.execute(statement("begin_cut"), {"uuid": old.uuid, "from_ms": cut_ms})
        self._row_ids.clear()
        self.cuts.note(old.uuid, self.gpu_ids[old.uuid], Former(gpu_id=gpu_id, until_ms=cut_ms), word.source)

    def since(self, uuid: str) -> tuple[Gpu, int] | None:
        """The first row of a GPU, and since when (UTC ms) it is installed; ``None`` for an unknown GPU."""
        gpu_id = self.gpu_ids.get(uuid)
        if gpu_id is None or self._gpus[uuid].node == UNKNOWN_NODE:
            return None
        first_id = next((former.gpu_id for former in self.cuts.formers.get(gpu_id, ())), gpu_id)
        first = uuid if first_id == gpu_id else next(u for u, i in self.gpu_ids.items() if i == first_id)
        return self._gpus[first], int(self.installed_ms[first_id])

    def register_former(self, gpu: Gpu, source: str, at_ms: int, until_ms: int) -> None:
        """What a GPU was before ``until_ms``, a whole bin, from where on it is known otherwise."""
        known = self.since(gpu.uuid)
        assert known is not None, "only a known GPU was something else before"
        first, now = known[0].uuid, self.gpu_ids[gpu.uuid]
        former = former_uuid(gpu.uuid, until_ms)
        self._add_gpus({former: replace(storable(gpu), uuid=GpuUuid(former))}, source, at_ms)
        told = {"former": former, "uuid": gpu.uuid, "to_ms": until_ms}
        self._connection.execute(statement("make_former"), told)
        self._connection.execute(statement("begin_cut"), {"uuid": first, "from_ms": until_ms})
        self.cuts.formers[now] = (
            Former(gpu_id=self.gpu_ids[former], until_ms=until_ms),
            *self.cuts.formers.get(now, ()),
        )

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

    def id_at(self, uuid: str, at_ms: int) -> int:
        """The row of a known GPU that it had at a time, UTC ms."""
        return self.cuts.id_at(self.gpu_ids[uuid], at_ms)

    def row_ids(self, samples: pa.Table, source: str, installed_from_ms: int) -> pa.Array:
        """The GPU id of every row of a table of samples, UUIDs never heard of included.

        A source names the same GPUs in the same order tick after tick, so its last answer is kept.
        """
        said = self._row_ids.get(source)
        if said is not None and said[0].equals(samples["uuid"]):
            return self._by_time(samples, said[1])
        uuids, which = distinct_uuids(samples)
        self.register_uuids(uuids, source, installed_from_ms)
        ids = np.fromiter(map(self.gpu_ids.__getitem__, uuids), dtype=np.int32, count=len(uuids))
        rows = pa.array(ids[which.to_numpy(zero_copy_only=False)])
        self._row_ids[source] = (samples["uuid"], rows)
        return self._by_time(samples, rows)

    def holder_ids(
        self, holders: Iterable[Holder], at_ms: int, since_ms: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """The id of each holder's job; unknown holders are added, and what was learnt is written down.

        ``since_ms``: since when a job is known, where that is not ``at_ms``.
        """
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
                    self._connection.execute(statement("update_holder"), holder_row(merged))
                self._holders[job] = (known[0], merged)
        self._add_holders(fresh, at_ms, since_ms or {})
        return {job: self._holders[job][0] for job in wanted}

    def runs_of(self, job: JobId) -> list[Run]:
        """The jobs under an id, in the order in which they came (``collector.store.runs``)."""
        self._recall_holders([job] if job not in self._holders else [])
        first = self._holders.get(job)
        return [] if first is None else [(job, first[1].user), *self._again.get(job, ())]

    def forget_holders(self, jobs: Sequence[str]) -> None:
        """What is remembered of these may be out of date: the file knows them."""
        for job in jobs:
            self._holders.pop(job, None)
            self._older_holders.pop(job, None)
        if any(map(LATER_RUN.fullmatch, jobs)):
            self._again = self._later_runs()

    def _later_runs(self) -> dict[str, list[Run]]:
        again: dict[str, list[Run]] = {}
        for job, user in self._connection.execute(statement("later_runs")).fetchall():
            again.setdefault(job.rpartition("@")[0], []).append((job, user))
        return again

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
                        statement("update_process"), {**process_row(merged), "process_id": known[0]}
                    )
                self._processes[key] = (known[0], merged)
        self._add_processes(fresh, at_ms)
        return {key: self._processes[key][0] for key in wanted}

    def note_owners(self, owners: Mapping[ProcessKey, JobId]) -> dict[ProcessKey, tuple[int, int]]:
        """Note whose these processes are; process and holder ids of those of which both are registered."""
        ids = self.owned_ids(owners) if owners else {}
        if ids:
            process_ids, holder_ids = zip(*ids.values(), strict=True)
            columns = {
                "process_id": pa.array(process_ids, pa.int32()),
                "holder_id": pa.array(holder_ids, pa.int32()),
            }
            feed(self._connection, "own_processes", pa.table(columns))
        return ids

    def owned_ids(self, owners: Mapping[ProcessKey, JobId]) -> dict[ProcessKey, tuple[int, int]]:
        """Process and holder ids of those owners of which both are known by now."""
        self._recall_processes([key for key in owners if key not in self._processes])
        self._recall_holders(sorted({job for job in owners.values() if job not in self._holders}))
        return {
            key: (self._processes[key][0], self._holders[job][0])
            for key, job in owners.items()
            if key in self._processes and job in self._holders
        }

    def _by_time(self, samples: pa.Table, ids: pa.Array) -> pa.Array:
        if not self.cuts.formers:
            return ids
        ends_ms = samples["at_ms"].to_numpy()
        return pa.array(self.cuts.by_time(ids.to_numpy(zero_copy_only=False), ends_ms))

    def known_holder_ids(self, jobs: Iterable[JobId]) -> dict[JobId, int]:
        """The ids of those holders that are known by now."""
        wanted = sorted(set(jobs))
        self._recall_holders([job for job in wanted if job not in self._holders])
        return {job: self._holders[job][0] for job in wanted if job in self._holders}

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
        more = {"source": source, "from_ms": installed_from_ms}
        rows = [gpu_row(gpu, self.names.of(gpu)) | more for gpu in fresh.values()]
        added = self._insert("insert_gpus", rows, GPU_ARROW)
        for gpu_id, uuid in added:
            self.gpu_ids[uuid] = gpu_id
            self._gpus[uuid] = fresh[uuid]
            self.cuts.sources[uuid] = source
        self._note_installed({gpu_id: installed_from_ms for gpu_id, _ in added})

    def _add_holders(self, fresh: list[Holder], at_ms: int, since_ms: Mapping[str, int]) -> None:
        if not fresh:
            return
        by_job = {holder.job: holder for holder in fresh}
        rows = [{**holder_row(holder), "at_ms": since_ms.get(holder.job, at_ms)} for holder in fresh]
        for holder_id, job in self._insert("insert_holders", rows, HOLDER_ARROW):
            self._holders[job] = (holder_id, by_job[job])
            if LATER_RUN.fullmatch(job):
                self._again.setdefault(job.rpartition("@")[0], []).append((JobId(job), by_job[job].user))

    def _add_processes(self, fresh: list[Process], at_ms: int) -> None:
        if not fresh:
            return
        by_key = {(p.key.node, p.key.pid, p.key.started_ms): p for p in fresh}
        rows = [{**process_row(process), "at_ms": at_ms} for process in fresh]
        for process_id, node, pid, started_ms in self._insert("insert_processes", rows, PROCESS_ARROW):
            process = by_key[(node, pid, started_ms)]
            self._processes[process.key] = (process_id, process)

    def _recall_holders(self, jobs: list[str]) -> None:
        unknown = _found(self._older_holders, self._holders, jobs)
        if not unknown:
            return
        for row in self._connection.execute(statement("known_holders"), {"jobs": unknown}).fetchall():
            holder = Holder(**dict(zip(HOLDER_FIELDS, row[1:], strict=True)))
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
            process = process_from(row)
            self._processes[process.key] = (row[0], process)

    def _insert(self, name: str, rows: list[dict[str, object]], schema: pa.Schema) -> list[tuple[Any, ...]]:
        cursor = self._connection
        cursor.register("incoming", pa.Table.from_pylist(rows, schema=schema))
        try:
            return cursor.execute(statement(name)).fetchall()
        finally:
            with suppress(duckdb.Error):  # where the statement failed, that is what is to be said
                cursor.unregister("incoming")


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
