"""When jobs end: reports first, then the site's own past, and Gott where there is none."""

from itertools import pairwise
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.planner.run_lengths import TYPICAL_S, RunLength, RunLengths
from advisor.state.model import Job, Phase, Use
from collector.model import JobKind
from tests.advisor.policies.scene import HOUR_MS, NOW_MS, cluster, job, reports

HOUR_S = 3600
NOTHING = RunLengths.of()


def young(hours: float = 1.0, **changes: object) -> Job:
    return job("young", started_ms=NOW_MS - round(hours * HOUR_MS), **changes)


def ended(known: RunLengths, one: Job, at_s: float) -> float:
    state = cluster([(one, tuple(f"g{at}" for at in range(one.min_gpus)))])
    (chance,) = known.ended_by(state, one, [at_s])
    return chance


def past(hours: float, jobs: int, *, gpus: int = 1, open: bool = False) -> RunLength:
    return RunLength(kind=JobKind.BATCH, gpus=gpus, length_s=hours * HOUR_S, open=open, jobs=jobs)


def test_a_job_ends_when_it_says_so_and_else_as_likely_as_not_after_as_long_again() -> None:
    told, ran = job("told", profile=reports(90)), job("ran-ten-hours")
    limited, unknown = job("by-its-limit", limit_s=10.5 * HOUR_S), job("nobody-knows", started_ms=None)
    assert [ended(NOTHING, told, at_s) for at_s in (0, 89, 90)] == [0, 0, 1]
    halves = [ended(NOTHING, ran, at_s * HOUR_S) for at_s in (0, 10.5, 31.5)]
    assert halves == pytest.approx([0, 0.5, 0.75])
    assert [ended(NOTHING, limited, at_s) for at_s in (0, HOUR_S / 2)] == [0, 1]
    assert ended(NOTHING, unknown, 1e9) == 0


def test_the_sites_own_past_is_believed_the_more_the_more_of_it_there_is() -> None:
    chances = [ended(RunLengths.of([past(2, jobs)]), young(), 1.2 * HOUR_S) for jobs in (0, 5, 50, 5000)]
    assert all(low < high for low, high in pairwise(chances))
    assert chances[0] == pytest.approx(ended(NOTHING, young(), 1.2 * HOUR_S)) and chances[-1] > 0.8
    assert ended(RunLengths.of([past(2, 5000)]), young(), 0.8 * HOUR_S) < 0.01, "none of them ended so early"


def test_who_still_runs_has_not_ended_so_far() -> None:
    both = [past(2, 30, open=True), past(6, 30)]
    assert ended(RunLengths.of(both), young(), 3 * HOUR_S) < 0.2
    assert ended(RunLengths.of([past(2, 30), past(6, 30)]), young(), 3 * HOUR_S) == pytest.approx(
        0.5, abs=0.1
    )


def test_half_of_those_that_got_as_old_ended_by_then() -> None:
    known = RunLengths.of([past(0.3, 9000), past(2, 500), past(8, 500)])
    assert ended(known, young(), 2 * HOUR_S) == pytest.approx(0.4, abs=0.12), "an hour old: 500 of 1,000"


def test_jobs_of_another_kind_do_not_count_and_of_another_size_little() -> None:
    notebook = RunLength(kind=JobKind.INTERACTIVE, gpus=1, length_s=2 * HOUR_S, jobs=500)
    assert ended(RunLengths.of([notebook]), young(), HOUR_S) == ended(NOTHING, young(), HOUR_S)
    gang = young(min_gpus=8, max_gpus=8)
    of_one, of_eight = past(2, 500), past(30, 500, gpus=8)
    assert ended(RunLengths.of([of_one]), gang, 2 * HOUR_S) > 0.9, "nothing else is known"
    assert ended(RunLengths.of([of_one, of_eight]), gang, 2 * HOUR_S) < 0.1


def test_beyond_the_oldest_that_was_seen_it_is_gotts_again() -> None:
    known = RunLengths.of([past(2, 500)])
    month = young(24 * 60)
    assert ended(known, month, 24 * 60 * HOUR_S) == pytest.approx(0.5, abs=0.01)


runs = st.builds(
    RunLength,
    kind=st.just(JobKind.BATCH),
    gpus=st.sampled_from([1, 2, 8]),
    length_s=st.floats(1, 1e8),
    open=st.booleans(),
    jobs=st.integers(1, 100),
)


@given(st.lists(runs, max_size=20), st.floats(0, 2000), st.lists(st.floats(0, 1e7), min_size=2, max_size=5))
def test_chances_are_chances_and_never_fall(known: list[RunLength], hours: float, times: list[float]) -> None:
    one, endings = young(hours), RunLengths.of(known)
    chances = [ended(endings, one, at_s) for at_s in sorted(times)]
    assert all(0 <= chance <= 1 for chance in chances)
    assert all(low <= high + 1e-12 for low, high in pairwise(chances))
    lasting = endings.lasts_after(one, sorted(times))
    assert all(0 <= low <= high + 1e-12 <= 1 + 1e-9 for high, low in pairwise(lasting))


def test_two_run_until_the_first_of_them_ends() -> None:
    told = [job(name, profile=reports(steps)) for name, steps in (("a", 600.0), ("b", 6000.0))]
    guessed = job("c", started_ms=NOW_MS - HOUR_MS)
    state = cluster([(one, (f"g{at}",)) for at, one in enumerate((*told, guessed))])
    assert NOTHING.all_run_s(state, told, 4 * HOUR_S) == pytest.approx(600)
    assert NOTHING.all_run_s(state, told[1:], 1000) == pytest.approx(1000)
    age_s = TYPICAL_S + HOUR_S
    alone = age_s * log((age_s + 4 * HOUR_S) / age_s)
    assert NOTHING.all_run_s(state, (guessed,), 4 * HOUR_S) == pytest.approx(alone, rel=0.01)
    assert NOTHING.all_run_s(state, (told[1], guessed), 4 * HOUR_S) == pytest.approx(
        age_s * log((age_s + 6000) / age_s), rel=0.01
    )


def test_one_that_just_began_is_taken_to_run_half_an_hour_as_likely_as_not() -> None:
    waiting = job("new", phase=Phase.PENDING, started_ms=None, use=Use.UNKNOWN)
    assert NOTHING.lasts_after(waiting, [TYPICAL_S]) == pytest.approx([0.5])
