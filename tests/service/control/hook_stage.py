"""The acting half of a service over pods that nobody launched: a folder is the cluster, scripts are hooks.

A pod is a file; who has one holds a GPU by its number. A hook's commands are real programs that take the file
away and put it back, or only say so. Every GPU that is held is idle for hours.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.jobs.external_jobs import ExternalJobStore
from collector.clock import SystemClock
from collector.inventory.kubernetes import pod_holder
from collector.model import Allocation, ClaimSource, JobId, JobKind
from collector.reading import Reading, Tick
from collector.snapshot import Snapshot, after
from collector.store.database import Store
from collector.store.judgements import Judgement
from service.config.hooks import HookConfig
from service.config.model import ActingConfig, Config, DecidingConfig, ModesConfig
from service.control.components import Acting, ControlDependencies, join_acting
from service.control.interface import Caller, Role
from tests.collector.store.store_parts import at_path, gpu, sample, uuid
from tests.stores import open_store

HOUR_MS = 3_600_000
GPUS = 4
PATIENCE_S = 60.0
ANN = Caller(name="ann", uid=1001, role=Role.USER)
BOB = Caller(name="bob", uid=1002, role=Role.USER)
OPERATOR = Caller(name="root", uid=0, role=Role.OPERATOR)


@dataclass
class MovedClock(SystemClock):
    """The machine's clock, moved on by the test."""

    ahead_ms: int = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@dataclass
class HookStage:
    """A store, the acting half on it, the folder of pods, and what was seen last."""

    folder: Path
    store: Store
    config: Config
    clock: MovedClock = field(default_factory=MovedClock)
    snapshot: Snapshot = field(default_factory=Snapshot)
    kind: JobKind | None = JobKind.INTERACTIVE
    acting: Acting = field(init=False)

    def __post_init__(self) -> None:
        self.pods.mkdir(exist_ok=True)
        self.join()

    @property
    def pods(self) -> Path:
        return self.folder / "pods"

    @property
    def desk(self) -> Any:
        return self.acting.desk

    def join(self) -> None:
        """The acting half, as a service that starts has it."""
        self.acting = join_acting(
            ControlDependencies(
                config=self.config,
                store=self.store,
                clock=self.clock,
                folder=self.store.path.parent,
                last_tick=lambda: self.snapshot.at_ms or None,
                trouble=lambda found: None,
                snapshot=lambda: self.snapshot,
            )
        )

    def put(self, name: str, number: int, namespace: str = "jupyter") -> JobId:
        """A pod on that GPU."""
        (self.pods / name).write_text(f"{number} {namespace}")
        return JobId(f"pod:{namespace}/{name}")

    def look(self, ago_s: float = 0.0) -> None:
        """A tick: what each pod holds now; each has been idle for five hours."""
        at_ms = max(self.clock.now_ms() - round(ago_s * 1000), self.snapshot.at_ms + 1)
        allocations = []
        for file in sorted(self.pods.iterdir()):
            number, namespace = file.read_text().split()
            holder = replace(pod_holder(namespace, file.name, users={namespace: "ann"}), kind=self.kind)
            allocations.append(
                Allocation(uuid=uuid(int(number)), holder=holder, source=ClaimSource.KUBERNETES)
            )
        hardware = Reading(
            source="dcgm",
            at_ms=at_ms,
            gpus=tuple(gpu(n) for n in range(GPUS)),
            samples=tuple(sample(n, at_ms, 0.0, process_count=0, memory_used_bytes=0) for n in range(GPUS)),
        )
        tick = Tick(at_ms=at_ms, width_ms=10_000, outcomes=(hardware,), allocations=tuple(allocations))
        self.store.write_tick(tick)
        idle = [
            {
                "kind": "held-idle",
                "uuid": each.uuid,
                "job": each.holder.job,
                "window_from_ms": at_ms - 5 * HOUR_MS,
                "window_to_ms": at_ms,
                "coverage": 1.0,
                "rung": 1,
                "wasted_gpu_hours": 5.0,
                "sentence": "It has done nothing for 5 h.",
            }
            for each in allocations
        ]
        self.store.write_judgement(Judgement(findings=idle), at_ms)
        self.snapshot = after(self.snapshot, tick, duration_ms=1.0)

    def warned(self, job: JobId, ago_s: float) -> None:
        """Its owner was warned so long ago, and reached."""
        clock = MovedClock(ahead_ms=self.clock.ahead_ms - round(ago_s * 1000))
        ExternalJobStore(self.store, clock).told(job, "tell", "it is idle", ("mail",))

    def cycle(self) -> list[tuple[str, str]]:
        """One look and one cycle on this thread: what was tried, and what came of it."""
        self.look()
        cycle = self.acting.loop.cycle()
        return [(type(step).__name__, type(came).__name__) for step, came in cycle.outcomes]

    def actions(self, job: JobId) -> list[tuple[str, str | None, str]]:
        """The journal of a job, the newest first: verb, result, what was found."""
        rows = self.desk.actions(OPERATOR, since_ms=None, job=job)
        return [(row["verb"], row["outcome"], row["found"] or "") for row in rows]

    def until_settled(self, job: JobId) -> tuple[str, str | None, str]:
        """Cycles until the newest action of the job has a result; that action."""
        end_s = time.monotonic() + PATIENCE_S
        while (newest := self.actions(job)[0])[1] is None:
            assert time.monotonic() < end_s, newest
            time.sleep(0.05)
            self.cycle()
        return newest

    def rows(self, question: str) -> list[tuple[Any, ...]]:
        """What the store answers."""
        with self.store.reader() as reader:
            return reader.execute(question).fetchall()


def scripts(folder: Path) -> tuple[str, str]:
    """Two programs: one takes a pod's file away, the other puts it back."""
    hold, start = folder / "hold", folder / "start"
    hold.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls; mv "{folder}/pods/$2" "{folder}/off-$2"\n')
    start.write_text(f'#!/bin/sh\nmv "{folder}/off-$2" "{folder}/pods/$2"\n')
    for file in (hold, start):
        file.chmod(0o755)
    return str(hold), str(start)


def config(folder: Path, **changes: Any) -> Config:
    """A hook of the namespace jupyter: idle for 4 h, warned twice, then paused."""
    hold, start = scripts(folder)
    args = ("{namespace}", "{pod}")
    given: dict[str, Any] = {
        "namespaces": ("jupyter",),
        "pause": (hold, *args),
        "resume": (start, *args),
        "idle_hours": 4,
        **changes,
    }
    return Config(
        acting=ActingConfig(every_s=0.2),
        deciding=DecidingConfig(min_runtime_s=0),
        modes=ModesConfig(reclaim="auto", schedule="advise"),
        hooks={"notebooks": HookConfig(**given)},
    )


@contextmanager
def hook_stage(folder: Path, site: Config) -> Iterator[HookStage]:
    """The acting half; its loop does not run by itself. Ends as a service that is stopped does."""
    with open_store(at_path(folder)) as store:
        stage = HookStage(folder=folder, store=store, config=site)
        try:
            yield stage
        finally:
            stage.acting.stop()
