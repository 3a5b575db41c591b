"""Pages stay short: a page that goes on is skimmed, and what matters in it is missed."""

import re
from pathlib import Path

import pytest

from tests.docs.docs_reading import ROOT, name_of, pages

LONGEST = 950
"""Words of a page: some four minutes of reading. Pages of docs/status are records, as long as they are."""

LONGER = {
    "docs/advice.md": 1_750,
    "docs/findings.md": 2_200,
    "docs/ledger.md": 1_150,
    "docs/who-and-what.md": 1_280,
}
"""Pages that are longer, and how long they may be: some are tables for looking up, some wait to be split.
A number here goes down, never up."""

ALL = 41_000
"""Words of all pages but references and records: 35,000 are asked, 40,122 there are. It only goes down."""

REFERENCES = ("docs/configuration.md", "docs/hardware.md", "docs/queries.md", "docs/schema.md")
"""They have a row for each thing that there is: they are as long as what they list."""

READ = [page for page in pages() if name_of(page) not in REFERENCES and page.parent.name != "status"]


def words(page: Path) -> int:
    """How many words a page has, without the bars and rules of its tables."""
    return sum(1 for each in page.read_text().split() if not re.fullmatch(r"[|:-]+", each))


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_a_page_is_not_longer_than_it_may_be(page: Path) -> None:
    most, has = LONGER.get(name_of(page), LONGEST), words(page)
    assert has <= most, f"it has {has} words of {most}: move what answers another question"


def test_all_pages_together_are_not_longer_than_they_may_be() -> None:
    assert sum(map(words, READ)) <= ALL


def test_every_exception_is_about_a_page_that_is_there() -> None:
    assert not {name for name in (*LONGER, *REFERENCES) if not (ROOT / name).is_file()}
