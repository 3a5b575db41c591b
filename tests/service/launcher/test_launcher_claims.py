"""An ordinary account with a launcher of its own making: it has a GPU only while it was given it.

Real uids on a real service over the stand-in driver. What is played here is what reports can say; each stands
for a hole that was there once (docs/decisions/0032, 0037).
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.errors import BadOrder, ClientError, Forbidden, JobEnded, WrongState
from tests.conftest import program
from tests.driver.driver import GIB, CompilerMissing, Driver, build
from tests.service.api.conftest import ALICE, BOB, as_uid, submission
from tests.service.launcher.conftest import until
from tests.service.launcher.site import LIMIT_S, Site, until_some
from tests.service.launcher.test_launcher_real import waits

FAR = 2**53


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    try:
        build()
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    place = Path(tempfile.mkdtemp(prefix="fallow-site-"))
    place.chmod(0o755)
    with Driver(tmp_path, gpus=2) as driver:
        made = Site(tmp_path, driver, place)
        made.serve()
        try:
            yield made
        finally:
            made.close()
            shutil.rmtree(place)


def asks(site: Site, uid: int, **wanted: object) -> str:
    """A job that this account submits, and has no launcher for but what it reports."""
    asked = submission(**{"min_gpus": 1, "max_gpus": 1, "nonce": f"{uid}-{time.monotonic_ns()}", **wanted})
    return str(as_uid(uid, lambda: site.client().submit(asked))["job"])


def report(job: str, stand: str, **more: object) -> dict[str, object]:
    """A report of a launcher that is no process at all."""
    launcher = {"node": socket.gethostname(), "pid": 999_999, "started_ms": 1}
    now_ms = time.time_ns() // 1_000_000
    return {"at_ms": now_ms, "launcher": launcher, "state": stand, "acknowledged": 0, **more}


def says(site: Site, uid: int, job: str, stand: str, **more: object) -> None:
    as_uid(uid, lambda: site.client().report(job, report(job, stand, **more)))


def keeps_waiting(site: Site, uid: int, job: str) -> dict[str, Any]:
    """Report life until it is given a GPU; its command."""

    def begun() -> dict[str, Any] | None:
        says(site, uid, job, "pending")
        row = site.client().job(job).sent
        return row["directive"] if row["state"] == "starting" else None

    return dict(until_some(begun, f"{job} is given a GPU"))


def test_no_word_after_a_restart_takes_a_gpu_or_stops_acting(site: Site, tmp_path: Path) -> None:
    held = site.run("held", "--gpus", "1", "--", *waits(tmp_path / "held"))
    (gpu,) = site.stands(held, "running")["gpus"]
    (other,) = set(site.gpus) - {gpu}
    attacker = asks(site, ALICE)
    as_uid(ALICE, lambda: site.client().pause(attacker))  # so that nothing is given to it meanwhile
    site.restart()
    for handled, gpus in ((500, [gpu]), (FAR, site.gpus), (2**63 - 1, [other]), (0, [gpu])):
        says(site, ALICE, attacker, "running", acknowledged=handled, gpus=gpus)
        assert site.holders() == {gpu: [held]}
    assert site.client().job(attacker).state == "pending"
    assert any("not believed" in line for line in site.client().job(attacker).explain)
    assert "report-not-believed" in site.log() and "report-not-believed" in security(site)
    found = until_some(lambda: claims(site), "it is a finding")
    assert {row["uuid"] for row in found} <= {gpu, other} and attacker in found[0]["sentence"]
    site.restart()
    begun = site.run("begun", "--gpus", "1", "--", *waits(tmp_path / "begun"))
    assert site.stands(begun, "running")["gpus"] == [other], "acting goes on"
    assert max(row.action for row in site.client().actions()) < 1_000
    (tmp_path / "held").touch()
    (tmp_path / "begun").touch()
    for job in (held, begun):
        assert site.stands(job, "ended")["exit_reason"] == "done"


def security(site: Site) -> str:
    return (site.data / "security.log").read_text()


def claims(site: Site) -> list[dict[str, Any]]:
    from service.client import connect

    start, end = "2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
    rows = connect(site.data).rows("findings", from_ts=start, to_ts=end, open=True)
    return [row for row in rows if row["kind"] == "unproven-claim"]


def test_a_process_that_is_not_its_owners_holds_no_gpu(site: Site) -> None:
    """Pid 1 lives for ever, and so did the lease of whoever named it."""
    job = asks(site, ALICE)
    command = keeps_waiting(site, ALICE, job)
    says(
        site,
        ALICE,
        job,
        "running",
        acknowledged=command["number"],
        gpus=command["gpus"],
        pids=[1, os.getpid()],
    )
    assert site.stands(job, "running")["gpus"] == command["gpus"]
    ended = site.stands(job, "ended")
    assert (ended["exit_reason"], site.holders()) == ("lost", {})


def test_a_lost_launchers_own_workers_are_awaited(site: Site) -> None:
    job = asks(site, ALICE)
    command = keeps_waiting(site, ALICE, job)
    worker = subprocess.Popen(["sleep", "600"], user=ALICE, group=ALICE, extra_groups=[])
    try:
        told = {"acknowledged": command["number"], "gpus": command["gpus"], "pids": [worker.pid]}
        says(site, ALICE, job, "running", **told)
        until(lambda: site.client().job(job).exit_reason == "lost", "its launcher is lost", LIMIT_S)
        assert site.client().job(job).state == "running" and len(site.holders()) == 1
    finally:
        worker.kill()
        worker.wait()
    assert site.stands(job, "ended")["exit_reason"] == "lost"
    assert site.holders() == {}


def test_a_job_in_a_pid_namespace_ends_with_its_launcher(site: Site, tmp_path: Path) -> None:
    """Its small pids are kernel threads outside, which never end."""
    unshare = program("unshare", "util-linux")
    job = site.run(
        "inside",
        "--gpus",
        "1",
        "--",
        "sleep",
        "600",
        before=(unshare, "--pid", "--fork", "--mount-proc", "--kill-child"),
    )
    row = site.stands(job, "running")
    launcher, (worker,) = row["launcher"]["pid"], row["report"]["pids"]
    assert b"service.cli" in Path(f"/proc/{launcher}/cmdline").read_bytes(), "as it is called outside"
    assert Path(f"/proc/{worker}/cmdline").read_bytes() == b"sleep\x00600\x00"
    assert site.client().cancel(job).outcome in ("done", "under way")
    assert site.stands(job, "ended")["exit_reason"] == "cancelled"
    job = site.run(
        "killed",
        "--gpus",
        "1",
        "--",
        "sleep",
        "600",
        before=(unshare, "--pid", "--fork", "--mount-proc", "--kill-child"),
    )
    launcher = site.stands(job, "running")["launcher"]["pid"]
    os.kill(launcher, signal.SIGKILL)
    assert site.stands(job, "ended")["exit_reason"] == "lost"
    assert site.holders() == {}


def test_an_operator_ends_any_lease_and_what_runs_on_is_a_stranger(site: Site) -> None:
    """The worker is the attacker's own, ends for nobody, and is on the GPU."""
    job = asks(site, ALICE)
    command = keeps_waiting(site, ALICE, job)
    worker = subprocess.Popen(["sleep", "600"], user=ALICE, group=ALICE, extra_groups=[])
    (uuid,) = command["gpus"]
    gpu = site.driver.gpu(site.gpus.index(uuid))
    gpu.process(worker.pid, memory=8 * GIB)
    gpu.memory_used = 9 * GIB
    try:
        says(site, ALICE, job, "running", acknowledged=command["number"], gpus=[uuid], pids=[worker.pid])
        until(lambda: site.client().job(job).exit_reason == "lost", "its launcher is lost", LIMIT_S)
        with pytest.raises(WrongState):
            site.client().cancel(job)
        for uid in (ALICE, BOB):
            refused = as_uid(uid, lambda: outcome_of(lambda: site.client().cancel(job, force=True)))
            assert refused == Forbidden.__name__
        done = site.client().cancel(job, because="nobody answers", force=True)
        assert done.outcome == "done" and str(worker.pid) in done.message
        ended = site.stands(job, "ended")
        assert (ended["exit_reason"], ended["message"], site.holders()) == ("cancelled", "nobody answers", {})
        row = next(each for each in site.client().actions(job=job) if each.verb == "cancel")
        assert (row.outcome, row.actor) == ("done", "user root")
        assert str(worker.pid) in str(row.found) and "stranger" in row.found
        assert as_uid(
            ALICE, lambda: outcome_of(lambda: site.client().report(job, report(job, "running")))
        ) == (JobEnded.__name__)
        both = asks(site, BOB, min_gpus=2, max_gpus=2)
        one = site.run("one", "--gpus", "1", "--", "sleep", "600")
        assert site.stands(one, "running")["gpus"] != [uuid]
        for _ in range(5):
            says(site, BOB, both, "pending")
            time.sleep(0.5)
        assert site.client().job(both).state == "pending", "the GPU is no longer leased, and not free"
    finally:
        worker.kill()
        worker.wait()
    gpu.no_processes()
    gpu.memory_used = 0
    two = site.run("two", "--gpus", "1", "--", "sleep", "600")
    assert site.stands(two, "running")["gpus"] == [uuid]


def outcome_of(call: Callable[[], object]) -> str:
    try:
        call()
    except ClientError as error:
        return type(error).__name__
    return "done"


def test_nobody_speaks_for_anothers_job_by_socket_or_token(site: Site, tmp_path: Path) -> None:
    held = site.run("held", "--gpus", "1", "--", *waits(tmp_path / "held"))
    row = site.stands(held, "running")
    lies = (
        report(held, "ended", exit_reason="done", exit_code=0),
        report(held, "paused", acknowledged=row["acknowledged"]),
        report(held, "running", acknowledged=FAR, gpus=site.gpus),
    )
    for lie in lies:
        said = as_uid(BOB, lambda lie=lie: outcome_of(lambda: site.client().report(held, lie)))
        assert said == Forbidden.__name__
    assert as_uid(BOB, lambda: outcome_of(lambda: list(site.client().directives(held)))) == Forbidden.__name__
    shown = as_uid(BOB, lambda: site.client().job(held))
    assert shown["directive"]["proof"] == "" and all(
        each["directive"]["proof"] == "" for each in shown["directives"]
    )
    after = site.stands(held, "running")
    assert (after["gpus"], after["acknowledged"], after["launcher"]) == (
        row["gpus"],
        row["acknowledged"],
        row["launcher"],
    )
    with pytest.raises(BadOrder):
        site.client().report(held, report(held, "running", acknowledged=2**63))
    (tmp_path / "held").touch()
    assert site.stands(held, "ended")["exit_reason"] == "done"
