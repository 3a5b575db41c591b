"""The one rule for names: what is taken can be seen, steers nothing, and fits what the API says of itself."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from service import names
from service.api.orders import SubmissionOrder

SHAPES = SubmissionOrder.model_json_schema()["properties"]
RULES = {"name": names.NAME, "project": names.PROJECT}
CHARACTERS = st.text(st.one_of(st.characters(), st.sampled_from(" .:+@=,()#-_/\\aé\u0301\u0338")), max_size=8)


HOSTILE = [
    "../../etc/passwd",
    "..",
    "a/b",
    "-rf",
    "--help",
    "a\nb",
    "a\r\nSet-Cookie: x",
    "a\x00b",
    "a\x1b[31mb",
    "\u202egpj.exe",
    "a\u200bb",
    "\ufeffa",
    "a\u2028b",
    " a",
    "a ",
    "\u0301a",
    "a\u3164b",
    "a\ufe0fb",
    "a\u00a0b",
    "a\u3000b",
    "a\u200db",
    "a\ue000b",
    "a\U000e0041b",
    "a\u2044b",
    "a\u20ddb",
    "$(id)",
    "`id`",
    "a;b",
    "a'b",
    'a"b',
    "<script>",
    "a\\b",
    "\ud800",
    "x" * 300,
    "x" * 1_000_000,
]


@pytest.mark.parametrize("field", ["name", "project", "node", "nonce"])
def test_hostile_name_is_in_no_submission(field: str) -> None:
    taken = []
    for name in HOSTILE:
        if field == "nonce" and name.startswith("-"):
            continue  # a nonce is compared, never shown or passed on
        order = {"command": ["sleep", "1"], "project": "vision", field: name}
        try:
            SubmissionOrder.model_validate(order)
        except ValidationError as refused:
            assert [error["loc"] for error in refused.errors()] == [(field,)], ascii(name)[:24]
        else:
            taken.append(name)
    assert taken == []


def test_why_a_hostile_name_is_refused_is_short_and_can_be_shown() -> None:
    for name in HOSTILE:
        for rule in RULES.values():
            why = names.objection(name, rule)
            assert why is not None and why.isprintable() and len(why) < 300, ascii(name)[:24]


@pytest.mark.parametrize("field", RULES)
@given(text=CHARACTERS)
def test_what_is_taken_fits_the_document_and_holds_nothing_that_cannot_be_seen(field: str, text: str) -> None:
    shape, rule = SHAPES[field], RULES[field]
    if names.objection(text, rule) is not None:
        return
    assert shape["minLength"] <= len(text) <= shape["maxLength"]
    assert re.search(shape["pattern"], text)
    assert text.isprintable()
    assert text.strip() == text
    assert all(
        unicodedata.category(each)[0] in "LMN" or each in rule.signs + "_" + names.MEDIAL for each in text
    )
    assert names.objection(names.composed(text), rule) is None


@given(CHARACTERS)
def test_why_a_name_is_refused_is_a_line_that_can_be_shown(text: str) -> None:
    why = names.objection(text, names.PROJECT)
    assert why is None or (why.isprintable() and len(why) < 300)


@given(CHARACTERS)
def test_every_persons_name_gives_a_project(text: str) -> None:
    assert names.objection(names.as_project(text), names.PROJECT) is None


@pytest.mark.parametrize(
    ("user", "project"),
    [
        ("ann", "ann"),
        ("uid-1234", "uid-1234"),
        ("ann@corp.example", "ann@corp.example"),
        ("DOM\\user", "DOM-user"),
        ("host$", "host"),
        ("-x", "x"),
        ("x" * 80, "x" * 64),
        ("$", "nameless"),
    ],
)
def test_a_name_that_can_be_a_project_stays_and_another_is_made_one(user: str, project: str) -> None:
    assert names.as_project(user) == project
