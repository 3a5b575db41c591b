"""What ``fallow run`` cannot carry on with after its submission is cancelled: it would be given GPUs."""

import os
import signal
from pathlib import Path

import pytest

from advisor.jobs.model import StartCommand
from collector.model import GpuUuid
from service.launcher.calling_off import calling_off, why
from tests.service.launcher.conftest import Launch
from tests.service.launcher.wire_service import WireService

A = GpuUuid("GPU-a")
CANCEL = "/v1/jobs/fallow%3A1/cancel"


def shell(redirection: str) -> tuple[str, ...]:
    return ("sh", "-c", f'exec "$@" {redirection}', "sh")


def test_a_log_that_cannot_be_kept_is_no_submission(service: WireService, launch: Launch) -> None:
    job = launch("--detach", "--", "true", env={"XDG_STATE_HOME": "/proc/none"})
    assert job.end() == 2
    assert "cannot keep the job's log" in job.said()
    assert (service.submissions, service.orders) == ([], [])


def test_a_detached_job_whose_number_cannot_be_printed_is_cancelled(
    service: WireService, launch: Launch
) -> None:
    job = launch("--detach", "--", "true", before=shell(">/dev/full"))
    assert job.end() == 2
    assert "fallow:1 is cancelled" in job.said()
    assert "Traceback" not in job.said()
    assert (len(service.submissions), service.orders) == (1, [CANCEL])


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_stream_that_is_closed_leads_nowhere_and_the_job_runs(
    service: WireService, launch: Launch, tmp_path: Path, closed: tuple[int, ...]
) -> None:
    links = " ".join(f"/proc/$$/fd/{number}" for number in range(3))
    script = f"echo printed; echo said >&2; ls -l {links} | cat >{tmp_path}/streams"
    closing = " ".join(f"{number}{'>' if number else '<'}&-" for number in closed)
    job = launch("--", "sh", "-c", script, before=shell(closing))
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 0
    leads = [line.split(" -> ")[1] for line in (tmp_path / "streams").read_text().splitlines()]
    assert [leads[number] for number in closed] == ["/dev/null"] * len(closed)
    assert (job.printed() == "printed\n", "said\n" in job.said()) == (1 not in closed, 2 not in closed)


@pytest.mark.parametrize("closed", ["2>&-", ">&-"])
def test_a_detached_job_runs_with_a_stream_closed(service: WireService, launch: Launch, closed: str) -> None:
    assert launch("--detach", "--", "true", before=shell(closed)).end() == 0
    service.until(lambda: service.listeners == 1 and service.reports, "it waits")
    service.tell(StartCommand(number=1, gpus=(A,)))
    service.until(lambda: service.reports[-1]["exit_reason"] == "done", "it is done")


def test_ctrl_c_before_the_answer_to_the_submission_cancels_what_it_made(
    service: WireService, launch: Launch
) -> None:
    service.answers.clear()
    job = launch("--", "true")
    service.until(lambda: service.submissions, "it is submitted")
    job.process.send_signal(signal.SIGINT)
    service.until(lambda: len(service.submissions) == 2, "it is looked for")
    service.answers.set()
    assert job.end() == 130
    assert service.orders == [CANCEL]
    assert len({each["nonce"] for each in service.submissions}) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_would_end_it_calls_it_off(number: signal.Signals) -> None:
    told: list[BaseException] = []
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, calling_off(told.append):
        os.kill(os.getpid(), number)
        signal.pause()
    assert ended.value.code == 128 + number
    assert [why(each) for each in told] == ["fallow run was interrupted before it ran"]
    assert signal.getsignal(number) is before


def test_what_is_ignored_stays_ignored_and_what_goes_well_is_not_called_off() -> None:
    told: list[BaseException] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with calling_off(told.append):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert told == []


def test_why_a_job_is_called_off_is_one_line() -> None:
    told: list[BaseException] = []
    with pytest.raises(ValueError, match="odd"), calling_off(told.append):
        raise ValueError("odd\n\x1b[31mthing\u202e")
    assert why(told[0]) == "fallow run failed: ValueError: odd [31mthing"
