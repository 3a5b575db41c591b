"""Who waited while others held GPUs idle, and why others waited, as a real Slurm has it."""

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import ManagerSource
from collector.model import Allocation, ClaimSource
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
    """The cluster each minute, GPU 0 of both nodes busy and all others idle."""
    manager = ManagerSource(SlurmManager(timeout_s=PATIENCE_S))
    places = [(f"n{number // GPUS + 1}", number % GPUS) for number in range(2 * GPUS)]
    known = tuple(gpu(at, node=node, index=index) for at, (node, index) in enumerate(places))
    with open_store(at_path(path)) as store:
        for minute in range(MINUTES + 4):
            at_ms = START_MS + minute * 60_000
            reading = manager.read(at_ms)
            assert isinstance(reading, Reading), reading
            held = tuple(
                Allocation(
                    uuid=uuid(places.index((claim.node, claim.index))),
                    holder=claim.holder,
                    share=claim.share,
                    source=ClaimSource.SLURM,
                )
                for claim in reading.claims
                if claim.index is not None
            )
            taken = {each.uuid for each in held}
            samples = tuple(
                sample(
                    at,
                    at_ms,
                    0.0 if index else 0.9,
                    width_ms=60_000,
                    process_count=int(uuid(at) in taken),
                    memory_used_bytes=(10 << 30) if uuid(at) in taken else 0,
                )
                for at, (_, index) in enumerate(places)
            )
            hardware = Reading(source="dcgm", at_ms=at_ms, gpus=known, samples=samples)
            store.write_tick(
                Tick(at_ms=at_ms, width_ms=60_000, outcomes=(hardware, reading), allocations=held)
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
        "whoever holds them back": 1,
        "a time of their own": 1,
    }
    assert main(["report", "cluster-week", *span, "--format", "json", "--out", "-"]) == 0
    assert "waited" in json.loads(capsys.readouterr().out)["tables"]


def _at(minutes: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(START_MS / 1000 + minutes * 60))
