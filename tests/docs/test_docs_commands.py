"""Every command of the documentation works: it is run on a prepared site, or stands in a short table.

A command that is new in a page is run as well, without anybody asking for it; where it cannot be, it needs a
row in ``docs_instead``, with the reason and with what is checked instead.
"""

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent

import pytest

from service.cli.parser import BadUsage, parse
from service.config.file import parse as parse_settings
from tests.conftest import program
from tests.docs.docs_instead import INSTEAD, fallow_words, instead_of
from tests.docs.docs_reading import ROOT, Block, Command, blocks, commands, mentions, name_of, pages
from tests.docs.docs_stage import Site

pytestmark = pytest.mark.process

OPERATE = ROOT / "docs" / "operate.md"
READ_BY_OTHERS = ("docs/status.md", "docs/status/", "docs/performance.md", "docs/results.md")
"""They tell of what was measured, some of it with programs of their own."""

FRAGMENTS = (
    *("elastic.md", "make-it-elastic.md", "elastic-frameworks.md", "launching.md", "sharing.md"),
    *("add-metric.md", "add-finding.md", "add-alert.md"),
)
"""Their Python shows lines for another program; examples/ has whole ones, which tests run, and
tests/collector/test_metric_added.py puts those of the checklists where they belong."""

COPIES = {"copied": "cp -a {data} {to}", "packed": "mkdir {to} && tar -C {data} -c . | tar -C {to} -xp"}

EXAMPLE_WORDS = {
    "JOB": "fallow:1",
    "JOB|GPU|ADVICE": "fallow:1",
    "PLAN": "1",
    "ACTION": "1",
    "N": "2",
    "NAME": "name",
    "TEXT": "text",
    "USER": "name",
    "COMMAND": "true",
    "DIR": "folder",
    "FILE": "file",
    "ROUTE": "route",
}
"""What a word in capitals stands for where a command is only named."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    program("curl", "curl")
    program("cc", "gcc")
    made = Site(folder=tmp_path_factory.mktemp("site"))
    made.furnish()
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    "page", [page for page in pages() if commands(page) and page != OPERATE], ids=name_of
)
def test_the_commands_of_a_page_do_what_they_say(site: Site, page: Path) -> None:
    try:
        for command in commands(page):
            tried(site, command)
    finally:
        site.variables.clear()
        site.end_training()


@pytest.mark.long
def test_what_was_backed_up_is_what_is_restored_moved_and_looked_at(site: Site) -> None:
    window = whole_hours()
    before = site.rows("ledger", "--by", "user", *window)
    assert len(before) > 2 and sum(row["used_gpu_hours"] for row in before) > 1
    for command in commands(OPERATE):
        tried(site, command)
    assert site.rows("ledger", "--by", "user", *window) == before, "restored, it tells the same"
    look = site.rows("ledger", "--by", "user", *window, "--data", "look/fallow")
    assert look == before, "and so does a copy elsewhere, without a service"
    assert not list((site.work / "look").rglob("*.sock")), "sockets don't travel"


@pytest.mark.long
def test_a_copy_of_what_a_killed_service_left_can_be_read_and_served(site: Site, tmp_path: Path) -> None:
    """Its socket is still there, which some programs stumble over."""
    window = whole_hours()
    before = site.rows("ledger", "--by", "user", *window)
    site.kill()
    try:
        assert (site.data / "fallow.sock").is_socket()
        for to, copy in COPIES.items():
            done = site.shell(copy.format(data=site.data, to=tmp_path / to))
            assert done.status == 0, f"{copy}: {done.text}"
            assert site.rows("ledger", "--by", "user", *window, "--data", str(tmp_path / to)) == before
        copied = Site(folder=site.folder, copy=tmp_path / "copied", lent=site.driver, port=site.port)
        copied.start()
        try:
            assert copied.rows("ledger", "--by", "user", *window, "--data", str(copied.data)) == before
        finally:
            copied.stop()
    finally:
        site.start()


def test_no_row_of_the_table_is_there_for_nothing() -> None:
    told = [command.text for page in pages() for command in commands(page)]
    idle = [row.pattern for row in INSTEAD if not any(instead_of(text) is row for text in told)]
    assert not idle, f"no command needs {idle} any more"


@pytest.mark.parametrize(
    "page", [page for page in pages() if not name_of(page).startswith(READ_BY_OTHERS)], ids=name_of
)
def test_a_command_that_is_named_in_a_sentence_is_one(page: Path) -> None:
    for mention in mentions(page):
        match mention.program:
            case "fallow":
                assert_is_a_verb(mention)
            case "python" | "pytest":
                assert_is_there(mention)
            case "make":
                target = next(word for word in mention.text.split()[1:] if "=" not in word)
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), str(mention)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_settings_in_a_page_are_taken(page: Path) -> None:
    for block in blocks(page):
        if block.language == "toml" and not block.text.startswith("width_s"):
            parse_settings(block.text, origin=f"{name_of(page)}:{block.line}")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_python_in_a_page_is_python_and_runs_where_it_is_whole(
    page: Path, request: pytest.FixtureRequest
) -> None:
    found = [block for block in blocks(page) if block.language == "python"]
    for block in found:
        compile(dedent(block.text), f"{name_of(page)}:{block.line}", "exec")
    whole = [block for block in found if page.name not in FRAGMENTS and ".submit(" not in block.text]
    if whole:
        site: Site = request.getfixturevalue("site")
        (site.work / "export").is_dir() or site.verb("export", "--out", "export", "--since", "2d")
        for block in whole:
            assert_runs(site, block)


def whole_hours() -> tuple[str, str]:
    """The flags of a window that is over, so that asking later changes nothing."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    return f"--since={(hour - timedelta(hours=20)).isoformat()}", f"--until={hour.isoformat()}"


def tried(site: Site, command: Command) -> None:
    """Run it, or do what the table says instead; fails with what it said."""
    row = instead_of(command.text)
    if row is not None:
        try:
            row.check(site, site.real(command.text))
        except (AssertionError, BadUsage) as error:
            pytest.fail(f"{command}\nnot run ({row.why}), and what is checked instead failed: {error}")
        return
    text = site.real(command.text)
    if text.startswith("export "):
        words = shlex.split(text.replace("$PWD", str(site.work)))
        site.variables.update(dict(word.split("=", 1) for word in words[1:]))
        return
    in_process = command.program == "fallow" and not re.match(r"fallow run |.*[|<>$;&]", command.text)
    done = site.verb(*fallow_words(text)) if in_process else site.shell(text)
    assert done.status == 0, f"{command}\ntyped as: {text}\nstatus {done.status}: {done.text[-2000:]}"
    assert "Traceback" not in done.text, f"{command}\n{done.text}"


def assert_is_a_verb(mention: Command) -> None:
    """A whole command, or a verb without what it needs, or several verbs after one another."""
    text = re.sub(r"\[[^\]]*\]| > \S+$", "", mention.text)
    words = [EXAMPLE_WORDS.get(word, word.split("|")[0]) for word in fallow_words(text)]
    if not words or words[0] == "VERB":
        return
    if any(word.endswith(",") for word in words):
        words = [word.rstrip(",") for word in words]
        assert all(is_verb(word) for word in words), str(mention)
        return
    try:
        parse(words)
    except SystemExit as ended:  # --help and --version say their piece and end
        assert ended.code == 0
    except BadUsage as error:
        needs = "arguments are required" in str(error) or "expected one argument" in str(error)
        assert needs and is_verb(words[0]), f"{mention}: {error}"


def is_verb(word: str) -> bool:
    try:
        parse([word, "--help"])
    except SystemExit:
        return True
    except BadUsage:
        return False
    return False


def assert_is_there(mention: Command) -> None:
    """The script or folder that it names is in the project."""
    for word in mention.text.split():
        if re.match(r"(tests|bench|examples)/", word):
            assert (ROOT / word).exists(), str(mention)


def assert_runs(site: Site, block: Block) -> None:
    script = site.folder / "block.py"
    script.write_text(block.text)
    done = site.shell(f"python {shlex.quote(str(script))}")
    assert done.status == 0, f"{name_of(block.page)}:{block.line}: {done.text}"
