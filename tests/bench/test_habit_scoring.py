"""Right, wrong and missed: what was said held against a label."""

from bench.habit_player.model import Label
from bench.habit_player.scoring import Said, Tally, score


def tally_of(label: Label, *kinds: str) -> Tally:
    tally = Tally()
    score(tally, label, Said(kinds=frozenset(kinds)), "here")
    return tally


def test_the_labels_kind_is_right_and_any_other_is_wrong_and_misses_it():
    label = Label(kind="held-idle")
    assert tally_of(label, "held-idle").right == {"held-idle": 1}
    other = tally_of(label, "allocated-empty")
    assert other.wrong == {"allocated-empty": 1}
    assert other.missed == {"held-idle": 1}


def test_saying_nothing_of_an_idle_gpu_is_wrong_about_working():
    tally = tally_of(Label(kind="held-idle"), "working")
    assert tally.wrong == {"working": 1}
    assert tally.missed == {"held-idle": 1}


def test_what_may_be_said_is_neither_right_nor_wrong():
    tally = tally_of(Label(kind="working", may=("low-saturation",)), "low-saturation")
    assert tally.right == {"working": 1}
    assert tally.wrong == {}


def test_what_has_to_be_said_as_well_is_missed_without():
    tally = tally_of(Label(kind="low-saturation", also=("memory-hog",)), "low-saturation")
    assert tally.right == {"low-saturation": 1}
    assert tally.missed == {"memory-hog": 1}


def test_a_borderline_case_is_wrong_only_beyond_what_may_be_found():
    label = Label(kind="borderline", may=("held-idle",))
    assert tally_of(label, "held-idle").wrong == {}
    assert tally_of(label, "working").wrong == {}
    assert tally_of(label, "unknown").wrong == {}
    assert tally_of(label, "memory-hog").wrong == {"memory-hog": 1}


def test_starting_and_working_are_as_good_as_one_another():
    assert tally_of(Label(kind="starting"), "working").right == {"starting": 1}
    assert tally_of(Label(kind="working"), "starting").wrong == {}


def test_unknown_has_to_be_said_where_it_is_the_label():
    tally = tally_of(Label(kind="unknown", twin="x"), "working")
    assert tally.missed == {"unknown": 1}
    assert tally.wrong == {"working": 1}
    assert tally.labelled_unknown == 1


def test_an_unasked_case_is_counted_and_not_scored():
    tally = tally_of(Label(kind="unasked", twin="x"), "held-idle")
    assert (tally.cases, tally.labelled_unknown) == (1, 1)
    assert not tally.right and not tally.wrong and not tally.missed


def test_calling_somebody_idle_who_works_is_counted_apart():
    assert tally_of(Label(kind="rarely-used"), "held-idle").accused == {"here": 1}
    assert tally_of(Label(kind="held-idle"), "allocated-empty").accused == {}
    assert tally_of(Label(kind="working", may=("held-idle",)), "held-idle").accused == {}
