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


def test_what_is_said_of_imports_is_what_is_held() -> None:
    """The page tells the arrows between packages; the whole table stands in the test that holds it."""
    inside = {folder: {each.partition(".")[0] for each in allowed} for folder, allowed in MAY_IMPORT.items()}
    assert inside["fallow"] == {"fallow"} and inside["collector"] == {"collector"}
    assert set(MAY_IMPORT["analytics"]) == {
        "analytics",
        "collector.model",
        "collector.clock",
        "collector.store",
    }
    assert inside["advisor"] == {"advisor", "analytics", "collector", "fallow"}
    assert not {"collector", "collector.sources"} & set(MAY_IMPORT["advisor"])
    assert inside["service"] == {"service", "advisor", "analytics", "collector", "fallow"}
    client = {"service.client", "service.data_folder", "service.errors", "service.printable"}
    assert set(MAY_IMPORT["service/client"]) - client == {"service.schemas", "service.store", "service.trust"}
    assert not any(each.startswith("service.pages") for each in MAY_IMPORT["service/reports"])
    control = {each for each in MAY_IMPORT["service/api"] if each.startswith("service.control")}
    assert control == {"service.control.interface", "service.control.errors"}
    engines = ("advisor", "duckdb", "collector.store", "service.control")
    assert not any(each.startswith(engines) for each in MAY_IMPORT["service/pages"])


def test_every_owner_of_a_dependency_is_told() -> None:
    text = ARCHITECTURE.read_text()
    for package, owners in OWNERS.items():
        row = next(
            (line for line in text.splitlines() if line.startswith("| `") and f"`{package}`" in line), ""
        )
        assert row and all(f"`{owner}`" in row for owner in owners), f"{package} belongs to {owners}: {row}"
