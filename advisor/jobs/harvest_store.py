"""Keeps what background jobs did in others' idle gaps; what the rows mean is said in ``background``."""

from typing import TYPE_CHECKING

from advisor.jobs.background import Stay
from advisor.statements import statement
from analytics.query import run
from collector.model import GpuUuid, JobId

if TYPE_CHECKING:
    from collector.store.database import Store


class HarvestStore:
    """The table harvests. Every call blocks for the store; raises StoreError."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    def stays(self) -> tuple[Stay, ...]:
        """All that are kept, the latest first."""
        with self._store.reader() as connection:
            rows = run(connection, "harvests", {"from_ts": 0}).to_pylist()
        return tuple(
            Stay(
                job=JobId(row["job"]),
                foreground=JobId(row["foreground"]),
                gpu=GpuUuid(row["gpu_uuid"]),
                from_ms=row["from_ms"],
                to_ms=row["to_ms"],
                steps=row["steps"],
                step_s=row["step_s"],
                slowdown_ratio=row["slowdown_ratio"],
                foreground_steps=row["foreground_steps"],
            )
            for row in rows
        )

    def put(self, stay: Stay) -> None:
        """Write down a stay, or what it has come to since."""
        values = {
            "job": stay.job,
            "from_ms": stay.from_ms,
            "to_ms": stay.to_ms,
            "foreground": stay.foreground,
            "gpu_uuid": stay.gpu,
            "steps": stay.steps,
            "work_s": stay.step_s,
            "slowdown_ratio": stay.slowdown_ratio,
            "foreground_steps": stay.foreground_steps,
        }
        with self._store.writing("noting what a background job did") as connection:
            connection.execute(statement("put_harvest"), values)
