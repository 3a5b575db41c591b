"""Who is told to do what about waste: nobody is told to end a job of which nothing is found now."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

import pytest

from service.cli.waste import why
from service.summaries.waste_table import Waste, waste_table
from service.usecases.wasted import open_now

NEWEST = "2026-11-26T19:00:00Z"


def job(name: str, hours: float, to_ts: str | None = None) -> dict[str, Any]:
    return {"job": name, "job_name": None, "user_name": "ann", "wasted_gpu_hours": hours, "to_ts": to_ts}


def finding(name: str, kind: str = "held-idle", *, closed_at: str | None = None) -> dict[str, Any]:
    return {
        "job": name,
        "uuid": "GPU-1",
        "kind": kind,
        "wasted_gpu_hours": 1.0,
        "closed_at": closed_at,
        "evidence": None,
    }


def table(
    jobs: list[dict[str, Any]],
    findings: list[dict[str, Any]],
    newest: str | None = NEWEST,
    *,
    empty: float = 0.0,
    open_now: list[dict[str, Any]] | None = None,
    unjudged: list[dict[str, Any]] | None = None,
    pasts: list[dict[str, str]] | None = None,
) -> Waste:
    ledger = {
        **{"key": "ann", "wasted_gpu_hours": sum(each["wasted_gpu_hours"] for each in jobs)},
        **{
            "allocated_empty_gpu_hours": empty,
            "held_idle_gpu_hours": 1.0,
            "wasted_cost": None,
            "currency": None,
        },
    }
    given = cast("Any", (jobs, findings))  # rows of queries, with the columns that are read here
    (row,) = waste_table(
        "user",
        cast("Any", [ledger]),
        *given,
        [],
        newest=newest,
        open_now=cast("Any", open_now),
        unjudged=cast("Any", unjudged or []),
        pasts=cast("Any", pasts or []),
    )
    return row


def test_of_who_had_ended_in_a_past_that_is_not_judged_it_is_not_said_that_nothing_is_found() -> None:
    """Judged up to noon of two days. At noon, before and after the past it is judged; who runs is, too."""
    past = {
        "from_ts": "2026-11-24T00:00:00",
        "judged_to": "2026-11-24T12:00:00",
        "to_ts": "2026-11-26T00:00:00",
    }
    for over, found in {
        "2026-11-24T11:00:00Z": "no finding",
        "2026-11-24T12:00:00Z": "no finding",
        "2026-11-24T12:00:01Z": "not judged yet",
        "2026-11-26T00:00:00Z": "not judged yet",
        "2026-11-26T01:00:00Z": "no finding",
        None: "no finding",
    }.items():
        assert table([job("a", 0.1, over)], [], pasts=[past]).found == f"Idle at times, {found}"
    told = finding("a", closed_at="2026-11-25T00:00:00Z")
    assert table([job("a", 0.1, "2026-11-25T00:00:00Z")], [told], pasts=[past]).found == "Held, idle"


def test_a_job_that_works_or_has_just_begun_is_not_to_be_ended() -> None:
    """It was idle for minutes of the range, which the ledger counts, and no idleness is found."""
    row = table([job("a", 0.1)], [])
    assert row.running == 1
    assert row.remedy == (
        "no idleness is found: it works, or rests no longer than it may by the clock of its kind or its own "
        "usual silences; see `fallow explain a`"
    )
    assert why(row, "user") == "Idle at times, no finding: a", "which blames nobody"
    assert row.reasons == ()


def test_of_a_job_that_has_not_computed_it_is_said_that_it_is_starting() -> None:
    row = table([job("a", 0.3) | {"used_gpu_hours": 0.0}], [])
    assert row.remedy == (
        "no idleness is found: it has not computed, so it counts as starting for its first hours; see "
        "`fallow explain a`"
    )


def not_judged(uuid: str, held_by: str | None, kinds: str, verdict: str = "unknown") -> dict[str, Any]:
    return {"uuid": uuid, "held_by": held_by, "kinds": kinds, "verdict": verdict, "reason": f"{uuid} is dark"}


@pytest.mark.parametrize(
    ("gpus", "entries", "said"),
    [
        (1, [not_judged("A", "a", "held-idle")], "and what it does is not known: A is dark"),
        (1, [not_judged("A", "b, a", "low-saturation, allocated-empty")], "is not known: A is dark"),
        (8, [not_judged("A", "a", "held-idle")], "is not known on 1 of its 8 GPUs: A is dark"),
        (
            2,
            [not_judged("A", "a", "held-idle"), not_judged("B", "a", "held-idle")],
            "on 2 of its 2 GPUs: A is dark; B is dark",
        ),
        (1, [not_judged("A", "a", "low-saturation")], "it works, or rests no longer"),  # its rest was judged
        (1, [not_judged("A", "aa", "held-idle")], "it works, or rests no longer"),  # another's
        (1, [not_judged("A", None, "held-idle")], "it works, or rests no longer"),  # nobody's
        (1, [not_judged("A", "a", "", "starting")], "it works, or rests no longer"),
    ],
)
def test_of_who_was_not_measured_it_is_not_said_that_it_works(
    gpus: int, entries: list[dict[str, Any]], said: str
) -> None:
    row = table([job("a", 0.3) | {"gpus_at_once": gpus}], [], unjudged=entries)
    assert said in row.remedy
    assert ("it works" in row.remedy) == ("it works" in said)
    assert row.remedy.endswith("; see `fallow explain a`")


def test_who_was_measured_in_half_of_its_time_is_not_said_to_have_computed_nothing() -> None:
    half = {"used_gpu_hours": 0.0, "gpu_hours": 4.0, "unknown_gpu_hours": 2.0}
    row = table([job("a", 2.0) | half], [])
    assert row.found == "Idle at times, no finding"
    assert "as far as it was measured (2.0 of its 4.0 GPU-hours were not)" in row.remedy
    whole = table([job("a", 2.0) | half | {"unknown_gpu_hours": 0.2}], [])
    assert whole.found == "Nothing computed yet, no finding"


@pytest.mark.parametrize(
    ("used", "empty", "to_ts", "said"),
    [
        (4.2, 0.0, None, "Idle at times, no finding"),
        (0.9, 2.0, None, "No process at times, no finding"),
        (0.0, 0.0, None, "Nothing computed yet, no finding"),
        (0.0, 2.0, None, "No process yet, no finding"),
        (0.0, 2.0, "2026-11-26T12:00:00Z", "No process, no finding"),
        (None, 0.0, None, "Idle at times, no finding"),  # what it used is not known
    ],
)
def test_hours_of_which_nothing_was_found_bear_no_findings_name(
    used: float | None, empty: float, to_ts: str | None, said: str
) -> None:
    """Who trains for 3 of 15 minutes, or downloads at first, is active for all that findings say."""
    row = table([job("a", 2.0, to_ts) | {"used_gpu_hours": used}], [], empty=empty)
    assert (row.found, row.reasons) == (said, ())
    assert replace(row, is_judged=False).found == said.replace("no finding", "not judged yet")


def test_what_was_found_is_named() -> None:
    assert why(table([job("a", 3.0)], [finding("a")]), "user") == "Held, idle: a"


def test_that_no_finding_is_open_is_not_said_before_anybody_looked() -> None:
    row = replace(table([job("a", 0.1)], []), is_judged=False)
    assert row.remedy == "nothing was judged yet: ask again in a minute"
    found = replace(table([job("a", 3.0)], [finding("a")]), is_judged=False)
    assert found.remedy.startswith("end the job"), "kept from before a restart"


def test_what_was_found_and_is_over_is_no_reason_to_end_what_works_now() -> None:
    row = table([job("a", 3.0)], [finding("a", closed_at="2026-11-26T12:00:00Z")])
    assert row.reasons == ("held-idle",)
    assert row.remedy.startswith("what was found is over: it works, or rests no longer than it may")
    assert "no idleness is found" not in row.remedy, "beside the reason Held, idle"


def test_the_job_that_is_idle_now_is_the_one_to_do_something_about() -> None:
    row = table([job("a", 3.0), job("b", 1.0)], [finding("b")])
    assert row.live is not None
    assert row.live["job"] == "b"
    assert row.remedy.startswith("b: end the job")


@pytest.mark.parametrize(
    ("to_ts", "running"),
    [("2026-11-26T19:00:00Z", 1), ("2026-11-26T18:59:00.500000Z", 1), ("2026-11-26T17:00:00Z", 0)],
)
def test_who_holds_a_gpu_at_the_end_of_a_recording_is_not_over(to_ts: str, running: int) -> None:
    row = table([job("a", 3.0, to_ts)], [])
    assert row.running == running
    assert row.remedy.startswith("over" if not running else "no idleness is found")


def test_without_any_measurement_who_gave_back_is_over() -> None:
    assert table([job("a", 3.0, NEWEST)], [], None).running == 0


def test_of_a_range_that_ended_before_it_was_found_what_is_open_now_is_said() -> None:
    """The hours of the range had no finding yet; what to do is about now."""
    row = table([job("a", 2.0)], [], open_now=[finding("a")])
    assert why(row, "user") == "Idle at times, no finding: a"
    assert row.remedy == "end the job, or keep it with `fallow keep a`; " + row.remedy.split("; ", 1)[1]


def test_what_was_open_in_the_range_and_is_over_is_not_open_now() -> None:
    row = table([job("a", 2.0)], [finding("a")], open_now=[])
    assert row.remedy.startswith("what was found is over")


def test_who_waits_for_a_lost_gpu_is_not_told_to_end_the_job() -> None:
    evidence = '{"lost_gpu": "GPU 1 of n1", "lost_gpu_error": "XID 79: GPU has fallen off the bus"}'
    row = table([job("a", 2.0)], [finding("a") | {"evidence": evidence}])
    assert row.remedy == (
        "the fault is the machine's: GPU 1 of n1 failed (XID 79: GPU has fallen off the bus); start the job "
        "again from its newest checkpoint, on other GPUs"
    )


@pytest.mark.parametrize(("hours_ago", "asked"), [(0, False), (5, True)])
def test_a_range_of_a_page_has_times_without_a_zone(hours_ago: int, asked: bool) -> None:
    """They are UTC's; what is open now is asked for where the range ended before it was judged."""
    judged = datetime(2026, 11, 27, 10, 0, 30, tzinfo=UTC)

    class Judged:
        calls: ClassVar[list[dict[str, object]]] = []

        def rows(self, query: str, **asked: object) -> list[object]:
            assert query == "findings"
            self.calls.append(asked)
            return []

    end = datetime(2026, 11, 27, 10, 1) - timedelta(hours=hours_ago)  # noqa: DTZ001 - as pages have it
    found = open_now(cast("Any", Judged()), end, {}, judged.isoformat())
    assert (found is not None, len(Judged.calls)) == (asked, int(asked))
