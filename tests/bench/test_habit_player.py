"""One life through every source: what each can see of it, and nothing that it cannot."""

from pathlib import Path

import pytest

from analytics.query import run
from bench.habit_player.machine import Machine
from bench.habit_player.model import SOURCES
from bench.habit_player.read import read_habit
from bench.habit_player.sources import export_for_replay, names, play
from bench.habit_player.world import World, live
from tests.stores import open_store

pytestmark = pytest.mark.slow

DAY_MS = 1_793_145_600_000

HABIT = """
about = "A training that is killed, and leaves a dead pid with memory behind."
source = ["arithmetic"]
begins = "08:00"
lasts = "16m"
lead = "2m"

[[holder]]
name = "ann"
title = "train"
project = "vision"
phases = ["train"]

[process.trainer]
command = "python train.py --token hf_abcdefghijklmnopqrstuv"
libraries = ["PyTorch"]
[process.ghost]
command = "python train.py"
holder = "nobody"
dead = true

[[phase]]
name = "train"
lasts = "8m"
gpu = 0.8
sm = 0.4
encoder = 0.2
memory = 20.0
noise = 0.0
processes = ["trainer"]

[[phase]]
name = "dead"
lasts = "8m"
memory = 9.0
processes = ["ghost"]

[[label]]
kind = "working"
"""


def rows(connection, question: str):
    return connection.sql(question).to_arrow_table().to_pylist()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    path = tmp_path_factory.mktemp("habit") / "killed.toml"
    path.write_text(HABIT)
    return live(read_habit(path), 7, DAY_MS)


@pytest.fixture(scope="module")
def seen(world: World, tmp_path_factory: pytest.TempPathFactory):
    """Each source's samples, claims and processes, by name."""
    folder = tmp_path_factory.mktemp("stores")
    found = {}
    for source in SOURCES:
        with open_store(folder / source / "fallow.duckdb") as store:
            play(source, [world], store, folder / "export")
            if source == "nvml":
                export_for_replay(store, folder / "export", [world])
            with store.reader() as reader:
                found[source] = {
                    "samples": rows(reader, "SELECT epoch_ms(ts) AS at_ms, * FROM samples_all ORDER BY ts"),
                    "claims": run(reader, "assess_claims", {"as_of": world.begin_ms + 240_000}).to_pylist(),
                    "late": run(reader, "assess_claims", {"as_of": world.to_ms}).to_pylist(),
                    "processes": rows(reader, "SELECT * FROM processes"),
                    "gpus": run(
                        reader, "assess_gpus", {"as_of": world.to_ms, "bins_from": world.from_ms}
                    ).to_pylist(),
                }
    return found


def during(samples, world: World, from_min: int, to_min: int):
    low, high = (world.begin_ms + minutes * 60_000 for minutes in (from_min, to_min))
    return [row for row in samples if low < row["at_ms"] <= high]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_measures_the_whole_life_under_its_own_name(source: str, seen, world: World):
    samples = seen[source]["samples"]
    assert sum(row["width_ms"] for row in samples) == world.to_ms - world.from_ms
    (gpu,) = seen[source]["gpus"]
    assert gpu["uuid"] == names(world, source)[0]


@pytest.mark.parametrize("source", SOURCES)
def test_utilization_stands_on_the_best_rung_there_is(source: str, seen, world: World):
    rows = during(seen[source]["samples"], world, 1, 7)
    rung, ratio = (1, 0.8) if source == "lowest" else (3, 0.4)
    assert {row["rung"] for row in rows} == {rung}
    assert all(row["utilization_e4"] == pytest.approx(ratio * 10_000, abs=60) for row in rows)


@pytest.mark.parametrize("source", SOURCES)
def test_holder_is_known_from_squeue_while_it_holds_and_not_after(source: str, seen):
    (claim,) = seen[source]["claims"]
    assert (claim["user_name"], claim["project"], claim["kind"]) == ("ann", "vision", "batch")
    assert claim["job"].startswith("slurm:")
    assert seen[source]["late"] == []


def test_processes_are_counted_where_somebody_counts_them(seen, world: World):
    for source in ("nvml", "dcgm-counts", "peer", "replay"):
        counts = {row["process_count"] for row in during(seen[source]["samples"], world, 1, 7)}
        assert counts - {None} == {1}, source
    for source in ("dcgm", "lowest"):
        assert {row["process_count"] for row in seen[source]["samples"]} == {None}
    assert {row["memory_used_bytes"] for row in seen["lowest"]["samples"]} == {None}


def test_processes_are_described_by_what_the_machine_shows_and_secrets_are_not(seen):
    for source in ("nvml", "dcgm-counts"):
        (process,) = [row for row in seen[source]["processes"] if row["command"]]
        assert process["user_name"] == "ann"
        assert "train.py" in process["command"]
        assert "hf_" not in process["command"]
    assert all(seen[source]["processes"] == [] for source in ("dcgm", "lowest", "peer", "replay"))


def test_a_dead_pid_is_listed_with_its_memory_and_is_no_process(seen, world: World):
    rows = during(seen["nvml"]["samples"], world, 10, 15)
    counts = [row["process_count"] for row in rows]
    assert set(counts) == {0, None}, "None at ticks that look at no processes"
    assert all(row["memory_used_bytes"] > 9 << 30 for row in rows)


def test_memory_and_encoder_are_seen_where_they_are_measured(seen, world: World):
    for source in set(SOURCES) - {"lowest"}:
        rows = during(seen[source]["samples"], world, 1, 7)
        assert all(row["memory_used_bytes"] == pytest.approx(20 << 30, rel=0.01) for row in rows), source
        assert all(row["encoder_e4"] == pytest.approx(2000, abs=30) for row in rows), source


SERVERS = """
about = "A server in a pod and one outside."
source = ["arithmetic"]
lasts = "10m"
lead = "2m"

[gpu]
count = 2

[[holder]]
name = "inside"
by = "kubernetes"
gpus = [0]
[[holder]]
name = "outside"
by = "slurm"
gpus = [1]

[process.inside]
command = "python api.py"
holder = "inside"
gpus = [0]
listens = [8000]
[process.outside]
command = "python api.py"
holder = "outside"
gpus = [1]
listens = [9000, 9001]

[[phase]]
name = "serve"
lasts = "1d"

[[label]]
kind = "working"
"""


def ports(table: str) -> set[int]:
    return {int(line.split()[1].split(":")[1], 16) for line in table.splitlines()[1:]}


def test_listening_sockets_stand_where_the_kernel_shows_them(tmp_path):
    (tmp_path / "servers.toml").write_text(SERVERS)
    world = live(read_habit(tmp_path / "servers.toml"), 3, DAY_MS)
    machine = Machine(world, tmp_path / "proc")
    machine.bring_to(world.begin_ms + 60_000)
    inside, outside = (
        next(one.pid for one in world.running if one.plan.name == n) for n in ("inside", "outside")
    )
    assert ports((machine.root / str(inside) / "net" / "tcp").read_text()) == {8000}
    assert ports((machine.root / str(outside) / "net" / "tcp").read_text()) == {9000, 9001}
    assert ports((machine.root / "net" / "tcp").read_text()) == {9000, 9001}
    row = (machine.root / str(inside) / "net" / "tcp").read_text().splitlines()[1].split()
    opened = {str(link.readlink()) for link in (machine.root / str(inside) / "fd").iterdir()}
    assert f"socket:[{row[9]}]" in opened
    assert machine.look((inside,), world.begin_ms + 60_000)[inside].pod is not None
    machine.close()


def test_who_ended_between_two_ticks_is_gone_in_the_next_phase(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(
        HABIT.replace('lasts = "8m"', 'lasts = "475s"', 1).replace('processes = ["ghost"]', "processes = []")
    )
    (gpu,) = live(read_habit(path), 7, DAY_MS).gpus
    (trainer,) = gpu.memory_of.values()
    assert (trainer > 0).sum() == 47  # whole ticks of 475 s
    assert gpu.power[60:].max() < 100  # a board without a context
