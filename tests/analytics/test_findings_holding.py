"""Held and not used: who is told so, who is left in peace, and when nobody can say."""

from typing import Any

import pytest

from analytics.findings import judge
from analytics.model import Finding, FindingKind, GpuPast, Rhythm, Verdict
from analytics.thresholds import Thresholds
from collector.model import Basis, JobKind
from tests.analytics.pasts import (
    BINS,
    GIB,
    HOUR_MS,
    MINUTE_MS,
    NOON_MS,
    TICK_MS,
    bins,
    claim,
    fresh,
    minutes_before_noon,
    past,
    then,
)

T = Thresholds()


def judged(gpu: GpuPast, now_ms: int = NOON_MS, thresholds: Thresholds = T) -> Verdict:
    return judge(gpu, now_ms, thresholds, TICK_MS)


def kinds(verdict: Verdict) -> list[FindingKind]:
    return [finding.kind for finding in verdict.findings]


def only(verdict: Verdict) -> Finding:
    (finding,) = verdict.findings
    return finding


def test_gpu_with_a_still_process_for_an_hour_is_held_idle() -> None:
    finding = only(judged(past(claim())))
    assert finding.kind is FindingKind.HELD_IDLE
    assert finding.since_ms == minutes_before_noon(120)
    assert (finding.window_from_ms, finding.window_to_ms) == (minutes_before_noon(60), NOON_MS)
    assert finding.coverage == 1.0
    assert finding.wasted_gpu_hours == 2.0
    assert {e.name: e.value for e in finding.evidence} | {"idle_bins": 120, "valid_bins": 120} == {
        e.name: e.value for e in finding.evidence
    }
    assert finding.sentence == (
        "amara (job sweep) has held GPU 3 of node1 since 2026-10-28 02:00 UTC, and its processes have done "
        "nothing on it for 2 h (2.0 GPU-hours), keeping 20 GiB of its memory: 0% busy over the "
        "last 1 h (SM active)."
    )


@pytest.mark.parametrize(
    ("blips", "level", "idle"), [(0, 0.0, True), (6, 0.01, True), (1, 0.011, False), (1, 0.6, False)]
)
def test_one_busy_bin_in_the_window_is_work_and_noise_is_none(blips: int, level: float, idle: bool) -> None:
    # Once 95% of the bins and a mean of 1% were enough: six busy bins an hour are a sparse server at work.
    levels = then((BINS - 40, 0.0), (blips, level), (40 - blips, 0.0))
    gpu = past(claim(), bins=bins(utilization=levels))
    assert kinds(judged(gpu)) == ([FindingKind.HELD_IDLE] if idle else [])


def test_a_sentence_names_the_measure_of_its_figure() -> None:
    # 1% of GPU utilization is noise; what stands beside "SM active" is what the SMs did.
    gpu = past(claim(), bins=bins(utilization=(0.004, 0.0, 0.0, 0.0) * (BINS // 4), busiest=0.01))
    finding = only(judged(gpu))
    assert "0.1% busy over the last 1 h (SM active)" in finding.sentence
    assert {e.name: e.value for e in finding.evidence}["utilization_max_ratio"] == 0.01


def silent(p90_h: float, active_h: float, **changes: Any) -> GpuPast:
    """A job of 20 hours whose own silences are so long, and which was last active so long ago."""
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(active_h * 60),
        known_since_ms=round(active_h * HOUR_MS),
        silence_p90_ms=round(p90_h * HOUR_MS),
    )
    return past(claim(20.0, rhythm=rhythm, **changes))


@pytest.mark.parametrize(
    ("p90_h", "active_h", "kind", "idle"),
    [
        (3.0, 2.9, JobKind.BATCH, False),  # its nights are as long as that: it is itself
        (3.0, 3.0, JobKind.BATCH, False),  # nor is it unlike itself where one takes a tenth longer
        (3.0, 3.3, JobKind.BATCH, False),
        (3.0, 3.35, JobKind.BATCH, True),
        (3.0, 2.9, JobKind.INFERENCE, False),
        (3.0, 2.9, JobKind.INTERACTIVE, True),  # a terminal keeps the ladder's clock
        (0.5, 2.1, JobKind.BATCH, True),  # never shorter than the ladder's
        (11.0, 5.9, JobKind.BATCH, False),
        (11.0, 6.0, JobKind.BATCH, True),  # and never longer than six hours
    ],
)
def test_window_grows_with_the_holders_own_silences(
    p90_h: float, active_h: float, kind: JobKind, idle: bool
) -> None:
    assert kinds(judged(silent(p90_h, active_h, kind=kind))) == ([FindingKind.HELD_IDLE] if idle else [])


@pytest.mark.parametrize(
    ("absence_min", "active_min", "kind", "empty"),
    [
        (45, 44, JobKind.BATCH, False),  # its process leaves for as long between two spells of work
        (45, 51, JobKind.BATCH, False),
        (45, 52, JobKind.BATCH, True),
        (45, 44, JobKind.INTERACTIVE, True),  # a terminal keeps the clock
        (150, 140, JobKind.INFERENCE, False),
        (500, 361, JobKind.BATCH, True),  # and never longer than six hours
        (None, 31, JobKind.BATCH, True),  # its process was there in each silence before
        (None, 59, JobKind.INFERENCE, False),  # a server may free its model and stay in use: the idle clock
        (None, 60, JobKind.INFERENCE, True),
        (20, 59, JobKind.INFERENCE, False),
    ],
)
def test_empty_window_grows_with_the_holders_own_absences(
    absence_min: int | None, active_min: int, kind: JobKind, empty: bool
) -> None:
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(active_min),
        known_since_ms=active_min * MINUTE_MS,
        silence_p90_ms=20 * HOUR_MS,
        absence_p90_ms=None if absence_min is None else absence_min * MINUTE_MS,
    )
    quiet = min(BINS, 2 * active_min)
    gpu = past(
        claim(20.0, kind=kind, rhythm=rhythm, busy_until_ms=minutes_before_noon(active_min)),
        bins=bins(
            utilization=then((BINS - quiet, 0.5), (quiet, 0.0)),
            processes=then((BINS - quiet, 1), (quiet, 0)),
            memory_bytes=then((BINS - quiet, 20 << 30), (quiet, 0)),
        ),
    )
    assert kinds(judged(gpu)) == ([FindingKind.ALLOCATED_EMPTY] if empty else [])


@pytest.mark.parametrize(
    ("left_min", "quiet_min", "kind", "absence_min", "said"),
    [
        (15, 75, JobKind.INTERACTIVE, None, FindingKind.HELD_IDLE),
        (15, 59, JobKind.INTERACTIVE, None, None),
        (30, 75, JobKind.INTERACTIVE, None, FindingKind.ALLOCATED_EMPTY),
        (15, 75, JobKind.BATCH, 90, None),  # quiet for less than its own absences
        (15, 102, JobKind.BATCH, 90, FindingKind.HELD_IDLE),
    ],
)
def test_who_leaves_an_idle_gpu_does_not_start_a_new_clock(
    left_min: int, quiet_min: int, kind: JobKind, absence_min: int | None, said: FindingKind | None
) -> None:
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(quiet_min),
        known_since_ms=quiet_min * MINUTE_MS,
        absence_p90_ms=None if absence_min is None else absence_min * MINUTE_MS,
    )
    held = then((BINS - 2 * left_min, 1), (2 * left_min, 0))
    gpu = past(
        claim(20.0, kind=kind, rhythm=rhythm, busy_until_ms=minutes_before_noon(quiet_min)),
        bins=bins(
            utilization=then((BINS - 2 * quiet_min, 0.5), (2 * quiet_min, 0.0)),
            processes=held,
            memory_bytes=tuple(count * 20 * GIB for count in held),
        ),
    )
    assert kinds(judged(gpu)) == ([] if said is None else [said])
    if said is FindingKind.HELD_IDLE:
        sentence = only(judged(gpu)).sentence
        assert "nothing has run on it for" in sentence and sentence.endswith("; its processes have left.")
        assert "keeping" not in sentence


def test_long_window_of_which_too_little_was_measured_is_unknown() -> None:
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(300), known_since_ms=4 * HOUR_MS, silence_p90_ms=4 * HOUR_MS
    )
    verdict = judged(past(claim(20.0, rhythm=rhythm)))
    assert verdict.findings == ()
    assert verdict.unknown[0].reason == "only 80.5% of the last 4 h 58 min were measured"


def test_gpu_that_is_busy_now_is_not_idle_however_long_it_was() -> None:
    gpu = past(claim(), bins=bins(utilization=then((BINS - 1, 0.0), (1, 0.02))))
    assert judged(gpu) == Verdict()


def test_idle_on_the_best_rung_alone_is_not_enough() -> None:
    gpu = past(claim(), bins=bins(utilization=0.0, busiest=0.3))
    assert FindingKind.HELD_IDLE not in kinds(judged(gpu))


def test_lowest_rung_is_called_an_upper_bound() -> None:
    finding = only(judged(past(claim(), rung=Basis.GPU_UTILIZATION)))
    assert "upper bound" in finding.sentence
    assert finding.rung is Basis.GPU_UTILIZATION


def test_held_for_less_than_the_window_is_not_judged() -> None:
    gpu = past(claim(0.9, kind=JobKind.INTERACTIVE))
    assert judged(gpu).findings == ()


def test_gpu_with_no_process_for_half_an_hour_is_allocated_empty() -> None:
    empty = bins(processes=then((BINS - 60, 1), (60, 0)), memory_bytes=0)
    finding = only(judged(past(claim(), bins=empty)))
    assert finding.kind is FindingKind.ALLOCATED_EMPTY
    assert finding.window_from_ms == minutes_before_noon(30)
    assert "no process has used it for 2 h" in finding.sentence


def test_gpu_with_no_process_for_ten_minutes_is_left_alone() -> None:
    # It worked until 50 minutes ago: less than any clock, with its process or without.
    quiet = then((BINS - 100, 0.5), (100, 0.0))
    empty = bins(utilization=quiet, processes=then((BINS - 20, 1), (20, 0)))
    assert judged(past(claim(busy_until_ms=minutes_before_noon(50)), bins=empty)) == Verdict()


def test_where_processes_are_not_counted_memory_betrays_them() -> None:
    uncounted = bins(processes=None, memory_bytes=4 * GIB)
    assert kinds(judged(past(claim(), bins=uncounted))) == [FindingKind.HELD_IDLE]
    freed = bins(processes=None, memory_bytes=GIB // 2)
    empty = past(claim(), bins=freed, memory_free_bytes=GIB // 2)
    assert kinds(judged(empty)) == [FindingKind.ALLOCATED_EMPTY]


@pytest.mark.parametrize("kind", [JobKind.BATCH, JobKind.INFERENCE, None])
@pytest.mark.parametrize("processes", [0, 1])
def test_job_that_never_computed_is_starting_up_not_idle(kind: JobKind | None, processes: int) -> None:
    verdict = judged(past(fresh(1.9, kind=kind), bins=bins(processes=processes)))
    assert verdict.findings == ()
    (starting,) = verdict.starting
    assert starting.until_ms == starting.from_ms + 120 * MINUTE_MS


@pytest.mark.parametrize("hours", [2.1, 5.0, 5.9])
@pytest.mark.parametrize("processes", [0, 1])
def test_job_that_never_computed_is_excused_for_six_hours(hours: float, processes: int) -> None:
    finding = only(judged(past(fresh(hours), bins=bins(processes=processes))))
    assert finding.kind is FindingKind.NOT_STARTED
    assert finding.wasted_gpu_hours is None
    assert "has not computed on it yet" in finding.sentence


@pytest.mark.parametrize(("starts", "kind"), [(1, FindingKind.SLEEPING_BATCH), (60, FindingKind.CRASH_LOOP)])
def test_nothing_excuses_for_ever(starts: int, kind: FindingKind) -> None:
    # Once it "may still be preparing" after 18 h; a new process each six minutes was starting up for ever.
    job = fresh(
        18.0, processes_started=starts, process_started_ms=minutes_before_noon(3), idle_gpu_hours=18.0
    )
    finding = only(judged(past(job)))
    assert finding.kind is kind
    assert finding.wasted_gpu_hours == pytest.approx(17.5)  # from 30 min after its start
    assert "18 h (17.5 GPU-hours)" in finding.sentence
    assert "preparing" not in finding.sentence


@pytest.mark.parametrize("kind", [JobKind.INTERACTIVE, JobKind.INFERENCE])
def test_what_is_no_batch_job_is_idle_once_its_excuse_is_over(kind: JobKind) -> None:
    assert kinds(judged(past(fresh(6.1, kind=kind)))) == [FindingKind.HELD_IDLE]


def test_job_that_crashes_after_it_computed_is_excused_for_six_hours_at_most() -> None:
    looping = claim(12.0, busy_until_ms=minutes_before_noon(361), process_started_ms=minutes_before_noon(3))
    assert kinds(judged(past(looping))) == [FindingKind.HELD_IDLE]


@pytest.mark.parametrize("kind", [JobKind.BATCH, JobKind.INFERENCE, None])
def test_loop_is_named_between_two_of_its_tries_too(kind: JobKind | None) -> None:
    tries = then((BINS - 10, 1), (10, 0))
    looping = fresh(9.0, kind=kind, processes_started=60, process_started_ms=minutes_before_noon(6))
    assert kinds(judged(past(looping, bins=bins(processes=tries)))) == [FindingKind.CRASH_LOOP]


def test_loop_is_told_by_a_gpu_that_is_taken_again_and_again_where_no_process_is_seen() -> None:
    looping = fresh(9.0, kind=JobKind.INFERENCE, process_arrivals=58, idle_gpu_hours=9.0)
    finding = only(judged(past(looping)))
    assert finding.kind is FindingKind.CRASH_LOOP
    assert "a process came to the GPU 58 times within the last 6 h" in finding.sentence


def test_job_from_before_the_records_is_not_said_to_be_new() -> None:
    job = fresh(5.0, idle_gpu_hours=5.0)
    (finding,) = judged(past(job, installed_from_ms=minutes_before_noon(300))).findings
    assert finding.kind is FindingKind.NOT_STARTED
    assert "since the records begin, for 5 h; what it did before" in finding.sentence


@pytest.mark.parametrize(
    ("hours", "known_h", "said"),
    [
        (1.0, 1.0, "done nothing on it in the measured 1 h of the last 21 h (1.0 GPU-hours), keeping"),
        (19.0, 19.0, "done nothing on it in the measured 19 h of the last 21 h (19.0 GPU-hours)"),
        (20.0, 20.0, "done nothing on it for 21 h (20.0 GPU-hours)"),  # 95% of it, as everywhere
    ],
)
def test_time_that_nobody_measured_is_not_said_to_be_idle(hours: float, known_h: float, said: str) -> None:
    # It worked until 21 hours ago; then the service was away for a while, and it may have worked meanwhile.
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(21 * 60),
        known_since_ms=round(known_h * HOUR_MS),
        silence_p90_ms=None,
    )
    job = claim(24.0, busy_until_ms=minutes_before_noon(21 * 60), idle_gpu_hours=hours, rhythm=rhythm)
    assert said in only(judged(past(job))).sentence


def test_a_blip_while_loading_is_no_computing_yet() -> None:
    levels = then((100, 0.0), (3, 0.4), (BINS - 103, 0.0))
    finding = only(judged(past(fresh(5.0), bins=bins(utilization=levels))))
    assert finding.kind is FindingKind.NOT_STARTED


def test_computing_that_the_history_has_not_seen_yet_counts() -> None:
    levels = then((60, 0.0), (40, 0.5), (BINS - 100, 0.0))
    assert kinds(judged(past(fresh(5.0), bins=bins(utilization=levels)))) == [FindingKind.HELD_IDLE]


@pytest.mark.parametrize(("hours", "told"), [(1.9, False), (2.0, True)])
def test_terminal_that_never_computed_has_two_hours_as_batch_has(hours: float, told: bool) -> None:
    # Once 30 min: who installs an environment in a terminal was called idle before the first step.
    session = fresh(hours, kind=JobKind.INTERACTIVE)
    verdict = judged(past(session))
    assert kinds(verdict) == ([FindingKind.HELD_IDLE] if told else [])
    assert [entry.until_ms for entry in verdict.starting] == (
        [] if told else [session.from_ms + 120 * MINUTE_MS]
    )


def test_restarted_batch_job_has_its_grace_again() -> None:
    restarted = claim(process_started_ms=minutes_before_noon(90))
    assert judged(past(restarted)).findings == ()
    assert judged(past(restarted)).starting[0].until_ms == minutes_before_noon(90) + 120 * MINUTE_MS
    long_ago = claim(process_started_ms=minutes_before_noon(121), busy_until_ms=minutes_before_noon(200))
    assert kinds(judged(past(long_ago))) == [FindingKind.HELD_IDLE]


def test_grace_is_configuration() -> None:
    hasty = Thresholds(start_limit_s=0, grace_s=0)
    assert kinds(judged(past(fresh(1.9)), thresholds=hasty)) == [FindingKind.NOT_STARTED]


def test_on_a_shared_gpu_each_holder_is_told_but_the_one_who_is_starting() -> None:
    first = claim(share=0.5)
    second = fresh(1.5, share=0.5)
    verdict = judged(past(first, second))
    assert [(f.kind, f.holder) for f in verdict.findings] == [(FindingKind.HELD_IDLE, first.holder)]
    assert [entry.holder for entry in verdict.starting] == [second.holder]


def test_on_a_shared_gpu_anothers_work_is_not_taken_for_ones_own() -> None:
    levels = then((60, 0.0), (60, 0.5), (BINS - 120, 0.0))
    gpu = past(claim(share=0.5), fresh(5.0, share=0.5), bins=bins(utilization=levels))
    assert kinds(judged(gpu)) == [FindingKind.HELD_IDLE, FindingKind.NOT_STARTED]


def test_on_a_shared_gpu_nobody_is_said_to_have_never_computed() -> None:
    gpu = past(claim(share=0.5), fresh(9.0, share=0.5))
    assert kinds(judged(gpu)) == [FindingKind.HELD_IDLE, FindingKind.HELD_IDLE]


@pytest.mark.parametrize(
    ("memory", "free", "kind"),
    [
        (700, 100, FindingKind.HELD_IDLE),  # an idle context, or none: nobody can say, and nothing ran
        (700, None, FindingKind.HELD_IDLE),  # never seen free: the lowest memory there was may be a process's
        (700, 640, FindingKind.ALLOCATED_EMPTY),  # no more than this board's own
        (1100, 640, FindingKind.HELD_IDLE),
    ],
)
def test_presence_without_a_count_is_yes_no_or_unknown(
    memory: int, free: int | None, kind: FindingKind
) -> None:
    mib = 1 << 20
    uncounted = bins(processes=None, memory_bytes=memory * mib)
    finding = only(judged(past(claim(), bins=uncounted, memory_free_bytes=free and free * mib)))
    assert finding.kind is kind
    unseen = kind is FindingKind.HELD_IDLE and memory < 1024
    assert ("whether a process sits there cannot be seen" in finding.sentence) is unseen


def test_a_pause_of_small_work_is_no_empty_gpu() -> None:
    # 700 MiB of memory, busy five of seven minutes, nobody counts processes: a busy minute is presence.
    levels = tuple(0.6 if place % 14 < 10 else 0.0 for place in range(BINS - 4)) + (0.0,) * 4
    assert (
        judged(past(claim(), bins=bins(utilization=levels, processes=None, memory_bytes=700 << 20))).findings
        == ()
    )


def test_what_is_said_is_never_less_than_the_window() -> None:
    # An hour stands for its last minute where minutes are gone: "nothing for 1 min" over a window of an hour.
    late = claim(busy_until_ms=minutes_before_noon(1), idle_gpu_hours=0.0)
    finding = only(judged(past(late)))
    assert finding.since_ms == finding.window_from_ms == minutes_before_noon(60)
    assert "for 1 h (1.0 GPU-hours)" in finding.sentence


@pytest.mark.parametrize(("uncovered", "known"), [(6, True), (7, False)])
def test_under_95_percent_cover_the_answer_is_unknown(uncovered: int, known: bool) -> None:
    holes = then((BINS - 100, True), (uncovered, False), (100 - uncovered, True))
    levels = then((BINS - 100, 0.0), (uncovered, None), (100 - uncovered, 0.0))
    verdict = judged(past(claim(), bins=bins(covered=holes, utilization=levels)))
    assert kinds(verdict) == ([FindingKind.HELD_IDLE] if known else [])
    if not known:
        (unknown,) = verdict.unknown
        assert unknown.kinds == (FindingKind.HELD_IDLE,)
        assert unknown.reason == "only 94.1% of the last 1 h were measured"


@pytest.mark.parametrize(("age_ms", "known"), [(20_000, True), (20_001, False)])
def test_sample_older_than_two_ticks_makes_all_unknown(age_ms: int, known: bool) -> None:
    verdict = judged(past(claim(), newest_ms=NOON_MS - age_ms))
    assert bool(verdict.findings) is known
    assert bool(verdict.unknown) is not known


def test_slow_source_is_given_two_of_its_own_widths() -> None:
    slow = past(claim(), newest_ms=NOON_MS - 60_000, newest_width_ms=30_000)
    assert kinds(judged(slow)) == [FindingKind.HELD_IDLE]


def test_never_measured_is_unknown_never_idle() -> None:
    verdict = judged(past(claim(), newest_ms=None, bins=bins(0)))
    assert verdict.findings == ()
    assert verdict.unknown[0].reason == "it was never measured"


def test_process_without_any_utilization_measure_is_unknown() -> None:
    verdict = judged(past(claim(), bins=bins(utilization=None)))
    assert verdict.findings == ()
    assert [entry.reason for entry in verdict.unknown] == ["its utilization is not measured"]


def test_gpu_that_nobody_holds_is_nobodys_fault() -> None:
    assert judged(past(bins=bins(processes=0, memory_bytes=0))) == Verdict()


def test_idle_hours_fall_back_to_the_time_that_was_quiet() -> None:
    finding = only(judged(past(claim(share=0.5, idle_gpu_hours=None))))
    assert finding.wasted_gpu_hours == pytest.approx(1.0)
    assert finding.since_ms == NOON_MS - 2 * HOUR_MS


def test_who_is_read_every_five_minutes_and_has_been_quiet_for_two_hours_is_unknown() -> None:
    # 24 readings: a fifth of use in between would be missed in one case of 200 (0.8^24), 5% in 29 of 100.
    quiet = Rhythm(known_since_ms=2 * HOUR_MS, active_until_ms=NOON_MS - 2 * HOUR_MS)
    verdict = judged(past(claim(rhythm=quiet), newest_width_ms=5 * MINUTE_MS))
    assert kinds(verdict) == []
    (entry,) = [each for each in verdict.unknown if FindingKind.HELD_IDLE in each.kinds]
    assert entry.reason == (
        "it is read every 5 min, and work between two readings is not seen: 60 of them, 5 h, have to show "
        "nothing before it is told idle"
    )


def test_who_is_read_every_five_minutes_and_worked_within_the_hour_is_not_called_unknown() -> None:
    busy = bins(utilization=then((BINS - 60, 0.9), (60, 0.0)))
    verdict = judged(past(claim(), bins=busy, newest_width_ms=5 * MINUTE_MS))
    assert FindingKind.HELD_IDLE not in {kind for entry in verdict.unknown for kind in entry.kinds}


@pytest.mark.parametrize(("held_h", "found"), [(4, []), (10, [FindingKind.HELD_IDLE])])
def test_who_is_read_every_five_minutes_is_idle_after_sixty_readings(
    held_h: int, found: list[FindingKind]
) -> None:
    # 12 readings an hour miss use of a fifth of the time in one hour of 14 (0.8^12), 60 use of 5% (0.95^60)
    whole = Rhythm(known_since_ms=held_h * HOUR_MS)
    holder = claim(from_ms=NOON_MS - held_h * HOUR_MS, rhythm=whole)
    verdict = judged(past(holder, newest_width_ms=5 * MINUTE_MS))
    assert kinds(verdict) == found
    if found:
        said = " It is read every 5 min: work between two readings is not seen."
        assert only(verdict).sentence.endswith(said)


def test_readings_a_minute_apart_have_the_windows_of_others_and_nothing_is_said_of_them() -> None:
    late = MINUTE_MS + 5_000
    still = only(judged(past(claim(), newest_width_ms=late)))
    assert "It is read" not in still.sentence
    holder = claim(from_ms=minutes_before_noon(45), first_used_ms=minutes_before_noon(44))
    empty = past(holder, bins=bins(processes=(0.0,) * BINS, memory_bytes=(0.0,) * BINS), newest_width_ms=late)
    alike = past(holder, bins=bins(processes=(0.0,) * BINS, memory_bytes=(0.0,) * BINS))
    assert kinds(judged(empty)) == kinds(judged(alike)) == [FindingKind.ALLOCATED_EMPTY]
