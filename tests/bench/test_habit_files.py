"""The files of habits: they read, their labels cover their timelines, what is wrong in one is said."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from bench.habit_player.model import BORDERLINE, KINDS, UNASKED
from bench.habit_player.read import HabitError, length_ms, read_folder, read_habit
from bench.habit_player.timeline import holdings, label_at, occurrences, subjects, uncovered

FOLDER = Path(__file__).parents[2] / "bench" / "habits"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))

SMALL = """
about = "A small one."
source = ["arithmetic"]
lasts = "2h"
play = ["one", ["two", "three"]]

[[holder]]
name = "ann"

[process.work]
command = "python work.py"

[[phase]]
name = "one"
lasts = "10m"

[[phase]]
name = "two"
lasts = ["5m", "15m"]
gpu = 0.5
sm = 0.4

[[phase]]
name = "three"
lasts = "5m"
processes = []

[[label]]
kind = "working"
"""


def habit_from(folder: Path, text: str):
    path = folder / "small.toml"
    path.write_text(text)
    return read_habit(path)


def test_every_habit_of_the_folder_reads_and_names_its_sources():
    habits = read_folder(FOLDER)
    assert [habit.name for habit in habits] == NAMES
    assert all(habit.source for habit in habits)


@pytest.mark.parametrize("name", NAMES)
def test_labels_cover_the_whole_timeline_on_every_source(name: str):
    assert list(uncovered(read_habit(FOLDER / f"{name}.toml"), step_ms=120_000)) == []


def test_kinds_of_findings_and_borderline_are_not_mixed_in_a_label():
    for habit in read_folder(FOLDER):
        for label in (*habit.labels, *habit.job_labels):
            assert label.kind not in label.may, f"{habit.name}: {label}"
            assert label.kind != UNASKED or label.twin, habit.name
            if label.kind == BORDERLINE:
                assert label.may, f"{habit.name}: a borderline label names what may be found"


def test_phases_are_lived_end_to_end_and_the_same_each_time(tmp_path: Path):
    habit = habit_from(tmp_path, SMALL)
    lived = occurrences(habit)
    assert lived == occurrences(habit)
    assert lived[0].from_ms == 0
    assert lived[-1].to_ms == length_ms("2h")
    assert all(one.to_ms == other.from_ms for one, other in pairwise(lived))
    lengths = defaultdict(list)
    for each in lived[:-1]:
        lengths[each.phase.name].append(each.to_ms - each.from_ms)
    assert set(lengths["three"]) == {length_ms("5m")}
    assert all(length_ms("5m") <= length <= length_ms("15m") for length in lengths["two"])
    assert len(set(lengths["two"])) > 1


def test_a_time_of_day_ends_a_phase(tmp_path: Path):
    text = SMALL.replace('name = "one"\nlasts = "10m"', 'name = "one"\nuntil = "08:40"')
    lived = occurrences(habit_from(tmp_path, text))
    assert lived[0].to_ms == length_ms("40m")


def test_a_holder_of_some_phases_has_a_job_for_each_stretch(tmp_path: Path):
    habit = habit_from(tmp_path, SMALL.replace('name = "ann"', 'name = "ann"\nphases = ["two"]'))
    lived = occurrences(habit)
    stretches = [(each.from_ms, each.to_ms) for each in lived if each.phase.name == "two"]
    held = holdings(habit, lived)
    assert [(one.from_ms, one.to_ms) for one in held] == stretches
    assert [one.number for one in held] == list(range(len(stretches)))


@pytest.mark.parametrize(
    ("told", "instead", "said"),
    [
        ('lasts = "2h"', 'lasts = "2 hours"', ["line 4", "lasts has '2 hours' is no length of time"]),
        ('lasts = "2h"', "lasts = 2h", ["no TOML", "line 4"]),
        ("gpu = 0.5", "gpus = 0.5", ["line 20", "phase[1].gpus is unknown", "did you mean 'gpu'"]),
        ("gpu = 0.5", "gpu = 5", ["phase[1].gpu is 5", "from 0 to 1"]),
        ("sm = 0.4", "", ["phase[1].sm is missing"]),
        ('["two", "three"]', '["two", "tree"]', ["line 5", "'tree' (did you mean 'three'?)"]),
        ('kind = "working"', 'kind = "workin"', ["label.kind is 'workin' (did you mean 'working'?)"]),
        ('kind = "working"', 'kind = "unknown"', ["label.twin is missing"]),
        (
            'kind = "working"',
            'kind = "working"\nonly = ["nvm"]',
            ["label.only has 'nvm'", "did you mean 'nvml'"],
        ),
        ("processes = []", 'processes = ["wrok"]', ["phase[2].processes has 'wrok'", "did you mean 'work'"]),
        ('command = "python work.py"', "", ["process.work.command is missing"]),
        ('source = ["arithmetic"]', "", ["source is missing"]),
        ('about = "A small one."', "", ["about is missing"]),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key(
    tmp_path: Path, told: str, instead: str, said: list[str]
):
    assert told in SMALL
    with pytest.raises(HabitError) as error:
        habit_from(tmp_path, SMALL.replace(told, instead, 1))
    for part in ["small.toml", *said]:
        assert part in str(error.value)


def test_an_empty_folder_is_said(tmp_path: Path):
    with pytest.raises(HabitError, match="no habit"):
        read_folder(tmp_path)


def test_every_kind_has_four_habits_at_least():
    found: defaultdict[str, set[str]] = defaultdict(set)
    for habit in read_folder(FOLDER):
        for label in (*habit.labels, *habit.job_labels):
            for kind in (label.kind, *label.also):
                found[kind].add(habit.name)
    few = {kind: sorted(found[kind]) for kind in KINDS if kind != "gone" and len(found[kind]) < 4}
    assert few == {}
    assert len(read_folder(FOLDER)) >= 60


def test_what_cannot_be_told_is_a_small_part_of_the_cases():
    most = {"nvml": 0.05, "lowest": 0.25}
    for source, bar in most.items():
        kinds = [
            label.kind
            for habit in read_folder(FOLDER)
            for lived in [occurrences(habit)]
            for subject in subjects(habit)
            for at_ms in range(length_ms("10m"), habit.lasts_ms, length_ms("17m"))
            if (label := label_at(habit, lived, source, subject, at_ms)) is not None
        ]
        unknown = sum(kind in ("unknown", UNASKED) for kind in kinds)
        assert 0 < unknown / len(kinds) <= bar, source
