"""Recorded jobs as a workload: as many GPUs as were held at once, for as long as they were."""

from typing import Any

from advisor.sim.traces.recorded import recorded_workload


def row(job: str, from_s: float, run_s: float | None, **more: Any) -> dict[str, Any]:
    base = {
        "job": job,
        "user_name": "ana",
        "project": "vision",
        "job_name": "fit",
        "gpus": 1,
        "share": 1.0,
        "from_ms": 1_790_000_000_000 + round(from_s * 1000),
        "run_ms": None if run_s is None else run_s * 1000,
        "began_before": False,
        "is_open": False,
        "utilization_ratio": 0.5,
    }
    return {**base, **more}


def test_jobs_come_in_the_order_of_their_first_gpu_and_keep_their_sizes() -> None:
    found = recorded_workload([row("late", 60.0, 7200.0, gpus=4), row("first", 0.0, 21600.0)])
    seen = [(job.name, job.submitted_s, job.gpus, job.share, job.work.steps) for job in found.jobs]
    assert seen == [("first", 0.0, 1, 1.0, 21600.0), ("late", 60.0, 4, 1.0, 7200.0)]
    assert (found.bad_rows, found.left_out, found.cut_off) == ((), (), ())


def test_sevenths_of_a_gpu_still_fit_on_it_together() -> None:
    (job,) = recorded_workload([row("part", 0.0, 60.0, share=1 / 7)]).jobs
    assert 0.14 < job.share <= 1 / 7
    (whole,) = recorded_workload([row("whole", 0.0, 60.0, share=0.9999999999)]).jobs
    assert whole.share == 1.0


def test_jobs_that_were_cut_off_are_counted() -> None:
    found = recorded_workload(
        [row("a", 0, 60, began_before=True, is_open=True), row("b", 0, 60, is_open=True)]
    )
    assert [count for _, count in found.cut_off] == [1, 2]


def test_a_job_whose_gpus_are_not_kept_is_named() -> None:
    found = recorded_workload([row("lost", 0.0, None, gpus=None, share=None), row("b", 0.0, 60.0)])
    assert [job.name for job in found.jobs] == ["b"]
    assert "lost" in found.bad_rows[0].reason
