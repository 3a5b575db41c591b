"""``fallow plan --try``: what a plan made now would do is told, and nothing of it is done."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Action, Pause
from advisor.engines.effects import Effect, EffectKind, Preview, of_command
from advisor.jobs import lifecycle
from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    JobState,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    Sharing,
    StartCommand,
)
from advisor.outcomes import Stale, Unsupported
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Advice
from advisor.state.model import ActionClass, ClusterState
from collector.model import JobId
from service.cli.plan_lines import trial_lines
from service.control.plan_trial import TrialDependencies, trial
from service.schemas.answer import read
from service.schemas.control import PlanTrial
from tests.service.control.control_world import ANNA, GPUS, GUEST, ROOT, StandIn, stage, until, wanted
from tests.service.control.test_control_approvals import world


def shown(row: dict[str, Any]) -> list[str]:
    return [line.plain for step in read(PlanTrial, row).steps for line in trial_lines(step)]


@pytest.mark.slow
def test_what_was_tried_is_what_is_then_done_and_nothing_before(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as made:
        job = made.desk.submit(ANNA, wanted(grace_s=30.0))[0]["job"]
        launcher = StandIn(made.desk, ANNA, job)
        launcher.say()
        (step,) = made.desk.try_plan(GUEST)["steps"]
        assert (step["verb"], step["job"], step["engine"], step["outcome"]) == (
            "start",
            job,
            "launched",
            "done",
        )
        assert [each["kind"] for each in step["effects"]] == ["command", "lease", "environment"]
        assert f"start, to the launcher of {job}" in step["effects"][0]["text"]
        assert step["gpus"][0] in step["effects"][1]["text"]
        assert made.desk.actions(ROOT, since_ms=None, job=None) == [], "the journal knows nothing of it"
        assert (made.desk.job(ROOT, JobId(job))["directives"], made.leases(), made.desk.plans(ROOT)) == (
            [],
            {},
            [],
        )
        assert (made.state(job), launcher.told) == ("pending", [])

        made.desk.stop_acting(ROOT, "a look around")
        assert "acting was stopped by root" in made.desk.try_plan(GUEST)["halted"]
        made.desk.start_acting(ROOT)
        made.acting.start()
        until("it runs", lambda: made.state(job) == "running")
        assert [each.gpus for each in launcher.told if isinstance(each, StartCommand)] == [
            tuple(step["gpus"])
        ]
        launcher.close()


def tried(preview: Preview | None, *steps: Action, no: str | None = None) -> dict[str, Any]:
    limits = Limits(modes={ActionClass.RECLAIM: Mode.ASK, ActionClass.SCHEDULE: Mode.AUTO})
    advice = Advice(action=ActionClass.RECLAIM, what="x", why="y", steps=steps)

    def policy(state: ClusterState) -> list[Advice]:
        return [advice]

    return trial(
        TrialDependencies(
            observe=world,
            limits=limits,
            policies=(policy,),
            preview=lambda step: ("launched", preview),
            against=lambda step: no,
            halted=lambda: None,
        )
    )


PAUSE = Pause(job=JobId("a"), for_job=JobId("w"), reason="it idles")
EFFECTS = (Effect(kind=EffectKind.SIGNAL, text="SIGUSR1 to its workers"),)


def test_a_step_that_needs_a_yes_says_so_and_so_does_what_follows_from_it() -> None:
    row = tried(EFFECTS, PAUSE)
    assert [(each["verb"], each["outcome"]) for each in row["steps"]] == [("pause", "ask"), ("start", "ask")]
    assert shown(row)[:2] == [
        "  1  pause a of ann: it idles  · after a yes",
        "       signal      SIGUSR1 to its workers",
    ]


@pytest.mark.parametrize(
    ("preview", "no", "outcome", "message"),
    [
        (Stale(found="it has ended"), None, "stale", "it has ended"),
        (Unsupported(why="it is in a container"), None, "unsupported", "it is in a container"),
        (EFFECTS, "its owner ann does not allow it", "refused", "its owner ann does not allow it"),
    ],
)
def test_what_would_not_be_begun_says_why_and_shows_no_effect(
    preview: Preview, no: str | None, outcome: str, message: str
) -> None:
    row = tried(preview, PAUSE, no=no)
    first = row["steps"][0]
    assert (first["outcome"], first["message"], first["effects"]) == (outcome, message, None)
    assert shown(row)[0].endswith(f"not done ({outcome}): {message}")


def test_an_engine_that_cannot_say_beforehand_is_named() -> None:
    assert "launched: it cannot say beforehand" in "\n".join(shown(tried(None, PAUSE)))


def told(order: Command, mobility: Elasticity = Elasticity.ELASTIC) -> list[tuple[str, str]]:
    asked = wanted(mobility=mobility, checkpoint_signal="USR1", grace_s=30.0, max_gpus=2)
    begun = lifecycle.with_command(
        lifecycle.submitted(JobId("fallow:7"), asked, 0), StartCommand(number=1, gpus=GPUS[:2]), 0
    )
    entry = replace(begun, state=JobState.RUNNING, acknowledged=1)
    return [(each.kind.value, each.text) for each in of_command(order, entry, 40.0)]


def test_each_command_tells_what_its_launcher_does_to_workers_and_gpus() -> None:
    saves = Elasticity.CHECKPOINTS
    pause = told(PauseCommand(number=2), saves)
    assert [kind for kind, _ in pause] == ["command", "signal", "signal", "lease"]
    assert pause[0][1] == "pause, to the launcher of fallow:7; its answer is waited for up to 40 s"
    assert pause[1][1].startswith("SIGUSR1 to its workers; it has 30 s to save itself")
    assert pause[3][1] == "gives GPU-0, GPU-1 back once all has ended"
    assert "its controller is asked to save" in told(PauseCommand(number=2))[1][1]
    assert "after its grace of 30 s" in told(CancelCommand(number=2))[1][1]
    half = ReallocateCommand(
        number=2,
        gpus=GPUS[:1],
        share=0.5,
        sharing=Sharing.TIME_SLICED,
        memory_bytes=1 << 30,
        settings=(("A", "b"),),
    )
    assert [kind for kind, _ in told(half)] == ["command", "signal", "lease", "environment"]
    assert told(half)[2:] == [
        ("lease", "takes GPU-0, 50% of each, time-sliced, 1 GiB of memory each"),
        ("environment", "A=b"),
    ]
    assert "workers start anew" in told(half, saves)[3][1]
    behind = StartCommand(number=2, gpus=GPUS[:1], beside=JobId("fallow:1"))
    assert told(behind)[1] == ("lease", "none: it computes in the idle gaps of fallow:1 on GPU-0")
    assert told(ReleaseMemoryCommand(number=2))[1][0] == "memory"
    assert told(NotifyCommand(number=2, message="It idles."))[1] == (
        "message",
        "printed by its launcher: It idles.",
    )
