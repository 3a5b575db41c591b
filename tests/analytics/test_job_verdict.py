"""One verdict a job, and its efficiency in one line."""

from typing import Any

import pytest

from analytics.job_verdict import efficiency, is_use_known, verdict
from service.summaries import job_verdicts


def row(**changes: Any) -> dict[str, Any]:
    """A job that ended after nine hours on four GPUs, of which it used one well."""
    values: dict[str, Any] = {
        "gpus": 4,
        "gpus_used": 1,
        "gpu_hours": 36.0,
        "used_gpu_hours": 5.9,
        "wasted_gpu_hours": 27.0,
        "busy_gpu_hours": 9.0,
        "unknown_gpu_hours": 0.0,
        "memory_used_max_bytes": 52 << 30,
        "rung": 3,
        "found": None,
        "to_ts": "2026-11-20T10:00:00",
    }
    return values | changes


ALL = {"gpus_used": 4, "wasted_gpu_hours": 0.0, "busy_gpu_hours": 36.0, "used_gpu_hours": 30.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "used 1 of 4 GPUs"),
        (ALL, "worked"),
        (ALL | {"found": "straggler"}, "worked unevenly: one part of its GPUs may wait for the other"),
        (ALL | {"wasted_gpu_hours": 20.0, "busy_gpu_hours": 16.0}, "idle for 56% of its time"),
        # 36 hours, of which 0.1 were used: not all of them were idle
        (ALL | {"wasted_gpu_hours": 35.9, "busy_gpu_hours": 0.1}, "idle for 99.7% of its time"),
        (  # three hours of staging, and then work: found not to have started meanwhile
            ALL | {"wasted_gpu_hours": 20.0, "busy_gpu_hours": 16.0, "found": "not-started"},
            "idle for 56% of its time, before it first computed too: it may have been preparing",
        ),
        (ALL | {"found": "may-hang"}, "worked; it may hang, or have hung"),
        (ALL | {"found": "falling-gpu, held-idle"}, "worked; a GPU was lost under it"),
        (ALL | {"wasted_gpu_hours": 7.2}, "worked, and was idle for 20% of its time"),
        (ALL | {"used_gpu_hours": 3.6}, "worked, and filled 10% of its GPUs while it did"),
        (ALL | {"used_gpu_hours": 0.0, "engine_gpu_hours": 36.0}, "worked, on video engines"),
        (
            ALL | {"used_gpu_hours": 3.6, "engine_gpu_hours": 4.0},
            "worked, and filled 10% of its GPUs while it did",
        ),
        ({"gpus_used": 0, "used_gpu_hours": 0.0, "busy_gpu_hours": 0.0}, "did not compute"),
        # 36 hours at 0.5%, none of them busy; GPU utilization of so little may be the reading itself.
        (
            {"gpus_used": 0, "used_gpu_hours": 0.18, "busy_gpu_hours": 0.0},
            "used next to nothing (0.5% SM active)",
        ),
        ({"gpus_used": 0, "used_gpu_hours": 0.18, "busy_gpu_hours": 0.0, "rung": 1}, "did not compute"),
        # A minute at 60%: no more than trying it.
        ({"gpus_used": 0, "used_gpu_hours": 0.01, "busy_gpu_hours": 0.0167}, "did not compute"),
        ({"gpus_used": 0, "to_ts": None, "gpu_hours": 4.0}, "has not computed yet"),
        ({"gpus_used": 0, "to_ts": None}, "did not compute"),
        (
            {"gpus_used": 0, "found": "crash-loop, uses-part"},
            "crashed and started again and again, and never computed",
        ),
        ({"found": "crash-loop"}, "crashed and started again and again"),
        ({"unknown_gpu_hours": 3.6}, "not judged: 90% of its time was measured"),
        ({"gpu_hours": 0.0}, "held nothing in this time"),
        (ALL | {"suspect_gpu_hours": 1.8}, "worked"),  # 5% of 36 hours
        # 95% GPU utilization beside SMs at 0, for all 36 hours: nobody knows which of the two is so.
        (
            {"gpus_used": 0, "used_gpu_hours": 0.0, "wasted_gpu_hours": 0.0, "suspect_gpu_hours": 36.0},
            "not judged: its counters contradict each other in 100% of its time",
        ),
        (
            ALL | {"suspect_gpu_hours": 21.6},
            "not judged: its counters contradict each other in 60% of its time",
        ),
        (
            ALL | {"suspect_gpu_hours": 21.6, "unknown_gpu_hours": 3.6},
            "not judged: 90% of its time was measured; its counters contradict each other in 60% of its time",
        ),
        # Kernels ran for 36 hours, and no SM was active in any: not even one warp.
        (
            ALL | {"used_gpu_hours": 0.0},
            "not judged: its counters contradict each other (kernels ran, and no SM was active)",
        ),
        (ALL | {"used_gpu_hours": 0.002}, "worked, and filled <0.1% of its GPUs while it did"),
    ],
)
def test_the_verdict_is_of_all_its_gpus(changes: dict[str, Any], said: str) -> None:
    assert verdict(row(**changes)) == said


def test_the_efficiency_has_one_denominator() -> None:
    assert efficiency(row()) == (
        "4 GPUs · 36.0 GPU-hours given, 5.9 used (16%), 27.0 wasted (75%) · most memory on a GPU 52 GiB"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"suspect_gpu_hours": 36.0, "used_gpu_hours": 0.0},
            "use not known, 27.0 wasted (75%), 36.0 in doubt",
        ),
        ({"unknown_gpu_hours": 36.0, "used_gpu_hours": 0.0}, "use not known, 27.0 wasted (75%)"),
        ({"used_gpu_hours": 0.0}, "use not known, 27.0 wasted (75%)"),
        ({"suspect_gpu_hours": 9.0}, "5.9 used (16%), 27.0 wasted (75%), 9.0 in doubt"),
        ({"suspect_gpu_hours": 0.5}, "5.9 used (16%), 27.0 wasted (75%)"),
        ({"used_gpu_hours": 0.0, "busy_gpu_hours": 0.0}, "0.0 used (0%), 27.0 wasted (75%)"),
    ],
)
def test_what_is_in_doubt_is_no_use_of_nothing(changes: dict[str, Any], said: str) -> None:
    line = efficiency(row(memory_used_max_bytes=None, **changes))
    assert line == f"4 GPUs · 36.0 GPU-hours given, {said}"


def test_an_upper_bound_is_shown_as_one_and_what_is_not_measured_not_at_all() -> None:
    said = efficiency(row(rung=1, memory_used_max_bytes=None, gpus=1))
    assert said == "1 GPU · 36.0 GPU-hours given, at most 5.9 used (16%), 27.0 wasted (75%)"
    assert efficiency(row(memory_used_max_bytes=float("nan"))).endswith("wasted (75%)")


def test_of_a_job_as_an_older_service_tells_it_nothing_is_said() -> None:
    older = {name: value for name, value in row().items() if name not in job_verdicts.TOLD}
    assert (job_verdicts.verdict(older), job_verdicts.efficiency(older)) == (None, None)
    assert job_verdicts.verdict(row()) == verdict(row())
    assert job_verdicts.efficiency(row()) == efficiency(row())


def test_more_than_its_share_is_no_percentage_of_it() -> None:
    # One of eight on a GPU, which it used to 80% for an hour: 0.8 GPU-hours of 0.125 given.
    shared = row(gpus=1, gpu_hours=0.125, used_gpu_hours=0.8, wasted_gpu_hours=0.0)
    assert efficiency(shared).startswith("1 GPU · 0.1 GPU-hours given, 0.8 used (more than its share), 0.0")


@pytest.mark.parametrize(
    ("held", "unknown", "suspect", "known"),
    [
        (30.0, 30.0, 0.0, False),  # never measured: what it used is not 0
        (30.0, 28.5, 0.0, False),  # 95%
        (30.0, 20.0, 9.0, False),
        (30.0, 28.0, 0.0, True),
        (30.0, 0.0, 0.0, True),
        (0.0, 0.0, 0.0, True),
    ],
)
def test_use_is_known_where_a_twentieth_was_measured(
    held: float, unknown: float, suspect: float, known: bool
) -> None:
    hours = {"gpu_hours": held, "unknown_gpu_hours": unknown, "suspect_gpu_hours": suspect}
    assert is_use_known(row(**hours)) is known


def test_a_table_has_no_hours_of_use_where_none_could_be_measured() -> None:
    hours = {"gpu_hours": 30.0, "unknown_gpu_hours": 30.0, "suspect_gpu_hours": 0.0}
    rows = [row(), row(**hours, used_gpu_hours=0.0), row(used_gpu_hours=None)]
    assert [str(each) for each in job_verdicts.used_where_known(rows)] == ["5.9", "nan", "nan"]
