"""Text of others on a line: what steers is written out, what people write stays."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.printable import escaped_json, in_lines, on_a_line, shown_rows

ORDINARY = (
    "train_v2.1-final",
    "20\u202f% of 3\u00a0GPU-h",
    "Ärger über Größe",
    "e\u0301tude",
    "学習ジョブ",
    "обучение",
    "تدريب",
    "प्रशिक्षण",
    "🚀 launch",
    "python train.py --lr=1e-3 | tee log && echo 'done'",
)
HOSTILE = {
    "\x1b]0;owned\x07": "\\x1b]0;owned\\x07",
    "\x9b31m": "\\x9b31m",
    "a\nb\r\n": "a\\nb\\r\\n",
    "a\u2028b": "a\\u2028b",
    "\u202egnp.exe": "\\u202egnp.exe",
    "pay\u200bpal": "pay\\u200bpal",
    "\U000e0041x": "\\U000e0041x",
    "\udc80": "\\udc80",
    "\u3164": "\\u3164",
    "a\u2003\u3000b": "a  b",
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_stay_as_they_are(name: str) -> None:
    assert on_a_line(name) == name
    assert in_lines(name) == name


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_what_steers_or_hides_is_written_out(name: str) -> None:
    assert on_a_line(name) == HOSTILE[name]


def test_a_tower_of_marks_is_cut_down() -> None:
    assert on_a_line("a" + "\u0301" * 500 + "b") == "a" + "\u0301" * 4 + "…b"


def seen(line: str) -> bool:
    return line.replace("\u00a0", " ").replace("\u202f", " ").isprintable()


@given(st.text(st.characters(), max_size=300), st.integers(1, 50))
def test_any_text_is_one_visible_line_that_is_not_too_long(text: str, most: int) -> None:
    line = on_a_line(text, most)
    assert seen(line) and len(line) <= most
    assert on_a_line(on_a_line(text)) == on_a_line(text)


@given(st.text(st.characters(), max_size=300))
def test_lines_of_ones_own_stay_lines(text: str) -> None:
    assert in_lines(text).count("\n") == text.count("\n")
    assert all(seen(line) for line in in_lines(text).split("\n"))


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    )
)
def test_json_means_the_same_and_steers_nothing(value: object) -> None:
    written = escaped_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(written) == value
    assert all(line.isprintable() for line in written.split("\n"))
    assert "\x1b" not in str(shown_rows(value))
