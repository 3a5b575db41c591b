"""What there is kinds of, every page that lists them lists whole."""

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from analytics.model import FindingKind
from analytics.vocabulary.findings import KINDS
from analytics.vocabulary.states import STATES
from service.alerts.model import AlertKind
from service.cli.findings import what_to_do
from service.pages.parts.widgets import kind_label
from service.reports.sections import JOB_COLUMNS, job_rows
from tests.docs.docs_reading import ROOT, pages
from tests.docs.words_page import page

if TYPE_CHECKING:
    from service.schemas.rows import JobsRow


def first_cells(page: str) -> set[str]:
    """The words between backticks in the first cells of a page's tables."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    return {word for cell in cells for word in cell.split("`")[1::2]}


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        ("findings.md", FindingKind),
        ("alerts.md", AlertKind),
        ("alerts.md", FindingKind),
        ("prometheus.md", FindingKind),
    ],
)
def test_every_kind_has_a_row_on_its_page(page: str, kinds: Iterable[StrEnum]) -> None:
    missing = {each.value for each in kinds} - first_cells(page)
    assert not missing, f"docs/{page} has no row for {sorted(missing)}"


def test_every_kind_of_finding_has_a_name_on_screens() -> None:
    assert {each.value for each in FindingKind} == set(KINDS)


@pytest.mark.parametrize("kind", FindingKind)
def test_every_kind_of_finding_has_a_title_a_sentence_and_a_remedy(kind: FindingKind) -> None:
    words = KINDS[kind]
    for text in (words.title, words.says, words.remedy):
        assert len(text) > 4 and text == text.strip() and not text.endswith(".")
    assert words.like in {state.key for state in STATES}
    assert kind_label(kind.value) == words.title
    begun = f"{kind.value}: {words.says}."
    assert what_to_do({kind.value}, {kind.value}) == [f"{begun} To do: {words.remedy}"]
    later = "Next time" if words.is_waste else "To do"  # a fault of a machine is mended after its jobs, too
    assert what_to_do({kind.value}, set()) == [f"{begun} {later}: {words.remedy}"]


@pytest.mark.parametrize("kind", FindingKind)
def test_every_kind_stands_by_its_title_in_the_tables_of_jobs_of_reports(kind: FindingKind) -> None:
    job = {"job": "slurm:7", "job_name": "sweep", "command": None, "gpu_hours": 0.0, "unknown_gpu_hours": 0.0}
    (row,) = job_rows([cast("JobsRow", {**job, "found": f"{kind.value}, held-idle"})])
    assert (
        row["kinds"]
        and KINDS[kind].title in row["kinds"]
        and "kinds" in {column.key for column in JOB_COLUMNS}
    )


@pytest.mark.parametrize("kind", FindingKind)
def test_a_kind_has_a_rule_or_says_what_prometheus_would_need_to_know(kind: FindingKind) -> None:
    page = (ROOT / "docs" / "prometheus.md").read_text().splitlines()
    (row,) = [line for line in page if line.startswith("| `") and f"`{kind.value}`" in line.split("|")[1]]
    rules = (ROOT / "packaging" / "prometheus" / "fallow-rules.yml").read_text()
    named = re.findall(r"`(Fallow\w+)`", row)
    assert all(f"alert: {name}" in rules for name in named), named
    assert bool(named) or KINDS[kind].beyond, "neither a rule nor why there is none"


def test_the_page_of_findings_tells_each_kind_from_another() -> None:
    text = (ROOT / "docs" / "findings.md").read_text()
    told = text[text.index("## Told from their neighbours") :].split("\n## ")[0]
    missing = [kind.value for kind in FindingKind if f"| `{kind.value}` |" not in told]
    assert not missing, missing


def test_the_page_of_words_is_that_of_the_code() -> None:
    written = (ROOT / "docs" / "words.md").read_text()
    assert written == page(), "run: python -m tests.docs.words_page > docs/words.md"


RETIRED = re.compile(
    r"\b(beats?|books|chores?|cradle|crew|deeds?|desks?|ears|foreigners?|heirs?|holes?|keepers?|kinship|ladder|"
    r"letters? (?:is|are|goes|go|to)|mob|nursery|organs?|papers|parcels?|pulse|shel(?:f|ves)|victims?)\b"
)
"""Words of earlier days that a reader would have to learn, or that mean another thing in this field."""


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_retired_word_is_on_no_page(page: Path) -> None:
    if page.name in ("glossary.md", "hardware.md"):
        pytest.skip("it lists them, or is written from what was kept")
    found = [
        f"{number}: {match.group(0)}"
        for number, line in enumerate(page.read_text().splitlines(), 1)
        for match in RETIRED.finditer(re.sub(r"`[^`]*`|\]\([^)]*\)", "", line))
    ]
    assert not found, f"{page.name}: docs/dev/glossary.md has today's word for {found}"
