"""A real Slurm with slurmdbd: hundreds of jobs imported once, limits named, no past where it is silent."""

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from collector.managers.model import Limit, Look, WaitCause
from collector.managers.slurm.reader import SlurmManager
from collector.managers.slurm.sacct_text import FIELDS
from service.cli import main
from service.summaries import waiting
from tests.collector.managers.test_sacct_text import MEANS, comment
from tests.service.test_cli_import_jobs import stored
from tests.slurm_accounting import LIMITED, accounted_cluster
from tests.slurm_cluster import PATIENCE_S, SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.process]

TASKS = 240
NAME = "a|b\n99|bob@@x"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """One for all: its database takes most of ten seconds."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,
        accounted_cluster(Path(folder)) as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SLURM_CONF", str(made.conf))
        yield made


def said(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    capsys.readouterr()
    assert main(words) == code
    told = capsys.readouterr()
    return " ".join((told.out + told.err).split())


def test_hundreds_of_jobs_are_imported_once(
    cluster: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ("--parsable", "--output=/dev/null", "--chdir=/", "--wrap=true")
    array = cluster.ask(
        "sbatch", f"--array=0-{TASKS - 1}", "--gres=gpu:1", f"--job-name={NAME}", *quick
    ).strip()
    both = cluster.submit("--nodes=2", "--gpus=4")
    none = cluster.ask("sbatch", *quick).strip()
    asleep = cluster.submit("--gres=gpu:1", "--nodelist=n1")
    never = cluster.submit("--gres=gpu:8", "--nodes=2")
    left = f"squeue --noheader --states=pending,running,completing --jobs={array},{none} | wc -l"
    cluster.until("the array's end", "sh", "-c", left, says="0")
    for job in (asleep, both):
        cluster.until("its run", "squeue", "--noheader", f"--jobs={job}", "--format=%T", says="RUNNING")
    cluster.ask("scontrol", "requeue", asleep)
    cluster.ask("scontrol", "update", f"jobid={both}", f"AdminComment={comment(MEANS)}")
    cluster.ask("scancel", asleep, never, both)
    # What is put back waits some seconds before it may begin; cancelled before that, sacct doesn't show it.
    states = "sacct --duplicates --allocations --noheader --format=State"
    ended = f"test $({states} | grep -c -E 'COMPLETED|CANCELLED|REQUEUED') -ge {TASKS + 4} && echo all"
    cluster.until("the accounting", "sh", "-c", ended, says="all")
    running = cluster.submit("--gres=gpu:1")
    began = f"sacct --parsable2 --allocations --noheader --format=State --jobs={running}"
    cluster.until("its run in the accounting", "sh", "-c", began, says="RUNNING")
    words = ["import", "jobs", "--from", "slurm", "--since", "2d", "--data", str(tmp_path), "--yes"]
    first = said(words, capsys)
    assert "1 without GPUs" in first and "1 not over yet" in first and "can't be read" not in first, first
    tasks = stored(tmp_path, "accounted_runs", job=f"slurm:{array}_7")
    assert [(run["gpus"], run["gpu_types"], run["job_name"]) for run in tasks] == [
        (1, "h200", NAME.replace("\n", " "))
    ]
    (wide,) = stored(tmp_path, "accounted_runs", job=f"slurm:{both}")
    assert (wide["gpus"], wide["node_names"], wide["measured_gpus"]) == (4, ["n1", "n2"], 2)
    assert len(stored(tmp_path, "accounted_runs", job=f"slurm:{asleep}")) >= 1
    (held,) = stored(tmp_path, "accounted_runs", job=f"slurm:{never}")
    assert (held["started_at"], held["asked_gpus"]) == (None, 16)
    assert "0 new runs" in said(words, capsys)
    told = cluster.ask("sacct", "--allusers", "--duplicates", "--parsable2", f"--format={','.join(FIELDS)}")
    (tmp_path / "saved").write_text(told)
    file = [*words, "--file", str(tmp_path / "saved")]
    again = said(file, capsys)  # its steps aside, and names with a line end, which tear their lines here
    assert again.startswith("0 new runs") and "steps" in again and "can't be read" in again


def test_free_gpus_that_a_limit_keeps_are_not_unwanted(cluster: SlurmCluster) -> None:
    runs, waits = (cluster.submit("--gres=gpu:2", f"--qos={LIMITED}") for _ in range(2))
    cluster.until(
        "the limit", "squeue", "--noheader", f"--jobs={waits}", "--format=%r", says="QOSMaxJobsPerUserLimit"
    )
    look = SlurmManager(timeout_s=PATIENCE_S).look(time.time_ns() // 1_000_000)
    assert isinstance(look, Look), look
    (job,) = (each for each in look.jobs if each.key.id == waits)
    assert (job.cause, job.ask.gpus, job.qos) == (WaitCause.LIMIT, 2, LIMITED)
    row = {"cause": job.cause, "tasks": 1, "reason": job.reason, "qos": job.qos, "project": "root"}
    assert job.limit == Limit(name=LIMITED, what="jobs", most=1, used=1)
    row |= {"partition": job.partition, "reservation": job.reservation}
    row |= {"limit_met": json.dumps(asdict(job.limit))}
    free = [{"node": "n2", "state": "free", "state_reason": None}]
    assert waiting.kept([row], free, [{"node": "n2"}]) == (
        "1 GPU is free, and 1 job waits all the same: QOS single allows one person no more running jobs: "
        "1 at most, 1 in use.",
    )
    cluster.ask("scancel", runs, waits)


def test_a_time_limit_that_is_too_long_is_told_in_minutes(cluster: SlurmCluster) -> None:
    cluster.ask("sacctmgr", "--immediate", "add", "qos", "brief", "set", "MaxWall=01:30:00")
    cluster.ask("sacctmgr", "--immediate", "modify", "user", "root", "set", "qos+=brief")
    told = {}
    options = {"QOSMaxWallDurationPerJobLimit": ("--qos=brief",), "PartitionTimeLimit": ()}
    cluster.ask("scontrol", "update", "PartitionName=main", "MaxTime=1-00:00:00")
    for reason, more in options.items():
        long = "2:00:00" if more else "2-00:00:00"
        waits = cluster.submit("--gres=gpu:1", f"--time={long}", *more)
        cluster.until("the limit", "squeue", "--noheader", f"--jobs={waits}", "--format=%r", says=reason)
        look = SlurmManager(timeout_s=PATIENCE_S).look(time.time_ns() // 1_000_000)
        assert isinstance(look, Look), look
        (told[reason],) = (each.limit for each in look.jobs if each.key.id == waits)
        cluster.ask("scancel", waits)
    cluster.ask("scontrol", "update", "PartitionName=main", "MaxTime=INFINITE")
    assert told == {
        "QOSMaxWallDurationPerJobLimit": Limit(name="brief", what="wall", most=90),
        "PartitionTimeLimit": Limit(name="main", what="wall", most=1440),
    }


def test_init_imports_what_slurm_gave_out_before(
    cluster: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = cluster.submit("--gres=gpu:2", "--nodelist=n1")
    cluster.until("its run", "squeue", "--noheader", f"--jobs={ran}", "--format=%T", says="RUNNING")
    cluster.ask("scancel", ran)
    ended = f"sacct --allocations --noheader --format=State --jobs={ran}"
    cluster.until("its end in the accounting", "sh", "-c", ended, says="CANCELLED+")
    looked = said(["init", "--data", str(tmp_path / "data")], capsys)
    assert "its past is in sacct" in looked and "of Slurm's accounting would be imported" in looked, looked
    assert not (tmp_path / "data").exists(), "looking writes nothing"
    done = said(["init", "--data", str(tmp_path / "data"), "--since", "2d", "--yes"], capsys)
    (run,) = stored(tmp_path / "data", "accounted_runs", job=f"slurm:{ran}")
    assert (run["gpus"], run["node_names"]) == (2, ["n1"]), done


def test_a_silent_slurmdbd_is_no_empty_past(
    cluster: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.kill("slurmdbd")
    told = said(["import", "jobs", "--from", "slurm", "--data", str(tmp_path), "--yes"], capsys, code=2)
    looked = said(["init", "--data", str(tmp_path / "none")], capsys, code=1)
    cluster.start("slurmdbd")
    assert "sacct" in told and "new runs" not in told
    assert "its past is not there: sacct" in looked and "accounting would be imported" not in looked
