"""One job can be followed through the log by its id, and the acting half counts what it does."""

import logging
import re
from pathlib import Path

import pytest

from service.control.interface import Caller
from tests.service.conftest import until
from tests.service.control.control_world import ANNA, BO, ROOT, Stage, StandIn, stage, wanted


def metric(text: str, name: str, **labels: str) -> float:
    block = "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else ""
    found = re.search(rf"^{re.escape(name + block)} (\S+)$", text, re.M)
    assert found is not None, f"{name}{block} is not in\n{text}"
    return float(found[1])


def events(caplog: pytest.LogCaptureFixture, job: str) -> list[tuple[str, dict[str, object]]]:
    rows = [
        (record.event, record.fields)  # type: ignore[attr-defined]
        for record in caplog.records
        if hasattr(record, "event")
    ]
    return [(event, fields) for event, fields in rows if fields.get("job") == job]


def submitted(world: Stage, caller: Caller) -> str:
    job, _ = world.desk.submit(caller, wanted())
    return str(job["id"])


def test_a_job_is_followed_by_its_id_from_its_submission_to_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with stage(tmp_path) as world:
        job = submitted(world, ANNA)
        launcher = StandIn(world.desk, ANNA, job)
        until("it runs", lambda: world.state(job) == "running")
        text = world.acting.metrics().decode()
        assert metric(text, "fallow_jobs", state="running") == 1
        assert metric(text, "fallow_leases") == 1 == metric(text, "fallow_leased_gpus")
        launcher.finish()
        until("it has ended", lambda: world.state(job) == "ended")
        text = world.acting.metrics().decode()
    rows = events(caplog, job)
    order = ["job-submitted", "action-begun", "command-given", "lease-begun", "command-handled", "job-ended"]
    names = [event for event, _ in rows]
    assert [each for each in names if each in order] == order
    assert names.index("job-running") < names.index("lease-ended")
    numbers = {fields["action"] for event, fields in rows if "action" in fields}
    assert len(numbers) == 1, "journal, command and acknowledgement bear one number"
    (ended,) = (fields for event, fields in rows if event == "job-ended")
    assert (ended["exit_reason"], ended["exit_code"], ended["user"]) == ("done", 0, "anna")
    assert metric(text, "fallow_actions_total", verb="start", result="done") == 1
    assert metric(text, "fallow_jobs", state="running") == 0 == metric(text, "fallow_leases")


def test_a_failed_action_is_a_warning_and_counted_by_its_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with stage(tmp_path) as world:
        job = submitted(world, ANNA)
        launcher = StandIn(world.desk, ANNA, job)
        launcher.failing = "its command was not found"
        until(
            "the action has ended", lambda: any(event == "action-ended" for event, _ in events(caplog, job))
        )
        text = world.acting.metrics().decode()
        launcher.close()
    (record, *_) = (r for r in caplog.records if getattr(r, "event", "") == "action-ended")
    assert record.levelno == logging.WARNING
    assert "its command was not found" in record.fields["found"]  # type: ignore[attr-defined]
    assert metric(text, "fallow_actions_total", verb="start", result="failed") >= 1


def test_the_kill_switch_and_the_longest_wait_are_told(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as world:
        submitted(world, BO)
        world.desk.stop_acting(ROOT, "maintenance")
        text = world.acting.metrics().decode()
    assert metric(text, "fallow_kill_switch") == 1
    assert metric(text, "fallow_jobs", state="pending") == 1
    assert metric(text, "fallow_queue_oldest_seconds") >= 0
