"""Other shapes than four by eight."""

import pytest

from collector.reading import Reading
from collector.sources.simulated.cluster import SimulatedCluster
from collector.sources.simulated.people import HOUR_MS

NOW_MS = 1_795_000_020_000


@pytest.mark.long
@pytest.mark.slow
def test_a_thousand_gpus_are_a_thousand_different_ones() -> None:
    cluster = SimulatedCluster(seed=1, nodes=125, gpus_per_node=8)
    reading = cluster.source().read(NOW_MS)
    assert isinstance(reading, Reading)
    assert len({gpu.uuid for gpu in reading.gpus}) == 1000
    assert len(reading.samples) > 950
    assert len({p.key for p in reading.processes or ()}) == len(reading.processes or ())
    jobs = {(a.holder.job, a.holder.user) for a in reading.allocations or ()}
    assert len({job for job, _ in jobs}) == len(jobs)


def test_small_and_odd_nodes_work() -> None:
    for nodes, gpus in ((1, 1), (3, 2), (2, 10)):
        histories = list(SimulatedCluster(nodes=nodes, gpus_per_node=gpus).history(NOW_MS - HOUR_MS, NOW_MS))
        assert sum(h.samples.num_rows for h in histories) > 0
