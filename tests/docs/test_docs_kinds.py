"""What there is kinds of, every page that lists them lists whole."""

from collections.abc import Iterable
from enum import StrEnum

import pytest

from analytics.model import FindingKind
from service.alerts.model import AlertKind
from service.pages.pieces import KINDS
from tests.docs.docs_reading import ROOT


def first_cells(page: str) -> set[str]:
    """The words between backticks that a row of a page's tables begins with."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    return {line.split("`")[1] for line in lines if line.startswith("| `")}


@pytest.mark.parametrize(("page", "kinds"), [("findings.md", FindingKind), ("alerts.md", AlertKind)])
def test_every_kind_has_a_row_on_its_page(page: str, kinds: Iterable[StrEnum]) -> None:
    missing = {each.value for each in kinds} - first_cells(page)
    assert not missing, f"docs/{page} has no row for {sorted(missing)}"


def test_every_kind_of_finding_has_a_name_on_screens() -> None:
    assert {each.value for each in FindingKind} == set(KINDS)
