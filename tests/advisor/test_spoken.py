"""What owners were told and answered, folded into a state: which telling counts, and whose keep."""

from dataclasses import replace

import pytest

from advisor.state.model import Job
from advisor.state.owner_replies import Keep, Telling, Word, spoken_of, with_spoken
from tests.advisor.policies.scene import HOUR_MS, MINUTE_MS, NOW_MS, cluster, idle_job

IDLE = replace(idle_job("j", minutes=300), notified_ms=None, notifications=0)
SINCE_MS = NOW_MS - 300 * MINUTE_MS


def told(minutes_ago: float, reached: str | None = "terminal pts/1") -> Telling:
    return Telling(job=IDLE.id, at_ms=NOW_MS - round(minutes_ago * MINUTE_MS), reached=reached)


def kept(minutes_ago: float, hours: float = 4, by: str = "ann") -> Keep:
    at_ms = NOW_MS - round(minutes_ago * MINUTE_MS)
    return Keep(job=IDLE.id, at_ms=at_ms, until_ms=at_ms + round(hours * HOUR_MS), by_user=by)


def folded(*words: Word, job: Job = IDLE) -> Job:
    return with_spoken(cluster([(job, ("g0",))]), words).jobs[IDLE.id]


def test_first_telling_of_the_idle_time_starts_the_grace_and_each_counts() -> None:
    job = folded(told(200), told(100))
    assert (job.notified_ms, job.notifications) == (NOW_MS - 200 * MINUTE_MS, 2)


def test_telling_of_an_earlier_idle_time_is_forgotten() -> None:
    job = folded(told(301))
    assert (job.notified_ms, job.notifications) == (None, 0)


def test_what_reached_nobody_is_no_telling() -> None:
    job = folded(told(200, reached=None))
    assert (job.notified_ms, job.notifications, job.unreached_ms) == (None, 0, NOW_MS - 200 * MINUTE_MS)


def test_keeping_undoes_the_telling_and_after_it_the_owner_is_told_anew() -> None:
    kept_once = folded(told(290), kept(280))
    assert kept_once.notified_ms is None
    assert kept_once.keep_until_ms == NOW_MS - 40 * MINUTE_MS
    again = folded(told(290), kept(280), told(30))
    assert (again.notified_ms, again.notifications) == (NOW_MS - 30 * MINUTE_MS, 1)


def test_an_operators_keep_does_not_count_against_the_owners_three() -> None:
    assert folded(kept(200), kept(100), kept(50, by="root")).keep_count == 2


def test_the_longest_keep_holds() -> None:
    assert folded(kept(100, 24), kept(10, 4)).keep_until_ms == NOW_MS - 100 * MINUTE_MS + 24 * HOUR_MS


@pytest.mark.parametrize(("minutes_ago", "remembered"), [(299, True), (301, False)])
def test_a_submitted_jobs_own_record_is_judged_by_the_same_rule(minutes_ago: int, remembered: bool) -> None:
    own = replace(IDLE, notified_ms=NOW_MS - minutes_ago * MINUTE_MS, notifications=1)
    job = folded(told(10), job=own)
    expected = own.notified_ms if remembered else NOW_MS - 10 * MINUTE_MS
    assert (job.notified_ms, job.notifications) == (expected, 1)


def test_words_about_others_change_nothing() -> None:
    state = cluster([(IDLE, ("g0",))])
    assert with_spoken(state, [replace(told(10), job="gone")]) is state


def test_a_job_at_work_was_never_told() -> None:
    working = replace(IDLE, idle_since_ms=None)
    assert folded(told(10), job=working).notified_ms is None


def test_rows_of_the_query_become_words() -> None:
    rows = [
        {"job": "j", "at_ms": 1, "rung": "tell", "reached": None, "until_ms": None, "by_user": None},
        {"job": "j", "at_ms": 2, "rung": None, "reached": None, "until_ms": 9, "by_user": "ann"},
    ]
    assert spoken_of(rows) == (
        Telling(job=IDLE.id, at_ms=1),
        Keep(job=IDLE.id, at_ms=2, until_ms=9, by_user="ann"),
    )
