"""``fallow queue``, ``fallow job`` and ``fallow doctor`` at a Ray cluster: recorded answers, a real store."""

import json
from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.attribution import effective
from collector.managers.ray.api import Account, Answer
from collector.managers.ray.reader import RayManager
from collector.managers.source import ManagerSource
from collector.reading import Reading, Tick
from collector.store.withheld import given_out
from service.cli import main, manager_queue
from service.config.model import CollectConfig, Config
from service.doctor_checks.ray import ray_finding
from service.doctor_checks.results import Verdict
from service.sources.making import SourceRefused, ray_manager
from tests.collector.managers.ray.dashboard import CLUSTER, TASK, TOLD_MS, Dashboard
from tests.collector.store.store_parts import at_path, gpu
from tests.stores import open_store

T0_MS = TOLD_MS + 3_000
TRAIN = f"ray:{CLUSTER[:8]}/train%402"
HEAD = Account(url="http://head:8265")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """One look at a cluster whose node is measured."""
    reading = ManagerSource(RayManager(HEAD, user_key="user", get=Dashboard().get)).read(T0_MS)
    assert isinstance(reading, Reading), reading
    hardware = Reading(
        source="dcgm", at_ms=T0_MS, gpus=tuple(gpu(at, node="gpu-a.lab.example") for at in range(4))
    )
    found = effective([hardware, reading], T0_MS)
    assert found is not None
    tick = Tick(at_ms=T0_MS, width_ms=30_000, outcomes=(hardware, reading), allocations=found.allocations)
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick)
    return tmp_path


def queued(site: Path) -> list[Any]:
    """The rows of the query ``manager_queue``, as a service sends them."""
    with open_store(at_path(site)) as store, store.reader() as reader:
        return json.loads(json.dumps(run(reader, "manager_queue", {}).to_pylist(), default=str))  # type: ignore[no-any-return]


def test_who_waits_at_ray_is_drawn_in_plain_words(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manager_queue.draw(queued(site), [], [], None, T0_MS)
    drawn = capsys.readouterr().out
    assert "At Ray, cluster head:8265: 6 jobs wait for 22 GPUs; 5 of them until GPUs are free" in drawn
    assert "ray:train@2 big" in drawn and "slurm:" not in drawn
    flat = " ".join(drawn.split())
    assert "not enough is free of what its placement group asks for" in flat
    assert "no node that is there could take it; it begins if one is added" in flat


def test_the_queue_as_json_names_the_job_and_the_cause(site: Path) -> None:
    rows = manager_queue.as_json(queued(site))
    assert [(row["job"], row["user"], row["gpus"], row["tasks"], row["cause"]) for row in rows] == [
        (TRAIN, "ann", 8, 1, "resources"),
        (TRAIN, "ann", 2, 1, "resources"),
        (TRAIN, "ann", 1, 3, "resources"),
        (TRAIN, "ann", 9, 1, "nodes"),
    ]


@pytest.mark.parametrize("name", ["ray:train@2", TRAIN])
def test_a_job_is_told_by_its_submissions_name(
    site: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", name, "--data", str(site)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"{TRAIN} train@2 · ann" in told
    assert "At Ray, cluster head:8265: running since" in told
    assert "gpu-a: GPU 0, gpu-a: GPU 1, gpu-a: GPU 2, gpu-a: GPU 3" in told
    assert "run before it" not in told
    if name == TRAIN:
        assert "for 8 GPUs more: not enough is free of what its placement group asks for" in told


def test_nodes_that_ray_gave_out_are_nobodys_until_it_answers_after_a_restart(site: Path) -> None:
    with open_store(at_path(site)) as store, store.reader() as reader:
        assert given_out(reader, T0_MS) == {"ray": ("gpu-a.lab.example",)}


def test_doctor_sums_up_a_cluster_and_names_what_is_open() -> None:
    world = Dashboard()
    found = ray_finding(RayManager(HEAD, get=world.get).look(T0_MS), says_who=True)
    said = "cluster head:8265: 1 node with GPUs, 4 of 4 GPUs given out to 1 job, 6 wait"
    assert (found.verdict, found.found) == (Verdict.GOOD, said)
    nameless = ray_finding(RayManager(HEAD, get=world.get).look(T0_MS), says_who=False)
    assert "whose jobs they are Ray doesn't know (collect.ray_user_key)" in nameless.found
    world.without_worker(TASK)
    doubted = ray_finding(RayManager(HEAD, get=world.get).look(T0_MS), says_who=True)
    assert doubted.verdict is Verdict.LIMITED
    assert (
        "gpu-a: Ray gave out 3.5 GPUs of this node; its workers and placement groups have 2.5"
        in doubted.found
    )
    world.instead["nodes"] = Answer(status=500, body=None)
    silent = ray_finding(RayManager(HEAD, get=world.get).look(T0_MS), says_who=True)
    assert (silent.verdict, silent.found) == (Verdict.LIMITED, "Ray: nodes could not be listed: HTTP 500")


@pytest.mark.parametrize(
    "address", ["head:8265", "ray://head:10001", "http://", "http://user:word@head:8265"]
)
def test_an_address_that_is_no_dashboards_is_refused(address: str) -> None:
    with pytest.raises(SourceRefused, match="as http://head:8265"):
        ray_manager(Config(collect=CollectConfig(ray=address)))
