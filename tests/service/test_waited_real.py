"""Who waited while others held GPUs idle, and why others waited, as a real Slurm has it."""

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.query import run
from collector.attribution import effective
from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import ManagerSource
from collector.reading import Reading, Tick
from service.cli import main
from tests.collector.store.store_parts import at_path, gpu, sample, uuid
from tests.slurm_cluster import PATIENCE_S, SlurmCluster, slurm_cluster
from tests.stores import open_store

pytestmark = [pytest.mark.slow, pytest.mark.process]

MINUTES = 10
"""Looked at once a minute of an invented hour, which is rolled up at once."""
START_MS = (time.time_ns() // 1_000_000 + 3_600_000) // 3_600_000 * 3_600_000
GPUS = 4
"""Of each of two nodes."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder), nodes=2) as made:
        monkeypatch.setenv("SLURM_CONF", str(made.conf))
        yield made


def pending(cluster: SlurmCluster, job: str, reason: str) -> None:
    cluster.until("its reason", "squeue", "--noheader", f"--jobs={job}", "--format=%r", says=reason)


def watch(path: Path) -> None:
    """The cluster each minute, GPU 0 of each node busy where somebody has it, and all others idle."""
    manager = ManagerSource(SlurmManager(timeout_s=PATIENCE_S))
    places = [(f"n{number // GPUS + 1}", number % GPUS) for number in range(2 * GPUS)]
    known = tuple(gpu(at, node=node, index=index) for at, (node, index) in enumerate(places))
    with open_store(at_path(path)) as store:
        for minute in range(MINUTES + 4):
            at_ms = START_MS + minute * 60_000
            reading = manager.read(at_ms)
            assert isinstance(reading, Reading), reading
            taken = {
                uuid(places.index((claim.node, claim.index)))
                for claim in reading.claims or ()
                if claim.index is not None
            }
            samples = tuple(
                sample(
                    at,
                    at_ms,
                    0.9 if index == 0 and uuid(at) in taken else 0.0,
                    width_ms=60_000,
                    process_count=int(uuid(at) in taken),
                    memory_used_bytes=(10 << 30) if uuid(at) in taken else 0,
                )
                for at, (_, index) in enumerate(places)
            )
            hardware = Reading(source="dcgm", at_ms=at_ms, gpus=known, samples=samples)
            found = effective((hardware, reading), at_ms)
            assert found is not None
            store.write_tick(
                Tick(
                    at_ms=at_ms,
                    width_ms=60_000,
                    outcomes=(hardware, reading),
                    allocations=found.allocations,
                    withheld=found.withheld,
                    out_of_service=found.out_of_service,
                )
            )


def test_waits_for_gpus_stand_beside_idle_ones_and_other_waits_do_not(
    cluster: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holds = cluster.submit("--gres=gpu:4", "--nodelist=n1", "--job-name=idle")
    other = cluster.submit("--gres=gpu:2", "--nodelist=n2", "--uid=65534", "--gid=65534")
    for job in (holds, other):
        cluster.until("its run", "squeue", "--noheader", f"--jobs={job}", "--format=%T", says="RUNNING")
    wants = cluster.submit("--gres=gpu:4", "--nodelist=n1", "--uid=65534", "--gid=65534")
    pending(cluster, wants, "Resources")
    after = cluster.submit("--gres=gpu:1", f"--dependency=afterok:{holds}")
    pending(cluster, after, "Dependency")
    pending(cluster, cluster.submit("--gres=gpu:1", "--hold"), "JobHeldUser")
    pending(cluster, cluster.submit("--gres=gpu:1", "--begin=now+1hour"), "BeginTime")
    watch(tmp_path)
    span = ["--since", _at(0), "--until", _at(MINUTES), "--data", str(tmp_path)]
    assert main(["report", "waited", *span, "--format", "json", "--out", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    tables = told["tables"]
    (row,) = tables["waited_by_user"]
    part = MINUTES / 60
    assert row["key"] == "nobody" and row["waited_gpu_hours"] == pytest.approx(4 * part)
    # Three of n1's idle and are root's job's, one of n2's and is the waiting person's own.
    assert row["beside_idle_gpu_hours"] == pytest.approx(3 * part, rel=0.01)
    assert row["beside_own_gpu_hours"] == pytest.approx(1 * part, rel=0.01)
    (held,) = tables["held_by_job"]
    assert (held["key"], held["user_name"]) == (f"slurm:{holds}", "root")
    causes = {each["cause"]: each["jobs"] for each in tables["causes"]}
    assert causes == {
        "GPUs, or what else they asked for": 1,
        "another job": 1,
        "somebody to release them": 1,
        "a time of their own": 1,
    }
    assert main(["report", "cluster-week", *span, "--format", "json", "--out", "-"]) == 0
    assert "waited" in json.loads(capsys.readouterr().out)["tables"]


def test_free_gpus_of_a_reservation_on_a_node_with_jobs_are_kept_by_it(
    cluster: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.ask(
        *("scontrol", "create", "reservation", "reservationname=night", "starttime=now", "duration=2:00:00"),
        *("nodes=n2", "users=nobody"),
    )
    inside = cluster.submit("--gres=gpu:1", "--reservation=night", "--uid=65534", "--gid=65534")
    cluster.until("its run", "squeue", "--noheader", f"--jobs={inside}", "--format=%T", says="RUNNING")
    watch(tmp_path)
    with open_store(at_path(tmp_path)) as store, store.reader() as reader:
        gpus = run(reader, "gpus_now", {}).to_pylist()
    kept = {(row["node"], row["state"], row["state_reason"]) for row in gpus if row["job"] is None}
    assert kept == {("n1", "free", None), ("n2", "reserved", "reservation night of user nobody")}
    span = ["--since", _at(0), "--until", _at(MINUTES), "--data", str(tmp_path)]
    assert main(["report", "waited", *span, "--format", "json", "--out", "-"]) == 0
    unheld = {row["why"]: row["gpu_hours"] for row in json.loads(capsys.readouterr().out)["tables"]["unheld"]}
    assert unheld == {
        "nothing: no job waited for them": pytest.approx(4 * MINUTES / 60, rel=0.1),
        "reservation night of user nobody": pytest.approx(3 * MINUTES / 60, rel=0.1),
    }


def _at(minutes: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(START_MS / 1000 + minutes * 60))
