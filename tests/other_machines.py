"""Other machines, as far as a service here can tell: their Fallow's ``/metrics``, and their past.

What they do is the simulated cluster's, told under a real source's name; so a test has people, jobs and waste
at hand without showing a simulated cluster, on which nothing may be started.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from collector.clock import SystemClock
from collector.metrics_endpoint import exposition
from collector.reading import Reading, Tick
from collector.snapshot import Snapshot, after
from collector.sources.simulated.cluster import SimulatedCluster
from collector.store.database import open_store
from service.sources.backfill import layers, until
from tests.collector.dcgm.loopback import Answer, serving, text

SOURCE = "fallow"
WIDTH_MS = 10_000


@contextmanager
def other_machines(nodes: int = 4, gpus_per_node: int = 8, seed: int = 0) -> Iterator[str]:
    """The address of their ``/metrics``."""
    source = SimulatedCluster(seed=seed, nodes=nodes, gpus_per_node=gpus_per_node).source(SOURCE)
    clock, lock, shown = SystemClock(), Lock(), [Snapshot()]

    def metrics(*_: object) -> Answer:
        with lock:
            now_ms = clock.now_ms()
            outcome = source.read(now_ms)
            held = outcome.allocations if isinstance(outcome, Reading) else None
            tick = Tick(at_ms=now_ms, width_ms=WIDTH_MS, outcomes=(outcome,), allocations=held)
            shown[0] = after(shown[0], tick, duration_ms=1)
            return text(exposition(shown[0]).decode())

    with serving(metrics) as url:
        yield url


def remember(data: Path, days: int, *, nodes: int = 4, gpus_per_node: int = 8, seed: int = 0) -> None:
    """Write their last days into the store in ``data``, up to now, as a service would have."""
    cluster = SimulatedCluster(seed=seed, nodes=nodes, gpus_per_node=gpus_per_node)
    now_ms = SystemClock().now_ms()
    data.mkdir(parents=True, exist_ok=True)
    with open_store(data / "fallow.duckdb") as store:
        for layer in layers(days, now_ms):
            for day in cluster.history(layer.from_ms, layer.to_ms, layer.step_ms, source=SOURCE):
                store.write_history(until(day, layer.to_ms))
