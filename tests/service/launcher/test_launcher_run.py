"""``fallow run`` in real processes: what it hands on, how it ends, and what it does when told."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from advisor.jobs.model import (
    CancelCommand,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
)
from collector.model import GpuUuid
from tests.service.launcher.conftest import Launch, lives, until
from tests.service.launcher.wire_service import WireService

A, B, C = GpuUuid("GPU-a"), GpuUuid("GPU-b"), GpuUuid("GPU-c")

SAVER = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
how = sys.argv[2]
def save(*_):
    (folder / "state").write_text("saved")
    if how == "touches":
        pathlib.Path(os.environ["FALLOW_SAVED"]).touch()
    if how == "exits":
        sys.exit(0)
    if how == "fails":
        sys.exit(3)
if how != "deaf":
    signal.signal(signal.SIGUSR1, save)
with (folder / "starts").open("a") as file:
    file.write(os.environ["CUDA_VISIBLE_DEVICES"] + "\\n")
while not (folder / "finish").exists():
    time.sleep(0.02)
"""
"""A job that saves itself on SIGUSR1, in one of the ways in which jobs do; it writes down its starts."""


@pytest.fixture
def saver(tmp_path: Path) -> list[str]:
    (tmp_path / "saver.py").write_text(SAVER)
    return [sys.executable, str(tmp_path / "saver.py"), str(tmp_path)]


def starts(folder: Path) -> list[str]:
    path = folder / "starts"
    return path.read_text().split() if path.exists() else []


def test_output_and_exit_code_are_the_jobs_own(service: WireService, launch: Launch) -> None:
    job = launch("--", "sh", "-c", r"printf 'a\000\377\033[1m'; printf err >&2; exit 7")
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 7
    assert job.out.read_bytes() == b"a\x00\xff\x1b[1m"
    assert "err" in job.said()
    last = service.reports[-1]
    assert (last["state"], last["exit_reason"], last["exit_code"]) == ("ended", "failed", 7)


def test_a_submission_says_what_was_asked_for_and_not_who_asks(service: WireService, launch: Launch) -> None:
    job = launch(
        *("--gpus", "1-4", "--memory", "12GiB", "--project", "vision", "--name", "resnet", "--priority", "3"),
        *(
            "--checkpoint-signal",
            "SIGUSR1",
            "--restarts",
            "2",
            "--grace",
            "90s",
            "--",
            "true",
            "--epochs",
            "3",
        ),
    )
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 0
    asked = service.submissions[0]
    assert asked["command"] == ["true", "--epochs", "3"]
    assert (asked["min_gpus"], asked["max_gpus"], asked["memory_bytes"]) == (1, 4, 12 * 2**30)
    assert (asked["project"], asked["name"], asked["priority"]) == ("vision", "resnet", 3)
    assert (asked["mobility"], asked["checkpoint_signal"], asked["preemptible"]) == (
        "checkpoints",
        "USR1",
        True,
    )
    assert (asked["restarts"], asked["grace_s"]) == (2, 90.0)
    assert len(asked["nonce"]) >= 16
    assert not asked.keys() & {"user", "uid"}


def test_the_worker_sees_its_devices_its_settings_and_the_users_own_words(
    service: WireService, launch: Launch
) -> None:
    shown = "import json, os; print(json.dumps(dict(os.environ)))"
    job = launch(
        *("--gpus", "2", "--env", "MODE=fast", "--", sys.executable, "-c", shown),
        env={"XLA_PYTHON_CLIENT_PREALLOCATE": "true"},
    )
    settings = (("TF_FORCE_GPU_ALLOW_GROWTH", "true"), ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"))
    service.tell(StartCommand(number=1, gpus=(B, A), settings=settings))
    assert job.end() == 0
    seen = json.loads(job.printed())
    assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    assert seen["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert seen["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"
    assert seen["MODE"] == "fast"
    assert seen["FALLOW_JOB"] == "fallow:1"
    assert "RANK" not in seen


def test_a_lease_that_would_run_code_starts_nothing_and_says_which_name(
    service: WireService, launch: Launch
) -> None:
    job = launch("--", sys.executable, "-c", "print('ran')")
    service.tell(StartCommand(number=1, gpus=(A,), settings=(("BASH_ENV", "/tmp/evil"),)))
    told = service.handled(1)
    assert told["state"] == "pending" and "a lease may not set BASH_ENV" in told["failed"]
    service.tell(StartCommand(number=2, gpus=(A,)))
    assert job.end() == 0
    assert job.printed() == "ran\n"


def test_a_gang_gets_ranks_and_ends_with_its_first_failure(service: WireService, launch: Launch) -> None:
    script = "echo $RANK/$WORLD_SIZE/$LOCAL_RANK; [ $RANK = 1 ] && exit 5; sleep 600"
    job = launch("--gpus", "3", "--workers", "torchrun", "--", "sh", "-c", script)
    service.tell(StartCommand(number=1, gpus=(A, B, C)))
    assert job.end() == 5
    assert set(job.printed().split()) <= {"0/3/0", "1/3/1", "2/3/2"}
    assert "1/3/1" in job.printed()
    begun = service.handled(1)
    assert len(begun["pids"]) == 3
    assert not any(lives(pid) for pid in begun["pids"])


def test_a_tensorflow_gang_gets_a_gpu_and_its_place_each(service: WireService, launch: Launch) -> None:
    script = 'echo "$CUDA_VISIBLE_DEVICES $TF_CONFIG"'
    job = launch("--gpus", "2", "--workers", "tensorflow", "--", "sh", "-c", script)
    service.tell(StartCommand(number=1, gpus=(A, B)))
    assert job.end() == 0
    told = dict(line.split(" ", 1) for line in job.printed().splitlines())
    assert set(told) == {A, B}
    places = [json.loads(told[each]) for each in (A, B)]
    assert [place["task"] for place in places] == [{"type": "worker", "index": at} for at in (0, 1)]
    assert places[0]["cluster"] == places[1]["cluster"]
    assert len(set(places[0]["cluster"]["worker"])) == 2


def test_a_worker_that_a_signal_ended_ends_the_launcher_as_a_shell_says_it(
    service: WireService, launch: Launch
) -> None:
    job = launch("--", "sh", "-c", "kill -9 $$")
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 128 + 9


def test_a_command_that_is_not_there_ends_the_job_with_127_and_is_not_tried_again(
    service: WireService, launch: Launch
) -> None:
    job = launch("--restarts", "3", "--", "no-such-program-here")
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 127
    last = service.reports[-1]
    assert (last["acknowledged"], last["exit_reason"]) == (1, "failed")
    assert "no-such-program-here" in last["failed"]


def test_ctrl_c_while_waiting_cancels_the_submission(service: WireService, launch: Launch) -> None:
    job = launch("--", "true")
    service.until(lambda: service.listeners == 1 and service.reports, "it waits")
    job.process.send_signal(signal.SIGINT)
    assert job.end() == -signal.SIGINT
    assert service.reports[-1]["exit_reason"] == "cancelled"


def test_a_waiting_job_says_its_place_once_a_change(service: WireService, launch: Launch) -> None:
    job = launch("--", "true")
    for place, of in ((3, 7), (3, 7), (2, 7)):
        service.place(place, of, "2 free GPUs")
    job.hears("2 of 7")
    assert job.said().count("3 of 7 in the queue: 2 free GPUs") == 1
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 0


def test_signals_reach_the_job_and_its_own_end_is_told(service: WireService, launch: Launch) -> None:
    script = "trap 'echo hup' USR2; trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done"
    job = launch("--restarts", "3", "--", "sh", "-c", script)
    service.tell(StartCommand(number=1, gpus=(A,)))
    until(lambda: "up" in job.printed(), "it runs")
    job.process.send_signal(signal.SIGUSR2)
    until(lambda: "hup" in job.printed(), "it got SIGUSR2")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 4
    assert job.printed().split() == ["up", "hup", "bye"]
    assert service.reports[-1]["exit_reason"] == "cancelled"


def test_a_directive_that_comes_twice_is_carried_out_once(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path
) -> None:
    job = launch("--checkpoint-signal", "USR1", "--", *saver, "touches")
    for _ in range(3):
        service.tell(StartCommand(number=5, gpus=(A,)))
    service.handled(5)
    until(lambda: starts(tmp_path), "it runs")
    service.tell(StartCommand(number=4, gpus=(B,)))
    service.tell(NotifyCommand(number=6, message="are you \x1b[31mthere?"))
    job.hears("are you \\x1b[31mthere?")
    assert starts(tmp_path) == ["GPU-a"]
    (tmp_path / "finish").touch()
    assert job.end() == 0


@pytest.mark.parametrize("how", ["touches", "exits"])
def test_a_job_that_saves_itself_is_paused_and_goes_on_elsewhere(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path, how: str
) -> None:
    job = launch("--checkpoint-signal", "USR1", "--", *saver, how)
    service.tell(StartCommand(number=1, gpus=(A,)))
    pids = service.handled(1)["pids"]
    until(lambda: starts(tmp_path) == ["GPU-a"], "it runs")
    service.tell(PauseCommand(number=2, reason="others are owed"))
    paused = service.handled(2)
    assert (paused["state"], paused["failed"], paused["gpus"], paused["pids"]) == ("paused", None, [], [])
    assert (tmp_path / "state").read_text() == "saved"
    assert not any(lives(pid) for pid in pids)
    assert "others are owed" in job.said()
    service.tell(ResumeCommand(number=3, gpus=(B,)))
    assert service.handled(3)["gpus"] == ["GPU-b"]
    until(lambda: starts(tmp_path) == ["GPU-a", "GPU-b"], "it runs again")
    (tmp_path / "finish").touch()
    assert job.end() == 0


def test_a_job_whose_folder_is_cleaned_away_is_paused_and_goes_on(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path
) -> None:
    meets = "open(sys.argv[1] + '/meets', 'w').write(os.environ['FALLOW_SAVED'])"
    (tmp_path / "saver.py").write_text(SAVER.replace("with (folder", f"{meets}\nwith (folder"))
    job = launch("--checkpoint-signal", "USR1", "--", *saver, "touches")
    service.tell(StartCommand(number=1, gpus=(A,)))
    until(lambda: starts(tmp_path) == ["GPU-a"], "it runs")
    place = Path((tmp_path / "meets").read_text()).parent
    shutil.rmtree(place)
    service.tell(PauseCommand(number=2))
    paused = service.handled(2)
    assert (paused["state"], paused["failed"]) == ("paused", None)
    (place / "left" / "by-the-job").mkdir(parents=True)
    service.tell(ResumeCommand(number=3, gpus=(B,)))
    until(lambda: starts(tmp_path) == ["GPU-a", "GPU-b"], "it runs again")
    assert list(place.iterdir()) == []
    (tmp_path / "finish").touch()
    assert job.end() == 0
    assert not place.exists()


def test_a_detached_job_outlives_the_folder_of_its_session(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    session = tmp_path / "session"
    session.mkdir()
    job = launch("--detach", "--", "echo", "it ran", env={"XDG_RUNTIME_DIR": str(session)})
    assert job.end() == 0
    service.until(lambda: service.listeners == 1 and service.reports, "it waits")
    shutil.rmtree(session)
    service.tell(StartCommand(number=1, gpus=(A,)))
    service.until(lambda: service.reports[-1]["exit_reason"] == "done", "it is done")
    assert "it ran" in Path(job.printed().split()[1]).read_text()


def test_a_job_that_saves_itself_is_moved_with_other_settings_and_requeued(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path
) -> None:
    job = launch("--gpus", "1-2", "--checkpoint-signal", "USR1", "--", *saver, "touches")
    service.tell(StartCommand(number=1, gpus=(A,)))
    until(lambda: len(starts(tmp_path)) == 1, "it runs")
    service.tell(ReallocateCommand(number=2, gpus=(B, C)))
    moved = service.handled(2)
    assert (moved["state"], moved["failed"], moved["gpus"]) == ("running", None, ["GPU-b", "GPU-c"])
    until(lambda: len(starts(tmp_path)) == 2, "it runs again")
    service.tell(RequeueCommand(number=3))
    back = service.handled(3)
    assert (back["state"], back["failed"], back["gpus"]) == ("pending", None, [])
    service.tell(StartCommand(number=4, gpus=(A,)))
    until(lambda: starts(tmp_path) == ["GPU-a", "GPU-b,GPU-c", "GPU-a"], "it runs a third time")
    service.tell(CancelCommand(number=5, reason="enough"))
    assert job.end() == 128 + signal.SIGTERM
    assert (service.reports[-1]["acknowledged"], service.reports[-1]["exit_reason"]) == (5, "cancelled")


def test_a_job_that_nobody_can_ask_is_not_signalled_and_goes_on(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path
) -> None:
    job = launch("--checkpoint-signal", "USR1", "--", *saver, "deaf")
    service.tell(StartCommand(number=1, gpus=(A,)))
    until(lambda: starts(tmp_path), "it runs")
    service.tell(PauseCommand(number=2))
    told = service.handled(2)
    assert "listens for SIGUSR1" in told["failed"]
    assert (told["state"], told["gpus"]) == ("running", ["GPU-a"])
    assert all(lives(pid) for pid in told["pids"])
    (tmp_path / "finish").touch()
    assert job.end() == 0


def test_a_job_that_does_not_say_that_it_saved_is_not_killed(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path
) -> None:
    job = launch("--checkpoint-signal", "USR1", "--grace", "0.5s", "--", *saver, "says nothing")
    service.tell(StartCommand(number=1, gpus=(A,)))
    until(lambda: starts(tmp_path), "it runs")
    service.tell(PauseCommand(number=2))
    told = service.handled(2)
    assert "grace" in told["failed"]
    assert told["state"] == "running"
    assert all(lives(pid) for pid in told["pids"])
    (tmp_path / "finish").touch()
    assert job.end() == 0


def test_a_job_that_fails_to_save_follows_its_restart_policy(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path
) -> None:
    job = launch("--checkpoint-signal", "USR1", "--restarts", "1", "--", *saver, "fails")
    service.tell(StartCommand(number=1, gpus=(A,)))
    until(lambda: len(starts(tmp_path)) == 1, "it runs")
    service.tell(PauseCommand(number=2))
    told = service.handled(2)
    assert "ended with 3" in told["failed"]
    assert told["gpus"] == ["GPU-a"]
    until(lambda: starts(tmp_path) == ["GPU-a", "GPU-a"], "it was started again")
    (tmp_path / "finish").touch()
    assert job.end() == 0


@pytest.mark.parametrize(
    "order", [PauseCommand(number=2), ReallocateCommand(number=2, gpus=(B,)), RequeueCommand(number=2)]
)
def test_a_rigid_job_refuses_to_be_moved(
    service: WireService,
    launch: Launch,
    order: PauseCommand | ReallocateCommand | RequeueCommand,
    tmp_path: Path,
) -> None:
    job = launch("--", "sh", "-c", f"until [ -e {tmp_path}/finish ]; do sleep 0.02; done")
    service.tell(StartCommand(number=1, gpus=(A,)))
    service.tell(order)
    told = service.handled(2)
    assert "only runs to its end" in told["failed"]
    assert (told["state"], told["gpus"]) == ("running", ["GPU-a"])
    (tmp_path / "finish").touch()
    assert job.end() == 0


def test_a_job_without_the_library_says_that_it_has_no_caches_to_release(
    service: WireService, launch: Launch
) -> None:
    launch("--", "sleep", "600")
    service.tell(StartCommand(number=1, gpus=(A,)))
    service.handled(1)
    service.tell(ReleaseMemoryCommand(number=2))
    assert "does not use fallow" in service.handled(2)["failed"]


def test_a_stop_ends_what_ignores_it_when_the_grace_is_over(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    script = f"trap '' TERM; touch {tmp_path}/deaf; while :; do sleep 0.05; done"
    job = launch("--grace", "0.3s", "--", "sh", "-c", script)
    service.tell(StartCommand(number=1, gpus=(A,)))
    pids = service.handled(1)["pids"]
    until((tmp_path / "deaf").exists, "it ignores the signal")
    service.tell(CancelCommand(number=2))
    assert job.end() == 128 + signal.SIGKILL
    assert not any(lives(pid) for pid in pids)


def test_a_time_limit_ends_the_job_as_timeout_does(service: WireService, launch: Launch) -> None:
    job = launch("--time-limit", "0.5s", "--restarts", "2", "--", "sleep", "600")
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 124
    assert "time limit" in service.reports[-1]["failed"]


def test_the_service_goes_away_and_comes_back_and_the_job_goes_on(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path
) -> None:
    job = launch("--checkpoint-signal", "USR1", "--", *saver, "touches")
    service.tell(StartCommand(number=1, gpus=(A,)))
    pids = service.handled(1)["pids"]
    until(lambda: starts(tmp_path), "it runs")
    service.stop()
    job.hears("the job goes on")
    count = len(service.reports)
    service.start()
    job.hears("answers again")
    service.until(lambda: len(service.reports) > count, "it reports again")
    assert service.reports[-1]["pids"] == pids
    assert starts(tmp_path) == ["GPU-a"]
    assert job.said().count("the job goes on") == 1
    service.tell(PauseCommand(number=2))
    assert service.handled(2)["state"] == "paused"


def test_a_job_ends_while_the_service_is_away_and_its_end_is_told_when_it_is_back(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    job = launch("--", "sh", "-c", f"until [ -e {tmp_path}/finish ]; do sleep 0.02; done; exit 6")
    service.tell(StartCommand(number=1, gpus=(A,)))
    service.handled(1)
    service.stop()
    (tmp_path / "finish").touch()
    job.hears("telling it the job's end")
    service.start()
    assert job.end() == 6
    assert service.reports[-1]["exit_code"] == 6


def test_a_job_that_the_service_has_ended_does_not_keep_its_devices(
    service: WireService, launch: Launch
) -> None:
    job = launch("--", "sleep", "600")
    service.tell(StartCommand(number=1, gpus=(A,)))
    pids = service.handled(1)["pids"]
    service.report_status = 410
    assert job.end() == 128 + signal.SIGTERM
    assert not any(lives(pid) for pid in pids)


def test_a_job_that_the_service_does_not_know_goes_on(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    job = launch("--", "sh", "-c", f"until [ -e {tmp_path}/finish ]; do sleep 0.02; done; exit 6")
    service.tell(StartCommand(number=1, gpus=(A,)))
    service.handled(1)
    service.report_status = 404
    service.tell(NotifyCommand(number=2, message="hello"))
    job.hears("doesn't know this job")
    (tmp_path / "finish").touch()
    assert job.end() == 6


def test_a_running_job_that_the_service_lost_says_so_once_and_runs_to_its_end(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    job = launch("--", "sh", "-c", f"until [ -e {tmp_path}/finish ]; do sleep 0.02; done; exit 6")
    service.tell(StartCommand(number=1, gpus=(A,)))
    service.handled(1)
    service.lose("fallow:2")
    job.hears("doesn't know this job")
    asked = service.unknown
    service.until(lambda: service.unknown >= asked + 4, "it was asked again and again")
    assert job.said().count("doesn't know this job") == 1
    (tmp_path / "finish").touch()
    assert job.end() == 6
    assert len(service.submissions) == 1, "what runs is not submitted again"
    assert "telling it the job's end" not in job.said(), "who doesn't know it need not hear of its end"


def test_a_waiting_job_that_the_service_lost_is_submitted_again_and_is_the_same_submission(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    job = launch("--", "sh", "-c", f"echo $FALLOW_JOB >{tmp_path}/ran")
    service.place(1, 1, "1 free GPU")
    job.hears("in the queue")
    service.lose("fallow:7")
    job.hears("submitted again, and is fallow:7 now")
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 0
    assert (tmp_path / "ran").read_text() == "fallow:7\n"
    first, second = service.submissions
    assert first == second
    assert service.nonces == {first["nonce"]}, "every word of a launcher names its submission"


def test_a_paused_job_that_the_service_lost_waits_anew_and_takes_numbers_from_the_beginning(
    service: WireService, launch: Launch, saver: list[str], tmp_path: Path
) -> None:
    job = launch("--checkpoint-signal", "USR1", "--", *saver, "touches")
    service.tell(StartCommand(number=8, gpus=(A,)))
    service.handled(8)
    until(lambda: starts(tmp_path), "it runs")
    service.tell(PauseCommand(number=9))
    service.handled(9)
    service.lose("fallow:7")
    job.hears("is fallow:7 now")
    service.until(lambda: service.reports[-1]["acknowledged"] == 0, "it begins anew")
    assert service.reports[-1]["state"] == "pending"
    service.tell(StartCommand(number=2, gpus=(B,)))
    until(lambda: starts(tmp_path) == ["GPU-a", "GPU-b"], "it runs again")
    (tmp_path / "finish").touch()
    assert job.end() == 0


def test_a_waiting_job_that_the_service_lost_and_refuses_ends_with_a_sentence(
    service: WireService, launch: Launch
) -> None:
    job = launch("--", "true")
    service.place(1, 1, "1 free GPU")
    job.hears("in the queue")
    service.refusal = "vision has projects below it"
    service.lose("fallow:7")
    assert job.end() == 1
    assert "has lost fallow:1, and refuses it: vision has projects below it" in job.said()


def test_the_log_of_a_job_that_was_submitted_again_goes_along(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    job = launch("--detach", "--", "echo", "done at last")
    until(lambda: len(job.printed().splitlines()) == 2, "its log is named")
    log = Path(job.printed().splitlines()[1])
    service.until(lambda: service.listeners, "it listens")
    service.lose("fallow:7")
    moved = log.parent.with_name("fallow-7")
    until(moved.exists, "its log goes along")
    assert not log.exists()
    service.tell(StartCommand(number=1, gpus=(A,)))
    until(lambda: "done at last" in (moved / "log").read_text(), "it goes on in it")
    about = json.loads((moved / "job.json").read_text())
    assert (about["job"], about["nonce"]) == ("fallow:7", service.submissions[0]["nonce"])
    until(lambda: not lives(about["launcher"]["pid"]), "its launcher has ended")


def test_a_killed_worker_is_started_again_as_often_as_was_agreed(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    job = launch("--restarts", "1", "--", "sh", "-c", f"echo $$ >>{tmp_path}/pids; exec sleep 600")
    service.tell(StartCommand(number=1, gpus=(A,)))
    pids = tmp_path / "pids"
    for count in (1, 2):
        until(lambda count=count: pids.exists() and len(pids.read_text().split()) == count, f"start {count}")
        os.kill(int(pids.read_text().split()[-1]), signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL
    assert "starting again in 1 s (1 of 1)" in job.said()


def test_a_killed_launcher_takes_its_workers_along(service: WireService, launch: Launch) -> None:
    job = launch("--", "sh", "-c", "sleep 600 & wait")
    service.tell(StartCommand(number=1, gpus=(A,)))
    pids = service.handled(1)["pids"]
    guard = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
    until(lambda: Path(f"/proc/{pids[0]}/task/{pids[0]}/children").read_text(), "its child runs")
    child = int(Path(f"/proc/{pids[0]}/task/{pids[0]}/children").read_text().split()[0])
    job.process.kill()
    until(lambda: not any(map(lives, (*pids, guard, child))), "all of it is gone")


def test_a_killed_guard_is_a_death_of_the_workers(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    job = launch("--restarts", "1", "--", "sh", "-c", f"echo $$ >>{tmp_path}/pids; exec sleep 600")
    service.tell(StartCommand(number=1, gpus=(A,)))
    first = service.handled(1)["pids"][0]
    until((tmp_path / "pids").exists, "it runs")
    os.kill(int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    until(lambda: len((tmp_path / "pids").read_text().split()) == 2, "it was started again")
    assert not lives(first)
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 128 + signal.SIGTERM


TRAINING = """
import sys, time
from pathlib import Path
import torch
import fallow

folder = Path(sys.argv[1])
job = fallow.connect()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
saved = folder / "checkpoint"
trainer = job.elastic(model, optimizer, global_batch=8, max_micro_batch=8, checkpoint=saved)
samples = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
for step, batches in trainer.steps(samples, total_steps=100_000):
    for x, y in batches:
        trainer.backward(torch.nn.functional.mse_loss(model(x), y))
    trainer.step()
    with (folder / "steps").open("a") as file:
        file.write(f"{step}\\n")
    time.sleep(0.02)
"""


def test_a_script_that_uses_fallow_is_paused_by_its_signal_with_nothing_more(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="a training needs torch: pip install torch")
    (tmp_path / "training.py").write_text(TRAINING)
    steps = tmp_path / "steps"
    words = (sys.executable, str(tmp_path / "training.py"), str(tmp_path))
    job = launch("--checkpoint-signal", "USR1", "--", *words)
    service.tell(StartCommand(number=1, gpus=()))
    until(lambda: steps.exists() and len(steps.read_text().split()) > 2, "it trains")
    service.tell(PauseCommand(number=2))
    paused = service.handled(2)
    assert (paused["state"], paused["failed"]) == ("paused", None)
    assert paused["checkpoint_ms"] is not None
    before = [int(step) for step in steps.read_text().split()]
    service.tell(ResumeCommand(number=3, gpus=()))
    until(lambda: len(steps.read_text().split()) > len(before) + 2, "it trains again")
    after = [int(step) for step in steps.read_text().split()][len(before) :]
    assert 0 < after[0] <= before[-1] + 1
    service.tell(CancelCommand(number=4))
    job.end()


LISTENER = """
import os, pathlib, select, sys
from fallow.control_server import ControlSocket

def answer(words):
    with open(sys.argv[1], "a") as file:
        file.write(" ".join(words) + "\\n")
    if words == ["status"]:
        return {"pid": os.getpid(), "held": 7 * 2**30, "needed": 3 * 2**30}
    return {"freed_bytes": 4 * 2**30}

control = ControlSocket(pathlib.Path(os.environ["FALLOW_JOB_SOCKET"]), answer)
print("listening", flush=True)
while True:
    select.select([control], [], [])
    control.poll()
"""


def test_a_plain_job_that_listens_says_what_it_holds_and_gives_caches_back(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "listener.py").write_text(LISTENER)
    asked = tmp_path / "asked"
    job = launch(
        "--", sys.executable, str(tmp_path / "listener.py"), str(asked), env={"PYTHONPATH": str(Path.cwd())}
    )
    service.tell(StartCommand(number=1, gpus=(A,)))
    until(lambda: "listening" in job.printed(), "it listens")
    service.tell(ReleaseMemoryCommand(number=2))
    assert service.handled(2)["failed"] is None
    assert "release-caches" in asked.read_text()
    held = (7 * 2**30, 3 * 2**30)
    service.until(
        lambda: (
            (service.reports[-1]["memory_held_bytes"], service.reports[-1]["memory_needed_bytes"]) == held
        ),
        "it says what it holds",
    )


def test_a_launcher_shows_the_proof_of_what_it_has_carried_out(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    launch("--", "sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.02; done")
    service.until(lambda: service.reports, "it reports")
    assert "proof" not in service.reports[0], "as a service of before takes it"
    service.tell(StartCommand(number=3, gpus=(A,), proof="begin.3"))
    assert service.handled(3)["proof"] == "begin.3"
    service.tell(NotifyCommand(number=4, message="hello"))
    assert "proof" not in service.handled(4), "nothing is shown for what came without"
    service.lease(3, "stands.3")
    service.lease(4, "stands.4")
    service.until(lambda: service.reports[-1].get("proof") == "stands.4", "it takes what it lacked")
    service.lease(4, "other.4")
    service.tell(NotifyCommand(number=5, message="hello", proof="say.5"))
    assert service.handled(5)["proof"] == "say.5"
    assert not any(each.get("proof") in ("stands.3", "other.4") for each in service.reports)
    (tmp_path / "go").touch()
    service.until(lambda: service.reports[-1]["state"] == "ended", "it ends")


def test_a_service_that_knows_no_proofs_is_shown_none(
    service: WireService, launch: Launch, tmp_path: Path
) -> None:
    """A newer one told the launcher, and an older one was put back in its place."""
    job = launch("--", "sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.02; done")
    service.tell(StartCommand(number=3, gpus=(A,), proof="begin.3"))
    service.handled(3)
    service.knows_proofs = False
    service.tell(NotifyCommand(number=4, message="hello", proof="say.4"))
    assert "proof" not in service.handled(4)
    (tmp_path / "go").touch()
    assert job.end() == 0
    assert "doesn't answer" not in job.said()
