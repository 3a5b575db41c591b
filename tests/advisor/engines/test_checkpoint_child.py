"""The way from a pause to libcuda and back, through a real child process and the library's real functions.

Only the library is a stand-in, compiled here; where this machine has no compiler, that is said.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.engines.cuda_checkpointer import CHILD
from advisor.jobs.external_jobs import Seen
from collector.model import NodeName
from tests.advisor.engines.standin_parts import SOURCE, Cuda, cuda, driver, held, library, local, over
from tests.conftest import program
from tests.driver.driver import Driver

__all__ = ("cuda", "driver", "library")


def test_pause_and_resume_reach_the_library_with_the_locks_timeout(cuda: Cuda, driver: Driver) -> None:
    cuda.put(41, 0)
    cuda.put(42, 0)
    paused = over(local().pause([41, 42], held(driver, 41, 42)))
    assert paused.ok and paused.states == {"41": "checkpointed", "42": "checkpointed"}
    assert set(paused.seconds) == {"lock", "checkpoint"}
    assert local().look([41]).states == {"41": "checkpointed"}
    resumed = over(local().resume([41, 42], held(driver, 41, 42)))
    assert resumed.ok and resumed.states == {"41": "running", "42": "running"}
    assert cuda.calls()[:3] == ["lock 41 7500", "lock 42 7500", "checkpoint 41 0"]


def test_what_the_library_refuses_comes_back_by_its_own_name_and_is_undone(cuda: Cuda) -> None:
    cuda.put(41, 0)
    cuda.refuse("checkpoint", 41, 801)
    deed = over(local().pause([41], {}))
    assert not deed.ok and deed.undone
    assert "checkpoint of process 41: CUDA_ERROR_NOT_SUPPORTED" in deed.found
    assert cuda.state(41) == 0


def test_lock_that_times_out_leaves_the_job_running(cuda: Cuda) -> None:
    cuda.put(41, 0)
    cuda.refuse("lock", 41, 909)
    deed = over(local().pause([41], {}))
    assert not deed.ok and deed.undone and "CUDA_ERROR_TIMEOUT" in deed.found
    assert cuda.calls() == ["lock 41 7500"]


def test_error_without_a_name_is_told_by_its_number(cuda: Cuda) -> None:
    cuda.put(41, 0)
    cuda.refuse("lock", 41, 12345)
    assert "CUDA error 12345" in over(local().pause([41], {})).found


def test_process_that_the_driver_does_not_know_is_not_touched(cuda: Cuda) -> None:
    deed = over(local().pause([41], {}))
    assert not deed.ok and "CUDA_ERROR_NOT_FOUND" in deed.found
    assert cuda.calls() == []


def test_without_a_library_it_is_said_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    deed = over(local().pause([41], {}))
    assert not deed.ok and deed.undone and "libcuda.so.1 could not be loaded" in deed.found


def test_library_without_the_calls_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = program("cc", "gcc")
    (tmp_path / "old.c").write_text("int cuInit(unsigned flags) { return 0; }\n")
    command = [compiler, "-shared", "-fPIC", "-o", str(tmp_path / "libcuda.so.1"), str(tmp_path / "old.c")]
    subprocess.run(command, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    deed = over(local().pause([41], {}))
    assert not deed.ok and "driver 570 or later" in deed.found


def test_driver_that_crashes_takes_only_the_child_with_it(
    cuda: Cuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = program("cc", "gcc")
    folder = tmp_path / "crashing"
    folder.mkdir()
    text = SOURCE.read_text().replace("int cuInit(unsigned flags) {", "int cuInit(unsigned flags) { abort();")
    (folder / "crash.c").write_text(text)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(folder / "crash.c")]
    subprocess.run(command, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    deed = over(local().pause([41], {}))
    assert not deed.ok and not deed.undone
    assert f"status {-signal.SIGABRT}" in deed.found


def test_what_was_begun_can_be_looked_at_until_it_is_over(cuda: Cuda) -> None:
    cuda.put(41, 0)
    ongoing = local().pause([41], {})
    assert ongoing.ended(0) is None, "no Python starts in no time"
    assert over(ongoing).ok
    assert cuda.state(41) == 2


def test_a_child_that_cannot_be_started_has_done_nothing(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.put(41, 0)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    deed = over(local().pause([41], {}))
    assert not deed.ok and deed.undone and "/nowhere/python" in deed.found
    assert cuda.calls() == []


def test_what_was_begun_goes_on_when_whoever_began_it_is_killed(cuda: Cuda) -> None:
    cuda.put(41, 0)
    asker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, subprocess, sys\n"
            f"subprocess.Popen([sys.executable, '-m', {CHILD!r}, 'pause', '1000', '{{}}', '41'], "
            "stdout=subprocess.PIPE, start_new_session=True)\n"
            "os.kill(os.getpid(), 9)\n",
        ],
        env=os.environ.copy(),
    )
    assert asker.wait() == -signal.SIGKILL
    until = time.monotonic() + 30
    while cuda.state(41) != 2:
        assert time.monotonic() < until, "the child did not finish what it began"
        time.sleep(0.05)


def test_targets_are_the_processes_of_now_and_none_that_got_their_pid() -> None:
    mine = Seen(node=NodeName("here"), pid=os.getpid(), started_ms=0, memory_bytes=1)
    (stranger,) = local().targets([mine])
    assert stranger.now is None
    host = local().host()
    assert (host.driver_major, host.uid) == (570, os.geteuid())
    assert local(None).host().driver_major is None
