"""The page of all settings is written from the program, whole, and says something of each."""

import re
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from service.cli import main
from service.config.file import parse
from service.config.model import Config, ConfigError
from service.config.reference import VARIABLES, Row, page, sections

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
SET_BY_FALLOW = {
    "FALLOW_DASHBOARD_CODE",
    "FALLOW_HOST",
    "FALLOW_INTERFACE",
    "FALLOW_IDLE_GAPS",
    "FALLOW_IDLE_GAP_COUNTS",
    "FALLOW_JOB",
    "FALLOW_JOB_SOCKET",
    "FALLOW_MEMBER",
    "FALLOW_MEMORY_FRACTION",
    "FALLOW_OWN_IDLE_GAPS",
    "FALLOW_READ_NEIGHBOURS",
    "FALLOW_ROLE",
    "FALLOW_SAVED",
    "FALLOW_SECRET_FD",
    "FALLOW_SLOT",
    "FALLOW_STEP_TIMEOUT_S",
    "FALLOW_STORE",
}
"""Variables that a process of Fallow's, or a job, finds set; people don't set them."""


def test_the_committed_page_is_what_the_program_writes() -> None:
    assert PAGE.read_text() == page(), "run: fallow config --reference > docs/configuration.md"


def test_the_verb_prints_the_page_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--reference", "--data", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == page()


def test_every_key_has_a_row_and_every_row_says_something() -> None:
    rows = {f"{each.header}.{row.key}": row for each in sections() for row in each.rows}
    for header, name in keys(Config(), ()):
        assert rows.get(f"{header}.{name}"), f"[{header}] {name} has no row: declare it with bounded or told"
    for name, row in rows.items():
        assert row.about.strip(), f"{name} has no words (about=)"
        assert not row.about.endswith("."), f"{name}: no full stop"


def test_every_section_has_a_heading_of_its_own() -> None:
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    assert len(headings) == len(set(headings)) == len(sections())
    assert all(each.title for each in sections())


@pytest.mark.parametrize(
    ("header", "row"),
    [(each.header, row) for each in sections() for row in each.rows if "NAME" not in each.header],
    ids=lambda value: value.key if isinstance(value, Row) else value,
)
def test_a_default_and_bounds_as_printed_are_taken_and_beyond_them_refused(header: str, row: Row) -> None:
    if row.default != "none":
        written = f"[{header}]\n{row.key} = {row.default.strip('`')}\n"
        assert parse(written, origin="page").config == Config(), "the printed default is the default"
    if " to " in row.bounds and row.default != "none":
        for end, beyond in zip(row.bounds.split(" to "), (-1, 1), strict=True):
            value = tomllib.loads(f"x={end}")["x"] + beyond
            written = f"[{value}]" if row.default.startswith("`[") else f"{value}"
            with pytest.raises(ConfigError, match=row.key):
                parse(f"[{header}]\n{row.key} = {written}\n", origin="page")


def test_every_variable_that_the_program_reads_is_on_the_page() -> None:
    rooms = ("collector", "analytics", "advisor", "service", "fallow")
    files = (path for room in rooms for path in (ROOT / room).rglob("*.py") if path.name != "reference.py")
    texts = [path.read_text() for path in files]
    named = {name for text in texts for name in re.findall(r'"(FALLOW_[A-Z_]+[A-Z])"', text)}
    told = {name for names in VARIABLES for name in names.split(", ")}
    assert named - SET_BY_FALLOW == told


def keys(value: Any, path: tuple[str, ...]) -> list[tuple[str, str]]:
    """(table, key) of everything that can be set with a value of its own."""
    found: list[tuple[str, str]] = []
    for item in fields(value):
        inner = getattr(value, item.name)
        if is_dataclass(inner):
            found += keys(inner, (*path, item.name))
        elif path and not item.metadata.get("others"):
            found.append((".".join(path), item.name))
    return found
