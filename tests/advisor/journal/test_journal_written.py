"""What is written down is read back exactly, and what is not understood is never guessed at."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.actions import Action, Notify, Pause, Start
from advisor.jobs.model import Command, JobRecord
from advisor.planner.plan import Plan
from advisor.serialize import Unreadable, from_text, to_text

KINDS: tuple[Any, ...] = (Action, Plan, Command, JobRecord)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=("step", "plan", "directive", "entry"))
@given(found=st.data())
def test_every_value_comes_back_as_it_was(kind: Any, found: st.DataObject) -> None:
    value = found.draw(st.from_type(kind))
    text = to_text(value, kind)
    back = from_text(kind, text)
    assert type(back) is type(value)
    assert to_text(back, kind) == text
    assert back == value or "nan" in text


@given(st.from_type(Action), st.text(), st.integers())
def test_what_a_newer_version_writes_beside_known_fields_is_passed_over(
    step: Action, name: str, value: int
) -> None:
    tree = json.loads(to_text(step, Action))
    assert from_text(Action, json.dumps({f"new_{name}": value, **tree})) == step


def test_a_field_that_an_older_version_did_not_write_takes_its_default() -> None:
    assert from_text(Action, '{"is":"Start","job":"a","gpus":["g"]}') == Start(job="a", gpus=("g",))


def test_numbers_stay_what_they_were() -> None:
    start = from_text(Action, to_text(Start(job="a", gpus=("g",), share=1 / 3), Action))
    assert start.share == 1 / 3
    strange = to_text(Start(job="a", gpus=(), share=math.inf), Action)
    assert from_text(Action, strange).share == math.inf
    assert "Infinity" not in strange


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        ("[]", "list where dict belongs"),
        ('{"is":"Explode","job":"a"}', "'Explode' is none of Start, Resize"),
        ('{"is":"Pause"}', "job is missing"),
        ('{"is":"Pause","job":3}', "int where str belongs"),
        ('{"is":"Pause","job":"a","action":"dance"}', "'dance' is none of schedule"),
        ('{"is":"Start","job":"a","gpus":"g"}', "str where list belongs"),
        ('{"is":"ReleaseMemory","job":"a","frees_bytes":true}', "bool where int belongs"),
        ('{"is":"SetEnvAtRestart","job":"a","settings":[["x"]]}', "1 values where 2 belong"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        from_text(Action, text)


def test_a_line_is_a_line_whatever_is_said_in_it() -> None:
    told = Notify(job="a", message='two\nlines, "quoted", \x00 and ü')
    assert "\n" not in to_text(told, Action)
    assert from_text(Action, to_text(told, Action)) == told
    assert from_text(Pause, to_text(Pause(job="a"))) == Pause(job="a")
