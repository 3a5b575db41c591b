"""The pictures in the docs are those that one command takes: of every page, small, and shown."""

from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import program
from tests.dashboard.conftest import ROOT
from tests.dashboard.pictures import FOLDER, LARGEST_BYTES, PHONE, WIDTH, pictures, take

NAMES = {each.name: each for each in pictures("job", "gpu", "submitted")}


def check(path: Path) -> None:
    assert path.stat().st_size <= LARGEST_BYTES
    with Image.open(path) as picture:
        assert picture.width == NAMES[path.stem].width
        assert picture.width in (WIDTH, PHONE)
        assert len(picture.convert("RGB").getcolors(maxcolors=2**24) or ()) > 20, f"{path.name} is blank"


@pytest.mark.slow
def test_each_page_has_a_picture_that_is_small_and_shown() -> None:
    shown = (ROOT / "docs" / "dashboard.md").read_text()
    assert {path.stem for path in FOLDER.glob("*.png")} == set(NAMES)
    for path in FOLDER.glob("*.png"):
        check(path)
        assert f"(images/pages/{path.name})" in shown, f"docs/dashboard.md does not show {path.name}"


@pytest.mark.long
@pytest.mark.browser
def test_one_command_takes_them_all(tmp_path: Path) -> None:
    program("chromium", "chromium")
    taken = take(tmp_path)
    assert {path.stem for path in taken} == set(NAMES)
    for path in taken:
        check(path)
