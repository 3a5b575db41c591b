"""Traces that are damaged or make no sense: which line, why, and that the rest is read all the same."""

import gzip
import shutil
from pathlib import Path

import pytest

from advisor.sim.traces.gavel import read_gavel
from advisor.sim.traces.openb import read_openb
from advisor.sim.traces.philly import read_philly
from advisor.sim.traces.pollux import read_pollux
from advisor.sim.traces.rows import TraceError

HEADING = "name,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time"
GOOD = "good,1,1000,,LS,0,100,0"


def openb(folder: Path, *rows: str, heading: str = HEADING) -> Path:
    path = folder / "pods.csv"
    path.write_text("\n".join((heading, *rows)) + "\n")
    return path


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("b,1,1000,,LS,10000000000000,10000000000100,10000000000000", "creation_time"),
        ("b,1,1000,,LS,1000000000,1000000100,1000000000", "32 years away"),
        ("b,1,1000,,LS,0,1e300,0", "deletion_time"),
        ("b,1,1000,,LS,0,1000000000,0", "run for 32 years"),
        ("b,1,1000,,LS,nan,100,0", "creation_time"),
        ("b,1,1000,,LS,-5,100,0", "creation_time"),
        ("b,inf,1000,,LS,0,100,0", "num_gpu"),
        ("b,999999999999,1000,,LS,0,100,0", "no cluster has more"),
        ("b,1,1000,,LS,0,100,0,left", "more columns"),
        (" ,1,1000,,LS,0,100,0", "name is empty"),
        ("good,1,1000,,LS,50,200,60", "that of line 2 already"),
    ],
)
def test_a_row_that_makes_no_sense_is_named_and_the_others_are_read(
    tmp_path: Path, row: str, reason: str
) -> None:
    found = read_openb(openb(tmp_path, GOOD, row, "other,1,1000,,LS,7,100,9"))
    assert [job.name for job in found.jobs] == ["good", "other"]
    assert [bad.line for bad in found.bad_rows] == [3]
    assert reason in found.bad_rows[0].reason


def test_times_since_the_epoch_are_times(tmp_path: Path) -> None:
    rows = (f"{name},1,1000,,LS,{1.7e9 + at},{1.7e9 + at + 60},{1.7e9 + at}" for at, name in enumerate("ab"))
    found = read_openb(openb(tmp_path, *rows))
    assert [job.name for job in found.jobs] == ["a", "b"]


def test_a_bad_row_is_named_by_its_line_although_empty_lines_stand_before(tmp_path: Path) -> None:
    found = read_openb(openb(tmp_path, "", "", GOOD, "", "bad,1,1000,,XX,0,10,0"))
    assert [bad.line for bad in found.bad_rows] == [6]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert len(read_openb(openb(tmp_path, GOOD, heading="\ufeff" + HEADING)).jobs) == 1


def test_jobs_of_a_trace_without_names_may_come_at_the_same_second(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("timestamp,duration,num_gpus,cluster\n" + "2017-10-03 00:00:00,60,1,vc\n" * 2)
    assert [job.name for job in read_philly(path).jobs] == ["philly-0", "philly-1"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"\n\n", "first line is empty"),
        (HEADING.encode(), "no rows after its heading"),
        (bytes(range(256)), "UTF-8"),
        (b"\0" * 4000, "no column name"),
    ],
)
def test_what_is_no_trace_at_all_is_said(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "pods.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said) as raised:
        read_openb(path)
    assert len(str(raised.value)) < 500


def test_a_damaged_gzip_file_is_said_to_be_damaged(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(("\n".join((HEADING, *[GOOD] * 200))).encode()))
    packed[40] ^= 0xFF
    packed[41] ^= 0x55
    path = tmp_path / "pods.csv.gz"
    path.write_bytes(packed)
    with pytest.raises(TraceError, match="damaged"):
        read_openb(path)
    path.write_bytes(HEADING.encode())
    with pytest.raises(TraceError, match="gzip"):
        read_openb(path)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("placements.csv.gz", "step_time", "0"),
        ("scalability.csv.gz", "sync_time", "-1"),
        ("validation.csv.gz", "iteration", "many"),
    ],
)
def test_a_measurement_that_is_none_is_named_by_its_line(
    shared: Path, tmp_path: Path, table: str, column: str, value: str
) -> None:
    for path in (shared / "traces/pollux").glob("*.csv.gz"):
        shutil.copyfile(path, tmp_path / path.name)  # not its mode: the reference data is read-only
    heading, first, *rest = gzip.decompress((tmp_path / table).read_bytes()).decode().splitlines()
    cells = first.split(",")
    cells[heading.split(",").index(column)] = value
    spoilt = "\n".join((heading, ",".join(cells), *rest))
    (tmp_path / table).write_bytes(gzip.compress(spoilt.encode()))
    with pytest.raises(TraceError, match=f"{table}: line 2"):
        read_pollux(tmp_path / "workloads.csv.gz")


def test_the_wrong_file_for_gavel_is_said_before_its_tables_are_missed(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="right --format"):
        read_gavel(openb(tmp_path, GOOD))
    right = tmp_path / "jobs.csv"
    right.write_text(
        "trace,job,model,batch_size,total_steps,scale_factor,priority_weight,arrival_s\na,1,m,1,1,1,1,0\n"
    )
    with pytest.raises(TraceError, match="lies in the trace's own folder"):
        read_gavel(right)
