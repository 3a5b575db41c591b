"""What is kept of jobs that Fallow did not launch: what they were told, who keeps them, which are paused.

One class over three tables. Nothing is decided here, and nothing is done to a process: every call reads
rows or commits one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from advisor.serialize import from_text, to_text
from advisor.state.model import ProjectName
from advisor.state.owner_replies import Keep, Word, spoken_of
from advisor.statements import asked, statement
from analytics.query import run
from collector.clock import Clock
from collector.model import GpuUuid, JobId, JobKind, NodeName

if TYPE_CHECKING:
    from collector.store.database import Store

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A process of a job as it was last seen on its GPUs; ``memory_bytes`` on all of them together.

    ``held`` are the bytes on each, where all are known; what was written before it was kept has none.
    """

    node: NodeName
    pid: int
    started_ms: int
    uid: int | None = None
    user: str | None = None
    name: str | None = None
    uuids: tuple[GpuUuid, ...] = ()
    memory_bytes: int | None = None
    held: Mapping[GpuUuid, int] = field(default_factory=dict)
    world_size: str | None = None
    container: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whose job it is, as far as anybody said."""

    user: str | None = None
    project: ProjectName | None = None
    name: str | None = None
    kind: JobKind | None = None
    framework: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A foreign job off its GPUs: who it is, which processes it has, and where it was."""

    job: JobId
    holder: Holder
    processes: tuple[Seen, ...]
    gpus: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One attempt to pause a foreign job. ``ended_as``: ``None`` while it is off its GPUs."""

    paused: Paused
    intent: int
    begun_ms: int
    ended_ms: int | None = None
    ended_as: str | None = None


class ExternalJobStore:
    """Reads and writes what is kept of foreign jobs. Every call blocks for the store; raises StoreError."""

    def __init__(self, store: "Store", clock: Clock) -> None:
        self._store, self._clock = store, clock

    def holder(self, job: JobId) -> Holder | None:
        """Whose job it is; ``None`` when nobody ever held a GPU under that name."""
        rows = asked(self._store, "read_holder", {"job": job})
        if not rows:
            return None
        row = rows[0]
        return Holder(
            user=row["user_name"],
            project=row["project"],
            name=row["job_name"],
            kind=None if row["kind"] is None else JobKind(row["kind"]),
            framework=row["framework"],
        )

    def words(self, days: float = 30.0) -> tuple[Word, ...]:
        """What was told and kept, of all jobs, launched ones included."""
        parameters = {"from_ts": self._clock.now_ms() - round(days * DAY_MS)}
        with self._store.reader() as connection:
            return spoken_of(run(connection, "spoken", parameters).to_pylist())

    def told(self, job: JobId, rung: str, message: str, reached: tuple[str, ...]) -> None:
        """Note that the owner was told; with nobody in ``reached``, that nobody heard it."""
        at_ms = self._clock.now_ms()
        values = {"job": job, "at_ms": at_ms, "rung": rung, "message": message}
        self._write(
            "noting what an owner was told", "add_telling", reached=", ".join(reached) or None, **values
        )

    def keep(self, job: JobId, until_ms: int, by_user: str) -> Keep:
        """Note somebody's word that the job is left alone until then."""
        at_ms = self._clock.now_ms()
        self._write("keeping a job", "add_keep", job=job, at_ms=at_ms, until_ms=until_ms, by_user=by_user)
        return Keep(job=job, at_ms=at_ms, until_ms=until_ms, by_user=by_user)

    def begin(self, paused: Paused, intent: int) -> None:
        """Note that the job is about to be taken off its GPUs."""
        values = {"job": paused.job, "intent": intent, "at_ms": self._clock.now_ms()}
        self._write("noting a checkpoint", "add_checkpoint", body=to_text(paused), **values)

    def end(self, job: JobId, ended_as: str) -> None:
        """Close the job's open checkpoint: ``resumed``, ``failed`` or ``gone``."""
        at_ms = self._clock.now_ms()
        self._write("ending a checkpoint", "end_checkpoint", job=job, at_ms=at_ms, ended_as=ended_as)

    def checkpoints(self, since_ms: int | None = None) -> tuple[Checkpoint, ...]:
        """Those that are open, and those begun or ended since then, oldest first."""
        from_ms = self._clock.now_ms() if since_ms is None else since_ms
        return tuple(_checkpoint(row) for row in asked(self._store, "read_checkpoints", {"from_ms": from_ms}))

    def paused(self, job: JobId) -> Checkpoint | None:
        """The job's open checkpoint; ``None`` when it is not paused."""
        return next((c for c in self.checkpoints() if c.paused.job == job and c.ended_as is None), None)

    def _write(self, doing: str, name: str, **values: object) -> None:
        with self._store.writing(doing) as connection:
            connection.execute(statement(name), values)


def _checkpoint(row: dict[str, Any]) -> Checkpoint:
    return Checkpoint(
        paused=from_text(Paused, row["body"]),
        intent=row["intent"],
        begun_ms=row["begun_ms"],
        ended_ms=row["ended_ms"],
        ended_as=row["ended_as"],
    )
