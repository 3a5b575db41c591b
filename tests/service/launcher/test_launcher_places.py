"""Where ``fallow run`` is started from and as whom: folders that are gone, accounts that are none."""

from pathlib import Path

import pytest

from advisor.jobs.model import StartCommand
from collector.model import GpuUuid
from service.cli import run
from service.cli.parser import parse
from tests.service.api.conftest import as_uid
from tests.service.launcher.conftest import Launch
from tests.service.launcher.wire_service import WireService

A = GpuUuid("GPU-a")
NOBODYS = 4_123_456
"""A uid that no account has."""


def in_the_tree() -> dict[str, str]:
    return {"PYTHONPATH": str(Path.cwd())}


@pytest.mark.parametrize(
    ("name", "project"),
    [("ann", "ann"), ("uid-4001", "uid-4001"), ("DOM\\user", "DOM-user"), ("-ann", "ann")],
)
def test_a_job_without_a_project_is_in_that_of_its_caller_as_the_service_knows_it(
    service: WireService, launch: Launch, name: str, project: str
) -> None:
    service.caller = name
    job = launch("--", "true", env={"LOGNAME": "somebody-else"})
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 0
    assert service.submissions[0]["project"] == project
    assert ("project is" in job.said()) == (name != project)


def test_a_project_that_is_named_is_taken_whoever_calls(service: WireService, launch: Launch) -> None:
    service.caller = "DOM\\user"
    job = launch("--", "true", env={"FALLOW_PROJECT": "vision"})
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert job.end() == 0
    assert (service.submissions[0]["project"], "project" in job.said()) == ("vision", False)


def test_a_uid_without_an_account_submits_jobs(service: WireService, monkeypatch: pytest.MonkeyPatch) -> None:
    service.caller = f"uid-{NOBODYS}"
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "FALLOW_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in service.env.items():
        monkeypatch.setenv(name, value)
    service.tell(StartCommand(number=1, gpus=(A,)))
    cannot_read_our_python, flags = 126, parse(["run", "--", "true"]).flags
    assert as_uid(NOBODYS, lambda: run.run_run(flags)) in (0, cannot_read_our_python)
    assert service.submissions[0]["project"] == f"uid-{NOBODYS}"


def test_a_folder_that_is_gone_is_said_so(service: WireService, launch: Launch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    before = ("sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh")
    job = launch("--", "true", before=before, cwd=gone, env=in_the_tree())
    assert job.end() == 2
    assert "folder" in job.said() and "is gone" in job.said()
    assert "Traceback" not in job.said()
    assert service.submissions == []
