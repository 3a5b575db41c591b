"""A foreign job whose GPU memory is on its way: it holds its GPUs until it is off them, and from its return.

Store, book and process are real; the driver is one of our own, whose moves end when the test says so.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from advisor.actions import Pause, Resume
from advisor.engines.brief import Brief
from advisor.engines.cuda_checkpoint import ProcessState
from advisor.engines.external import ExternalEngine, ExternalEngineDependencies
from advisor.engines.memory_transfers import Moving
from advisor.outcomes import Done, Late
from advisor.state.model import ClusterState, Gpu, Phase, Placement, Telemetry
from advisor.state.site_protection import Protect
from analytics.vocabulary.jobs import is_submitted
from collector.model import JobId, ProcessKey
from service.config.model import Config
from service.control.external_jobs import UNSEEN_TICKS, ExternalJobs, Sight
from tests.advisor.engines.external_parts import (
    GPU,
    NODE,
    FakeCheckpointer,
    FakeDriver,
    HandClock,
    Machine,
    calm,
    opened,
    process,
)
from tests.service.control.test_control_liveness import begun_ms

PID = os.getpid()
JOB = JobId(f"pid:{NODE}/{PID}@1")
PAUSE, RESUME = Pause(job=JOB, reason="idle for 1 h"), Resume(job=JOB, gpus=(GPU,))


@dataclass
class World:
    foreigners: ExternalJobs
    clock: HandClock
    over: threading.Event
    """The move that is under way ends; so do later ones."""

    def do(self, step: Pause | Resume) -> object:
        return Brief[Moving](self.foreigners.engine, soon_s=0.05).do(step, 5)

    def looked(self) -> ClusterState:
        """The world where the measuring shows nothing of the job."""
        gpu = Gpu(uuid=GPU, node=NODE, memory_bytes=80 << 30, telemetry=Telemetry.GOOD)
        return self.foreigners.complete(
            ClusterState(as_of_ms=self.clock.now_ms(), gpus={GPU: gpu}), by_launcher=is_submitted
        )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock, over = HandClock(), threading.Event()
    with opened(tmp_path, clock) as (store, book):
        mine = process(PID)
        key = ProcessKey(node=NODE, pid=PID, started_ms=begun_ms(PID))
        machine = Machine(store, clock)
        machine.sees([replace(mine, key=key)], JOB)
        driver = FakeDriver(states={PID: ProcessState.RUNNING})
        checkpointer = FakeCheckpointer(driver=driver, looks={PID: calm(PID)}, slow=over)
        sight = Sight(snapshot=lambda: machine.snapshot)
        foreigners = ExternalJobs(book, Config(), clock, Protect(), sight)
        foreigners.engine = ExternalEngine(
            ExternalEngineDependencies(
                book=book,
                sightings=machine.processes_of,
                ways=(),
                checkpointer=checkpointer,
                node=NODE,
                account_uid=lambda name: None,
            )
        )
        yield World(foreigners, clock, over)
        over.set()


def test_it_holds_its_gpu_until_its_memory_is_off_it(world: World) -> None:
    assert isinstance(world.do(PAUSE), Late)
    looked = world.looked()
    assert looked.placements == {JOB: Placement(gpus=(GPU,))}
    assert "on its way" in looked.jobs[JOB].cannot["pause"]
    assert "on its way" in looked.jobs[JOB].cannot["resume"]
    world.over.set()
    assert isinstance(world.foreigners.engine.settle(PAUSE), Done)
    looked = world.looked()
    assert looked.placements == {} and looked.jobs[JOB].phase is Phase.PAUSED


def test_it_holds_its_gpu_from_the_moment_that_its_memory_begins_to_come_back(world: World) -> None:
    world.over.set()
    assert isinstance(world.do(PAUSE), Done)
    world.over.clear()
    assert isinstance(world.do(RESUME), Late)
    assert world.looked().placements == {JOB: Placement(gpus=(GPU,))}
    world.over.set()
    assert isinstance(world.foreigners.engine.settle(RESUME), Done)
    looked = world.looked()
    assert looked.placements == {JOB: Placement(gpus=(GPU,))}, "it is back, and no tick has seen it yet"
    assert looked.jobs[JOB].phase is Phase.RUNNING
    world.clock.sleep(Config().collect.tick_s * UNSEEN_TICKS + 1)
    assert world.looked().placements == {}, "from here on it is what is measured"
