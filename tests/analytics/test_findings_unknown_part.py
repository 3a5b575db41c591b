"""A job of which a part is not known is told which part, since when, and never to end as a whole."""

from dataclasses import replace
from typing import Any

import pytest

from analytics.findings import judge, judge_jobs
from analytics.findings.unknown_part import with_unknown_parts
from analytics.model import Finding, FindingKind, GpuPast, Rhythm
from analytics.thresholds import Thresholds
from analytics.vocabulary.findings import words_of_kind
from collector.model import GpuUuid, Holder, JobId, JobKind, NodeName
from tests.analytics.pasts import NOON_MS, TICK_MS, bins, claim, minutes_before_noon, past, then, whole_bins

T = Thresholds()
QUIET_MIN = 90


def idle_gpu(node: str, place: int, **changes: Any) -> GpuPast:
    """A GPU of the job that worked until ninety minutes ago."""
    quiet = whole_bins(QUIET_MIN)
    held = claim(8.0, idle_gpu_hours=None, busy_until_ms=minutes_before_noon(QUIET_MIN))
    values = {"bins": bins(utilization=then((240 - quiet, 0.7), (quiet, 0.0)))} | changes
    return past(held, uuid=GpuUuid(f"{node}-{place}"), node=NodeName(node), gpu_index=place, **values)


def silent_gpu(node: str, place: int, minutes: float, **changes: Any) -> GpuPast:
    return idle_gpu(node, place, newest_ms=minutes_before_noon(minutes), **changes)


def said(*pasts: GpuPast) -> list[Finding]:
    verdicts = [judge(each, NOON_MS, T, TICK_MS) for each in pasts]
    found = (*judge_jobs(pasts, verdicts, T), *(each for verdict in verdicts for each in verdict.findings))
    return list(with_unknown_parts(pasts, verdicts, found))


def of_kind(found: list[Finding], kind: FindingKind) -> Finding:
    return next(each for each in found if each.kind is kind)


def remedy(found: Finding, job_kind: str | None = "batch") -> str:
    words = words_of_kind(found.kind)
    assert words is not None
    return words.remedy_for(job_kind, {each.name: each.value for each in found.evidence})


def test_a_node_that_fell_silent_as_the_other_fell_idle_is_named_with_its_last_word() -> None:
    """Node e has said nothing for 90 min, node f has been idle for as long: noon less 90 min is 10:30."""
    found = said(
        idle_gpu("f", 0), idle_gpu("f", 1), silent_gpu("e", 0, QUIET_MIN), silent_gpu("e", 1, QUIET_MIN)
    )
    idle = [each for each in found if each.kind is FindingKind.HELD_IDLE]
    assert len(idle) == 2
    for each in idle:
        assert each.sentence.endswith(
            " What it does on GPU 0 and 1 of e (not seen since 2026-10-28 10:30 UTC) is not known: the "
            "job may be at work."
        )


@pytest.mark.parametrize("job_kind", ["batch", "interactive", "inference", None])
def test_it_is_asked_to_look_first_whatever_its_kind(job_kind: str | None) -> None:
    found = said(idle_gpu("f", 0), silent_gpu("e", 0, QUIET_MIN))
    assert remedy(of_kind(found, FindingKind.HELD_IDLE), job_kind) == (
        "first find out what it does on GPU 0 of e (not seen since 2026-10-28 10:30 UTC); until then give "
        "back its idle GPUs alone, not the job, or keep it with `fallow keep JOB`"
    )


def test_one_of_many_that_was_dark_long_before_the_others_rested() -> None:
    """Ten hours dark beside ninety idle minutes: no loss to wait for, and still not known."""
    found = said(idle_gpu("n", 0), idle_gpu("n", 1), silent_gpu("n", 5, 600, siblings_fresh=True))
    told = of_kind(found, FindingKind.HELD_IDLE)
    assert "GPU 5 of n (not seen since 2026-10-28 02:00 UTC) is not known" in told.sentence
    assert "not the job" in remedy(told)


def test_silences_of_several_beginnings_are_told_apart_and_a_gpu_never_measured_is_said_so() -> None:
    found = said(
        idle_gpu("f", 0), silent_gpu("e", 0, 200), silent_gpu("g", 3, 300), idle_gpu("h", 1, newest_ms=None)
    )
    assert (
        "What it does on GPU 0 of e (not seen since 2026-10-28 08:40 UTC), GPU 3 of g (not seen since "
        "2026-10-28 07:00 UTC) and GPU 1 of h (never measured) is not known"
    ) in of_kind(found, FindingKind.HELD_IDLE).sentence


def test_a_gpu_that_answers_and_cannot_be_judged_counts_as_well() -> None:
    """No utilization for ninety minutes: its samples say nothing of what it does."""
    blank = idle_gpu("f", 1, bins=bins(utilization=then((240, None))))
    told = of_kind(said(idle_gpu("f", 0), blank), FindingKind.HELD_IDLE)
    assert "What it does on GPU 1 of f (its utilization is not measured) is not known" in told.sentence
    assert "not the job" in remedy(told)


@pytest.mark.parametrize(
    "counters",
    [
        {"utilization": 1.0, "power_mw": 75_000},  # kernels without end at the power of an idle board
        {"utilization": 1.0, "processes": 0},
        {"utilization": 0.0, "gpu_utilization": 1.0, "busiest": 1.0},  # with no SM active
        {"utilization": 0.0, "power_mw": 600_000},  # idle at the power of work
    ],
)
def test_a_gpu_whose_counters_contradict_each_other_counts_whichever_way(counters: dict[str, Any]) -> None:
    """An H100 of 700 W that idles at 70: nothing is concluded, so the job may be at work there."""
    doubted = idle_gpu("f", 1, bins=bins(**counters), idle_power_mw=70_000, power_limit_mw=700_000)
    found = said(idle_gpu("f", 0), doubted)
    told = of_kind(found, FindingKind.HELD_IDLE)
    assert "GPU 1 of f (its counters contradict each other) is not known" in told.sentence
    assert "not the job" in remedy(told)
    assert {each.kind for each in found} == {FindingKind.HELD_IDLE, FindingKind.SUSPECT_COUNTERS}
    (entry,) = judge(doubted, NOON_MS, T, TICK_MS).unknown
    assert FindingKind.HELD_IDLE in entry.kinds, "it is in `findings --unknown`"


def test_counters_that_were_at_odds_once_or_on_a_free_gpu_are_no_doubt() -> None:
    once = idle_gpu(
        "f", 1, bins=bins(utilization=then((239, 0.7), (1, 1.0)), processes=then((239, 1), (1, 0)))
    )
    assert "not known" not in of_kind(said(idle_gpu("f", 0), once), FindingKind.HELD_IDLE).sentence
    free = past(bins=bins(utilization=1.0, processes=0))
    assert judge(free, NOON_MS, T, TICK_MS).unknown == ()


def test_a_lost_gpu_that_is_told_is_not_told_twice() -> None:
    """Silent and idle since one moment on one node: it may wait for that GPU, as before."""
    told = of_kind(
        said(idle_gpu("n", 0), silent_gpu("n", 1, QUIET_MIN, siblings_fresh=True)), FindingKind.HELD_IDLE
    )
    assert "the job may wait for it" in told.sentence and "is not known" not in told.sentence
    assert remedy(told).startswith("look whether GPU 1 of n failed")


def test_beside_a_lost_gpu_another_silent_one_is_looked_at_first() -> None:
    lost = silent_gpu("n", 1, QUIET_MIN, siblings_fresh=True)
    told = of_kind(said(idle_gpu("n", 0), lost, silent_gpu("e", 0, 300)), FindingKind.HELD_IDLE)
    assert "GPU 1 of n has not been seen since" in told.sentence
    assert "What it does on GPU 0 of e (not seen since 2026-10-28 07:00 UTC) is not known" in told.sentence
    assert remedy(told).startswith("first find out what it does on GPU 0 of e ")


def test_a_job_of_which_all_is_known_is_told_as_before() -> None:
    found = said(idle_gpu("f", 0), idle_gpu("f", 1))
    told = of_kind(found, FindingKind.HELD_IDLE)
    assert "not known" not in told.sentence and remedy(told).startswith("end the job")


def test_another_jobs_silence_and_a_silence_of_an_earlier_run_are_no_doubt_of_this_one() -> None:
    other = claim(8.0, holder=Holder(job=JobId("slurm:other")))
    foreign = replace(silent_gpu("e", 0, 300), claims=(other,))
    own = idle_gpu("f", 0)
    earlier = replace(silent_gpu("e", 1, 600), claims=(), last_claims=own.claims)
    told = of_kind(said(own, foreign, earlier), FindingKind.HELD_IDLE)
    assert "not known" not in told.sentence, "held for 8 h, and not seen for 10"


def test_what_says_nothing_of_resting_is_left_as_it_is() -> None:
    """Low saturation asks for more work, not for an end."""
    busy = idle_gpu("f", 0, bins=bins(utilization=then((240, 0.05))))
    found = of_kind(said(busy, silent_gpu("e", 0, 300)), FindingKind.LOW_SATURATION)
    assert "not known" not in found.sentence and remedy(found).startswith("more workers")


def test_the_doubt_stands_before_what_would_do() -> None:
    """A server is rarely used on one GPU and silent on another: first what is not known, then the remedy."""
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(20),
        known_since_ms=20 * 60_000,
        silence_p90_ms=7_200_000,
        known_ms=86_400_000,
        busy_ms=84 * 60_000,
        spells=12,
        silence_longest_ms=10_800_000,
        busy_ratio=0.2,
    )
    served = claim(24.0, kind=JobKind.INFERENCE, rhythm=rhythm)
    used = past(served, node=NodeName("f"), bins=bins(utilization=then((200, 0.3), (40, 0.0))))
    told = of_kind(said(used, silent_gpu("e", 0, QUIET_MIN)), FindingKind.RARELY_USED).sentence
    doubt, remedy_at = told.index("is not known: the job may be at work."), told.index("It is in use, and")
    assert doubt < remedy_at and told.endswith("would do.")


PARTLY = {"unknown_gpus": "GPU 1 of n (never measured)"}


@pytest.mark.parametrize(
    ("kind", "until"),
    [
        (FindingKind.HELD_IDLE, "give back its idle GPUs alone, not the job"),
        (FindingKind.ALLOCATED_EMPTY, "give back its idle GPUs alone, not the job"),
        (FindingKind.SLEEPING_BATCH, "give back its idle GPUs alone, not the job"),
        (FindingKind.USES_PART, "give back its idle GPUs alone, not the job"),
        (
            FindingKind.CRASH_LOOP,
            "end none of it",
        ),  # its processes start again and again: it has no idle ones
        (FindingKind.RARELY_USED, "scale none of it to zero"),  # it is in use
        (FindingKind.RESERVED_BY_DESIGN, "scale none of it to zero"),
    ],
)
def test_idle_gpus_are_given_back_by_those_who_have_some(kind: FindingKind, until: str) -> None:
    words = words_of_kind(kind)
    assert words is not None
    assert words.remedy_for("inference", PARTLY) == (
        f"first find out what it does on GPU 1 of n (never measured); until then {until}, or keep it with "
        "`fallow keep JOB`"
    )


def test_a_job_that_may_be_preparing_is_asked_for_no_gpu() -> None:
    words = words_of_kind(FindingKind.NOT_STARTED)
    assert words is not None
    assert words.remedy_for("batch", PARTLY).startswith("look at its log: it may be downloading")


def test_of_what_is_over_nothing_is_to_be_looked_at_on_its_gpus() -> None:
    idle, part = words_of_kind(FindingKind.HELD_IDLE), words_of_kind(FindingKind.USES_PART)
    assert idle is not None and part is not None
    assert idle.next_time("batch", PARTLY) == idle.remedy_for("batch")
    assert idle.next_time("batch", {"lost_gpu": "GPU 1 of n", "lost_gpu_error": "XID 79"}).startswith("end")
    assert part.next_time("batch", '{"idle_gpus_worked": true}').startswith("ask for as many GPUs")
    memory = '{"idle_gpus_memory_bytes": 20000000000, "idle_gpus_worked": true}'
    assert part.next_time("batch", memory).startswith("have it use all of its GPUs")
