"""``fallow simulate`` as people type it: tables, JSON, the page of charts, and what is said of nonsense."""

import json
from pathlib import Path

import pytest

from advisor.sim.traces.read import FORMATS
from service.cli import main
from service.cli.simulate_flags import TRACE_FORMATS

TRACE = "timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(
    f"2017-10-03 00:{minute:02d}:00,{600 + 60 * minute},{1 + minute % 2},0,{'ab'[minute % 2]}\n"
    for minute in range(40)
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE + "2017-10-03 00:00:00,oops,1,0,a\n")
    return path


def simulate(trace: Path, *more: str) -> int:
    return main(["simulate", "--trace", str(trace), "--format", "philly", "--nodes", "2x4", *more])


def test_json_has_a_row_a_policy_and_is_the_same_each_time(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--policy", "static,fifo,fallow,youngest", "--quotas", "demand", "--json")
    assert simulate(trace, *arguments) == 0
    first = capsys.readouterr().out
    assert simulate(trace, *arguments) == 0
    assert capsys.readouterr().out == first
    rows = json.loads(first)
    assert [row["policy"] for row in rows] == ["static", "fifo", "fallow", "youngest"]
    assert all(row["jobs"] == 40 and row["avg_jct_s"] >= row["alone_bound_s"] for row in rows)
    assert rows[0]["bad_rows"][0]["line"] == 42
    assert rows[2]["quota_violation_s"] == 0
    assert rows[0]["utilization_ratio"] is None


def test_tables_name_what_was_skipped_and_the_bounds(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(trace, "--policy", "fifo,fallow") == 0
    said = capsys.readouterr().out
    assert "line 42: duration is 'oops'" in said
    assert "No schedule has a lower average JCT" in said
    assert "fallow" in said


@pytest.mark.slow
def test_the_page_of_charts_needs_no_network(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert simulate(trace, "--policy", "fifo", "--html", str(page)) == 0
    text = page.read_text()
    assert "allocated" in text
    assert '<script src="http' not in text
    assert "vega" in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--policy", "fare"), "'fare'"),
        (("--policy", "static"), "give quotas"),
        (("--nodes", "0x4"), "0 nodes"),
        (("--nodes", "many"), "16x4"),
        (("--load", "0.8"), "either as --nodes"),
        (("--pick", "soon"), "2017-10-03..2017-10-16"),
        (("--gpus-per-node", "8"), "goes with --load"),
        (("--since", "7d"), "--pick names a part of a trace"),
        (("--policy", ""), "there are static, fifo"),
        (("--policy", "fifo,,las"), "no policy is called ''"),
        (("--policy", "fifo, fifo"), "'fifo' is named twice"),
        (("--tick", "0.0001s"), "at least a millisecond"),
        (("--html", "nowhere/page.html"), "nowhere/page.html"),
        (("--html", "."), "give --html a file"),
        (("--from-store",), "either --trace or --from-store"),
        (("--trace", "nowhere.csv"), "nowhere.csv: No such file"),
        (("--trace", "."), "reading .: Is a directory"),
        (("--format", "gavel"), "right --format"),
    ],
)
def test_nonsense_is_named(
    trace: Path, arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(trace, *arguments) != 0
    assert named in capsys.readouterr().err


def test_no_gpus_on_a_node_are_named(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--trace", str(trace), "--format", "philly", "--load", "0.8", "--gpus-per-node", "0")
    assert main(["simulate", *arguments]) != 0
    assert "a node has 1 to" in capsys.readouterr().err


@pytest.mark.parametrize("more", [("--pick", "2017-10-03"), ("--format", "philly")])
def test_what_is_of_a_trace_is_not_ignored_beside_the_record(
    more: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--from-store", "--nodes", "2x4", *more]) != 0
    assert "are of a trace file" in capsys.readouterr().err


def test_quotas_are_not_asked_for_beside_a_load(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--trace", str(trace), "--format", "philly", "--load", "0.8", "--quotas", "none"]
    assert main(["simulate", *asked]) != 0
    assert "--quotas goes with --nodes" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--quotas", "demand")])
def test_a_job_that_is_too_large_is_named_beside_rows_that_make_no_sense(
    trace: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    trace.write_text(
        trace.read_text() + "2017-10-03 00:00:00,no,1,0,a\n" * 3 + "2017-10-03 01:00:00,9,64,0,b\n"
    )
    assert simulate(trace, *more) == 0
    said = capsys.readouterr().out
    assert "4 rows skipped" in said
    assert "job philly-40 asks for 64 GPUs and the cluster has 8" in said
    assert simulate(trace, *more, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["jobs"] for row in rows} == {40}
    assert "philly-40" in rows[0]["bad_rows"][-1]["reason"]


def test_nothing_to_simulate_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--nodes", "2x4"]) != 0
    assert "--from-store" in capsys.readouterr().err


def test_a_file_of_slurms_accounting_is_recognized(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text(
        "JobID|User|Account|Submit|Start|End|State|AllocTRES\n"
        "1|ann|vision|2026-10-01T08:00:00|2026-10-01T08:05:00|2026-10-01T10:05:00|COMPLETED|gres/gpu=4\n"
        "2|bob|nlp|2026-10-01T08:00:00|2026-10-01T08:05:00|2026-10-01T09:05:00|TIMEOUT|gres/gpu=8\n"
        "3|bob|nlp|2026-10-01T08:00:00|2026-10-01T08:05:00|Unknown|RUNNING|gres/gpu=8\n"
        "4|bob|nlp|2026-10-01T08:00:00|2026-10-01T08:05:00|no|COMPLETED|gres/gpu=8\n"
    )
    words = [
        "simulate",
        "--trace",
        str(jobs),
        "--nodes",
        "1x8",
        "--policy",
        "fifo",
        "--restart",
        "1s",
        "--json",
    ]
    assert main(words) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["jobs"] == 2
    assert row["makespan_s"] == pytest.approx(
        3 * 3600, abs=20
    )  # 2 h on four GPUs, 1 h on all: one after the other
    assert row["bad_rows"] == [{"line": 5, "reason": "End is no time: 'no'"}]
    assert list(row["left_out"].values()) == [1]


def test_a_file_that_is_no_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("dear diary\n")
    assert main(["simulate", "--trace", str(jobs), "--nodes", "1x8"]) == 2
    said = capsys.readouterr().err
    assert "nothing that is known begins with 'dear diary'" in said
    assert "sacct" in said


def test_the_formats_that_can_be_typed_are_those_that_are_read() -> None:
    assert TRACE_FORMATS == FORMATS
