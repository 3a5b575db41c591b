"""What pages say about evidence, gaps and errors, without a browser."""

import pandas as pd
import pytest

from advisor.planner.consent import Kind
from service import client, wording
from service.charts.window import Window
from service.pages.job import label_of_job
from service.pages.parts.evidence import told
from service.pages.parts.job_buttons import MEANING
from service.pages.parts.messages import explain
from service.pages.parts.range_waste import sentence
from service.pages.parts.unknown import by_reason
from service.pages.parts.widgets import plain
from service.summaries.holders import managed, named

G = wording.GAP
ERRORS = [getattr(client, name) for name in client.__all__ if isinstance(getattr(client, name), type)]


@pytest.mark.parametrize("error", [e for e in ERRORS if issubclass(e, client.ClientError)])
def test_every_error_says_what_was_found_and_what_to_do(error) -> None:
    notice = explain(error("the disk is on fire"))
    assert "the disk is on fire" in notice.found
    assert notice.title
    assert len(notice.todo) > 20


@pytest.mark.parametrize(
    "evidence",
    [
        '{"idle_ratio": 0.97, "memory_used_bytes": 1073741824, "wasted_gpu_hours": 3.5, "still": true}',
        '[{"name": "idle_ratio", "value": 0.97}, {"name": "memory_used_bytes", "value": 1073741824},'
        ' {"name": "wasted_gpu_hours", "value": 3.5}, {"name": "still", "value": true}]',
    ],
)
def test_evidence_is_written_by_its_units(evidence) -> None:
    assert told(evidence) == [
        ("idle", "97%"),
        ("memory used", "1 GiB"),
        ("wasted", "3.5 GPU-hours"),
        ("still", "yes"),
    ]


def test_evidence_that_was_not_measured_says_so() -> None:
    assert told('{"sm_active_ratio": null}') == [("sm active ratio", "not measured")]


def test_an_instant_among_the_evidence_is_no_length() -> None:
    assert told({"next_rung_ms": 1_795_000_000_000}) == [("next rung", "2026-11-18 11:06 UTC")]
    assert told({"grace_ms": 5000}) == [("grace", "5 s")]


def test_gaps_of_one_reason_are_added_up_within_the_window() -> None:
    times = pd.to_datetime(["2026-11-20T09:00", "2026-11-20T11:00"], utc=True)
    gaps = pd.DataFrame(
        {
            "source": "nvml",
            "node": "n1",
            "uuid": [None, None],
            "from_ts": times,
            "to_ts": times + pd.Timedelta(hours=2),
            "reason": "driver gone",
        }
    )
    at = pd.Timestamp("2026-11-20T10:00"), pd.Timestamp("2026-11-20T12:00")
    merged = by_reason(gaps, Window(from_ts=at[0], to_ts=at[1], step_s=60), {})
    assert merged[["times", "seconds"]].to_numpy().tolist() == [[2, 7200.0]]


def test_a_person_in_two_projects_is_two_rows_with_their_own_names() -> None:
    frame = pd.DataFrame({"user_name": ["ada", "ada", "bo", None], "project": ["x", "y", "x", None]})
    assert list(named(frame, "people")["name"]) == ["ada · x", "ada · y", "bo", "unknown"]


def test_a_partition_nobody_tells_of_is_not_known_and_what_nobody_held_is_left_out() -> None:
    frame = pd.DataFrame({"key": ["main", None, None], "held_gpu_hours": [2.0, 1.0, 0.0]})
    assert list(managed(frame)["name"]) == ["main", "not known"]


@pytest.mark.parametrize(
    ("many", "open_only", "said"),
    [
        (1, True, "1 open finding; {w} were wasted in this time, 2.0 GPU-hours of them about what is open"),
        (2, True, "2 open findings; {w} were wasted in this time, 2.0 GPU-hours of them about what is open"),
        (
            1,
            False,
            "1 finding, open and closed; {w} were wasted in this time, 3.0 GPU-hours of them about these",
        ),
    ],
)
def test_the_sum_of_the_findings_is_the_ledgers(many, open_only, said) -> None:
    """Two findings about one GPU bear the same hours: no sum of theirs is shown."""
    row = {"wasted_gpu_hours": 7.5, "wasted_cost": 30.0, "currency": "EUR"}
    waste = pd.DataFrame([row | {"open_gpu_hours": 2.0, "found_gpu_hours": 3.0}])
    expected = said.format(w="7.5 GPU-hours, 30.00 EUR,", g=G)
    assert sentence(many, waste, open_only=open_only) == expected
    assert sentence(many, None, open_only=open_only) == expected.partition(";")[0]


def test_a_job_without_a_name_is_found_by_its_id() -> None:
    jobs = pd.DataFrame({"job": ["a"], "job_name": [float("nan")], "user_name": "ada", "project": [None]})
    (row,) = jobs.assign(gpu_hours=2.0).itertuples()
    assert label_of_job(row) == "a · ada · 2.0 GPU-hours · a"


def test_text_from_a_job_is_not_markup() -> None:
    assert plain("**x** [a](b) <i>") == r"\*\*x\*\* \[a\](b) \<i\>"


def test_all_that_can_be_allowed_is_said_in_words() -> None:
    assert set(MEANING) == {kind.value for kind in Kind}
