"""Launchers and a store of the Fallow before proofs, under this one: with its own code, and its words.

The code is that of commit 4c8331a, taken from this repository's history; where there is none, its recorded
words on the wire are played instead.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from service.errors import JobEnded
from tests.driver.driver import CompilerMissing, Driver, build
from tests.service.launcher.conftest import until
from tests.service.launcher.site import LIMIT_S, Site, until_some
from tests.service.launcher.test_launcher_real import waits

BEFORE = "4c8331a"
ROOT = Path(__file__).parents[3]
FAR = 2**53


@pytest.fixture(scope="module")
def old_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the Fallow before."""
    git = shutil.which("git")
    archive = git and subprocess.run(
        [git, "-C", ROOT, "archive", BEFORE], capture_output=True, check=False, timeout=LIMIT_S
    )
    if not archive or archive.returncode:
        pytest.skip(f"commit {BEFORE} is not in a history here: its recorded words are played alone")
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    try:
        build()
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    place = Path(tempfile.mkdtemp(prefix="fallow-site-"))
    with Driver(tmp_path, gpus=2) as driver:
        made = Site(tmp_path, driver, place)
        try:
            yield made
        finally:
            made.close()
            shutil.rmtree(place)


def saves(folder: Path) -> list[str]:
    """A job that saves itself on a signal, says each of its starts, and ends when ``go`` is there."""
    script = f"trap 'exit 0' USR1; echo begun >>{folder}/begun; until [ -e {folder}/go ]; do sleep 0.05; done"
    return ["sh", "-c", script]


@pytest.mark.long
def test_launchers_of_before_go_on_over_the_upgrade(site: Site, old_code: Path, tmp_path: Path) -> None:
    site.code = old_code
    site.serve()
    job = site.run("job", "--gpus", "1", "--checkpoint-signal", "USR1", "--", *saves(tmp_path))
    (gpu,) = site.stands(job, "running")["gpus"]
    plain = site.run("plain", "--gpus", "1", "--", *waits(tmp_path / "plain"))
    site.stands(plain, "running")
    waiting = site.run("waiting", "--gpus", "1", "--", "true")
    site.code = None
    site.restart()
    until(lambda: site.row(job)["last_seen_ms"] is not None, "its launcher is back", LIMIT_S)
    assert {uuid: jobs[0] for uuid, jobs in site.holders().items()} == {
        gpu: job,
        next(uuid for uuid in site.gpus if uuid != gpu): plain,
    }
    assert site.client().pause(job, because="lunch").outcome in ("done", "under way")
    site.stands(job, "paused")
    assert site.stands(waiting, "ended")["exit_reason"] == "done", "it took the place meanwhile"
    assert site.client().resume(job).outcome == "done"
    site.stands(job, "running")
    until(lambda: (tmp_path / "begun").read_text().count("begun") == 2, "it runs again", LIMIT_S)
    site.restart()
    until(lambda: site.row(job)["last_seen_ms"] is not None, "its launcher is back", LIMIT_S)
    site.client().cancel(plain)
    assert site.stands(plain, "ended")["exit_reason"] == "cancelled"
    (tmp_path / "go").touch()
    assert site.stands(job, "ended")["exit_reason"] == "done"
    assert "report-not-believed" not in site.log()


@pytest.mark.long
def test_a_launcher_of_this_fallow_under_the_service_of_before_can_prove_its_lease_later(
    site: Site, old_code: Path, tmp_path: Path
) -> None:
    """Started between `make install` and the service's restart; then a backup is put back that is older."""
    site.code = old_code
    site.serve()
    site.code = None
    job = site.run("job", "--gpus", "1", "--", *waits(tmp_path / "first"))
    assert site.stands(job, "running")["report"]["state"] == "running", "a report that it takes"
    second = site.run("second", "--gpus", "2", "--", *waits(tmp_path / "second"))
    until(lambda: "in the queue" in site.said("second"), "it waits", LIMIT_S)
    site.restart()
    until(lambda: site.row(job)["last_seen_ms"] is not None, "its launcher is back", LIMIT_S)
    site.stop(signal.SIGTERM)
    kept = shutil.copytree(site.data, tmp_path / "kept", ignore=shutil.ignore_patterns("*.sock"))
    site.serve()
    for each in (job, second):
        until(lambda each=each: site.row(each)["last_seen_ms"] is not None, "it is back", LIMIT_S)
    (tmp_path / "first").touch()
    assert site.stands(job, "ended")["exit_reason"] == "done"
    held = site.stands(second, "running")["gpus"]
    site.stop()
    shutil.rmtree(site.data)
    shutil.copytree(kept, site.data)
    site.serve()
    until(lambda: site.holders() == {uuid: [second] for uuid in held}, "it proves its lease", LIMIT_S)
    assert site.stands(second, "running")["gpus"] == held
    (tmp_path / "second").touch()
    assert site.stands(second, "ended")["exit_reason"] == "done"


@pytest.mark.long
def test_a_store_in_which_acting_was_stopped_for_good_acts_again(
    site: Site, old_code: Path, tmp_path: Path
) -> None:
    """One number of a client's lifted the service's own, above what a report could say."""
    site.code = old_code
    site.serve()
    job = site.run("job", "--gpus", "1", "--", *waits(tmp_path / "job"))
    site.stands(job, "running")
    asked = {"command": ["x"], "project": "vision", "min_gpus": 1, "max_gpus": 2, "nonce": "mine"}
    attacker = str(site.client().submit({**asked, "mobility": "elastic"}).job)
    site.client().pause(attacker)
    site.restart()
    site.client().report(attacker, words("running", handled=FAR, gpus=site.gpus))
    assert any(len(jobs) == 2 for jobs in site.holders().values()), "as that Fallow had it"
    site.restart()
    number = site.client().pause(attacker).action
    assert number == FAR + 1, "beyond what a report could say there"
    site.code = None
    site.restart()
    assert all(len(jobs) == 1 for jobs in site.holders().values())
    assert "double-lease-ended" in site.log()
    site.client().cancel(job)
    assert site.stands(job, "ended")["exit_reason"] == "cancelled"
    with contextlib.suppress(JobEnded):  # nobody reports for it, so it is lost soon
        assert site.client().cancel(attacker, force=True).outcome == "done"
    new = site.run("new", "--gpus", "2", "--", "true")
    assert site.stands(new, "ended")["exit_reason"] == "done"
    numbers = [row.action for row in site.client().actions(job=new)]
    assert numbers and max(numbers) < 1_000, "those who knew the long numbers have ended"


def words(stand: str, **more: object) -> dict[str, object]:
    """A report as a launcher of before says it, of no process."""
    launcher = {"node": socket.gethostname(), "pid": 999_999, "started_ms": 1}
    plain = {
        "at_ms": time.time_ns() // 1_000_000,
        "launcher": launcher,
        "stand": stand,
        "handled": 0,
        "failed": None,
        "pids": [],
        "gpus": [],
        "step": None,
        "counted_ms": None,
        "steps_left": None,
        "step_s": {},
        "resize_s": None,
        "memory_held_bytes": None,
        "memory_needed_bytes": None,
        "checkpoint_ms": None,
        "attached": False,
        "quiet_s": None,
        "ending": None,
        "exit_code": None,
    }
    return {**plain, **more}


def test_the_recorded_words_of_a_launcher_of_before_are_understood(site: Site) -> None:
    """What it says, all of it, from the queue to its end; what it is told has nothing that it cannot read."""
    site.serve()
    asked = {"command": ["x"], "project": "vision", "min_gpus": 1, "max_gpus": 1, "nonce": "old"}
    job = str(site.client().submit({**asked, "mobility": "checkpoints", "checkpoint_signal": "USR1"}).job)
    own = {"node": socket.gethostname(), "pid": os.getpid(), "started_ms": 1}

    def begun() -> dict[str, object] | None:
        site.client().report(job, words("pending", launcher=own))
        row = site.client().job(job).sent
        return row["directive"] if row["state"] == "starting" else None

    begin = until_some(begun, "it is given a GPU")
    site.client().report(job, words("running", handled=begin["number"], gpus=begin["gpus"], launcher=own))
    assert site.client().job(job).state == "running"
    site.restart()
    site.client().report(job, words("running", handled=begin["number"], gpus=begin["gpus"], launcher=own))
    row = site.client().job(job).sent
    assert (row["state"], row["gpus"]) == ("running", begin["gpus"])
    lines = site.client().directives(job, after=begin["number"])
    for line in lines:
        assert set(line) <= {"alive", "place", "directive"}, "how it stands is told to its launcher alone"
        break
    lines.close()
    number = site.client().pause(job).action
    site.client().report(job, words("paused", handled=number, launcher=own))
    assert site.client().job(job).state == "paused"
    ended = words("ended", handled=number, ending="cancelled", exit_code=-15, launcher=own)
    site.client().report(job, ended)
    assert site.client().job(job).exit_reason == "cancelled"
    assert "report-not-believed" not in site.log()
    json.dumps(row)
