"""The replay of a recorded past: counted on paper, and the error bar that it earns."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from advisor.jobs.slowdown_watchdog import Pair
from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import IdleStretch, PastJob, Price
from advisor.state.model import Job
from advisor.whatif.estimate import Foreseen, Given, error_of
from advisor.whatif.history import Past
from advisor.whatif.idle_times import backtest, pause_s
from advisor.whatif.replay import WhatIf, everybody, what_if
from advisor.whatif.shared_gpus import backtest_pairs
from advisor.whatif.smaller_jobs import backtest_memory, backtest_sizes
from collector.model import Basis, JobId, JobKind
from tests.advisor.policies.scene import GIB, H100, HOUR_MS, MINUTE_MS, NOW_MS, job, use

RULES = PlannerConfig()
DAY_MS = 24 * HOUR_MS


def past(name: str, *, hours: float = 24, gpus: int = 1, **changes: object) -> PastJob:
    """A job of the last hours that used a tenth of its GPUs."""
    made = PastJob(
        job=job(name, min_gpus=gpus, max_gpus=gpus),
        gpus=gpus,
        model=H100,
        memory_total_bytes=80 * GIB,
        from_ms=NOW_MS - round(hours * HOUR_MS),
        to_ms=NOW_MS,
        use=use(name, hours=hours, held_gpu_hours=hours * gpus, gpus_used=gpus),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def idle(name: str, minutes: float, *, day: int = 0, gpus: float = 1, open: bool = False) -> IdleStretch:
    begin = NOW_MS - 20 * DAY_MS + day * DAY_MS
    return IdleStretch(
        job=JobId(name),
        user="ann",
        kind=JobKind.BATCH,
        gpus=gpus,
        from_ms=begin,
        to_ms=begin + round(minutes * MINUTE_MS),
        open=open,
    )


def replay(
    stretches: Sequence[IdleStretch],
    jobs: Sequence[PastJob],
    allowed: Callable[[Job], bool] = everybody,
    **more: Any,
) -> WhatIf:
    return what_if(Past(stretches=stretches, jobs=jobs, **more), RULES, allowed=allowed)


def row(found: WhatIf, action: str) -> Given:
    return next(each for each in found.given if each.action == action)


def busy(name: str, **changes: object) -> PastJob:
    """One that fits what it has."""
    made = past(name, **changes)
    return replace(made, use=replace(made.use, utilization_p95_ratio=0.9, memory_peak_bytes=70 * GIB))


def test_what_lies_past_each_rung_is_given_back() -> None:
    stretches = [idle("a", 300, gpus=2), idle("a", 90, day=1), idle("b", 30, day=2)]
    found = replay(stretches, [busy("a"), busy("b")])
    told, paused = row(found, "tell"), row(found, "pause")
    assert told.gpu_hours == pytest.approx(2 * 4 + 0.5)
    assert (told.jobs, told.times, told.disturbed) == (1, 2, 0)
    assert paused.gpu_hours == pytest.approx(2 * (3 - RULES.resume_s / 3600))
    assert (paused.jobs, paused.times, paused.disturbed) == (1, 1, 1)


def test_a_job_that_did_not_consent_is_told_and_not_paused() -> None:
    found = replay([idle("a", 300)], [busy("a")], allowed=lambda job: False)
    assert row(found, "pause").gpu_hours == 0
    assert row(found, "tell").gpu_hours == pytest.approx(4)


def test_inference_is_never_paused() -> None:
    serving = replace(idle("a", 300), kind=JobKind.INFERENCE)
    found = replay([serving], [busy("a")])
    assert row(found, "pause").gpu_hours == 0


def test_nobody_is_paused_before_the_grace_is_over() -> None:
    hasty = PlannerConfig(tell_batch_s=3600, pause_batch_s=3600, grace_s=900)
    assert pause_s(JobKind.BATCH, hasty) == 4500


def test_money_is_hours_times_price() -> None:
    found = replay([idle("a", 300)], [busy("a")], prices={H100: Price(per_gpu_hour=3, currency="EUR")})
    assert row(found, "tell").money == pytest.approx(12)
    assert row(replay([idle("a", 300)], [busy("a")]), "tell").money is None


def test_small_jobs_are_sized_and_paired() -> None:
    jobs = [past("a"), past("b"), busy("c")]
    found = replay([], jobs)
    assert row(found, "right-size").jobs == 2
    assert row(found, "right-size").gpu_hours == pytest.approx(2 * 24 * (1 - 0.2), rel=0.1)
    packed = row(found, "pack")
    assert (packed.jobs, packed.times) == (2, 1)
    assert 0 < packed.gpu_hours <= 24


def test_a_job_with_peaks_is_promised_no_more_than_they_leave() -> None:
    """57 minutes of an hour at 14%, three at 80%: three tenths, so 24 * 0.7 h; without peaks two tenths.

    A later job with such peaks does not allow what one without them was advised.
    """
    peaks = tuple((57 * max(0.0, 0.14 - at / 20) + 3 * (0.8 - at / 20)) / 60 for at in range(1, 17))
    flat = past("a")
    peaked = replace(flat, use=replace(flat.use, excess_ratios=(*peaks, 0.0, 0.0, 0.0)))
    given = [row(replay([], [each]), "right-size").gpu_hours for each in (flat, peaked)]
    assert given[1] == pytest.approx(24 * 0.7) and given[0] > 24 * 0.79
    (foreseen,) = backtest_sizes([flat], [peaked], {}, RULES)
    assert (foreseen.expected_s, foreseen.came_s) == (pytest.approx(given[0] * 3600), 0.0)


def test_jobs_that_never_met_are_not_paired() -> None:
    early = past("a", from_ms=NOW_MS - 48 * HOUR_MS, to_ms=NOW_MS - 30 * HOUR_MS)
    assert row(replay([], [early, past("b")]), "pack").gpu_hours == 0


def test_strangers_are_not_paired() -> None:
    other = past("b")
    stranger = replace(other, job=replace(other.job, user="bob"))
    assert row(replay([], [past("a"), stranger]), "pack").gpu_hours == 0


def test_jobs_known_by_an_upper_bound_only_are_not_paired() -> None:
    blunt = [replace(p, use=replace(p.use, rung=Basis.GPU_UTILIZATION)) for p in (past("a"), past("b"))]
    assert row(replay([], blunt), "pack").gpu_hours == 0


def test_backtest_knows_only_what_had_been_recorded_by_then() -> None:
    habit = [idle("a", 180, day=day) for day in range(10)]
    cases = backtest(habit, RULES)
    assert len(cases) < 10, "the first days had nothing to go by"
    assert all(case.expected_s == pytest.approx(2 * 3600, rel=0.01) for case in cases)
    assert all(case.came_s == pytest.approx(2 * 3600) for case in cases)
    broken = [*habit[:-1], idle("a", 70, day=9)]
    assert backtest(broken, RULES)[-1].expected_s == pytest.approx(2 * 3600, rel=0.01)
    assert backtest(broken, RULES)[-1].came_s == pytest.approx(600)


def test_times_cut_short_by_the_end_of_the_records_are_no_cases() -> None:
    habit = [idle("a", 180, day=day) for day in range(8)]
    cut = idle("a", 90, day=9, open=True)
    assert len(backtest([*habit, cut], RULES)) == len(backtest(habit, RULES))


def test_error_bar_is_of_single_cases_and_of_the_total() -> None:
    cases = (Foreseen(expected_s=1200, came_s=1000), Foreseen(expected_s=900, came_s=1000))
    earned = error_of(cases)
    assert earned.cases == 2
    assert earned.median_error == pytest.approx(0.15)
    assert earned.total_error == pytest.approx(0.05)
    assert error_of(()).median_error is None


def test_rows_carry_the_bar_that_was_earned_and_none_that_was_not() -> None:
    habit = [idle("a", 180 + 20 * day, day=day) for day in range(10)]
    found = replay(habit, [busy("a")])
    told = row(found, "tell")
    assert told.low is not None and told.high is not None
    assert told.low <= told.gpu_hours <= told.high
    assert row(found, "right-size").low is None
    lone = replay([idle("a", 300)], [busy("a")])
    assert row(lone, "tell").low is None


def test_a_size_is_held_against_what_later_jobs_of_its_kind_allow() -> None:
    earlier = [past("a"), past("b")]
    alike, grown = past("a", hours=12), busy("b")
    cases = backtest_sizes(earlier, [alike, grown], {}, RULES)
    expected = 0.8 * 3600
    assert [case.expected_s for case in cases] == [
        pytest.approx(12 * expected, rel=0.1),
        pytest.approx(24 * expected, rel=0.1),
    ]
    assert cases[0].came_s == pytest.approx(cases[0].expected_s), "it needs no more than before"
    assert cases[1].came_s == 0, "it fills its GPU now"


def test_the_next_job_of_the_same_owner_and_name_is_of_the_same_kind() -> None:
    first, following = (past(name, job=replace(job(name), name="train")) for name in ("a", "z"))
    (case,) = backtest_sizes([first], [following, past("other"), past("a", gpus=2)], {}, RULES)
    assert case.came_s == pytest.approx(case.expected_s)
    assert backtest_sizes([first], [replace(following, use=use("z", hours=2))], {}, RULES) == (), "too short"
    assert backtest_sizes([], [following], {}, RULES) == ()


def hog(name: str, needed: int, held: int = 70, **changes: object) -> PastJob:
    """One that took most of its GPU, needed less by its own word, and left half of its compute idle."""
    made = past(name, **changes)
    taken = replace(made.job, memory_held_bytes=held * GIB, framework="TensorFlow")
    use = replace(made.use, memory_needed_bytes=needed * GIB, utilization_p95_ratio=0.5)
    return replace(made, job=taken, use=use)


def test_memory_that_was_taken_and_not_needed_is_given_back_with_the_compute_beside_it() -> None:
    found = row(replay([], [hog("a", 10), busy("b")]), "cap-memory")
    assert (found.jobs, found.low) == (1, None)
    assert found.gpu_hours == pytest.approx(24 * 0.5), "59.5 of 80 GiB, but half of its compute"
    narrow = replay([], [hog("a", 40)])
    freed = 70 - 40 - RULES.context_bytes / GIB
    assert row(narrow, "cap-memory").gpu_hours == pytest.approx(24 * freed / 80)
    silent = replace(hog("a", 10), use=replace(hog("a", 10).use, memory_needed_bytes=None))
    assert row(replay([], [silent]), "cap-memory").gpu_hours == 0, "only the job can say what it needs"


def test_a_cap_is_held_against_what_later_jobs_of_its_kind_needed() -> None:
    cases = backtest_memory([hog("a", 10)], [hog("a", 10), hog("a", 30), past("a")], {}, RULES)
    assert [case.expected_s for case in cases] == [pytest.approx(12 * 3600)] * 2, "one said nothing"
    assert cases[0].came_s == pytest.approx(cases[0].expected_s)
    assert cases[1].came_s == 0, "it would have run into the cap"


def pair(first: float, second: float, *, undone: bool = False, expected: float = 0.6) -> Pair:
    return Pair(
        host=JobId(f"{first}"),
        guest=JobId(f"{second}"),
        host_profile="ann/a",
        guest_profile="ann/b",
        gpu_model=H100,
        expected_gain=expected,
        speeds=(first, second),
        windows=3,
        undone=undone,
    )


def test_pairs_are_held_against_what_they_reached_and_parted_ones_gave_nothing() -> None:
    untried = replace(pair(1.0, 1.0), speeds=None)
    cases = backtest_pairs([pair(0.95, 0.75), pair(0.8, 0.9, undone=True), untried])
    assert [(case.expected_s, case.came_s) for case in cases] == [
        (pytest.approx(0.6 * 3600), pytest.approx(0.7 * 3600)),
        (pytest.approx(0.6 * 3600), 0.0),
    ]


def test_each_class_carries_the_bar_that_its_own_kind_of_expectation_earned() -> None:
    jobs = [past("a"), past("b")]
    found = replay(
        [],
        jobs,
        earlier=jobs,
        later=[past("a"), busy("b")],
        pairs=[pair(0.95, 0.65), pair(0.9, 0.9, undone=True)],
    )
    sized, packed = row(found, "right-size"), row(found, "pack")
    assert (sized.earned.cases, packed.earned.cases) == (2, 2)
    assert sized.earned.total_error == pytest.approx(1.0), "one of two came to nothing"
    assert (sized.low, sized.high) == (0.0, pytest.approx(2 * sized.gpu_hours))
    assert packed.earned.total_error == pytest.approx(1.0)
    bare = replay([], jobs)
    assert row(bare, "right-size").low is None and row(bare, "pack").earned.cases == 0


def test_what_was_learnt_of_pairs_is_what_a_replay_packs_by() -> None:
    jobs = [past(name, job=replace(job(name), user="ann", name=name)) for name in ("a", "b")]
    apart = replace(pair(0.5, 0.5, undone=True))
    assert row(replay([], jobs), "pack").times == 1
    assert row(replay([], jobs, pairs=[apart]), "pack").times == 0
    liked = pair(1.0, 0.9)
    assert row(replay([], jobs, pairs=[liked]), "pack").gpu_hours == pytest.approx(24 * 0.9)
