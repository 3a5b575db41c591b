"""An elastic training in a real Slurm: grown by a job that Slurm takes back, and paused under its own id."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from tests.fallow.slurm_training import Training, by_partition  # noqa: E402
from tests.slurm_accounting import accounted_cluster  # noqa: E402
from tests.slurm_cluster import slurm_cluster  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.process]
NOBODY = "65534"
"""Another person: Debian's nobody."""
CONF_QOS = """\
PreemptType=preempt/qos
PreemptMode=CANCEL
KillWait=15
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        Path(name).chmod(0o755)  # other people's jobs run from Slurm's folder in it
        yield Path(name)


@pytest.fixture
def training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Training]:
    for name in ("PYTHONPATH", "LEDGER", "CHECKPOINT"):
        monkeypatch.setenv(name, "")
    (folder / "a").mkdir()
    (folder / "s").mkdir()
    with slurm_cluster(folder / "s", nodes=1, gpus=2, accounting=by_partition) as cluster:
        yield Training(cluster, folder / "a", "--partition=low --gres=gpu:1", "--partition=normal")


def test_a_top_up_is_lent_taken_back_by_slurm_and_the_job_paused_under_its_id(training: Training) -> None:
    training.until_world(1)
    waiting = training.cluster.submit("--partition=low", "--gres=gpu:2", f"--uid={NOBODY}", f"--gid={NOBODY}")
    training.until("a reason", lambda: training.reason(waiting) in ("Resources", "Priority"))
    refused = training.ask("top-up", "1")
    assert "could use these GPUs" in refused["error"] or "nothing is free" in refused["error"], refused
    assert set(training.jobs()) == {training.job, waiting}
    training.cluster.ask("scancel", waiting)
    assert training.ask("top-up", "1") == {"top_ups": 1, "workers": 2}, training.logs()
    other = taken_back(training)
    # While somebody holds what there was, nothing is asked for; and only as many as were allowed.
    refused = training.ask("top-up", "1")
    assert "error" in refused and refused["top_ups"] == 0, (refused, training.logs())
    assert training.ask("top-up", "2") == {"error": "top-up 2: --top-up allows 1"}
    assert set(training.jobs()) == {training.job, other}
    # Paused: saved, held under its own id, and let go on.
    assert training.ask("suspend")["stopping"]
    training.until("the hold", lambda: training.state(training.job) == "SPECIAL_EXIT")
    paused_at = training.written.last()["step"]
    training.cluster.ask("scontrol", "release", training.job)
    training.until("going on", lambda: bool(training.written.last()["step"] > paused_at + 5))
    assert training.state(training.job) == "RUNNING"
    assert training.ask("stop")["stopping"]
    training.until("the end", lambda: training.state(training.job) != "RUNNING")
    training.is_exact()


@pytest.mark.long
def test_no_top_up_outlives_a_training_that_was_killed(training: Training) -> None:
    training.until_world(1)
    assert training.ask("top-up", "1") == {"top_ups": 1, "workers": 2}, training.logs()
    controller = next(
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit()
        and b"fallow.controller\0--listen" in command(process)
        and str(training.folder).encode() in command(process)
    )
    os.kill(controller, signal.SIGKILL)
    killed_s = time.monotonic()
    training.until("an empty queue", lambda: not training.jobs())
    print(f"no job was left {time.monotonic() - killed_s:.1f} s after the controller was killed")


@pytest.mark.long
def test_a_top_up_of_a_qos_that_others_preempt_is_taken_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "LEDGER", "CHECKPOINT"):
        monkeypatch.setenv(name, "")
    (folder / "a").mkdir()
    (folder / "s").mkdir()
    with accounted_cluster(folder / "s", nodes=1, gpus=2, conf=CONF_QOS) as cluster:
        add = ("sacctmgr", "--immediate", "add")
        cluster.ask(*add, "qos", "spare")
        cluster.ask("sacctmgr", "--immediate", "modify", "qos", "normal", "set", "preempt=spare")
        cluster.ask(*add, "user", "nobody", "account=root", "qos=normal", "defaultqos=normal")
        cluster.ask("sacctmgr", "--immediate", "modify", "user", "root", "set", "qos+=spare")
        training = Training(cluster, folder / "a", "--qos=spare --gres=gpu:1")
        training.until_world(1)
        assert training.ask("top-up", "1") == {"top_ups": 1, "workers": 2}, training.logs()
        taken_back(training)
        assert training.ask("stop")["stopping"]
        training.until("the end", lambda: training.state(training.job) != "RUNNING")
        training.is_exact()


def command(process: Path) -> bytes:
    """A process's words; none of one that has ended."""
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def taken_back(training: Training) -> str:
    """Another person's job needs the top-up's GPU, and gets it; returns that job. Nobody waits for it."""
    training.until_world(2)
    [top_up] = set(training.jobs()) - {training.job}
    told_s = time.time()
    other = training.cluster.submit(*training.options, "--gres=gpu:1", f"--uid={NOBODY}", f"--gid={NOBODY}")
    training.until("the other's start", lambda: training.state(other) == "RUNNING")
    handed_s = time.time() - told_s
    training.until_world(1)
    pause_s = training.written.longest_pause_s(told_s)
    print(f"taken back: the other's job ran after {handed_s:.1f} s; no step for {pause_s:.2f} s at most")
    assert "recovers" not in training.text, training.text
    assert training.state(top_up) in ("PREEMPTED", "COMPLETING"), training.logs()
    return other
