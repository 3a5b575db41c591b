"""Who may read what of a submitted job: owner and operators all of it, others no secret of its command."""

from dataclasses import replace

import pytest

from advisor.jobs.model import JobRecord
from collector.model import JobId
from collector.procfs.job_root import COMMAND_CHARS
from service.control.interface import Caller, Role
from service.control.rows import Row, entry_row
from tests.service.control.control_world import ANNA, BO, GUEST, ROOT, wanted

SECRET = "hush-4711"
COMMAND = ("python", "t.py", "--token", SECRET, "--lr", "1", f"postgresql://ann:{SECRET}@db/runs")
ASKED = wanted(command=COMMAND, user="anna", uid=4_100_000, folder="/home/anna/secret-plan", nonce="n0")
ENTRY = JobRecord(id=JobId("fallow:7"), submission=ASKED)


def command_of(row: Row) -> list[str]:
    return list(row["submission"]["command"])


@pytest.mark.parametrize("caller", [ANNA, ROOT], ids=lambda each: each.name)
def test_owner_and_operator_see_the_whole_command(caller: Caller) -> None:
    row = entry_row(ENTRY, caller)
    assert command_of(row) == list(COMMAND)
    assert row["submission"]["folder"] == "/home/anna/secret-plan"


@pytest.mark.parametrize("caller", [BO, GUEST, replace(ANNA, role=Role.VIEWER)], ids=str)
@pytest.mark.parametrize("listed", [True, False])
def test_others_see_what_it_runs_and_no_secret(caller: Caller, listed: bool) -> None:
    row = entry_row(ENTRY, caller, listed=listed)
    assert SECRET not in str(row)
    assert command_of(row)[:4] == ["python", "t.py", "--token", "***"]
    assert (row["submission"]["folder"], row["submission"]["nonce"]) == ("", "")
    assert (row["job"], row["user"], row["submission"]["min_gpus"]) == ("fallow:7", "anna", 1)


def test_an_account_of_the_same_name_and_another_uid_is_another_person() -> None:
    assert SECRET not in str(entry_row(ENTRY, replace(ANNA, uid=4_100_001)))


def test_a_list_has_the_beginning_of_a_long_command() -> None:
    long = replace(ENTRY, submission=replace(ASKED, command=("python", "x" * 5_000, "y" * 5_000)))
    for caller in (ANNA, BO):
        told = command_of(entry_row(long, caller, listed=True))
        assert sum(map(len, told)) <= COMMAND_CHARS + 2 and told[-1].endswith("\u2026")
    assert command_of(entry_row(long, ANNA)) == ["python", "x" * 5_000, "y" * 5_000]
