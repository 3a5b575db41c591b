"""What Slurm shows, kept: each run a row, how it ends, what a restart of the service knows."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import ManagerSource
from collector.reading import Reading, Tick
from collector.store.database import Store
from collector.store.managed import known_runs
from tests.collector.managers.slurm_world import SUBMITTED_S, Job, Node, World
from tests.collector.store.store_parts import ask, at_path
from tests.stores import open_store

T0_MS = (SUBMITTED_S + 60) * 1000
WAITING = Job(id=9, state="PENDING", reason="Priority", user="bob")


def look(store: Store, manager: SlurmManager, world: World, jobs: Sequence[Job], at_ms: int) -> None:
    used = sum(2 for job in jobs if job.runs)
    world.jobs, world.nodes = jobs, [Node(used=f"gpu:{used}(IDX:0)")]
    reading = ManagerSource(manager).read(at_ms)
    assert isinstance(reading, Reading), reading
    store.write_tick(Tick(at_ms=at_ms, width_ms=30_000, outcomes=(reading,), allocations=()))


def runs(store: Store) -> list[tuple[object, ...]]:
    return ask(
        store,
        "SELECT number, restarts, state, state_name, reason, epoch_ms(ended_at) FROM manager_jobs "
        "ORDER BY number, submitted_at",
    )


def test_a_run_is_a_row_from_its_wait_to_its_end(tmp_path: Path) -> None:
    world = World()
    with open_store(at_path(tmp_path)) as store:
        manager = SlurmManager(run=world.run)
        look(store, manager, world, [Job(id=812), WAITING], T0_MS)
        assert runs(store) == [
            ("812", 0, "running", "RUNNING", "", None),
            ("9", 0, "pending", "PENDING", "Priority", None),
        ]
        assert ask(store, "SELECT given FROM manager_jobs WHERE number = '812'") == [
            ('[{"node": "gpu1", "gpus": 2, "indices": [0, 1], "is_shared": false}]',)
        ]
        look(store, manager, world, [Job(id=812, state="COMPLETED"), WAITING], T0_MS + 30_000)
        look(store, manager, world, [], T0_MS + 60_000)
        assert runs(store) == [
            ("812", 0, "ended", "COMPLETED", "", None),
            ("9", 0, "ended", "", "", T0_MS + 60_000),
        ]
        assert ask(
            store, "SELECT running, pending, nodes, gpus, given_gpus FROM manager_looks ORDER BY ts"
        ) == [
            (1, 1, 1, 4, 2),
            (0, 1, 1, 4, 0),
            (0, 0, 1, 4, 0),
        ]
        assert ask(store, "SELECT node, state, gpus, given_gpus, partitions FROM manager_nodes") == [
            ("gpu1", None, 4, 0, "main")
        ]


def test_a_requeued_run_is_a_further_row(tmp_path: Path) -> None:
    world = World()
    with open_store(at_path(tmp_path)) as store:
        manager = SlurmManager(run=world.run)
        look(store, manager, world, [Job(id=812)], T0_MS)
        again = Job(id=812, state="PENDING", reason="BeginTime", submitted_s=SUBMITTED_S + 40, restarts=1)
        look(store, manager, world, [again], T0_MS + 30_000)
        assert [row[:3] for row in runs(store)] == [("812", 0, "ended"), ("812", 1, "pending")]
        assert ask(store, "SELECT DISTINCT job FROM manager_jobs") == [("slurm:812",)]


@pytest.mark.parametrize("anew", [False, True], ids=["the same service", "a service that began meanwhile"])
def test_a_number_used_again_is_another_job_for_a_new_service_too(tmp_path: Path, anew: bool) -> None:
    world = World()
    with open_store(at_path(tmp_path)) as store:
        manager = SlurmManager(run=world.run)
        look(store, manager, world, [Job(id=812)], T0_MS)
        if anew:
            with store.reader() as reader:
                manager = SlurmManager(known_runs(reader, "slurm", T0_MS), run=world.run)
        second = Job(id=812, user="bob", submitted_s=SUBMITTED_S + 40)
        look(store, manager, world, [second], T0_MS + 60_000)
        assert ask(store, "SELECT job, user_name, state FROM manager_jobs ORDER BY submitted_at") == [
            ("slurm:812", "ann", "ended"),
            (f"slurm:812@{SUBMITTED_S + 40}", "bob", "running"),
        ]


def test_what_was_running_when_the_service_ended_is_over_at_its_next_look(tmp_path: Path) -> None:
    world = World()
    with open_store(at_path(tmp_path)) as store:
        look(store, SlurmManager(run=world.run), world, [Job(id=812), WAITING], T0_MS)
    with open_store(at_path(tmp_path)) as store:
        look(store, SlurmManager(run=world.run), world, [WAITING], T0_MS + 600_000)
        assert [row[:3] for row in runs(store)] == [("812", 0, "ended"), ("9", 0, "pending")]


def test_a_look_without_news_writes_no_run(tmp_path: Path) -> None:
    world = World()
    with open_store(at_path(tmp_path)) as store:
        manager = SlurmManager(run=world.run)
        look(store, manager, world, [Job(id=812)], T0_MS)
        before = ask(store, "SELECT rowid FROM manager_jobs")
        look(store, manager, world, [Job(id=812)], T0_MS + 30_000)
        assert ask(store, "SELECT rowid FROM manager_jobs") == before
