"""The acting half of a service beside a real Slurm: its nodes measured, its queue looked at, its jobs idle.

Time is the machine's. What is measured is invented: every GPU is idle, and each job's idleness began hours
ago, of which its owner was told; so what is due is done at the next cycle.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.jobs.external_jobs import ExternalJobStore
from collector.attribution import effective
from collector.clock import SystemClock
from collector.managers.model import Look, ManagedJob
from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import ManagerSource
from collector.model import GpuUuid, JobId
from collector.reading import Reading, Tick
from collector.snapshot import Snapshot, after
from collector.store.database import Store
from collector.store.judgements import Judgement
from service.config.model import ActingConfig, Config, DecidingConfig, ModesConfig
from service.control.components import Acting, ControlDependencies, join_acting
from service.control.interface import Caller, Role
from tests.collector.store.store_parts import at_path, gpu, sample
from tests.slurm_cluster import PATIENCE_S, SlurmCluster
from tests.stores import open_store

HOUR_MS = 3_600_000
GPUS = 4
"""Of each node."""
ANN = Caller(name="nobody", uid=65534, role=Role.USER)
BOB = Caller(name="games", uid=5, role=Role.USER)
"""Accounts that Debian has, and that are not Fallow's."""
OPERATOR = Caller(name="root", uid=0, role=Role.OPERATOR)
AUTO = Config(
    acting=ActingConfig(every_s=0.2, manager_rest_s=0),
    deciding=DecidingConfig(min_runtime_s=0, cooldown_s=0),
    modes=ModesConfig(reclaim="auto", schedule="advise"),
)


@dataclass
class AgedClock(SystemClock):
    """The machine's clock as it stood so long ago."""

    ago_ms: int = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.ago_ms


@dataclass
class SlurmStage:
    """A store, the acting half on it, and what was seen last."""

    cluster: SlurmCluster
    store: Store
    config: Config
    snapshot: Snapshot = field(default_factory=Snapshot)
    manager: ManagerSource = field(default_factory=lambda: ManagerSource(SlurmManager(timeout_s=PATIENCE_S)))
    troubles: list[str] = field(default_factory=list)
    acting: Acting = field(init=False)

    def __post_init__(self) -> None:
        self.join()

    def join(self) -> None:
        """The acting half, as a service that starts has it."""
        self.acting = join_acting(
            ControlDependencies(
                config=self.config,
                store=self.store,
                clock=SystemClock(),
                folder=self.store.path.parent,
                last_tick=lambda: self.snapshot.at_ms or None,
                trouble=lambda found: None if found is None else self.troubles.append(found),
                snapshot=lambda: self.snapshot,
            )
        )

    @property
    def desk(self) -> Any:
        return self.acting.desk

    def look(self, ago_s: float = 0.0) -> dict[str, ManagedJob]:
        """A tick: Slurm is asked, every GPU of every node is idle. Its jobs, by number.

        What is seen first long ago has held its GPUs since.
        """
        at_ms = max(SystemClock().now_ms() - round(ago_s * 1000), self.snapshot.at_ms + 1)
        reading = self.manager.read(at_ms)
        assert isinstance(reading, Reading), reading
        places = [(node, index) for node in self.cluster.nodes for index in range(GPUS)]
        hardware = Reading(
            source="dcgm",
            at_ms=at_ms,
            gpus=tuple(gpu(n, node=node, index=index) for n, (node, index) in enumerate(places)),
            samples=tuple(
                sample(n, at_ms, 0.0, process_count=0, memory_used_bytes=0) for n in range(len(places))
            ),
        )
        found = effective((hardware, reading), at_ms)
        assert found is not None and isinstance(reading.look, Look)
        tick = Tick(
            at_ms=at_ms,
            width_ms=10_000,
            outcomes=(hardware, reading),
            allocations=found.allocations,
            withheld=found.withheld,
            out_of_service=found.out_of_service,
        )
        self.store.write_tick(tick)
        since_ms = at_ms - 5 * HOUR_MS
        idle = [
            {
                "kind": "held-idle",
                "uuid": each.uuid,
                "job": each.holder.job,
                "window_from_ms": since_ms,
                "window_to_ms": at_ms,
                "coverage": 1.0,
                "rung": 1,
                "wasted_gpu_hours": 5.0,
                "sentence": "It has done nothing for 5 h.",
            }
            for each in found.allocations
        ]
        self.store.write_judgement(Judgement(findings=idle), at_ms)
        self.snapshot = after(self.snapshot, tick, duration_ms=1.0)
        return {job.key.id: job for job in reading.look.jobs}

    def store_rows(self, question: str) -> list[tuple[Any, ...]]:
        """What the store answers."""
        with self.store.reader() as reader:
            return reader.execute(question).fetchall()

    def told(self, job: str, ago_s: float = 2 * 3600) -> None:
        """Its owner was told so long ago."""
        clock = AgedClock(ago_ms=round(ago_s * 1000))
        ExternalJobStore(self.store, clock).told(JobId(f"slurm:{job}"), "tell", "it is idle", ("mail",))

    def cycle(self) -> list[tuple[str, str]]:
        """One look and one cycle on this thread: what was tried, and what came of it."""
        self.look()
        cycle = self.acting.loop.cycle()
        return [(type(step).__name__, type(came).__name__) for step, came in cycle.outcomes]

    def actions(self, job: str) -> list[tuple[str, str | None, str]]:
        """The journal of a job, the newest first: verb, result, what was found."""
        rows = self.desk.actions(OPERATOR, since_ms=None, job=JobId(f"slurm:{job}"))
        return [(row["verb"], row["outcome"], row["found"] or "") for row in rows]

    def until_settled(self, job: str, limit_s: float = PATIENCE_S) -> tuple[str, str | None, str]:
        """Cycles until the newest action of the job has a result; that action."""
        end_s = time.monotonic() + limit_s
        while (newest := self.actions(job)[0])[1] is None:
            assert time.monotonic() < end_s, newest
            time.sleep(0.2)
            self.cycle()
        return newest


def uuids(stage: SlurmStage, job: str) -> tuple[GpuUuid, ...]:
    """The GPUs that a job has."""
    allocations = stage.snapshot.allocations or ()
    return tuple(each.uuid for each in allocations if each.holder.job == f"slurm:{job}")


@contextmanager
def slurm_stage(cluster: SlurmCluster, folder: Path, config: Config = AUTO) -> Iterator[SlurmStage]:
    """The acting half; its loop does not run by itself. Ends as a service that is stopped does."""
    with open_store(at_path(folder)) as store:
        stage = SlurmStage(cluster=cluster, store=store, config=config)
        try:
            yield stage
        finally:
            stage.acting.stop()


def rested(config: Config, rest_s: float) -> Config:
    """The configuration with another rest after a controller's start."""
    return replace(config, acting=replace(config.acting, manager_rest_s=rest_s))
