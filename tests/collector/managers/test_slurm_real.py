"""A real Slurm: what is read of it, with its daemons killed, with jobs hidden, with a number used again."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.managers.model import JobState, Look
from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import claims_of
from collector.model import OutOfService, Unavailable
from tests.slurm_cluster import PATIENCE_S, SlurmCluster, slurm_cluster

pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder)) as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        yield cluster


def look(manager: SlurmManager) -> Look:
    outcome = manager.look(time.time_ns() // 1_000_000)
    assert isinstance(outcome, Look), outcome
    return outcome


def reason(manager: SlurmManager) -> str:
    outcome = manager.look(time.time_ns() // 1_000_000)
    assert isinstance(outcome, Unavailable), outcome
    return outcome.reason


def running(cluster: SlurmCluster, count: int) -> None:
    cluster.until(
        "jobs", "sh", "-c", "squeue --noheader --states=running --format=%A | wc -l", says=str(count)
    )


def test_jobs_nodes_and_the_queue_are_as_slurm_has_them(cluster: SlurmCluster) -> None:
    whole = cluster.submit("--gres=gpu:3", "--nodelist=n1", "--job-name=a\nJobId=2 JobName=x")
    shared = cluster.submit("--gres=shard:2", "--nodelist=n2")
    both = cluster.submit("--gpus=2", "--nodes=2", "--nodelist=n[2-3]", "--time=30")
    array = cluster.submit("--array=1-9%2", "--gres=gpu:4", "--hold")
    waiting = cluster.submit("--gres=gpu:4", "--nodes=3")
    running(cluster, 3)
    why = f"squeue --noheader --jobs={waiting} --format=%r | grep -c -v None"
    cluster.until("reason", "sh", "-c", why, says="1")
    cluster.ask("scontrol", "update", "nodename=n3", "state=drain", "reason=bad | DIMM")
    seen = look(SlurmManager(timeout_s=PATIENCE_S))
    assert seen.cluster == "lab"
    jobs = {job.key.id: job for job in seen.jobs}
    assert {number: job.state for number, job in jobs.items()} == {
        whole: JobState.RUNNING,
        shared: JobState.RUNNING,
        both: JobState.RUNNING,
        array: JobState.PENDING,
        waiting: JobState.PENDING,
    }
    assert (jobs[both].limit_s, jobs[both].ask.gpus, jobs[both].ask.nodes) == (1800, 2, 2)
    assert (jobs[array].tasks, jobs[array].reason, jobs[array].ask.gpus) == (9, "JobHeldUser", 4)
    assert jobs[waiting].ask.gpus == 12 and jobs[waiting].reason
    claims = {(claim.node, claim.index, claim.holder.job) for claim in claims_of(seen)}
    assert {(node, job) for node, index, job in claims if index is not None} == {
        ("n1", f"slurm:{whole}"),
        ("n2", f"slurm:{shared}"),
        ("n2", f"slurm:{both}"),
        ("n3", f"slurm:{both}"),
    }
    assert len(claims) == 3 + 1 + 2 and all(index is not None for _, index, _ in claims)
    states = {node.name: (node.state, node.gpus) for node in seen.nodes}
    assert states == {"n1": (None, 4), "n2": (None, 4), "n3": (OutOfService.DRAINED, 4)}


def test_a_dead_controller_and_a_dead_munge_are_no_empty_cluster(cluster: SlurmCluster) -> None:
    cluster.submit("--gres=gpu:2")
    running(cluster, 1)
    manager = SlurmManager(timeout_s=PATIENCE_S)
    assert len(claims_of(look(manager))) == 2
    cluster.kill("munged")
    assert "is slurmctld up, and munge?" in reason(SlurmManager())
    cluster.start("munged")
    cluster.until("munge", "squeue", "--noheader", "--format=%T", says="RUNNING")
    assert len(claims_of(look(manager))) == 2
    cluster.kill("slurmctld")
    assert reason(SlurmManager())
    cluster.start("slurmctld")
    running(cluster, 1)
    assert len(claims_of(look(manager))) == 2


PLAIN = """
import os, pwd, time
from collector.managers.slurm.reader import SlurmManager
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(getattr(SlurmManager().look(time.time_ns() // 1_000_000), "reason", "a look"))
"""
"""What an account that is nobody's sees."""


def test_hidden_jobs_are_no_empty_cluster(cluster: SlurmCluster) -> None:
    cluster.submit("--gres=gpu:2")
    running(cluster, 1)

    def plain() -> str:
        done = subprocess.run(
            [sys.executable, "-c", PLAIN],
            cwd=Path(__file__).parents[3],
            env={**cluster.environment, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert plain() == "a look"
    cluster.conf.write_text(f"{cluster.conf.read_text()}PrivateData=jobs\n")
    cluster.ask("scontrol", "reconfigure")
    assert "hides other people's jobs" in plain()


def test_a_number_that_a_crash_gave_twice_is_two_jobs(cluster: SlurmCluster) -> None:
    manager = SlurmManager(timeout_s=PATIENCE_S)
    first = cluster.submit("--gres=gpu:1", "--hold")
    assert [job.holder.job for job in look(manager).jobs] == [f"slurm:{first}"]
    cluster.kill("slurmctld")
    shutil.rmtree(cluster.folder / "state")  # as if nothing had been written yet
    (cluster.folder / "state").mkdir()
    time.sleep(1.1)  # times of submission are whole seconds
    cluster.start("slurmctld")
    cluster.until("controller", "squeue", "--noheader", says="")
    assert cluster.submit("--gres=gpu:1", "--hold") == first
    (again,) = look(manager).jobs
    assert again.holder.job == f"slurm:{first}@{again.key.submitted_ms // 1000}"


def test_a_requeued_job_is_the_same_and_an_ended_one_says_how(cluster: SlurmCluster) -> None:
    manager = SlurmManager(timeout_s=PATIENCE_S)
    number = cluster.submit("--gres=gpu:1")
    running(cluster, 1)
    before = look(manager).jobs[0].key
    cluster.ask("scontrol", "requeuehold", number)
    cluster.until("requeue", "squeue", "--noheader", "--format=%T", says="PENDING")
    (job,) = look(manager).jobs
    assert (job.holder.job, job.key.restarts, job.state) == (f"slurm:{number}", 1, JobState.PENDING)
    assert job.key != before and job.given == ()
    cluster.ask("scancel", number)
    cluster.until("end", "squeue", "--noheader", says="")
    (job,) = look(manager).jobs
    assert (job.state, job.state_name) == (JobState.ENDED, "CANCELLED") and job.ended_ms is not None
