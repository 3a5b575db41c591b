"""Services that end and begin again, launchers and workers that are killed: no job lost, no lease leaked."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor import cycle
from advisor.jobs.model import JobState, Launcher, PauseCommand, Report
from advisor.planner.validate import BadState
from collector.clock import SystemClock
from collector.model import JobId
from collector.procfs.proc_files import parse_boot_ms, parse_stat, started_ms
from service.control.errors import JobEnded
from tests.service.control.control_world import (
    ANNA,
    CONFIG,
    GPUS,
    NODE,
    ROOT,
    SELF,
    Stage,
    StandIn,
    stage,
    until,
    wanted,
)


@pytest.fixture
def sleepers() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Two real processes: a launcher's, and a worker's."""
    made = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield made
    for each in made:
        each.kill()
        each.wait()


def began_ms(pid: int) -> int:
    boot_ms = parse_boot_ms(Path("/proc/stat").read_bytes())
    found = parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    return started_ms(found, boot_ms, os.sysconf("SC_CLK_TCK"))


def word_of(pid: int, stand: JobState, handled: int, pids: tuple[int, ...] = ()) -> Report:
    return Report(
        at_ms=SystemClock().now_ms(),
        launcher=Launcher(node=NODE, pid=pid, started_ms=began_ms(pid)),
        state=stand,
        acknowledged=handled,
        pids=pids,
    )


def submit(there: Stage, caller: object = ANNA, **asked: object) -> JobId:
    return JobId(there.desk.submit(caller, wanted(**asked))[0]["job"])


def outcomes(there: Stage, job: str) -> dict[int, str | None]:
    return {row["action"]: row["outcome"] for row in there.desk.actions(ROOT, since_ms=None, job=JobId(job))}


def test_a_running_job_runs_on_over_a_restart_and_is_told_nothing_twice(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there)
        first = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        number, gpus = first.handled, first.gpus
        first.close()
    with stage(tmp_path) as there:
        assert there.state(job) == "running" and there.leases() == {gpus[0]: [job]}
        other = submit(there, nonce="other", min_gpus=3, max_gpus=3)
        second = StandIn(there.desk, ANNA, other)
        again = StandIn(there.desk, ANNA, job, after=number)
        again.state, again.gpus = JobState.RUNNING, gpus
        again.say()
        until("the other runs beside it", lambda: there.state(other) == "running")
        assert again.told == [] and set(second.gpus) == set(GPUS) - set(gpus)
        assert outcomes(there, job) == {number: "done"}


@pytest.mark.slow
def test_a_waiting_job_is_not_started_before_its_launcher_is_back(tmp_path: Path) -> None:
    config = replace(CONFIG, acting=replace(CONFIG.acting, silent_s=1.0))
    with stage(tmp_path, config, begin=False) as there:
        job = submit(there)
    with stage(tmp_path, config) as there:
        until("it is away", lambda: "not connected" in str(there.desk.job(ROOT, job)["explain"]))
        assert there.state(job) == "pending" and there.leases() == {}
        StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")


def test_what_a_launcher_did_while_the_service_was_away_is_taken_as_done(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there)
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        launcher.deaf = True
        row = there.desk.pause(ANNA, job, "")
        assert row["outcome"] == "under way"
        until("it was told", lambda: isinstance(launcher.told[-1], PauseCommand))
        launcher.close()
    with stage(tmp_path) as there:
        assert there.state(job) == "running" and len(there.leases()) == 1, "nobody has said otherwise"
        back = StandIn(there.desk, ANNA, job, after=row["action"])
        back.state = JobState.PAUSED
        back.say()
        assert there.state(job) == "paused" and there.leases() == {}
        until("the journal has it", lambda: outcomes(there, job)[row["action"]] == "done")
        assert back.told == []


def test_a_killed_launchers_gpu_is_free_only_when_its_workers_are_gone(
    tmp_path: Path, sleepers: list["subprocess.Popen[bytes]"]
) -> None:
    launcher, worker = sleepers
    impatient = replace(CONFIG, acting=replace(CONFIG.acting, answer_s=1.0))  # it answers from this thread
    with stage(tmp_path, impatient, begin=False) as there:
        job = submit(there, SELF, min_gpus=4, max_gpus=4)
        there.desk.report(SELF, job, word_of(launcher.pid, JobState.PENDING, 0))
        there.acting.loop.cycle()
        assert there.state(job) == "starting"
        number = there.desk.job(ROOT, job)["directive"]["number"]
        there.desk.report(SELF, job, word_of(launcher.pid, JobState.RUNNING, number, (worker.pid,)))
        assert there.state(job) == "running"
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()
        there.acting.loop.cycle()
        row = there.desk.job(ROOT, job)
        assert (row["state"], row["exit_reason"]) == ("running", "lost") and len(there.leases()) == 4
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        there.acting.loop.cycle()
        row = there.desk.job(ROOT, job)
        assert (row["state"], row["exit_reason"], there.leases()) == ("ended", "lost", {})
        with pytest.raises(JobEnded):
            there.desk.report(SELF, job, word_of(os.getpid(), JobState.RUNNING, number))


def test_a_launcher_that_cannot_be_seen_is_only_lost_after_its_grace(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        job = submit(there)
        elsewhere = Launcher(node=NODE, pid=2**22 - 1, started_ms=1)
        there.desk.report(
            ANNA, job, Report(at_ms=SystemClock().now_ms(), launcher=elsewhere, state=JobState.PENDING)
        )
        there.acting.loop.cycle()
        assert there.state(job) != "ended", "its pid may be one of another namespace"


def test_a_fault_that_stays_is_logged_once_told_always_and_its_end_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faults = iter([*["GPU-0 is given away 1.5 times"] * 3, "another", None])
    right = cycle.run_cycle

    def faulty(*given: Any, **named: Any) -> Any:
        said = next(faults, None)
        if said is not None:
            raise BadState((said,))
        return right(*given, **named)

    monkeypatch.setattr(cycle, "run_cycle", faulty)
    with stage(tmp_path) as there:
        until("it works again", lambda: "acting cycles succeed again" in caplog.messages)
        assert len(there.troubles) == 4
    logged = [each.message for each in caplog.records if each.name == "service.control.loop"]
    assert logged == [
        "an acting cycle failed: GPU-0 is given away 1.5 times",
        "an acting cycle failed: another",
        "acting cycles succeed again",
    ]
