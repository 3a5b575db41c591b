"""Cases open after they held, close after they were calm, and say a thing once: tables and properties."""

import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.alerts.lifecycle import Docket, Watch, after, follow
from service.alerts.model import Change, Evaluation, Patience, Turn
from tests.service.alerts.alert_parts import HOUR_MS, MINUTE_MS, NOW_MS, PATIENCE, condition, look

KEY = "gpu-fault:GPU-0"
LEVELS = (1, 2, 3, 4)


@dataclass
class Story:
    """Looks one after the other; ``told`` is every change with its minute."""

    patience: Patience = PATIENCE
    docket: Docket = field(default_factory=Docket)
    watch: Watch = field(default_factory=Watch)
    told: list[tuple[int, Change]] = field(default_factory=list)

    def sees(self, seen: Evaluation) -> tuple[Change, ...]:
        self.watch, changes = follow(self.docket, self.watch, seen, self.patience)
        self.docket = after(self.docket, changes, seen.at_ms, self.patience)
        self.told += [((seen.at_ms - NOW_MS) // MINUTE_MS, change) for change in changes]
        return changes

    def at(self, minute: int, level: int | None, *, known: bool = True) -> None:
        holds = () if level is None else (condition(KEY, level),)
        self.sees(look(NOW_MS + minute * MINUTE_MS, *holds, unknown=() if known else (KEY,)))

    @property
    def words(self) -> list[tuple[int, str, int]]:
        return [(minute, c.turn.value, c.case.condition.level) for minute, c in self.told if c.word]


def story(levels: Iterable[int | None], every: int = 1, **changes: int) -> Story:
    made = Story(patience=replace(PATIENCE, **changes))
    for at, level in enumerate(levels):
        made.at(at * every, level)
    return made


def test_what_holds_for_long_enough_is_a_case_and_a_blip_is_none() -> None:
    assert story([2, 2]).words == []
    assert story([2, None, 2, None, 2, 2]).words == []
    assert story([2, 2, 2]).words == [(2, "opened", 2)]
    assert len(story([2, 2, 2, 2, 2]).told) == 1


def test_what_was_not_known_in_between_begins_its_clock_anew() -> None:
    made = Story()
    for minute in (0, 1):
        made.at(minute, 2)
    made.at(2, None, known=False)
    for minute in (3, 4):
        made.at(minute, 2)
    assert made.words == []
    made.at(5, 2)
    assert made.words == [(5, "opened", 2)]


def test_the_unknown_is_never_calm() -> None:
    made = story([2, 2, 2])
    for minute in range(3, 60):
        made.at(minute, None, known=False)
    assert [turn for _, turn, _ in made.words] == ["opened"]
    for minute in range(60, 71):
        made.at(minute, None)
    assert made.words[-1] == (70, "closed", 2)


def test_a_case_closes_after_calm_without_a_break_and_says_why() -> None:
    made = story([2] * 3 + [None] * 9 + [2] + [None] * 10)
    assert [turn for _, turn, _ in made.words] == ["opened"]
    made.sees(look(NOW_MS + 23 * MINUTE_MS, calm={KEY: "it answers"}))
    assert made.words[-1] == (23, "closed", 2)
    assert made.told[-1][1].case.because == "it answers"
    assert made.docket.open == {}


def test_worse_is_a_word_and_better_is_none() -> None:
    made = story([2, 2, 2, 4, 4, 4, 2, 2, 2, 4, 4, 4])
    assert made.words == [(2, "opened", 2), (5, "worse", 4)]


def test_a_moment_of_worse_is_no_word() -> None:
    assert story([2, 2, 2, 4, 2, 4, 2, 4]).words == [(2, "opened", 2)]


def test_rising_step_by_step_each_level_has_its_own_time() -> None:
    assert story([2, 3, 4, 4, 4, 4]).words == [(2, "opened", 2), (3, "worse", 3), (4, "worse", 4)]


def test_what_is_only_shown_opens_a_case_and_says_nothing() -> None:
    made = story([1, 1, 1, 1])
    assert (len(made.docket.open), made.words) == (1, [])
    assert story([1] * 3 + [None] * 12).words == []
    assert story([1, 1, 1, 2, 2, 2]).words == [(5, "worse", 2)]


def test_what_comes_back_within_the_quiet_time_is_a_case_and_no_word() -> None:
    flap = [2] * 3 + [None] * 11
    made = story(flap * 3)
    assert [(turn, level) for _, turn, level in made.words] == [("opened", 2), ("closed", 2)]
    assert [c.turn for _, c in made.told] == [Turn.OPENED, Turn.CLOSED] * 3


def test_what_comes_back_worse_is_told_at_once() -> None:
    made = story([2] * 3 + [None] * 11 + [3] * 3)
    assert made.words[-1] == (16, "opened", 3)


def test_what_came_back_silently_is_told_when_the_quiet_time_is_over() -> None:
    made = story([2] * 3 + [None] * 11 + [2] * 240)
    assert made.words[2:] == [(242, "worse", 2)]


def test_what_is_still_so_is_not_repeated_for_ever() -> None:
    assert len(story([2] * 500, every=10).words) == 1


def test_two_cases_have_two_numbers() -> None:
    made = Story()
    for minute in range(3):
        made.sees(look(NOW_MS + minute * MINUTE_MS, condition("gpu-fault:a"), condition("gpu-fault:b")))
    assert sorted(case.number for case in made.docket.open.values()) == [1, 2]
    assert made.docket.next_number == 3


looks = st.lists(
    st.tuples(
        st.integers(1, 90),
        st.dictionaries(st.sampled_from("ab"), st.sampled_from(LEVELS)),
        st.sets(st.sampled_from("ab")),
        st.booleans(),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(looks, st.sampled_from([0, 2, 15]), st.sampled_from([0, 10]), st.sampled_from([0, 240]))
def test_no_storm_one_open_case_a_key_and_openings_and_closings_alternate(
    seen: list[tuple[int, dict[str, int], set[str], bool]], opens: int, closes: int, quiet: int
) -> None:
    patience = Patience(
        opens_after_ms=opens * MINUTE_MS, closes_after_ms=closes * MINUTE_MS, quiet_ms=quiet * MINUTE_MS
    )
    made, at_ms = Story(patience=patience), NOW_MS
    numbers: set[int] = set()
    life: dict[str, list[Turn]] = defaultdict(list)
    spoken: dict[str, list[tuple[int, int, Turn]]] = defaultdict(list)
    for minutes, levels, unknown, blind in seen:
        at_ms += minutes * MINUTE_MS
        holds = [condition(f"gpu-fault:{name}", level) for name, level in levels.items()]
        keys = tuple(f"gpu-fault:{name}" for name in unknown - set(levels))
        before = dict(made.docket.open)
        for change in made.sees(look(at_ms, *holds, unknown=keys, unknown_all=blind)):
            key = change.case.key
            life[key].append(change.turn)
            if change.turn is Turn.OPENED:
                assert change.case.number not in numbers
                numbers.add(change.case.number)
            else:
                assert before[key].number == change.case.number
            if change.turn is Turn.CLOSED:
                assert key not in levels and key not in keys and not blind
            if change.word:
                spoken[key].append((at_ms, change.case.condition.level, change.turn))
        assert all(case.closed_ms is None for case in made.docket.open.values())
    for turns in life.values():
        ends = [turn for turn in turns if turn is not Turn.WORSE]
        assert ends == [Turn.OPENED, Turn.CLOSED] * (len(ends) // 2) + [Turn.OPENED] * (len(ends) % 2)
    for words in spoken.values():
        _is_no_storm(words, quiet * MINUTE_MS)


def _is_no_storm(words: list[tuple[int, int, Turn]], quiet_ms: int) -> None:
    """Within a quiet time each word is of something worse, and what is over is said once a word."""
    said = [(at_ms, level) for at_ms, level, turn in words if turn is not Turn.CLOSED]
    for (first_ms, first), (second_ms, second) in itertools.pairwise(said):
        assert second > first or second_ms - first_ms >= quiet_ms
    kinds = [turn for _, _, turn in words]
    assert all(not (one is Turn.CLOSED and two is Turn.CLOSED) for one, two in itertools.pairwise(kinds))
    if words:
        assert words[0][2] is not Turn.CLOSED


@given(looks)
def test_restarts_lose_the_clocks_and_say_nothing_twice(
    seen: list[tuple[int, dict[str, int], set[str], bool]],
) -> None:
    """Cases and what was told of them come back from the store; nothing is said that was said."""
    made, at_ms = Story(patience=replace(PATIENCE, opens_after_ms=0)), NOW_MS
    last: dict[str, tuple[int, int]] = {}
    for minutes, levels, _, restarts in seen:
        at_ms += minutes * MINUTE_MS
        if restarts:
            made.watch = Watch()
        holds = [condition(f"gpu-fault:{name}", level) for name, level in levels.items()]
        for change in made.sees(look(at_ms, *holds)):
            if change.word and change.turn is not Turn.CLOSED:
                before_ms, before = last.get(change.case.key, (-(10**15), 0))
                assert change.case.condition.level > before or at_ms - before_ms >= 4 * HOUR_MS
                last[change.case.key] = (at_ms, change.case.condition.level)


@pytest.mark.parametrize("level", LEVELS)
def test_without_patience_every_look_counts(level: int) -> None:
    made = story([level, None], opens_after_ms=0, closes_after_ms=0)
    assert [c.turn for _, c in made.told] == [Turn.OPENED, Turn.CLOSED]
