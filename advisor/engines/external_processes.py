"""The processes of a foreign job, as the newest tick saw them on its GPUs. Pure."""

from collections import defaultdict

from advisor.jobs.external_jobs import Seen
from collector.model import JobId, Process, ProcessKey, ProcessSample
from collector.snapshot import Snapshot

OLDEST_MS = 120_000
"""A process that was not seen on a GPU for so long is not taken to be on it."""


def processes_of(snapshot: Snapshot, job: JobId, now_ms: int, oldest_ms: int = OLDEST_MS) -> tuple[Seen, ...]:
    """Every process of ``job`` that was on a GPU at the newest look, at most ``oldest_ms`` ago; by pid."""
    mine = {key for key, owner in snapshot.owners if owner == job}
    on: defaultdict[ProcessKey, list[ProcessSample]] = defaultdict(list)
    for sample in snapshot.process_samples:
        if sample.key in mine and now_ms - sample.at_ms <= oldest_ms:
            on[sample.key].append(sample)
    processes = {process.key: process for process in snapshot.processes}
    return tuple(_process_of(key, on[key], processes.get(key)) for key in sorted(on))


def _process_of(key: ProcessKey, samples: list[ProcessSample], process: Process | None) -> Seen:
    memory = {
        sample.uuid: sample.memory_used_bytes for sample in samples if sample.memory_used_bytes is not None
    }
    complete = len(memory) == len(samples)
    environment = {} if process is None else dict(process.environment)
    return Seen(
        node=key.node,
        pid=key.pid,
        started_ms=key.started_ms,
        uid=None if process is None else process.uid,
        user=None if process is None else process.user,
        name=None if process is None else process.name,
        uuids=tuple(sorted(sample.uuid for sample in samples)),
        memory_bytes=sum(memory.values()) if complete else None,
        held=memory if complete else {},
        world_size=environment.get("WORLD_SIZE"),
        container=None if process is None else process.container or process.pod,
    )
