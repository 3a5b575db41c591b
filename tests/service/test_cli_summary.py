"""``fallow`` alone, and its help: how things stand, the worst, what to type next; every verb in one group."""

import re
from pathlib import Path

import pytest

from service.cli.parser import make_parser, parse
from service.cli.verb_groups import GROUPS, WIDTH
from tests.service.conftest import Running, shown, verb


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
