"""``[modes]`` and ``[modes.PROJECT]``: what is read, where from, and how a mistake is told."""

import pytest

from advisor.planner.limits import Mode
from advisor.state.model import ActionClass
from service.config.file import parse
from service.config.model import ConfigError
from service.usecases.advice import limits_of

TEXT = """
[modes]
reclaim = "ask"
[modes.vision]
reclaim = "auto"
cap_memory = "off"
[modes."a b"]
"""


def test_projects_have_modes_of_their_own() -> None:
    found = limits_of(parse(TEXT, origin="f").config)
    assert found.mode(ActionClass.RECLAIM) is Mode.ASK
    assert found.project_modes == {
        "vision": {ActionClass.RECLAIM: Mode.AUTO, ActionClass.CAP_MEMORY: Mode.OFF},
        "a b": {},
    }


def test_each_mode_says_where_it_came_from() -> None:
    settings = {each.key: (each.value, each.origin) for each in parse(TEXT, origin="f").settings}
    assert settings["modes.reclaim"] == ("ask", "f:3")
    assert settings["modes.vision.reclaim"] == ("auto", "f:5")
    assert settings["modes.pack"] == ("advise", "default")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[modes.vision]\nreclaim = "autoo"',
            "f:1: the mode of reclaim is one of off, advise, ask, auto, not",
        ),
        (
            '[modes.vision]\nrecliam = "auto"',
            "f:2: unknown key modes.vision.recliam; did you mean modes.vision",
        ),
        ('[modes]\nvision = "auto"', r"f:2: unknown key modes.vision. Known here: a table \[modes.NAME\]"),
        ('[modes]\nrecliam = "auto"', "did you mean modes.reclaim"),
        ('[modes.reclaim]\npack = "auto"', "modes.reclaim is text in quotes, not"),
        ("[modes.vision]\nreclaim = true", "f:2: modes.vision.reclaim is text in quotes, not True"),
        ("[modes.vision.deeper]\nreclaim = 'ask'", "unknown key modes.vision.deeper"),
    ],
)
def test_mistakes_are_refused_with_their_place(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(text, origin="f")
