"""Private mode: what others run is hidden from users, in rows, sentences and metrics; figures are not."""

import json

import pyarrow as pa
import pytest

from analytics import query
from service.api.privacy import HIDDEN, QUOTING, SHOWN, concealed, concealed_answer, concealed_metrics
from service.control.interface import Caller, Role
from service.control.rows import entry_row, queue_row
from service.control.wait_reasons import Wait

ADA = Caller(name="ada", uid=1, role=Role.USER)
BO = Caller(name="bo", uid=2, role=Role.USER)
ADAS_VIEW = Caller(name="ada", uid=1, role=Role.VIEWER)
ROOT = Caller(name="root", uid=0, role=Role.OPERATOR)

FINDINGS = pa.table(
    {
        "user_name": ["ada", None],
        "job": ["slurm:1", "slurm:2"],
        "job_name": ["secret-sweep", "other-secret"],
        "sentence": ["ada (job secret-sweep) has done nothing for 3 h", "job other-secret does nothing"],
        "evidence": ['{"busy_ratio": 0.0}', '{"command": "python steal.py"}'],
        "wasted_gpu_hours": [3.0, 4.0],
    }
)


def test_an_owner_sees_own_rows_and_of_others_the_figures() -> None:
    mine, others = concealed(FINDINGS, "findings", ADA).to_pylist()
    assert mine == FINDINGS.to_pylist()[0]
    assert (others["job_name"], others["evidence"]) == (None, "{}")
    assert others["sentence"] == "job slurm:2 does nothing"
    assert others["wasted_gpu_hours"] == 4.0


@pytest.mark.parametrize("caller", [BO, ADAS_VIEW])
def test_others_and_viewers_see_no_name_anywhere(caller: Caller) -> None:
    table = concealed(FINDINGS, "findings", caller)
    assert "secret" not in str(table.to_pylist())
    assert table.schema == FINDINGS.schema, "readers find the columns and types that they know"
    assert table["evidence"].to_pylist()[0] == '{"busy_ratio": 0.0}', "figures stay"


def test_an_operator_sees_everything() -> None:
    assert concealed(FINDINGS, "findings", ROOT) is FINDINGS


def test_texts_that_quote_names_which_their_row_does_not_bear_are_hidden_whole() -> None:
    alerts = pa.table(
        {"user_name": ["ada"], "job": ["slurm:1"], "title": ["secret-sweep idles"], "says": ["secret-sweep"]}
    )
    assert "secret" not in str(concealed(alerts, "alerts", BO).to_pylist())


@pytest.mark.parametrize(
    ("caller", "value"), [(ADA, "abc"), (BO, HIDDEN), (ADAS_VIEW, HIDDEN), (ROOT, "abc")]
)
@pytest.mark.parametrize("user", ["ada", None])
def test_ids_of_runs_are_for_the_job_s_owner(user: str | None, caller: Caller, value: str) -> None:
    said = pa.table({"name": ["WANDB_RUN_ID"], "value": ["abc"], "user_name": pa.array([user], pa.string())})
    expected = value if user is not None or caller is ROOT else HIDDEN
    assert concealed(said, "run_ids", caller)["value"].to_pylist() == [expected]


def test_a_manager_s_queue_says_who_waits_and_why_and_not_what() -> None:
    row = {"user_name": "ada", "project": "p", "job": "slurm:1", "reason": "Priority", "cause": "resources"}
    queue = pa.table({name: [value] for name, value in (row | {"job_name": "secret"}).items()})
    assert concealed(queue, "manager_queue", BO).to_pylist() == [row | {"job_name": None}]
    holders = pa.table(
        {"key": ["slurm:1"], "user_name": ["ada"], "project": ["p"], "beside_gpu_hours": [1.0]}
    )
    assert concealed(holders, "waited_holders", BO).to_pylist() == holders.to_pylist()
    waits = pa.table({"key": ["ada"], "waited_gpu_hours": [1.0]})
    assert concealed(waits, "waited", BO).to_pylist() == waits.to_pylist()


def test_what_is_hidden_is_still_read_by_who_decides() -> None:
    """A verb of a user reads concealed findings as any others: `advise` ended with a traceback on them."""
    others = concealed(FINDINGS, "findings", BO).to_pylist()[1]
    assert json.loads(others["evidence"]) == {}
    alert = pa.table({"user_name": ["ada"], "title": ["x"], "says": ["y"], "evidence": ['{"command": "z"}']})
    (row,) = concealed(alert, "alerts", BO).to_pylist()
    assert (row["title"], row["says"], row["evidence"]) == (HIDDEN, HIDDEN, "{}")


READ = {"job_name", "process_name", "command", "evidence", "sentence", "unreadable"}
"""Columns that a person has read, and that say what somebody runs, or quote it."""

READ_OF_ONE = {
    "alerts.title",
    "alerts.says",
    "alerts.next",
    "alerts.because",
    "assess_unproven_claims.why",
    "manager_runs.word",  # what an owner wrote into a comment
    "pairs.host_profile",
    "pairs.guest_profile",
    "run_ids.value",
    "unclear_claims.reason",
}


def test_every_text_of_a_query_was_read_by_a_person() -> None:
    """A new one is hidden; this list says which are so on purpose, and not for want of a look."""
    texts = {
        (f"{spec.name}.{column.name}", column.name)
        for spec in query.catalogue().values()
        for column in spec.columns
        if column.type.startswith(("text", "json"))
    }
    decided = SHOWN | QUOTING | READ | READ_OF_ONE
    assert {place for place, name in texts if not {place, name} & decided} == set()


def test_the_name_label_is_taken_from_metrics_and_nothing_else() -> None:
    page = (
        b'fallow_gpu_allocation_ratio{uuid="G",user="ada",job="slurm:1",name="a\\"b,c",kind="batch"} 1\n'
        b'fallow_gpu_allocation_ratio{name="x"} 0.5\n'
        b'other{name="kept"} 1\n'
    )
    assert concealed_metrics(page, ROOT) == page
    assert concealed_metrics(page, BO) == (
        b'fallow_gpu_allocation_ratio{uuid="G",user="ada",job="slurm:1",kind="batch"} 1\n'
        b"fallow_gpu_allocation_ratio{} 0.5\n"
        b'other{name="kept"} 1\n'
    )


def test_submitted_jobs_and_the_queue_hide_names_and_commands() -> None:
    from advisor.jobs.model import JobRecord
    from collector.model import JobId
    from tests.service.control.control_world import wanted

    entry = JobRecord(id=JobId("fallow:1"), submission=wanted(user="ada", uid=1, name="secret"))
    wait = Wait(place=1, of=1, waits_for="room")
    for caller, is_shown in ((ADA, True), (BO, False), (ADAS_VIEW, False), (ROOT, True)):
        row = concealed_answer(entry_row(entry, caller), caller)
        assert (row["name"] == "secret") is is_shown
        assert ("train.py" in str(row)) is is_shown
        assert (concealed_answer([queue_row(entry, wait)], caller)[0]["name"] == "secret") is is_shown
    anew = Caller(name="ada", uid=9, role=Role.USER)
    assert "secret" not in str(concealed_answer(entry_row(entry, anew), anew)), "another of an old name"
    assert entry_row(entry, BO)["name"] == "secret", "without private mode names are seen"
