"""Launchers that outlive a restore of an older backup: numbers are given again, and nobody is mistaken."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.driver.driver import CompilerMissing, Driver, build
from tests.service.launcher.conftest import until
from tests.service.launcher.test_launcher_real import CONFIG, LIMIT_S, Machine, waits


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    try:
        build()
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with Driver(tmp_path, gpus=2) as driver:
        made = Machine(tmp_path, driver)
        made.serve()
        try:
            yield made
        finally:
            for job in made.jobs:
                job.kill()
                job.wait()
            made.kill_service()


def restore(machine: Machine) -> None:
    """Put a DATA folder from before the first job in the place of this one."""
    machine.kill_service()
    shutil.rmtree(machine.data)
    machine.data.mkdir(mode=0o700)
    (machine.data / "fallow.toml").write_text(CONFIG)
    machine.serve()


@pytest.mark.long
def test_a_new_job_of_an_old_number_neither_ends_the_old_one_nor_is_confused_with_it(
    machine: Machine, tmp_path: Path
) -> None:
    old = machine.run("--gpus", "1", "--", *waits(tmp_path / "old"))
    number = old.id
    old.stands("running")
    waiting = machine.run("--gpus", "2", "--", "true")
    until(lambda: "in the queue" in waiting.said(), "it waits", LIMIT_S)
    restore(machine)
    until(lambda: "doesn't know this job" in old.said(), "the old one is told", LIMIT_S)
    until(lambda: "submitted again" in waiting.said(), "who waits is handed in again", LIMIT_S)
    assert waiting.end() == 0
    assert waiting.id == number, "the number is given again"
    new = machine.run("--gpus", "1", "--", *waits(tmp_path / "new"))
    launcher = new.stands("running")["launcher"]
    assert launcher["pid"] == new.process.pid
    (tmp_path / "new").touch()
    assert new.end() == 0
    assert new.stands("ended")["exit_reason"] == "done"
    assert old.process.poll() is None
    assert "has ended this job" not in old.said()
    assert old.said().count("doesn't know this job") == 1
    (tmp_path / "old").touch()
    assert old.end() == 0


@pytest.mark.long
def test_the_log_of_a_job_that_nobody_knows_any_more_is_followed_while_its_launcher_lives(
    machine: Machine, tmp_path: Path
) -> None:
    script = f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo done"
    job, log = machine.fallow("run", "--detach", "--", "sh", "-c", script).stdout.split()
    machine.stands(job, "running")
    until(lambda: "begun" in Path(log).read_text(), "it prints")
    restore(machine)
    other = machine.run("--", "true")
    assert other.end() == 0
    assert other.id == job, "whose end is no end of this log"
    following = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "logs", job, "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=machine.env,
    )
    until(lambda: "doesn't know this job" in Path(log).read_text(), "its launcher is told", LIMIT_S)
    with pytest.raises(subprocess.TimeoutExpired):
        following.wait(5)
    (tmp_path / "go").touch()
    text, why = following.communicate(timeout=LIMIT_S)
    assert following.returncode == 0
    assert "begun\n" in text  # it may have waited for the next look at the queue, and said so
    assert text.endswith("done\n")
    assert "does not know the job of this log" in why
    again = machine.fallow("logs", job, "-f")
    assert (again.returncode, again.stdout) == (0, text)


def put_back(machine: Machine, kept: Path) -> None:
    """Put a backup in the place of DATA, as one does after a disk was lost."""
    machine.kill_service()
    shutil.rmtree(machine.data)
    shutil.copytree(kept, machine.data)
    machine.serve()


def back_up(machine: Machine, tmp_path: Path) -> Path:
    machine.kill_service()
    kept = shutil.copytree(machine.data, tmp_path / "kept", ignore=shutil.ignore_patterns("*.sock"))
    machine.serve()
    return kept


def test_a_job_that_was_started_since_the_backup_keeps_its_gpu_and_is_given_no_other(
    machine: Machine, tmp_path: Path
) -> None:
    first = machine.run("--gpus", "2", "--", *waits(tmp_path / "first"))
    first.stands("running")
    job = machine.run("--gpus", "1", "--", *waits(tmp_path / "job"))
    until(lambda: "in the queue" in job.said(), "it waits", LIMIT_S)
    kept = back_up(machine, tmp_path)
    (tmp_path / "first").touch()
    assert first.end() == 0
    held = job.stands("running")["gpus"]
    put_back(machine, kept)
    other = machine.run("--gpus", "1", "--", *waits(tmp_path / "other"))
    theirs = other.stands("running")["gpus"]
    found = job.stands("running")
    assert (found["gpus"], len(held)) == (held, 1)
    assert set(theirs).isdisjoint(held)
    assert machine.fallow("cancel", job.id, "--because", "seen").returncode == 0
    assert job.stands("ended")["exit_reason"] == "cancelled"
    job.end()
    (tmp_path / "other").touch()
    assert other.end() == 0


@pytest.mark.long
def test_a_job_that_was_paused_since_the_backup_goes_on(machine: Machine, tmp_path: Path) -> None:
    script = (
        f"trap 'exit 0' USR1; echo begun >>{tmp_path}/begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    )
    job = machine.run("--checkpoint-signal", "USR1", "--", "sh", "-c", script)
    job.stands("running")
    until((tmp_path / "begun").exists, "it runs")
    kept = back_up(machine, tmp_path)
    assert machine.fallow("pause", job.id, "--because", "lunch").returncode == 0
    job.stands("paused")
    put_back(machine, kept)
    until(lambda: (tmp_path / "begun").read_text().count("begun") == 2, "it goes on", LIMIT_S)
    held = job.stands("running")["gpus"]
    assert {row.gpu for row in machine.client().leases()} == set(held)
    (tmp_path / "go").touch()
    assert job.end() == 0
