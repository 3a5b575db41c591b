"""A site's own job history as a workload: who asked for what, and what is left out of it."""

from pathlib import Path

import pytest

from advisor.sim.traces.read import read_trace
from advisor.sim.traces.rows import TraceError
from tests.conftest import SHARED_VARIABLE

HEADING = "job,user,project,submitted,duration,gpus\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(text)
    return path


def test_times_begin_with_the_first_job_and_a_number_used_twice_is_two_jobs(tmp_path: Path) -> None:
    first = "b,bob,,2026-10-01T08:10:00Z,60,0.5\n"
    rows = f"{first}a,ann,vision,2026-10-01T08:00:00Z,60,4\na,ann,vision,2026-10-01T08:05:00Z,60,4\n"
    workload = read_trace(written(tmp_path, HEADING + rows))
    assert [(job.name, job.project, job.submitted_s, job.gpus, job.share) for job in workload.jobs] == [
        ("a", "vision", 0, 4, 1),
        ("a (run 2)", "vision", 300, 4, 1),
        ("b", "bob", 600, 1, 0.5),
    ]


def test_what_is_believed_of_nobody_is_a_bad_row(tmp_path: Path) -> None:
    rows = "a,ann,,0,60,4\nb,ann,,0,60,2000000\nc,ann,,0,999999999,4\nd,ann,,1790841600,60,4\n"
    workload = read_trace(written(tmp_path, HEADING + rows))
    assert [job.name for job in workload.jobs] == ["a"]
    assert [bad.line for bad in workload.bad_rows] == [3, 4, 5]


def test_nothing_that_can_be_played_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match="no job of it can be played: 2 asked for no GPU; line 4: gpus is 'x'"
    ):
        read_trace(written(tmp_path, HEADING + "a,ann,,0,60,0\nb,ann,,0,60,0\nc,ann,,0,60,x\n"))


def test_a_part_is_picked_of_published_traces_alone(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="--pick is of a published trace"):
        read_trace(written(tmp_path, HEADING + "a,ann,,0,60,1\n"), pick="2026-10-01")


FILES = {
    "generic.csv": [("a", "ann", 0, 4, 3600), ("b", "bob", 60, 8, 3600)],
    "hdr.csv": [("line 3", "b", 0, 8, 7200), ("line 4", "b", 0, 8, 93_600),
                ("line 6", "b", 60, 64, 3600), ("line 7", "c", 60, 2, 3600)],
    "kueue.json": [("team-a/job-a", "team-a", 0, 8, 7140)],
    "openb.csv": [("a", "LS", 0, 1, 3600), ("b", "LS", 10, 1, 3600), ("c", "LS", 7200, 1, 1800),
                  ("d", "LS", 7201, 1, 1800), ("e", "LS", 7202, 1, 1800), ("f", "LS", 7203, 1, 1800)],
    "pbs.txt": [("123.server", "lab", 0, 4, 7200)],
    "ray.json": [("raysubmit_1", "(unknown)", 0, 1, 7500)],
    "sacct.json": [("1001", "vision", 0, 4, 7200)],
    "sacct_p2.txt": [("1001", "vision", 0, 4, 7200)],
    "wandb.csv": [("fine-river-1", "ann", 0, 4, 7200)],
    "x.swf": [("1", "group 1", 0, 4, 3600), ("2", "group 1", 60, 8, 100)],
}  # fmt: skip
"""By hand: 10:05 less 08:05 is 7,200 s; Kueue's ran from 08:01 to 10:00; a day and two hours are 93,600 s."""


@pytest.mark.parametrize("name", FILES)
def test_handed_histories(shared: Path, name: str) -> None:
    folder = shared / "cases" / "decide" / "files"
    if not folder.is_dir():
        pytest.skip(f"no handed histories in {folder}; set {SHARED_VARIABLE}")
    jobs = read_trace(folder / name).jobs
    assert [(job.name, job.project, job.submitted_s, job.gpus, job.work.steps) for job in jobs] == FILES[name]


def test_the_handed_file_of_lsf_tells_no_gpus(shared: Path) -> None:
    path = shared / "cases" / "decide" / "files" / "lsf.acct"
    if not path.exists():
        pytest.skip(f"no {path}; set {SHARED_VARIABLE}")
    with pytest.raises(TraceError, match="1 tell no GPUs: LSF writes them as ngpus_physical"):
        read_trace(path)
