"""Two jobs that Fallow puts on one GPU, on the stand-in driver with a real service and real launchers.

One pair gets on. In the other, the job that was there is half as slow beside its guest: they are parted, and
stay apart. What is held is asked of the driver's board; what was done, of the journal.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.demo.stage import Setting, Stage
from examples.demo.stories import LONG_S, MOVABLE, SETTINGS
from service.schemas.records import Action

pytestmark = pytest.mark.long

PACK = SETTINGS + '[modes]\npack = "auto"\n'
SPEED = 240


@pytest.fixture
def stage(compiled: None, tmp_path: Path) -> Iterator[Stage]:
    """A machine with two toy GPUs of 80 GiB, where light jobs are put together."""
    with Stage(tmp_path / "stage", Setting(gpus=2, speed=SPEED, settings=PACK)) as made:
        yield made


def light(stage: Stage, name: str, *words: str) -> Any:
    """A job that fills a third of its GPU, and may share it."""
    flags = ("--project", "vision", "--gpus", "1", "--memory", "12GiB", "--share-ok", *MOVABLE)
    saved = ("--steps", "100000", "--checkpoint", str(stage.folder / f"{name}.json"))
    return stage.run(name, flags, ("unfilled", "--needs", "12", "--busy", "30", *saved, *words))


def sizes(stage: Stage) -> list[int]:
    """How many processes each GPU has."""
    return sorted(len(stage.on(gpu)) for gpu in range(2))


def pairs(stage: Stage) -> list[dict[str, Any]]:
    return [dict(row) for row in stage.rows("pairs", from_ts="2020-01-01T00:00Z")]


def packs(stage: Stage) -> list[Action]:
    """The moves that were done, oldest first."""
    return [row for row in stage.actions() if row.verb == "move" and row.outcome == "done"]


def test_a_pair_that_gets_on_stays_and_is_learnt(stage: Stage) -> None:
    for name in ("left", "right"):
        light(stage, name)
    stage.until("they share a GPU", lambda: sizes(stage) == [0, 2], 2 * LONG_S)
    (tried,) = stage.until("their trial is over", lambda: [p for p in pairs(stage) if p["windows"]], LONG_S)
    assert tried["windows"] == 3 and not tried["undone"]
    assert 0.85 < tried["host_speed_ratio"] < 1.15 and 0.85 < tried["guest_speed_ratio"] < 1.15
    assert 7 < tried["host_alone"] < 11, "a step takes a tenth of a second, and a little more"
    assert sizes(stage) == [0, 2] and len(packs(stage)) == 2


def test_a_foreground_that_is_slowed_down_is_alone_again_and_they_stay_apart(stage: Stage) -> None:
    for name in ("left", "right"):
        light(stage, name, "--beside", "1.5")
    stage.until("they share a GPU", lambda: sizes(stage) == [0, 2], 2 * LONG_S)
    stage.until("each has a GPU again", lambda: sizes(stage) == [1, 1], LONG_S)
    stage.until("both were moved back", lambda: len(packs(stage)) == 4, LONG_S)
    parted = packs(stage)[2:]
    assert all("of its own speed beside" in row.reason for row in parted), parted
    (percent,) = {int(found) for row in parted for found in re.findall(r"at (\d+)% of", row.reason)}
    assert 55 < percent < 85, "a step takes half as long again beside another"
    (tried,) = pairs(stage)
    assert tried["undone"] and {row.job for row in parted} == {tried["host"], tried["guest"]}
    said = stage.fallow("advise", "--json").stdout
    assert '"action": "pack"' not in said, said
