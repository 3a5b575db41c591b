"""The engine for Slurm's jobs, on a store and a real cluster, as a head that acts has it."""

import time
from collections.abc import Callable, Sequence

from advisor.engines.slurm import SlurmEngine, SlurmEngineDependencies
from advisor.jobs.manager_acts import ManagerActStore
from collector.clock import SystemClock
from collector.managers.model import Look
from collector.managers.slurm.reader import SlurmManager
from collector.store.database import Store
from tests.slurm_cluster import PATIENCE_S

REST_S = 5.0
"""The controller registers its nodes and looks at what runs there within a second; a site's rest is 60 s."""


def engine_of(
    store: Store, run: Callable[[Sequence[str], float], str], looks: Callable[[], tuple[Look, ...]]
) -> SlurmEngine:
    """One that knows what the store knows."""
    return SlurmEngine(
        SlurmEngineDependencies(
            book=ManagerActStore(store, SystemClock()),
            run=run,
            clock=SystemClock(),
            looks=looks,
            against=lambda job, intent: None if job.word and job.word.pause else "nobody allowed it",
            gpus_of=lambda job: (),
            rest_s=REST_S,
            account="root",
        )
    )


def look_at() -> Look:
    """As soon as Slurm answers. Fails the test when it never does."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        look = SlurmManager(timeout_s=PATIENCE_S).look(time.time_ns() // 1_000_000)
        if isinstance(look, Look):
            return look
        assert time.monotonic() < end_s, look
        time.sleep(0.1)
