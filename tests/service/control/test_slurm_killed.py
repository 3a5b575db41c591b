"""Daemons of Slurm and the service are killed anywhere in a pause and a release: nobody runs twice.

A controller that is killed may have forgotten the newest job, and gives its number to the next one, or that a
job was to be held. A stranger submits at once after each kill. All 200 kills: ``make campaign``.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign.pauses import Pauses, pauses
from tests.collector.store.store_parts import at_path
from tests.slurm_cluster import slurm_cluster

pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pauses]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder), nodes=2) as made:
        monkeypatch.setenv("SLURM_CONF", str(made.conf))
        with pauses(made, at_path(tmp_path)) as world:
            yield world


def test_whatever_is_killed_no_run_is_doubled_and_no_stranger_is_met(world: Pauses) -> None:
    draw = random.Random(11)
    for number, daemon in enumerate(("slurmctld", "munged", "head", "slurmd", "slurmctld")):
        print(world.kill(number, draw, (daemon,)))


@pytest.mark.long
def test_the_same_at_more_points_with_accounting_and_top_ups() -> None:
    pytest.importorskip("torch", reason="top-ups train; pip install -c constraints.txt torch")
    from tests.campaign.play import play

    came = play(seed=812, numbers=range(20))
    assert sum(came.values()) >= 20, came
