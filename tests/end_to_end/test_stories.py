"""The stories, played with a real service, real launchers and toy jobs, and held to what others saw of them.

What a story claims is asked of the driver's board (who held what, at every instant), of the store's samples,
and of the journal; never of the plan.
"""

import importlib.util
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from examples.demo.stage import Stage, StoryFailed
from examples.demo.stories import STORIES
from examples.demo.witness import Sight
from examples.toys.board import CONTEXT_BYTES, GIB
from service.schemas.records import Action
from tests.end_to_end.in_gaps import assert_in_gaps

pytestmark = pytest.mark.timeout(900)
WHOLE = 80 * GIB - GIB // 2
Play = Callable[[str], tuple[Stage, Mapping[str, Any]]]


@pytest.fixture
def play(compiled: None, tmp_path: Path) -> Any:
    """Play a story to its end; its stage, which still stands, and what it saw.

    On a machine too busy for its calendar it stalls; then it is played once more, half as fast.
    """
    stages: list[Stage] = []

    def played(name: str, hurry: float = 1.0) -> tuple[Stage, Mapping[str, Any]]:
        story = next(each for each in STORIES if each.name == name)
        setting = replace(story.setting, speed=story.setting.speed * hurry, patience=1 / hurry)
        stage = Stage(tmp_path / f"{name}-{hurry}", setting)
        stages.append(stage.__enter__())
        try:
            return stage, story.play(stage, lambda line: None)
        except StoryFailed as stalled:
            if hurry < 1.0:
                raise
            warnings.warn(f"{name} stalled and is played again, half as fast: {stalled}", stacklevel=2)
            stages.pop().__exit__()
            return played(name, 0.5)

    yield played
    for stage in stages:
        stage.__exit__()


HOUR_MS = 3_600_000
GRACE_MS = 900_000
IDLE_ROUNDED_MS = HOUR_MS // 20 + 60_000
"""A reason names minutes, and hours to a tenth."""


def journal(stage: Stage, job: str | None = None, *verbs: str) -> list[Action]:
    """What the journal has, oldest first; of one job and of these verbs alone where they are named."""
    return [
        row for row in stage.actions() if (not job or row.job == job) and (not verbs or row.verb in verbs)
    ]


def id_of(stage: Stage, name: str) -> str:
    return next(row.job for row in stage.jobs() if row.name == name)


def pids_of(text: str) -> list[int]:
    """The processes of a toy, in the order in which they said that they work."""
    return [int(found) for found in re.findall(r"process (\d+) works", text)]


def saved_and_went_on(text: str) -> bool:
    """Whether a toy started from the very step at which it had saved."""
    saved, begun = re.findall(r"saved at step (\d+)", text), re.findall(r"from step (\d+)", text)
    return bool(saved) and saved == begun[1 : len(saved) + 1]


def never_more_than_there_is(stage: Stage) -> bool:
    return all(sum(on.values()) <= WHOLE for sight in stage.witness.sights for on in sight.held.values())


def first_with(stage: Stage, pid: int) -> Sight:
    return next(sight for sight in stage.witness.sights if any(pid in on for on in sight.held.values()))


def stored(stage: Stage) -> dict[int, Mapping[str, Any]]:
    """The newest samples of the processes that the store knows, by pid."""
    rows: dict[int, Mapping[str, Any]] = {}
    for uuid in stage.uuids:
        rows |= {int(row["pid"] or 0): row for row in stage.rows("processes_now", uuid=uuid)}
    return rows


def gave_back(stage: Stage) -> dict[str, Any]:
    """The only action that gave anything back, once the ledger has another job at work there."""
    ever = {"from_ts": "2020-01-01T00:00Z", "to_ts": "2100-01-01T00:00Z"}

    def worked() -> list[dict[str, Any]]:
        return [dict(row) for row in stage.rows("given_back", **ever) if row["worked_gpu_hours"]]

    (row,) = stage.until("the ledger has another job at work on what was freed", worked)
    assert 0 < row["worked_gpu_hours"] <= row["held_gpu_hours"] <= row["freed_gpu_hours"]
    assert row["freed_gpu_hours"] <= row["due_gpu_hours"]
    return dict(row)


def test_tensorflow_hog_is_restarted_with_growth_and_a_second_job_fits_beside_it(play: Play) -> None:
    stage, seen = play("hog")
    first, second = seen["jobs"]
    hog, other = id_of(stage, "hog"), id_of(stage, "second")
    assert never_more_than_there_is(stage)
    old, new = pids_of(first.text)
    assert old == seen["hog_pid"]
    (beside,) = pids_of(second.text)
    arrival = first_with(stage, beside).held[stage.uuids[0]]
    assert arrival.get(new) == 12 * GIB + CONTEXT_BYTES and old not in arrival
    assert saved_and_went_on(first.text)
    stage.until("the store has both", lambda: {new, beside} <= set(stored(stage)))
    sizes = {pid: row["memory_used_bytes"] for pid, row in stored(stage).items()}
    assert sizes == {new: 12 * GIB + CONTEXT_BYTES, beside: 30 * GIB + CONTEXT_BYTES}
    done = journal(stage, hog, "start", "set-env-at-restart", "move")
    assert [(row.verb, row.outcome) for row in done] == [
        ("start", "done"),
        ("set-env-at-restart", "done"),
        ("move", "done"),
    ]
    (begun,) = journal(stage, other, "start")
    assert begun.action > done[-1].action
    room = gave_back(stage)
    assert (room["intent"], room["job"], room["class"]) == (done[-1].action, hog, "cap-memory")


def test_two_half_used_gpus_become_one(play: Play) -> None:
    stage, seen = play("halves")
    left, right, third = seen["jobs"]
    assert never_more_than_there_is(stage)
    assert saved_and_went_on(left.text) and saved_and_went_on(right.text)
    together = {pids_of(left.text)[-1], pids_of(right.text)[-1]}
    alone = set(pids_of(third.text))
    held = sorted((set(on) for on in stage.witness.now().values()), key=len)
    assert held == [alone, together]
    moves = journal(stage, None, "move")
    assert {row.job for row in moves if row.outcome == "done"} == {
        id_of(stage, "left"),
        id_of(stage, "right"),
    }
    (begun,) = journal(stage, id_of(stage, "third"), "start")
    assert begun.action > max(row.action for row in moves)
    freed = gave_back(stage)
    assert (freed["class"], freed["verb"], freed["gpus"]) == ("pack", "move", 1)
    assert freed["intent"] in {row.action for row in moves}


def test_who_holds_more_than_his_quota_gives_it_back_and_gets_it_again(play: Play) -> None:
    stage, seen = play("quotas")
    vision, speech = seen["jobs"][:4], seen["jobs"][4:]
    assert seen["vision_beside_speech"] == 2
    assert all(len(on) <= 1 for sight in stage.witness.sights for on in sight.held.values())
    back = journal(stage, None, "requeue", "pause")
    assert len(back) == 2 and all(row.outcome == "done" for row in back)
    gave_way = {row.job for row in back}
    assert gave_way < {id_of(stage, job.name) for job in vision}
    for job in vision:
        moved = id_of(stage, job.name) in gave_way
        assert len(pids_of(job.text)) == (2 if moved else 1), job.text
        assert saved_and_went_on(job.text) == moved
    for job in speech:
        assert job.process.returncode == 0
        sight = first_with(stage, pids_of(job.text)[0])
        assert (
            sum(pid in on for on in sight.held.values() for each in vision for pid in pids_of(each.text)) <= 3
        )
    assert sum(len(on) for on in stage.witness.now().values()) == 4


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch (torch) is not installed")
@pytest.mark.long
def test_training_grows_onto_a_gpu_that_comes_free_and_its_losses_stay_the_same(play: Play) -> None:
    stage, seen = play("elastic")
    other, training = seen["jobs"]
    assert training.process.returncode == 0, training.text
    assert [row["loss"] for row in seen["losses"]] == [row["loss"] for row in seen["fixed"]]
    assert [row["step"] for row in seen["losses"]] == [row["step"] for row in seen["fixed"]]
    assert {row["world"] for row in seen["losses"]} == {1, 2}
    assert all(len(pids) == 1 for pids in seen["workers"])
    assert all(len(on) <= 1 for sight in stage.witness.sights for on in sight.held.values())
    done = journal(stage, id_of(stage, "elastic"))
    assert [row.verb for row in done if row.outcome == "done"] == ["start", "resize"]
    assert len(pids_of(other.text)) == 1


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch (torch) is not installed")
@pytest.mark.long
def test_sweep_computes_in_a_trainings_gaps_and_leaves_by_one_command(play: Play) -> None:
    stage, seen = play("gaps")
    front, guest = seen["jobs"]
    assert front.process.poll() is None and guest.process.poll() is None
    assert re.search(
        r"has made [\d,]+ steps: .+ of GPU time harvested; it runs at \d\.\d{3} of its", seen["told"]
    )
    assert seen["steps_alone"] == 0
    assert_in_gaps(seen["busy"], seen["log"])
    assert [row.verb for row in journal(stage, id_of(stage, "training")) if row.outcome == "done"] == [
        "start",
        "keep",
    ]
    done = [row.verb for row in journal(stage, id_of(stage, "sweep")) if row.outcome == "done"]
    assert done == ["start-background", "requeue"]


@pytest.mark.long
def test_idle_notebook_is_told_kept_told_again_paused_and_resumes_on_touch(play: Play) -> None:
    stage, seen = play("notebook")
    (job,) = seen["jobs"]
    before, after = seen["pids"]
    assert before != after
    sights = [sight.held[stage.uuids[0]] for sight in stage.witness.sights]
    assert [tuple(on) for on in _changes(sights)][-3:] == [(before,), (), (after,)]
    assert tuple(seen["kept"]) == (before,)
    done = [row for row in journal(stage, id_of(stage, "notebook")) if row.outcome == "done"]
    told_before_it_was_kept_and_not_paused_before_its_grace(done)
    assert "notebook: ready, 1 cells were run before" in job.text


def told_before_it_was_kept_and_not_paused_before_its_grace(done: list[Action]) -> None:
    """What holds at any speed. On a busy machine a gap in what is measured begins a new idle time, and with
    it a new telling; within one idle time nobody is told twice."""
    at = {
        verb: [row.at_ms or 0 for row in done if row.verb == verb]
        for verb in ("notify", "keep", "pause", "resume")
    }
    kept_ms, paused_ms = at["keep"][0], at["pause"][0]
    before = [told for told in at["notify"] if told < kept_ms]
    after = [told for told in at["notify"] if kept_ms <= told < paused_ms]
    assert before and after, at
    assert min(after) >= kept_ms + 4 * HOUR_MS, "nobody is told while it is kept"
    assert paused_ms >= min(after) + GRACE_MS, "nobody is paused before the grace after a telling"
    assert at["resume"] and min(at["resume"]) > paused_ms
    tellings = [(row.at_ms or 0, row.reason) for row in done if row.verb == "notify"]
    for (told_ms, _), (next_ms, reason) in pairwise([each for each in tellings if each[0] < paused_ms]):
        begun_ms = next_ms - idle_ms(reason)
        assert begun_ms >= told_ms - IDLE_ROUNDED_MS or told_ms < kept_ms <= next_ms, at


def idle_ms(reason: str) -> float:
    """What ``idle for 35 min`` or ``idle for 4.1 h`` says, in milliseconds of the calendar."""
    amount, unit = re.findall(r"idle for ([\d.]+) (min|h)", reason)[0]
    return float(amount) * {"min": 60_000, "h": HOUR_MS}[unit]


def _changes(sights: list[Mapping[int, int]]) -> list[Mapping[int, int]]:
    return [now for before, now in zip([{}, *sights], sights, strict=False) if set(before) != set(now)]
