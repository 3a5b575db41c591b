"""Readers: what the traces say, and that a row that makes no sense is counted and named."""

import gzip
from pathlib import Path

import pytest

from advisor.sim.traces.gavel import read_gavel
from advisor.sim.traces.openb import read_openb
from advisor.sim.traces.philly import read_philly
from advisor.sim.traces.pollux import read_applications, read_pollux
from advisor.sim.traces.rows import TraceError
from advisor.sim.workload import alone_s

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_philly_rows_become_jobs_in_order_of_submission(tmp_path: Path) -> None:
    trace = write(
        tmp_path / "jobs.csv",
        PHILLY + "2017-10-03 00:01:00,60,2,120,vc1\n2017-10-03 00:00:30,30.5,1,30.5,vc2\n",
    )
    found = read_philly(trace)
    assert [(job.project, job.submitted_s, job.gpus, job.work.steps) for job in found.jobs] == [
        ("vc2", 0.0, 1, 30.5),
        ("vc1", 30.0, 2, 60.0),
    ]
    assert not found.bad_rows


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("2017-10-03 00:00:00,-5,1,5,vc", "duration"),
        ("2017-10-03 00:00:00,nan,1,5,vc", "duration"),
        ("2017-10-03 00:00:00,5,0,5,vc", "num_gpus"),
        ("2017-10-03 00:00:00,5,-1,5,vc", "num_gpus"),
        ("2017-10-03 00:00:00,5,1.5,5,vc", "num_gpus"),
        ("2017-10-03 00:00:00,5,many,5,vc", "num_gpus"),
        ("yesterday,5,1,5,vc", "timestamp"),
        ("2017-10-03 00:00:00,5,1,5,", "cluster"),
        ("2017-10-03 00:00:00,5", "ends before its column num_gpus"),
    ],
)
def test_a_senseless_row_is_skipped_counted_and_named(tmp_path: Path, row: str, named: str) -> None:
    trace = write(tmp_path / "jobs.csv", PHILLY + "2017-10-03 00:00:00,5,1,5,vc\n" + row + "\n")
    found = read_philly(trace)
    assert len(found.jobs) == 1
    assert [bad.line for bad in found.bad_rows] == [3]
    assert named in found.bad_rows[0].reason


def test_a_trace_without_a_single_job_is_an_error_that_says_why(tmp_path: Path) -> None:
    trace = write(tmp_path / "jobs.csv", PHILLY + "2017-10-03 00:00:00,5,0,5,vc\n")
    with pytest.raises(TraceError, match="line 2: num_gpus"):
        read_philly(trace)


def test_the_wrong_format_and_a_missing_file_are_named(tmp_path: Path) -> None:
    trace = write(tmp_path / "jobs.csv", "a,b\n1,2\n")
    with pytest.raises(TraceError, match="no column timestamp"):
        read_philly(trace)
    with pytest.raises(TraceError, match=r"nowhere\.csv"):
        read_openb(tmp_path / "nowhere.csv")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(gzip.compress(PHILLY.encode() * 1000)[:-20])
    with pytest.raises(TraceError, match=r"broken\.csv\.gz"):
        read_philly(broken)


def test_days_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    trace = write(tmp_path / "jobs.csv", PHILLY)
    with pytest.raises(TraceError, match=r"2017-10-03\.\.2017-10-16"):
        read_philly(trace, "october")
    with pytest.raises(TraceError, match="after the last"):
        read_philly(trace, "2017-10-05..2017-10-04")


def test_philly_two_weeks_are_the_24065_jobs_of_eleven_clusters(shared: Path) -> None:
    found = read_philly(shared / "traces/philly/philly_jobs.csv.gz", "2017-10-03..2017-10-16")
    assert len(found.jobs) == 24_065
    assert len({job.project for job in found.jobs}) == 11
    assert max(job.gpus for job in found.jobs) == 32
    assert found.left_out == (("submitted on another day", 28_784),)


def test_openb_pods_without_a_gpu_or_never_scheduled_are_counted(shared: Path) -> None:
    found = read_openb(shared / "traces/openb-2023/openb_pod_list_default.csv.gz")
    assert len(found.jobs) + sum(count for _, count in found.left_out) == 8_152
    assert sum(job.share < 1 for job in found.jobs) > 1_000
    assert all(0 < job.share <= 1 for job in found.jobs)


def test_gavel_jobs_step_at_the_rate_measured_on_v100(shared: Path) -> None:
    found = read_gavel(shared / "traces/gavel/job_traces.csv.gz")
    job = next(job for job in found.jobs if job.label == "ResNet-18" and job.gpus == 1)
    assert 0 < job.work.times.step_s((1,)) < 1
    assert not found.bad_rows


def test_every_pollux_job_runs_on_the_gpus_it_asked_for(shared: Path) -> None:
    for load, jobs in (("0.5", 80), ("1.0", 160), ("2.0", 320), ("realistic", 160)):
        found = read_pollux(shared / "traces/pollux/workloads.csv.gz", f"{load}/3")
        assert len(found.jobs) == jobs
        assert not found.bad_rows
        assert all(job.smallest <= job.gpus <= job.largest <= 64 for job in found.jobs)


def test_step_times_on_measured_placements_are_the_measured_ones(shared: Path) -> None:
    app = read_applications(shared / "traces/pollux")["bert"]
    (micro, step_s, _), *_ = app.placements[1, 2]
    from advisor.sim.scaling import step_time_s

    assert step_time_s(app, (1, 2), micro * 3) == pytest.approx(step_s)


def test_a_batch_that_does_not_fit_is_accumulated_without_extra_synchronisation(shared: Path) -> None:
    app = read_applications(shared / "traces/pollux")["yolov3"]
    from advisor.sim.scaling import step_time_s

    whole = {micro: (step, sync) for micro, step, sync in app.placements[4,]}[8]
    assert app.largest_micro == 8
    assert step_time_s(app, (4,), 4 * 8 * 3) == pytest.approx(3 * whole[0] - 2 * whole[1])


def test_step_times_between_measured_sizes_lie_between_their_neighbours(shared: Path) -> None:
    found = read_pollux(shared / "traces/pollux/workloads.csv.gz", "2.0/1")
    for job in [each for each in found.jobs if each.label != "ncf"][:40]:
        for gpus in range(17, job.largest + 1):
            assert 0 < alone_s(job, gpus, 4) < alone_s(job, 1, 4)
