"""A plan waits for a yes: with a real service, launchers and toys, typed as people type it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.demo.stage import Setting, Stage

pytestmark = pytest.mark.long

ASK = """
[acting]
every_s = 2

[advice]
coverage_ratio = 0.8
startup_s = 600

[modes]
fair_share = "ask"

[quotas.vision]
gpus = 1
[quotas.speech]
gpus = 1
"""
MOVABLE = ("--preemptible", "--checkpoint-signal", "USR1", "--grace", "10s")
ONE = ("--gpus", "1", "--memory", "12GiB")
TOY = ("unfilled", "--needs", "12", "--busy", "90")
LONG_S = 90.0


@pytest.fixture
def stage(compiled: None, tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path / "ask", Setting(gpus=2, speed=120, settings=ASK)) as made:
        yield made


def rows(stage: Stage, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(stage.order(*words, "--json"))
    return found


def stands(stage: Stage) -> dict[str, str]:
    return {row.name: row.state for row in stage.jobs()}


def test_a_plan_waits_for_a_yes_and_is_done_with_it(stage: Stage) -> None:
    for name in ("v1", "v2"):
        words = ("--steps", "100000", "--checkpoint", str(stage.folder / f"{name}.json"))
        stage.run(name, ("--project", "vision", *ONE, *MOVABLE), (*TOY, *words))
    stage.until("vision has both", lambda: list(stands(stage).values()) == ["running"] * 2, LONG_S)
    stage.run("s1", ("--project", "speech", *ONE), (*TOY, "--steps", "100000"))
    stage.until("a plan waits", lambda: rows(stage, "plan", "--waiting"), LONG_S)

    (plan,) = rows(stage, "plan", "--waiting")
    number = str(plan["plan"])
    assert [(each["verb"], each["mode"]) for each in plan["steps"]] == [("requeue", "ask"), ("start", "auto")]
    assert f"fallow apply {number} --yes" in stage.order("plan")
    before = rows(stage, "actions")
    first, second = rows(stage, "plan", "--try")
    assert [(each["verb"], each["outcome"]) for each in (first, second)] == [
        ("requeue", "ask"),
        ("start", "ask"),
    ]
    assert [each["kind"] for each in first["effects"]] == ["command", "signal", "signal", "lease"]
    assert "SIGUSR1 to its workers" in stage.order("plan", "--try")
    assert (rows(stage, "actions"), stands(stage)["s1"]) == (before, "pending"), "it was only tried"
    assert "Nothing was done" in stage.order("apply", number)
    assert stands(stage)["s1"] == "pending"
    (waits,) = rows(stage, "queue")
    assert "would have to give way first, and the mode of fair-share is ask" in waits["waits_for"]

    assert "Acting is stopped" in stage.order("stop-acting", "--because", "a look around")
    refused = stage.fallow("apply", number, "--yes")
    assert (refused.returncode, "acting was stopped by" in refused.stderr) == (2, True)
    another = stage.fallow("serve")
    assert (another.returncode, "runs already" in another.stderr) == (2, True), "two would act on one store"
    stage.stop_serving()
    stage.serve()
    assert stage.order("actions").startswith("Acting is stopped by"), "a restart changes nothing"
    stage.order("start-acting")

    approved: list[str] = []
    stage.until("the plan is approved", lambda: _approved(stage, approved), LONG_S)
    number = approved[0]
    stage.until("speech has its GPU", lambda: stands(stage)["s1"] == "running", LONG_S)
    assert sorted(stands(stage).values()) == ["pending", "running", "running"]
    done = {row["verb"]: row for row in rows(stage, "actions") if row["plan"] == int(number)}
    assert {verb: row["outcome"] for verb, row in done.items()} == {"requeue": "done", "start": "done"}
    assert all(row["actor"].startswith("user ") for row in done.values())
    again = stage.fallow("apply", number, "--yes")
    assert (again.returncode, "does not wait any more: applied by" in again.stderr) == (2, True)


def test_acting_is_stopped_and_started_without_a_service(stage: Stage) -> None:
    stage.stop_serving()
    assert "The service itself was not told" in stage.order("stop-acting", "--because", "it hangs")
    assert (stage.data / "stop-acting").exists()
    stage.serve()
    stage.run("v1", ("--project", "vision", *ONE), (*TOY, "--steps", "100000"))
    stage.until("the job is there", lambda: "v1" in stands(stage), LONG_S)
    stage.until("it says what it waits for", lambda: _waits_for_acting(stage), LONG_S)
    assert stands(stage)["v1"] == "pending"
    assert stage.actions() == []
    stage.stop_serving()
    assert "acts again" in stage.order("start-acting")
    assert not (stage.data / "stop-acting").exists()
    stage.serve()
    stage.until("the job runs", lambda: stands(stage)["v1"] == "running", LONG_S)


def _approved(stage: Stage, numbers: list[str]) -> bool:
    """Approve the plan that waits now; in a hurried calendar it may have run out a moment later."""
    for plan in rows(stage, "plan", "--waiting"):
        if stage.fallow("apply", str(plan["plan"]), "--yes").returncode == 0:
            numbers.append(str(plan["plan"]))
    return bool(numbers)


def _waits_for_acting(stage: Stage) -> bool:
    return any("stopped" in row["waits_for"] for row in rows(stage, "queue"))
