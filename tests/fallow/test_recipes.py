"""The trainings of examples/recipes: each is what its plain loop is, alone and through 1, 2, 3, 1 workers."""

import difflib
import inspect
import re
import runpy
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.errors import Mistake  # noqa: E402
from tests.fallow.crew import SEEDING, Outcome, run  # noqa: E402

pytestmark = pytest.mark.quick
RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
TABLE = (RECIPES.parent / "README.md").read_text()
TRAINED = (
    *("adapters", "contrastive", "diffusion", "distilled", "forecast", "gpt", "graph", "recommender"),
    *("replay", "segmentation", "siamese", "speech", "streamed", "style", "tokens", "translation"),
    *("upscaling", "vae", "vision"),
)
REFUSED = {
    "gan": "called a second time, but a job is one training",
    "lbfgs": "computes the loss several times",
}
STEPS = 16
"""Of each, and more of one that stops early; the world changes behind steps 3, 7 and 12."""


class Watched:
    """A job whose trainer tells of its steps, and waits in some for the change that was asked for."""

    def __init__(self, job: Any, outcome: Outcome, hold: Collection[int] = ()):
        self._job, self._outcome, self._hold = job, outcome, hold

    def elastic(self, *arguments: Any, **options: Any) -> Any:
        trainer = self._job.elastic(*arguments, **options)
        real = trainer.step

        def step() -> Any:
            while trainer.next_step in self._hold and trainer.rank == 0 and not trainer._seat.flag():
                time.sleep(0.001)
            done = real()
            if done is not None:
                self._outcome.steps.append(done)
            return done

        trainer.step = step
        return trainer


def recipe(name: str) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """What the file defines, and the model and all that is trained with it."""
    defined = runpy.run_path(str(RECIPES / f"{name}.py"))
    with SEEDING:
        torch.manual_seed(0)
        return defined, defined["build"]()


def check(name: str, learned: Mapping[str, Any], told: Any) -> None:
    """It is what the plain loop learns, and what it measures."""
    defined, parts = recipe(name)
    assert defined["plain"](*parts) == (None if told is None else pytest.approx(told, rel=1e-12))
    for key, value in parts[0].state_dict().items():
        torch.testing.assert_close(learned[key], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TRAINED)
def test_a_recipe_alone_learns_what_its_plain_loop_learns(name: str) -> None:
    defined, parts = recipe(name)
    before = {key: value.clone() for key, value in parts[0].state_dict().items()}
    outcome = Outcome()
    told = defined["elastic"](Watched(fallow.connect(environment={}), outcome), *parts)
    assert len(outcome.steps) >= STEPS
    assert any(not torch.equal(before[key], value) for key, value in parts[0].state_dict().items())
    check(name, parts[0].state_dict(), told)


@pytest.mark.parametrize("name", TRAINED)
def test_a_recipe_resized_through_1_2_3_1_learns_what_its_plain_loop_learns(name: str) -> None:
    def train(environment: Mapping[str, str], outcome: Outcome) -> None:
        defined, parts = recipe(name)
        job = Watched(fallow.connect(environment=environment), outcome, {3, 7, 12})
        told.append(defined["elastic"](job, *parts))
        outcome.parameters = {key: value.clone() for key, value in parts[0].state_dict().items()}

    told: list[Any] = []  # by those that are there to the end

    ran = run(train, 1, {2: 2, 6: 3, 11: 1})
    assert ran.exit_code == 0, (ran.journal, [outcome.error for outcome in ran.outcomes])
    worlds = [step.world_size for step in ran.outcomes[0].steps]
    assert worlds[:STEPS] == [1] * 4 + [2] * 4 + [3] * 5 + [1] * 3
    (finished,) = ran.finished
    assert finished.parameters is not None
    check(name, finished.parameters, *told)


@pytest.mark.parametrize(("name", "says"), REFUSED.items())
def test_what_is_refused_is_refused_with_the_sentence_that_the_table_has(name: str, says: str) -> None:
    with pytest.raises(Mistake, match=says) as told:
        runpy.run_path(str(RECIPES / f"{name}.py"))["elastic"](fallow.connect(environment={}))
    assert str(told.value) in TABLE


def changed(name: str) -> int:
    """Lines of ``elastic`` that ``plain`` hasn't, wherever they are indented to."""

    def lines(function: Any) -> list[str]:
        source = re.sub(r'""".*?"""', "", inspect.getsource(function), flags=re.DOTALL)
        return [line.strip() for line in source.splitlines()[1:] if line.strip()]

    defined, _ = recipe(name)
    compared = difflib.ndiff(lines(defined["plain"]), lines(defined["elastic"]))
    return sum(line.startswith("+ ") for line in compared)


def test_the_table_names_every_recipe_with_the_lines_that_were_changed() -> None:
    files = sorted(path.stem for path in RECIPES.glob("*.py"))
    assert files == sorted([*TRAINED, *REFUSED])
    told = dict(re.findall(r"^\| \[(\w+)\]\(recipes/\w+\.py\) \|.*\| (\d+|refused) \|", TABLE, re.MULTILINE))
    assert told == {**{name: str(changed(name)) for name in TRAINED}, **dict.fromkeys(REFUSED, "refused")}
