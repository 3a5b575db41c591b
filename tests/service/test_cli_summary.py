"""``fallow`` alone, and its help: how things stand, the worst, what to type next; every verb in one group."""

import json
import re
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from service.cli.parser import BadUsage, make_parser, parse
from service.cli.screen import Column, table
from service.cli.verb_groups import GROUPS, WIDTH
from tests.service.conftest import Running, shown, verb

TABLES = (
    (("status",), "gpu_place"),
    (("consent",), "job"),
    (("report", "--list"), "kind"),
    *((("ledger", "--since", "20h", "--by", key), "key") for key in ("job", "user", "project", "model")),
    *((("waste", "--since", "20h", "--by", key), key) for key in ("job", "user", "project")),
    (("config",), "key"),
)
"""A reading verb with a table, and the key that tells its rows apart."""


def test_every_verb_stands_in_one_group_of_the_help() -> None:
    (verbs,) = (each.choices for each in make_parser()._actions if each.dest == "verb" and each.choices)
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(verbs)


def test_the_help_fits_a_terminal_and_begins_with_what_is_typed_first() -> None:
    lines = verb("--help").stdout.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[2].startswith("usage: fallow ") and "what to type next" in lines[2]
    assert lines.index("Look:") < lines.index("Act:")


def test_where_nothing_was_recorded_it_says_how_to_begin(tmp_path: Path) -> None:
    done = verb(env={"FALLOW_DATA": str(tmp_path / "data")})
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "Nothing was recorded here yet. To begin:"
    for line in lines[1:-1]:
        parse(line.split("   ")[0].split()[1:])
    assert not (tmp_path / "data").exists(), "looking makes nothing"


@pytest.mark.parametrize(
    ("typed", "verb_meant", "data", "config"),
    [
        ([], "summary", None, None),
        (["--data", "d"], "summary", Path("d"), None),
        (["--data=d", "--config", "c.toml"], "summary", Path("d"), Path("c.toml")),
        (["--data", "d", "waste"], "waste", Path("d"), None),
        (["waste", "--data", "d"], "waste", Path("d"), None),
        (["--data", "d", "waste", "--config", "c.toml"], "waste", Path("d"), Path("c.toml")),
        (["--data", "d", "waste", "--data", "e"], "waste", Path("e"), None),
        (["--data", "waste"], "summary", Path("waste"), None),
    ],
)
def test_the_folder_may_be_said_before_the_verb_or_without_one(
    typed: list[str], verb_meant: str, data: Path | None, config: Path | None
) -> None:
    command = parse(typed)
    assert (command.verb, command.flags.data, command.flags.config) == (verb_meant, data, config)


def test_what_is_no_flag_without_a_verb_is_said_to_be_none() -> None:
    with pytest.raises(BadUsage, match="unrecognized arguments: --json"):
        parse(["--json"])
    with pytest.raises(BadUsage, match="did you mean waste"):
        parse(["--data", "d", "wastes"])
    with pytest.raises(BadUsage, match="--data: expected one argument"):
        parse(["--data"])


@pytest.mark.process
def test_alone_it_shows_the_state_the_three_worst_and_what_to_type_next(service: Running) -> None:
    for columns in (80, 100, 120):
        lines = shown(columns=columns, data=service.data)
        assert max(map(len, lines)) <= columns, lines
        assert lines[0].startswith("SIMULATED")
        state, worst, steps = "\n".join(lines[1:]).split("\n\n")
        assert len(state.splitlines()) <= 7 and re.search(r"In the last 7d: [\d.,]+ GPU-hours wasted", state)
        assert worst.splitlines()[0].split()[:3] == ["user", "GPU-hours", "share"]
        assert len(re.findall(r"^\S.* +[\d.,]+ +[\d.<]+%", worst, flags=re.MULTILINE)) == 3
        typed = [line.split("   ")[0].strip() for line in steps.splitlines()]
        assert typed[0] == "fallow waste" and typed[1].startswith("fallow job ")
        for line in typed[:-1]:
            parse(line.replace("'", "").split()[1:])


@pytest.mark.process
@pytest.mark.slow
def test_no_table_cuts_a_key_or_a_title_at_any_width(service: Running) -> None:
    """What tells rows apart stands whole on a terminal of any width; what finds no room goes below."""
    broken = []
    for words, key in TABLES:
        rows = json.loads(verb(*words, "--json", data=service.data).stdout)
        keys = {str(row[key]) for row in rows if row[key] is not None}
        assert keys, words
        for columns in (80, 100, 120):
            lines = shown(
                *words, *(["--all"] if words[0] == "waste" else []), columns=columns, data=service.data
            )
            text = "\n".join(lines)
            broken += [f"{words} at {columns}: {each} is cut" for each in keys if each not in text]
            broken += [f"{words} at {columns}: too wide: {each}" for each in lines if len(each) > columns]
            titles = next((line for line, rule in pairwise(lines) if set(rule) == {"─"}), "")
            broken += [f"{words} at {columns}: a title is cut"] if "…" in titles else []
    assert not broken, "\n".join(broken)


def test_a_table_with_lines_below_has_them_under_their_row_and_none_where_there_is_nothing() -> None:
    columns = [Column(title="job"), Column(title="n", right=True), Column(title="why", below=True)]
    out = StringIO()
    screen = Console(file=out, width=40, markup=False)
    screen.print(table(columns, [["a", "1", "x " * 30], ["b", "22", ""]], width=40))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert [lines[0].split(), lines[2].split(), lines[-1].split()] == [["job", "n"], ["a", "1"], ["b", "22"]]
    assert lines[3].startswith("  why: x x") and len(lines) == 6
