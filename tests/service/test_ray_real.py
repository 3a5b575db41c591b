"""A real Ray head: what is read of it, with a service beside, its GCS stopped, a new head in its place."""

import ast
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.managers.model import JobState, Look, WaitCause
from collector.managers.ray.api import Account
from collector.managers.ray.reader import RayManager
from collector.model import Unavailable
from tests.collector.dcgm import loopback
from tests.ray_cluster import GPUS, TRAINING, RayCluster, ray_cluster
from tests.service.conftest import fallow, is_well, start, stop_well, until

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long, pytest.mark.ray]

Has = tuple[int, list[int]]
"""A worker's pid and its GPUs, by its own word."""

LABELS = 'gpu="{0}",UUID="GPU-a{0}",device="nvidia{0}",modelName="NVIDIA A100",Hostname="{1}"'
CONFIG = """[collect]
sources = ["dcgm={exporter}"]
tick_s = 1
inventory_every_s = 2
slurm = false
ray = "{url}"
ray_user_key = "user"
"""


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as cluster:
        yield cluster


def trained(cluster: RayCluster) -> tuple[Has, Has, Has]:
    """Starts the training; what its two actors and its task have, when all of it runs or waits."""
    program, said = cluster.folder / "train.py", cluster.folder / "said"
    program.write_text(TRAINING)
    cluster.submit("train@2", f"{sys.executable} {program} {said}", user="ann")
    cluster.until("the training runs", said.exists)
    half, grouped = ast.literal_eval(said.read_text())
    pid, _, gpus = (cluster.folder / "said.task").read_text().partition(" ")
    return half, grouped, (int(pid), ast.literal_eval(gpus))


def look(manager: RayManager) -> Look:
    outcome = manager.look(time.time_ns() // 1_000_000)
    assert isinstance(outcome, Look), outcome
    return outcome


def exported() -> str:
    """4 idle GPUs of this host, as dcgm-exporter writes them."""
    values = (("DCGM_FI_DEV_GPU_UTIL", 0), ("DCGM_FI_DEV_FB_USED", 400), ("DCGM_FI_DEV_FB_FREE", 79_000))
    host = socket.gethostname()
    return "".join(
        f"# TYPE {name} gauge\n"
        + "".join(f"{name}{{{LABELS.format(at, host)}}} {value}\n" for at in range(GPUS))
        for name, value in values
    )


def test_holders_and_who_waits_are_as_the_program_has_them(cluster: RayCluster, tmp_path: Path) -> None:
    manager = RayManager(Account(url=cluster.url), user_key="user")
    assert [(node.gpus, node.given_gpus) for node in look(manager).nodes] == [(GPUS, 0)]
    half, grouped, task = trained(cluster)

    def held() -> set[tuple[tuple[int, ...], tuple[int, ...], float]]:
        grants = [grant for job in look(manager).jobs for grant in job.given or ()]
        return {(grant.pids, grant.indices, grant.share) for grant in grants}

    cluster.until("its workers are told", lambda: len(held()) == 4)  # they are asked every 15 s
    cluster.until("its GPUs are counted", lambda: [node.state for node in look(manager).nodes] == [None])
    free = set(range(GPUS)) - {gpu for _, gpus in (half, grouped, task) for gpu in gpus}
    assert len(free) == 1, "which the second bundle has, with nobody in it"
    assert held() == {
        ((half[0],), tuple(half[1]), 0.5),
        ((grouped[0],), tuple(grouped[1]), 1.0),
        ((task[0],), tuple(task[1]), 1.0),
        ((), tuple(free), 1.0),
    }
    waits = {job.shown_id: job for job in look(manager).jobs if job.state is JobState.PENDING}
    assert {name: (job.ask.gpus, job.tasks, job.cause) for name, job in waits.items()} == {
        "train@2 big": (8, 1, WaitCause.RESOURCES),
        "train@2 tasks": (1, 3, WaitCause.RESOURCES),
    }
    beside_a_service(cluster, tmp_path)
    with_its_gcs_stopped(cluster, manager)
    with_a_new_head(cluster, manager)


def beside_a_service(cluster: RayCluster, tmp_path: Path) -> None:
    with loopback.serving(lambda path, headers: loopback.text(exported())) as exporter:
        made = start(tmp_path / "data", (), CONFIG.format(exporter=exporter, url=cluster.url))
        try:
            until("the service is well", lambda: is_well(made))
            client = made.client()
            until("the cluster was looked at", lambda: bool(client.rows("manager_queue")))
            until("holders are known", lambda: all(row["job"] for row in client.rows("gpus_now")))
            assert {row["user_name"] for row in client.rows("gpus_now")} == {"ann"}
            queue = fallow("queue", data=made.data).stdout
            assert f"At Ray, cluster 127.0.0.1:{cluster.dashboard}: 4 jobs wait for 11 GPUs" in queue
            told = fallow("job", "ray:train@2", data=made.data).stdout
            assert "train@2 · ann" in told and "running since" in told
        finally:
            stop_well(made)


def with_its_gcs_stopped(cluster: RayCluster, manager: RayManager) -> None:
    (gcs,) = cluster.pids("/gcs_server")
    os.kill(gcs, signal.SIGSTOP)
    try:
        gone = manager.look(time.time_ns() // 1_000_000)
        assert isinstance(gone, Unavailable) and "HTTP 500" in gone.reason
    finally:
        os.kill(gcs, signal.SIGCONT)


def with_a_new_head(cluster: RayCluster, manager: RayManager) -> None:
    before = {job.holder.job for job in look(manager).jobs}
    cluster.kill()
    gone = manager.look(time.time_ns() // 1_000_000)
    assert isinstance(gone, Unavailable) and "does not answer" in gone.reason
    cluster.start()
    after = look(manager)
    assert before and after.jobs == ()
