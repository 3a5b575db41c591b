"""Text that a spreadsheet would run is marked, by one rule in Python and in Arrow, and read back exactly."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.spreadsheet import FORMULA, MARK, MARKED, as_it_was, as_text

TEXTS = st.text(alphabet=st.sampled_from("=+-@'\t\r\n \u00a0\uff1d\uff0b.,%5ae"), max_size=6)


@pytest.mark.parametrize(
    "text", ["=1+1", "@SUM(A1)", "+A1", "-2+3", "+5%+1", " =1", "\t=1", "\r", "'=1", "\uff1d1"]
)
def test_what_would_run_is_marked(text: str) -> None:
    assert as_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "ann", "a=b", "-5", "+12.5 %", "-1,000", "'", "it's", "5-1", "\u2013"])
def test_what_would_not_run_is_left(text: str) -> None:
    assert as_text(text) == text


@given(TEXTS)
def test_it_is_read_back_as_it_was_and_arrow_says_the_same(text: str) -> None:
    cell = as_text(text)
    assert as_it_was(cell) == text
    assert pc.replace_substring_regex(pa.array([text]), FORMULA, rf"{MARK}\1").to_pylist() == [cell]
    assert pc.replace_substring_regex(pa.array([cell]), MARKED, r"\1").to_pylist() == [text]


@given(TEXTS)
def test_a_cell_of_others_is_read_alike_in_both(cell: str) -> None:
    assert pc.replace_substring_regex(pa.array([cell]), MARKED, r"\1").to_pylist() == [as_it_was(cell)]
