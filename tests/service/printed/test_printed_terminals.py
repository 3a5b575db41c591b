"""Every verb over a store of hostile names: nothing in its output steers a terminal or forges a line."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.model import NodeName
from collector.procfs.process_table import ProcessTable
from service.alerts.messages import harmless
from service.cli.screen import Column, console, table
from service.printable import OUR_SPACES
from tests.service.conftest import verb
from tests.service.printed.hostile import EVIL, HOSTILE, MARKER, PLAIN, fill

pytestmark = pytest.mark.slow

READING = {
    "status": "",
    "ledger": "--by user",
    "ledger job": "--by job",
    "ledger project": "--by project",
    "ledger node": "--by node",
    "findings": "--all",
    "findings --intruders": "",
    "findings --unknown": "",
    "findings --patterns": "",
    "advise": "--all",
    "plan": "",
    "explain": str(EVIL),
    "whatif": "--since 40m",
    "report": "cluster-week --preview --since 40m",
    "simulate": "--from-store --nodes 1x2 --since 40m",
}
SPACES = dict.fromkeys(map(ord, OUR_SPACES), " ")
SHOWS_NAMES = {
    "status",
    "ledger",
    "ledger job",
    "ledger project",
    "findings",
    "findings --intruders",
    "advise",
}
"""Where the ordinary name stands too."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    fill(folder)
    yield folder


def words(way: str) -> list[str]:
    name, *more = way.split()
    return [name, *(each for each in more if each.startswith("-")), *READING[way].split()]


@pytest.mark.parametrize("way", READING)
def test_text_for_people_is_whole_visible_lines(data: Path, way: str) -> None:
    done = verb(*words(way), data=data)
    assert done.returncode == 0, done.stderr
    for line in (*done.stdout.split("\n"), *done.stderr.split("\n")):
        assert line.translate(SPACES).isprintable(), ascii(line)
        assert not line.lstrip().startswith(MARKER), line
        assert len(line) < 20_000
    if way in SHOWS_NAMES:
        assert PLAIN in done.stdout
        assert "\\x1b]0;owned" in done.stdout


@pytest.mark.parametrize("way", [each for each in READING if each != "report"])
def test_json_has_the_very_names_and_steers_nothing_where_it_is_printed(data: Path, way: str) -> None:
    done = verb(*words(way), "--json", data=data)
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    rows = json.loads(done.stdout)
    if way == "status":
        assert HOSTILE in {row["user_name"] for row in rows}


@pytest.mark.parametrize("name", ["nothing\x1b[2J", f"x\n{MARKER}"])
def test_errors_show_what_was_asked_for_and_no_more(data: Path, name: str) -> None:
    done = verb("explain", name, data=data)
    assert done.returncode == 2
    assert done.stderr.rstrip("\n").isprintable()


def test_a_table_keeps_its_columns_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Column(title="name"), Column(title="n", right=True)]
    console().print(table(columns, [("a\x1b[31m", "1"), ("b\u202e", "2"), ("plain", "3")]))
    lines = [
        line.rstrip() for line in capsys.readouterr().out.split("\n") if re.search(r"\d$", line.rstrip())
    ]
    assert len({len(line) for line in lines}) == 1, lines


@pytest.mark.process
def test_a_real_process_of_another_account_names_itself_and_steers_nobody(tmp_path: Path) -> None:
    """From the kernel's word on it, by the store and the judgement, to the terminal and to a chat's text."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another account")
    name = "\x1b]0;x\x07<!channel> [x](http://evil)"
    with other_account(["bash", "-c", 'exec -a "$1" sleep 600', "-", name]) as pid:
        until_it_is("sleep", pid)
        process = ProcessTable(NodeName("node1")).look([pid], time.time_ns() // 1_000_000)[pid]
    assert (process.uid, process.name) == (65534, "sleep")
    assert process.command is not None and process.command.endswith(" 600")
    fill(tmp_path, process=process)
    shown = verb("findings", "--intruders", data=tmp_path).stdout
    assert "sleep" in shown and all(line.isprintable() for line in shown.split("\n"))
    assert "\x1b" not in shown
    told = harmless(f"a process ({process.command}) is on a GPU of yours")
    assert told.replace("\u2060", "").isprintable() and "<!" not in told and "](" not in told


@contextmanager
def other_account(command: list[str]) -> Iterator[int]:
    process = subprocess.Popen(command, user=65534, group=65534, extra_groups=[], cwd="/")
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def until_it_is(name: str, pid: int) -> None:
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}/comm").read_text().strip() != name:
        assert time.monotonic() < deadline
        time.sleep(0.01)
