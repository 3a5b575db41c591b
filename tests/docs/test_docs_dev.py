"""What developers are told is so: paths that pages name are there, and tables are those that tests hold."""

import re
from pathlib import Path

import pytest

from tests.docs.docs_reading import ROOT, name_of, pages
from tests.test_house import MAY_IMPORT, OWNERS

DECISIONS = tuple(sorted((ROOT / "docs" / "decisions").glob("*.md")))
ARCHITECTURE = ROOT / "docs" / "dev" / "architecture.md"
PATH = re.compile(
    r"`((?:collector|analytics|advisor|service|fallow|tests|bench|docs|packaging|examples)/[\w./-]*\w/?)`"
)
"""A path of this project between backticks; one with NAME or a star in it stands for many."""


@pytest.mark.parametrize("page", [*pages(), *DECISIONS], ids=name_of)
def test_every_path_that_a_page_names_is_there(page: Path) -> None:
    named = {path for path in PATH.findall(page.read_text()) if "NAME" not in path}
    lost = sorted(path for path in named if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists())
    assert not lost, f"{name_of(page)} names {lost}"


def test_the_import_table_is_the_one_that_is_held() -> None:
    rows = re.findall(r"^\| `([\w/]+)` \| (`.*`) \|$", ARCHITECTURE.read_text(), flags=re.MULTILINE)
    told = {folder: tuple(re.findall(r"`([\w./]+)`", allowed)) for folder, allowed in rows}
    assert {folder: set(allowed) for folder, allowed in MAY_IMPORT.items()} == {
        folder: set(allowed) for folder, allowed in told.items() if folder in MAY_IMPORT
    }


def test_every_owner_of_a_dependency_is_told() -> None:
    text = ARCHITECTURE.read_text()
    for package, owners in OWNERS.items():
        row = next(
            (line for line in text.splitlines() if line.startswith("| `") and f"`{package}`" in line), ""
        )
        assert row and all(f"`{owner}`" in row for owner in owners), f"{package} belongs to {owners}: {row}"
