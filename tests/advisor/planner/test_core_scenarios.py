"""The stories in ``tests/scenarios``, each told to the end: cluster in, plan out."""

from pathlib import Path

import pytest

from advisor.decide import decide
from advisor.planner.guard import approve
from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.transition import replay
from advisor.planner.validate import checked
from advisor.policies import consolidate
from tests.advisor.planner.scenario import FOLDER, advance, read, words

STORIES = sorted(FOLDER.glob("*.toml"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_told(path: Path) -> None:
    story = read(path)
    state = story.state
    for number, round in enumerate(story.rounds):
        state = advance(state, round)
        advice = consolidate.advise(state, Observed(), story.limits, PlannerConfig()) if round.advised else ()
        plan = decide(state, story.limits, advice)
        assert words(plan) == round.steps, f"{path.stem}, round {number + 1}: {plan.refused}"
        assert {refusal.job: refusal.rule.value for refusal in plan.refused} == round.refused
        assert approve(plan, state, story.limits).approved.steps == plan.steps
        state = checked(replay(state, plan.steps))


def test_there_is_a_story_for_each_seed() -> None:
    told = {path.stem for path in STORIES}
    assert {"borrowed_and_given_back", "starts_on_one_and_grows", "two_halves_become_one"} <= told
