"""``fallow import jobs --from slurm``: what it stores, what it says, and what reports make of it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.query import run
from analytics.text import NOTHING
from collector.reading import Reading, Tick
from service.cli import import_jobs, main
from service.usecases import accounting
from tests.collector.managers.test_sacct_text import FORGED, MEANS, ROW, comment, text
from tests.collector.store.store_parts import at_path, gpu
from tests.service.conftest import Running
from tests.stores import open_store

BEGAN_S = 1_764_075_900
HOUR_S = 3_600
FIXTURE = Path(__file__).parents[1] / "collector" / "managers" / "recorded" / "sacct_22.05.txt"


def row(number: int, **changes: str) -> dict[str, str]:
    """A run of an hour on two GPUs of n1, after the one before it."""
    start_s = BEGAN_S + number * HOUR_S
    return (
        ROW
        | {
            "JobIDRaw": str(number),
            "JobID": str(number),
            "Submit": str(start_s),
            "Start": str(start_s),
            "End": str(start_s + HOUR_S),
        }
        | changes
    )


ROWS = (
    row(0, AdminComment=comment(MEANS)),
    row(1, User="bob", Account="speech", NodeList="n[2-3]", AllocTRES="gres/gpu=8", JobName="a|b"),
    row(2, State="CANCELLED by 1000", AdminComment="JS1:Short"),
    row(3, AllocTRES="cpu=3", ReqTRES="cpu=3"),
    row(4, State="RUNNING", End="Unknown"),
    row(5) | {"JobIDRaw": "5.batch"},
    row(6, Start="Unknown", State="CANCELLED by 0", AllocTRES=""),
    row(7, Start="soon"),
)
WINDOW = {"from_ts": BEGAN_S * 1000, "to_ts": (BEGAN_S + 100 * HOUR_S) * 1000}


def imported(
    data: Path, rows: Sequence[dict[str, str]], capsys: pytest.CaptureFixture[str], *more: str
) -> str:
    file = data / "past.txt"
    file.write_text(text(*rows), newline="\n")
    capsys.readouterr()
    assert main(["import", "jobs", "--from", "slurm", "--data", str(data), "--file", str(file), *more]) == 0
    return " ".join(capsys.readouterr().out.split())


def stored(data: Path, query: str, **params: object) -> list[dict[str, object]]:
    with open_store(at_path(data)) as store, store.reader() as reader:
        rows: list[dict[str, object]] = run(reader, query, params).to_pylist()
        return rows


def test_without_yes_it_says_what_there_is_and_stores_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = imported(tmp_path, ROWS, capsys)
    assert (
        "4 runs of jobs with GPUs: 8 records read, 1 with means of jobstats, 1 without GPUs, 1 steps" in said
    )
    assert "1 not over yet" in said and "line 9: Start is no time: 'soon'" in said and "add --yes" in said
    assert stored(tmp_path, "accounted_runs", job="slurm:0") == []


def test_a_run_is_stored_once_however_often_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "4 new runs" in imported(tmp_path, (*ROWS, ROWS[0]), capsys, "--yes")
    assert "0 new runs of jobs with GPUs: 8 records read, 4 were there before" in imported(
        tmp_path, ROWS, capsys, "--yes"
    )
    (run_,) = stored(tmp_path, "accounted_runs", job="slurm:1")
    assert (run_["job_name"], run_["user_name"], run_["gpus"]) == ("a|b", "bob", 8)
    assert run_["node_names"] == ["n2", "n3"]


def test_runs_of_a_requeued_job_are_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = row(0, State="REQUEUED"), row(0, Start=str(BEGAN_S + 60)), row(0, Submit=str(BEGAN_S + 1))
    assert "3 new runs" in imported(tmp_path, again, capsys, "--yes")
    assert len(stored(tmp_path, "accounted_runs", job="slurm:0")) == 3


def test_means_that_come_later_complete_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(tmp_path, [row(0)], capsys, "--yes")
    said = imported(tmp_path, [ROWS[0]], capsys, "--yes")
    assert "0 new runs" in said and "1 have means now" in said
    (run_,) = stored(tmp_path, "accounted_runs", job="slurm:0")
    assert (run_["measured_gpus"], run_["unused_gpus"], run_["utilization_ratio"]) == (2, 1, 0.493)
    assert "0 new runs of jobs with GPUs: 1 records read, 1 were there before" in imported(
        tmp_path, [ROWS[0]], capsys, "--yes"
    )


def test_use_is_bounds_of_what_has_means_and_nothing_of_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(tmp_path, ROWS, capsys, "--yes")
    bob, ann = stored(tmp_path, "accounted_use", by="user", **WINDOW)
    assert (bob["key"], bob["gpu_hours"], bob["measured_gpu_hours"], bob["utilization_ratio"]) == (
        "bob",
        8.0,
        0.0,
        None,
    )
    assert (ann["runs"], ann["gpu_hours"], ann["measured_gpu_hours"], ann["unused_gpu_hours"]) == (
        2,
        4.0,
        2.0,
        1.0,
    )
    assert ann["used_gpu_hours"] == pytest.approx(0.986)
    half = {"from_ts": (BEGAN_S + HOUR_S // 2) * 1000, "to_ts": WINDOW["to_ts"]}
    assert [each["gpu_hours"] for each in stored(tmp_path, "accounted_use", by="all", **half)] == [11.0]
    accounts = stored(tmp_path, "accounted_use", by="account", **WINDOW)
    assert accounts and accounts == stored(tmp_path, "accounted_use", by="project", **WINDOW)
    assert [each["key"] for each in stored(tmp_path, "accounted_use", by="node", **WINDOW)] == [
        "n1",
        "n2",
        "n3",
    ]
    assert stored(tmp_path, "accounted_use", by="all", user="nobody", **WINDOW) == []


@pytest.mark.parametrize("typed", ["200_1", "200+1", "200_1.batch", "slurm:200+1", "203", "201.0"])
def test_a_task_or_part_is_found_as_slurm_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    parts = (row(0, JobIDRaw="203", JobID="200_1"), row(1, JobIDRaw="201", JobID="200+1"))
    imported(tmp_path, parts, capsys, "--yes")
    assert main(["job", typed, "--data", str(tmp_path)]) == 0
    shown = "slurm:200+1" if "+" in typed or "201" in typed else "slurm:200_1"
    assert capsys.readouterr().out.startswith(shown)


def test_a_ledger_by_job_lists_imported_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs of one job are a row: 8 GPUs for an hour are 8, two runs of an hour on 2 GPUs are 4."""
    imported(tmp_path, (*ROWS[:2], row(2, JobIDRaw="0", JobID="0")), capsys, "--yes")
    rows = stored(tmp_path, "accounted_use", by="job", **WINDOW)
    assert [(each["key"], each["runs"], each["gpu_hours"]) for each in rows] == [
        ("slurm:1", 1, 8.0),
        ("slurm:0", 2, 4.0),
    ]
    range_ = ["--since", "2025-11-25", "--until", "2025-11-26"]
    assert main(["ledger", "--by", "job", *range_, "--data", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "slurm:1 " in told and "slurm:0 " in told


def test_hours_of_a_node_that_is_measured_are_no_more_than_nobody_held_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four GPUs of n2 for an hour; the one that it has is measured from a part of it on, with no holder."""
    at_ms = (BEGAN_S + HOUR_S + HOUR_S // 4) * 1000
    with open_store(at_path(tmp_path)) as store:
        hardware = Reading(source="dcgm", at_ms=at_ms, gpus=(gpu(0, node="n2.lab.example"),))
        store.write_tick(Tick(at_ms=at_ms, width_ms=30_000, outcomes=(hardware,), allocations=()))
        with store.reader() as reader:
            since = reader.execute("SELECT epoch_ms(installed_from) FROM gpus").fetchone()
    assert since is not None
    imported(tmp_path, ROWS, capsys, "--yes")
    hours = {
        each["key"]: each["gpu_hours"] for each in stored(tmp_path, "accounted_use", by="node", **WINDOW)
    }
    part = (since[0] / 1000 - BEGAN_S - HOUR_S) / HOUR_S
    assert hours["n3"] == 4.0 and hours["n2"] == pytest.approx(4 * part + 1 * (1 - part)) and part < 0.26


@pytest.mark.slow
def test_the_past_is_in_ledger_job_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(tmp_path, ROWS, capsys, "--yes")
    span = ["--since", "2025-11-25", "--until", "2025-11-27", "--data", str(tmp_path)]
    assert main(["ledger", "--by", "user", *span]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "GPU-hours that no ledger has as given" in said and f"bob 1 8.0 0.0 {NOTHING} 0.0" in said
    assert "at least 1.0" in said and "none is counted as wasted" in said
    assert main(["ledger", "--by", "partition", *span]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "partition runs given" in said and "main 3 12.0 2.0" in said
    assert main(["job", "0", *span]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 GPUs on 1 node for 1 h: 2.0 GPU-hours" in said and "1 of them never used" in said
    assert "n1/0: 99%, at most 8/80 GiB" in said
    assert main(["job", "slurm:6", *span]) == 0
    assert "never began" in capsys.readouterr().out
    assert main(["report", "cluster-week", *span, "--format", "json", "--out", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "accounted" in json.dumps(told)


def test_what_slurm_22_05_printed_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = "JobIDRaw|User|Account|Partition|QOS|AllocTRES|NodeList|Submit|Eligible|Start|End|State"
    header = f"{names}|ExitCode|JobName|Cluster"
    lines = [header, *(f"{line}|lab" for line in FIXTURE.read_text().splitlines())]
    file = tmp_path / "saved.txt"
    file.write_text("\n".join(lines))
    assert main(["import", "jobs", "--from", "slurm", "--data", str(tmp_path), "--file", str(file), "--yes",
                 "--timezone", "UTC"]) == 0  # fmt: skip
    assert "can't be read" not in capsys.readouterr().out
    states = [each["state_name"] for each in stored(tmp_path, "accounted_runs", job="slurm:9")]
    assert states == ["CANCELLED", "REQUEUED", "REQUEUED"]


@pytest.mark.parametrize("words", [["import", "jobs"], ["import", "prometheus"]])
def test_what_is_missing_is_said(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--data", str(tmp_path)]) != 0
    assert "--from slurm" in (said := capsys.readouterr().err) or "--url" in said


def test_a_file_that_is_none_says_which_command_makes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x"
    file.write_text("9|ann|vision\n")
    assert main(["import", "jobs", "--from", "slurm", "--data", str(tmp_path), "--file", str(file)]) != 0
    assert "--format=JobIDRaw" in capsys.readouterr().err.replace("\n", "")


def test_spans_that_were_imported_are_left_out() -> None:
    assert list(import_jobs.left_of(0, 10, [(2, 4), (3, 5), (8, 20)])) == [(0, 2), (5, 8)]
    assert list(import_jobs.left_of(0, 10, [])) == [(0, 10)]
    assert list(import_jobs.left_of(5, 10, [(0, 20)])) == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"origin": "slurm", "rows": [], "columns": ["JobIDRaw"]},
        {"origin": "slurm", "rows": [[1, ["a"]]], "columns": list(ROW)},
        {"origin": "slurm", "rows": 3, "columns": list(ROW)},
        {
            "origin": "slurm",
            "rows": [[1, list(ROW.values())]],
            "columns": list(ROW),
            "zone": "../../etc/passwd",
        },
        {"origin": "slurm", "done": ["a", 2]},
    ],
)
def test_rows_that_are_none_are_refused(given: dict[str, object], tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store, pytest.raises(accounting.RowsRefused):
        accounting.ordered(store, given)


@pytest.mark.slow
@pytest.mark.process
def test_a_service_stores_them_for_operators(service: Running, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(1000 + number, JobName=f"{FORGED}{number}") for number in range(3)]
    assert "3 new runs" in imported(service.data, rows, capsys, "--yes")
    assert "0 new runs" in imported(service.data, rows, capsys, "--yes")
    since = datetime.fromtimestamp(BEGAN_S, UTC).date().isoformat()
    assert main(["ledger", "--by", "project", "--since", since, "--data", str(service.data)]) == 0
    assert "vision" in capsys.readouterr().out


@pytest.mark.slow
def test_what_accounting_gave_out_is_never_told_as_nobody_held_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs: ann an hour on 2 GPUs, bob an hour on 8; nothing was measured in that time."""
    imported(tmp_path, ROWS[:2], capsys, "--yes")
    asked = ["--data", str(tmp_path), "--since", "2025-11-25", "--until", "2025-11-26"]
    paper = ["--format", "md", "--out", "-"]
    assert main(["report", "chargeback", *asked, *paper]) == 0
    told = capsys.readouterr().out
    assert "By imported accounting 10.0 GPU-hours were given out (bob 8.0, ann 2.0)" in told
    assert "Held: **\N{EN DASH}**" in told and "Nobody held" not in told and "0.0 kWh" not in told
    assert "| speech | 1 | 8.0 GPU-hours" in told and "| bob | 1 | 8.0 GPU-hours" in told
    assert main(["report", "my-week", "--user", "bob", *asked, *paper]) == 0
    told = capsys.readouterr().out
    assert "8.0 GPU-hours were given out" in told and "held no GPU" not in told
    assert "Nobody measured what you made of your GPUs" in told and "Held: " not in told
    assert "Nothing: nothing was found" not in told
    assert main(["waste", *asked]) == 0
    told = capsys.readouterr().out
    assert "10.0 GPU-hours were given out" in told and "Nobody is known" not in told
