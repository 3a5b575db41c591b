"""The documentation holds together: links lead somewhere, every page can be found, every verb is told of."""

import re
from pathlib import Path

import pytest

from service.cli import main
from tests.docs.docs_reading import ROOT, anchors, blocks, links, name_of, pages, unfenced

FRONT_DOORS = (
    "watch-one-machine",
    "watch-many",
    "find-the-waste",
    "act-safely",
    "make-it-elastic",
    "operate",
    "configuration",
    "numbers",
)
LANGUAGES = ("sh", "python", "toml", "yaml", "sql", "text", "json")
DECISIONS = tuple(sorted((ROOT / "docs" / "decisions").glob("*.md")))


@pytest.mark.parametrize("page", [*pages(), *DECISIONS], ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for line, target in links(page):
        if re.match(r"[a-z]+://|mailto:", target):
            continue
        path, _, heading = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name_of(page)}:{line} links to {target}, which is not there"
        assert found.is_relative_to(ROOT), f"{name_of(page)}:{line} leaves the project: {target}"
        if heading:
            assert heading in anchors(found), f"{name_of(page)}:{line}: {found.name} has no #{heading}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_says_its_language_and_no_command_stands_outside_of_one(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{name_of(page)}:{block.line}: say one of {LANGUAGES}"
    loose = [str(each) for each in unfenced(page)]
    assert not loose, f"put these between ```sh and ```, where a test runs them: {loose}"


def test_the_page_of_all_pages_opens_the_eight_doors_in_order() -> None:
    doors = [name for name in linked(ROOT / "docs" / "index.md") if name.removesuffix(".md") in FRONT_DOORS]
    assert list(dict.fromkeys(doors)) == [f"{name}.md" for name in FRONT_DOORS]


def test_the_first_page_is_short_and_has_three_doors_of_four_commands() -> None:
    page = ROOT / "README.md"
    assert len(page.read_text().splitlines()) <= 60
    doors = [block.text.splitlines() for block in blocks(page) if block.language == "sh"]
    assert [len(door) for door in doors] == [4, 4, 4]
    assert all(door[-1].startswith("fallow waste") for door in doors), "each ends with the answer"


def test_every_page_can_be_reached_from_the_first() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        for _, target in links(page):
            found = (page.parent / target.partition("#")[0]).resolve()
            if found.suffix == ".md" and found.is_file() and found not in seen:
                waiting.append(found)
    lost = [name_of(page) for page in pages() if page not in seen]
    assert not lost, f"no page leads to {lost}"


def test_every_picture_is_shown_somewhere() -> None:
    shown = {Path(target).name for page in pages() for _, target in links(page)}
    texts = "".join(page.read_text() for page in pages())
    pictures = {path.name for path in (ROOT / "docs" / "images").glob("*.svg")}
    assert pictures <= shown, f"nobody shows {sorted(pictures - shown)}"
    for name in re.findall(r"images/([\w./-]+\.(?:png|svg))", texts):
        assert (ROOT / "docs" / "images" / name).is_file(), name


def test_the_page_of_verbs_tells_of_every_verb_and_of_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    verbs = set(re.findall(r"^    ([a-z][a-z-]*)(?:  |$)", capsys.readouterr().out, flags=re.MULTILINE))
    assert {"up", "ledger", "run"} <= verbs, "the help is read wrongly"
    told = set(re.findall(r"`fallow ([a-z][a-z-]*)", (ROOT / "docs" / "verbs.md").read_text()))
    assert told == verbs


def linked(page: Path) -> list[str]:
    return [Path(target.partition("#")[0]).name for _, target in links(page)]
