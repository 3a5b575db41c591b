"""Who shares with whom: the matching is the best there is, and experience is used and kept apart."""

import math
import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.planner.pairing import (
    Experience,
    PairingRules,
    Trial,
    choose_pairs,
    couple_of,
    expected_speeds,
    learn,
    must_undo,
    part,
)

RULES = PairingRules()
SPEEDS = st.floats(min_value=0.0, max_value=1.0)


def known(*trials: tuple[str, str, float, float]) -> Experience:
    experience = Experience(gpu_model="V100")
    for first, second, first_speed, second_speed in trials:
        experience = learn(
            experience, Trial(first=first, second=second, first_speed=first_speed, second_speed=second_speed)
        )
    return experience


def best_by_trying_all(places: tuple[int, ...], gain: dict[tuple[int, int], float]) -> float:
    if len(places) < 2:
        return 0.0
    first, rest = places[0], places[1:]
    without = best_by_trying_all(rest, gain)
    return max(
        [without]
        + [
            gain[first, other] + best_by_trying_all(tuple(p for p in rest if p != other), gain)
            for other in rest
            if (first, other) in gain
        ]
    )


def test_the_gain_of_an_untried_pair_counts_with_its_chance_to_get_on() -> None:
    """By drawing many speeds from what is believed: under the floor they are parted, and gain nothing."""
    (pair,) = choose_pairs(["a", "b"], known(), RULES)
    draw, deviation = random.Random(1), math.sqrt(2 * RULES.spread**2 + RULES.residual**2)
    speeds = [draw.gauss(RULES.prior, deviation) for _ in range(200_000)]
    kept = [min(1.0, speed) for speed in speeds if speed >= RULES.foreground_floor]
    assert pair.chance == pytest.approx(len(kept) / len(speeds), abs=0.005)
    gain = sum(speed + pair.guest_speed - 1 for speed in kept) / len(speeds)
    assert pair.gain == pytest.approx(gain, abs=0.005) and not pair.measured
    assert pair.foreground_speed == RULES.prior, "what is told of its speed is all that may come"


def test_a_measured_pair_gets_on() -> None:
    (pair,) = choose_pairs(["a", "b"], known(("a", "b", 0.95, 0.6)), RULES)
    assert (pair.chance, pair.gain) == (1.0, pytest.approx(0.55))


@given(st.lists(st.tuples(SPEEDS, SPEEDS), min_size=15, max_size=15))
def test_the_matching_adds_as_much_as_trying_all_of_them(speeds: list[tuple[float, float]]) -> None:
    names = tuple("abcdef")
    couples = list(combinations(range(6), 2))
    experience = known(*((names[a], names[b], *speeds[at]) for at, (a, b) in enumerate(couples)))
    pairs = choose_pairs(names, experience, RULES, explore=False)
    allowed = {
        couple: sum(speeds[at]) - 1
        for at, couple in enumerate(couples)
        if max(speeds[at]) >= 0.9 and min(speeds[at]) > 0 and sum(speeds[at]) - 1 >= RULES.gain_floor
    }
    assert sum(pair.gain for pair in pairs) == pytest.approx(
        best_by_trying_all(tuple(range(6)), allowed), abs=1e-5
    )


@given(st.lists(st.sampled_from("abcde"), max_size=12), st.lists(st.tuples(SPEEDS, SPEEDS), min_size=10))
def test_nobody_is_paired_twice_and_no_measured_foreground_is_slow(
    jobs: list[str], speeds: list[tuple[float, float]]
) -> None:
    couples = list(combinations("abcde", 2))
    experience = known(*((*couple, *speed) for couple, speed in zip(couples, speeds, strict=False)))
    pairs = choose_pairs(jobs, experience, RULES)
    places = [place for pair in pairs for place in (pair.foreground, pair.guest)]
    assert len(places) == len(set(places))
    for pair in pairs:
        if pair.measured:
            assert pair.foreground_speed >= RULES.foreground_floor
            assert pair.foreground_worst == pair.foreground_speed


def test_the_job_that_is_slowed_less_is_the_foreground_wherever_it_stands() -> None:
    experience = known(("heavy", "light", 0.6, 0.95))
    (first,) = choose_pairs(["heavy", "light"], experience, RULES)
    (turned,) = choose_pairs(["light", "heavy"], experience, RULES)
    assert (first.foreground, first.guest, first.foreground_speed) == (1, 0, 0.95)
    assert (turned.foreground, turned.guest, turned.guest_speed) == (0, 1, 0.6)


def test_only_those_who_may_share_are_paired() -> None:
    experience = known(("a", "b", 1.0, 1.0), ("a", "c", 0.95, 0.5), ("b", "c", 0.95, 0.5))
    assert choose_pairs("ab", experience, RULES, lambda one, two: False) == ()
    (pair,) = choose_pairs("abc", experience, RULES, lambda one, two: {one, two} != {0, 1})
    assert {pair.foreground, pair.guest} != {0, 1}


def test_an_untried_pair_is_tried_and_a_disappointing_one_only_once() -> None:
    (trial,) = choose_pairs("ab", Experience(gpu_model="V100"), RULES)
    assert not trial.measured
    assert trial.foreground_worst < trial.foreground_speed
    assert choose_pairs("ab", known(("a", "b", 0.6, 0.6)), RULES) == ()
    assert choose_pairs("ab", Experience(gpu_model="V100"), RULES, explore=False) == ()


def test_a_pair_that_could_not_run_is_not_put_together() -> None:
    assert choose_pairs("ab", known(("a", "b", 1.0, 0.0)), RULES) == ()


def test_parted_couples_stay_apart() -> None:
    experience = part(known(("a", "b", 1.0, 1.0)), "b", "a")
    assert choose_pairs("ab", experience, RULES) == ()


def test_what_was_seen_of_others_moves_the_expectation() -> None:
    rude = known(("rude", "b", 0.9, 0.4), ("rude", "c", 0.9, 0.4), ("b", "c", 0.95, 0.95))
    beside_rude, _, measured = expected_speeds("d", "rude", rude, RULES)
    beside_b, _, _ = expected_speeds("d", "b", rude, RULES)
    assert not measured
    assert beside_rude < RULES.prior < beside_b


def test_a_measured_pair_is_expected_to_do_what_it_did_in_either_order() -> None:
    experience = known(("a", "b", 0.9, 0.5))
    assert expected_speeds("a", "b", experience, RULES) == (0.9, 0.5, True)
    assert expected_speeds("b", "a", experience, RULES) == (0.5, 0.9, True)


def test_a_job_beside_its_own_like_has_two_speeds() -> None:
    assert expected_speeds("a", "a", known(("a", "a", 0.9, 0.5)), RULES) == (0.9, 0.5, True)


def test_windows_of_a_known_couple_are_averaged_by_their_number() -> None:
    experience = known(("a", "b", 1.0, 0.4))
    more = learn(experience, Trial(first="b", second="a", first_speed=0.8, second_speed=0.7, windows=3))
    trial = more.trials[couple_of("b", "a")]
    assert trial.first_speed == pytest.approx((1.0 + 3 * 0.7) / 4)
    assert trial.second_speed == pytest.approx((0.4 + 3 * 0.8) / 4)
    assert trial.windows == 4


@pytest.mark.parametrize(
    ("windows", "undo"),
    [
        ((0.8, 0.8, 0.8), True),
        ((1.0, 0.8, 0.8, 0.89), True),
        ((0.8, 0.8), False),
        ((0.8, 0.95, 0.8), False),
        ((0.8, 0.8, 0.9), False),
        ((0.8, None, 0.8), False),
        ((0.8, 0.8, 0.8, None), False),
        ((), False),
    ],
)
def test_three_slow_windows_in_a_row_undo_a_pair_and_an_unseen_one_never_does(
    windows: tuple[float | None, ...], undo: bool
) -> None:
    assert must_undo(windows, RULES) is undo
