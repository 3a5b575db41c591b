"""What there is to do, by job: in which order, where each stands, what is said, and what is left unsaid."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from service.charts.job_strip import Step, described, drawn, steps_of
from service.charts.theme import DARK, LIGHT
from service.charts.window import Window
from service.pages.to_do import sentence
from service.schemas.control import Plan, PlanStep
from service.summaries.to_do import Advising, Item, Measured, Place, card, listed

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
NEWEST = "2026-11-27T11:59:30Z"
HOUR_MS = 3_600_000


def ledger(job: str, wasted: float, cost: float | None = None, low: float = 0.0) -> dict[str, Any]:
    hours = {"held_gpu_hours": 20.0, "allocated_empty_gpu_hours": 0.0, "held_idle_gpu_hours": wasted}
    return {
        "key": job,
        "wasted_gpu_hours": wasted,
        "wasted_cost": cost,
        "currency": "EUR" if cost is not None else None,
        "low_saturation_gpu_hours": low,
        **hours,
    }


def held(job: str, wasted: float, to_ts: str | None = None) -> dict[str, Any]:
    named = {"job": job, "job_name": f"{job} by name", "user_name": "ada", "project": "vision"}
    return {**named, "kind": "batch", "wasted_gpu_hours": wasted, "used_gpu_hours": 3.0, "to_ts": to_ts}


def finding(number: int, job: str | None, kind: str = "held-idle", **other: Any) -> dict[str, Any]:
    return {
        **{"finding_id": number, "job": job, "kind": kind, "uuid": f"GPU-{number}", "closed_at": None},
        **{"sentence": f"{job} has done nothing ({number}).", "evidence": None, "wasted_gpu_hours": 5.0},
        **{"job_name": None, "job_kind": "batch", "user_name": "ada", "project": "vision"},
        **other,
    }


def advice(job: str | None, gain: float | None = 2.0) -> dict[str, Any]:
    return {"job": job, "class": "reclaim", "gain_gpu_hours": gain, "why": f"{job} has done nothing (1). So."}


def spoken(job: str, hours: float) -> dict[str, Any]:
    until = int(NOW.timestamp() * 1000) + round(hours * HOUR_MS)
    return {"job": job, "until_ms": until, "by_user": "ada", "at_ms": 0, "rung": None, "reached": None}


def measured(**rows: Any) -> Measured:
    empty: dict[str, Any] = {"ledger": (), "jobs": (), "findings": (), "open_now": None, "spoken": ()}
    return Measured(**cast("Any", {**empty, "newest": NEWEST, "is_judged": True, **rows}))


def advising(**rows: Any) -> Advising:
    return Advising(**cast("Any", rows))


def places(items: tuple[Item, ...]) -> dict[str, Place]:
    return {each.id: each.place for each in items}


def test_the_dearest_of_the_range_is_first_and_hours_count_where_no_money_does() -> None:
    found = measured(
        ledger=[ledger("a", 9.0), ledger("b", 2.0, 40.0), ledger("c", 5.0, 41.0), ledger("d", 0.0)],
        jobs=[held("a", 9.0), held("b", 2.0), held("c", 5.0), held("d", 0.0)],
        findings=[finding(1, "e", "low-saturation", wasted_gpu_hours=0.0)],
    )
    items = listed(found, advising(advice=[advice("d", 3.0)]), NOW)
    assert [each.id for each in items] == ["c", "b", "a", "d", "e"]


def test_a_job_stands_where_its_hold_its_findings_and_its_owners_word_say() -> None:
    found = measured(
        ledger=[ledger(name, 4.0) for name in ("idle", "works", "over", "kept", "was-kept")],
        jobs=[
            *(held(name, 4.0) for name in ("idle", "works", "kept", "was-kept")),
            held("over", 4.0, "2026-11-26T08:00:00Z"),
        ],
        findings=[finding(1, "idle"), finding(2, "kept"), finding(3, "was-kept")],
        spoken=[spoken("kept", 1.5), spoken("was-kept", -0.1)],
    )
    assert places(listed(found, advising(), NOW)) == {
        "idle": Place.NOW,
        "works": Place.NO_FINDING,
        "over": Place.OVER,
        "kept": Place.PUT_OFF,
        "was-kept": Place.NOW,
    }
    kept = next(each for each in listed(found, advising(), NOW) if each.id == "kept")
    assert kept.put_off_until == (NOW + timedelta(hours=1.5), "kept by ada")
    assert kept.wasted_gpu_hours == 4.0, "who keeps a job pays for it as before"


def test_a_plan_that_was_turned_down_for_a_while_puts_its_jobs_off_until_then() -> None:
    until = int((NOW + timedelta(days=1)).timestamp() * 1000)
    plan = Plan(
        plan=7, state="rejected", steps=(PlanStep(n=1, job="a"),), settled_by="root", snoozed_ms=until
    )
    found = measured(ledger=[ledger("a", 4.0)], jobs=[held("a", 4.0)], findings=[finding(1, "a")])
    (item,) = listed(found, advising(plans=[plan]), NOW)
    assert (item.place, item.put_off_until) == (
        Place.PUT_OFF,
        (NOW + timedelta(days=1), "turned down by root"),
    )


def test_what_is_no_doing_of_the_job_makes_no_card() -> None:
    found = measured(findings=[finding(1, "a", "suspect-counters"), finding(2, None, "zombie-memory")])
    assert listed(found, advising(), NOW) == ()


def test_what_was_opened_after_a_range_that_is_over_still_says_that_the_job_is_idle_now() -> None:
    found = measured(
        ledger=[ledger("a", 4.0)], jobs=[held("a", 4.0)], findings=[], open_now=[finding(1, "a")]
    )
    (item,) = listed(found, advising(), NOW)
    assert (item.place, len(item.findings)) == (Place.NOW, 1)


def test_a_card_has_one_message_and_what_helps_and_why_nothing_is_advised() -> None:
    found = measured(
        ledger=[ledger("a", 4.0, low=1.5)],
        jobs=[held("a", 4.0)],
        findings=[finding(1, "a"), finding(2, "a"), finding(3, "a", closed_at="2026-11-27T09:00:00Z")],
    )
    reasons = [
        {"job": "a", "class": "pack", "reason": "it holds four GPUs", "would_change": ""},
        {
            "job": "a",
            "class": "reclaim",
            "reason": "its owner opted out",
            "would_change": "a yes",
            "gpus": [],
        },
    ]
    (item,) = listed(found, advising(abstained=reasons), NOW)
    one = card(item, found, advising(abstained=reasons))
    assert (one.user, one.project, one.name, one.kinds) == ("ada", "vision", "a by name", ("held-idle",))
    assert one.sentences == ("a has done nothing (1).",), "several GPUs of one kind are one sentence"
    assert [each.sentence for each in one.said] == ["a has done nothing (1). The same on 1 more of its GPUs."]
    assert one.remedy == "end the job, or keep it with `fallow keep a`"
    assert one.why_not == "its owner opted out; would change with a yes"
    assert one.low_saturation_gpu_hours == 1.5


def test_a_card_and_what_its_owner_is_written_are_of_all_its_gpus() -> None:
    """Seven idle GPUs of 3.0 GPU-hours each are 21.0."""
    seven = [finding(number, "a", judged_gpu_hours=3.0) for number in range(7)]
    found = measured(ledger=[ledger("a", 21.0)], jobs=[held("a", 21.0)], findings=seven)
    (item,) = listed(found, advising(), NOW)
    one = card(item, found, advising())
    assert one.sentences == ("a has done nothing (0).",)
    assert one.rests == (" The same on 6 more of its GPUs, 21.0 GPU-hours in all.",)
    (said,) = one.said
    assert said.sentence == f"{one.sentences[0]}{one.rests[0]}"


def test_nothing_is_written_to_the_owner_of_what_is_over() -> None:
    over = "2026-11-26T08:00:00Z"
    found = measured(
        ledger=[ledger("a", 4.0)], jobs=[held("a", 4.0, over)], findings=[finding(1, "a", closed_at=over)]
    )
    (item,) = listed(found, advising(), NOW)
    one = card(item, found, advising())
    assert (one.said, one.remedy, one.why_not) == ((), "it is over: talk before the next one", None)
    assert one.sentences == ("a has done nothing (1).",)


def test_each_time_at_which_a_past_was_so_is_said() -> None:
    """Three rests of one GPU, and the second GPU's: the ends of the others stand behind the first one's."""
    ends = ["2026-11-26T08:00:00Z", "2026-11-25T20:15:00.500000Z", "2026-11-25T09:30:00Z"]
    rows = [finding(place, "a", uuid="GPU-1", closed_at=end) for place, end in enumerate(ends)]
    other = finding(3, "a", uuid="GPU-2", closed_at=ends[0])
    found = measured(ledger=[ledger("a", 4.0)], jobs=[held("a", 4.0, ends[0])], findings=[*rows, other])
    (item,) = listed(found, advising(), NOW)
    one = card(item, found, advising())
    assert one.sentences == ("a has done nothing (0).",)
    assert one.rests == (
        " The same on 1 more of its GPUs. The same at other times, until 2026-11-25 09:30 UTC, "
        "2026-11-25 20:15 UTC.",
    )
    assert one.said == (), "nothing of it is open"


def test_a_job_that_works_is_blamed_for_nothing() -> None:
    found = measured(ledger=[ledger("a", 4.0)], jobs=[held("a", 4.0)])
    (item,) = listed(found, advising(), NOW)
    one = card(item, found, advising())
    assert (one.kinds, one.not_found, one.said) == ((), "Idle at times, no finding", ())
    assert one.remedy is not None and one.remedy.startswith("no idleness is found: it works, or rests")


def test_advice_takes_the_place_of_what_helps_and_says_no_reason_against_itself() -> None:
    found = measured(ledger=[ledger("a", 4.0)], jobs=[held("a", 4.0)], findings=[finding(1, "a")])
    given = advising(advice=[advice("a"), advice("of-nobody-here")])
    (item,) = listed(found, given, NOW)
    assert [each["job"] for each in card(item, found, given).item.advice] == ["a"]
    assert card(item, found, given).why_not is None


@pytest.mark.parametrize(("many", "said"), [(1, "1 job to do something about"), (0, "All is calm")])
def test_the_head_counts_jobs_of_now_alone(many: int, said: str) -> None:
    found = measured(
        ledger=[ledger("a", 4.0), ledger("b", 4.0)],
        jobs=[held("a", 4.0), held("b", 4.0)],
        findings=[finding(1, "a")][:many],
    )
    assert sentence(listed(found, advising(), NOW), None, calm="All is calm") == said


WINDOW = Window(from_ts=datetime(2026, 11, 27), to_ts=datetime(2026, 11, 27, 2), step_s=3600)  # noqa: DTZ001
FIRST, SECOND = datetime(2026, 11, 27, tzinfo=UTC), datetime(2026, 11, 27, 1, tzinfo=UTC)


def test_the_picture_draws_a_measured_zero_as_nothing_and_the_unmeasured_striped() -> None:
    zero = drawn([Step(ts=FIRST, utilization=0.0, memory=0.5, wasted=1.0)], WINDOW, LIGHT)
    assert LIGHT.used not in zero and "url(#s)" not in zero and LIGHT.states["held-idle"] in zero  # type: ignore[index]
    unknown = drawn([Step(ts=FIRST, utilization=None, memory=None, wasted=None)], WINDOW, DARK)
    assert unknown.count("url(#s)") == 1 and DARK.used not in unknown
    busy = drawn([Step(ts=SECOND, utilization=0.5, memory=None, wasted=0.0)], WINDOW, LIGHT)
    # the second of two hours: the right half of 360; half of the 54 above the strip of 5 and its line
    assert '<rect x="180.0" y="27.0" width="180.0" height="27.0"' in busy


def test_the_words_of_the_picture_say_what_it_shows() -> None:
    steps = [
        Step(ts=FIRST, utilization=0.5, memory=0.25, wasted=0.0),
        Step(ts=SECOND, utilization=0.0, memory=0.375, wasted=1.0),
    ]
    assert described(steps) == (
        "Use of its GPUs over the range, from 0% to 50%, at most 38% of the memory taken, "
        "wasted for most of 1 of 2 steps."
    )
    blank = [Step(ts=FIRST, utilization=None, memory=None, wasted=None)]
    assert described(blank) == "Its GPUs were not measured in this time."


def test_steps_of_a_picture_are_no_more_than_it_has_room_for() -> None:
    month = Window(from_ts=WINDOW.from_ts, to_ts=WINDOW.from_ts + timedelta(days=30), step_s=60)
    assert steps_of(month).step_s == 21_600, "30 d in steps of 6 h are 120"
