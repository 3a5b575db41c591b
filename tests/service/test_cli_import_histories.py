"""``fallow import jobs --file``: jobs of PBS, LSF, Kueue and tables, counted by hand, stored and told."""

import json
from pathlib import Path

import pytest

from analytics.query import run
from collector.managers.histories.cells import COLUMNS, run_of
from service.cli import main
from tests.collector.store.store_parts import at_path
from tests.stores import open_store

AT = 1_790_841_600
"""2026-10-01T08:00:00Z: 20,727 days of 86,400 s since 1970, and eight hours."""

HOUR_S = 3_600
WINDOW = {"from_ts": AT * 1000, "to_ts": (AT + 100 * HOUR_S) * 1000}

PBS = (
    f"10/01/2026 10:00:00;E;7.head;user=ann group=vision project=_pbs_project_default jobname=fit ctime={AT} "
    f"start={AT + 60} exec_host=n1/0*8+n2/0*8 Resource_List.ngpus=4 end={AT + 60 + 2 * HOUR_S}\n"
    f"10/01/2026 10:00:01;Q;8.head;queue=gpu\n"
    f"10/01/2026 10:00:02;E;9.head;user=bob ctime={AT} start={AT} exec_host=n3/0 end={AT + 60}\n"
    "torn off\n"
)
"""Ann's job: 4 GPUs on two nodes for two hours are 8 GPU-hours. Bob's had no GPU."""

TABLE = (
    "job,user,submitted,started,ended,gpus,nodes\n"
    "a,eve,2026-10-01 10:00:00,2026-10-01 10:00:00,2026-10-01 11:30:00,2,n5\n"
    "b,eve,2026-10-01 10:00:00,2026-10-01 10:00:00,2026-10-01 11:00:00,0.5,n5\n"
    "c,zoe,2026-10-01 10:00:00,2026-10-01 10:00:00,2026-10-01 13:00:00,1,\n"
)
"""In Berlin's summer time 10:00 is 08:00 UTC. Eve's 3 GPU-hours on n5, Zoe's 3 nobody knows where."""


def imported(
    data: Path, name: str, written: str, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, str]:
    file = data / name
    file.write_text(written)
    capsys.readouterr()
    code = main(["import", "jobs", "--data", str(data), "--file", str(file), *more])
    told = capsys.readouterr()
    return code, " ".join((told.out + told.err).split())


def stored(data: Path, query: str, **params: object) -> list[dict[str, object]]:
    with open_store(at_path(data)) as store, store.reader() as reader:
        rows: list[dict[str, object]] = run(reader, query, params).to_pylist()
        return rows


def test_a_log_of_pbs_is_known_by_itself_and_stored_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = imported(tmp_path, "20261001", PBS, capsys)
    assert code == 0 and "1 runs of jobs with GPUs" in told and "add --yes" in told
    assert "line 4: not a record of PBS" in told and "left out: 1 asked for no GPU" in told
    assert stored(tmp_path, "accounted_runs", job="pbs:7.head") == []
    assert "1 new runs" in imported(tmp_path, "20261001", PBS, capsys, "--yes")[1]
    assert "0 new runs" in imported(tmp_path, "20261001", PBS, capsys, "--yes")[1]
    (job,) = stored(tmp_path, "accounted_runs", job="pbs:7.head")
    assert (job["user_name"], job["project"], job["gpus"], job["node_names"]) == (
        "ann",
        "vision",
        4,
        ["n1", "n2"],
    )
    (use,) = stored(tmp_path, "accounted_use", by="user", **WINDOW)
    assert (use["key"], use["gpu_hours"], use["measured_gpu_hours"]) == ("ann", 8.0, 0.0)
    by_node = stored(tmp_path, "accounted_use", by="node", **WINDOW)
    assert {row["key"]: row["gpu_hours"] for row in by_node} == {"n1": 4.0, "n2": 4.0}


def test_a_job_is_told_by_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(tmp_path, "20261001", PBS, capsys, "--yes")
    assert main(["job", "pbs:7.head", "--data", str(tmp_path), "--since", "2026-10-01"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "pbs:7.head fit · ann · vision" in told and "By the accounting of PBS: began" in told
    assert "4 GPUs on 2 nodes for 2 h: 8.0 GPU-hours" in told and " as " not in told.split("8.0")[0]


def test_a_tables_times_are_of_the_zone_that_was_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, told = imported(tmp_path, "jobs.csv", TABLE, capsys, "--timezone", "Europe/Berlin", "--yes")
    assert "2 new runs" in told and "line 3: it held a part of a GPU" in told
    (job,) = stored(tmp_path, "accounted_runs", job="table:a")
    assert job["started_at"].timestamp() == AT  # type: ignore[attr-defined]
    hours = {row["key"]: row["gpu_hours"] for row in stored(tmp_path, "accounted_use", by="node", **WINDOW)}
    assert hours == {"n5": 3.0, None: 3.0}


def test_what_counts_no_gpus_or_is_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swf = "1 0 10 3600 4 -1 -1 4 7200 -1 1 3 2 -1 1 -1 -1 -1\n"
    code, told = imported(tmp_path, "log.swf", swf, capsys, "--yes")
    assert code != 0 and "counts processors and not GPUs" in told and "fallow simulate --trace" in told
    code, told = imported(tmp_path, "x.txt", "what is this\n", capsys, "--yes")
    assert code != 0 and "nothing that is known begins with 'what is this'" in told
    code, told = imported(tmp_path, "y.csv", "job,user\n1,ann\n", capsys, "--yes")
    assert code != 0 and "the table lacks gpus" in told


def test_times_of_no_calendar_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "job,user,submitted,started,ended,gpus\n1,ann,0,10,3610,2\n"
    _, told = imported(tmp_path, "relative.csv", text, capsys, "--yes")
    assert "0 new runs" in told and "line 2: its times are of no calendar" in told


def test_a_row_without_a_number_is_no_run() -> None:
    row = dict.fromkeys(COLUMNS, "") | {
        "submitted": str(AT),
        "started": str(AT),
        "ended": str(AT + 9),
        "gpus": "1",
    }
    assert run_of(row) == "without a number or name of its own"
    assert not isinstance(run_of(row | {"number": "7"}), str)


def test_a_list_of_kueue_is_stored_without_its_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}]}}
    conditions = [
        {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-10-01T08:00:00Z"},
        {"type": "Finished", "status": "True", "lastTransitionTime": "2026-10-01T12:00:00Z"},
    ]
    workload = {
        "kind": "Workload",
        "metadata": {"namespace": "ml", "name": "fit", "creationTimestamp": "2026-10-01T07:00:00Z"},
        "spec": {"podSets": [{"count": 2, "template": pod}]},
        "status": {"conditions": conditions},
    }
    _, told = imported(tmp_path, "kueue.json", json.dumps({"items": [workload]}), capsys, "--yes")
    assert "1 new runs" in told
    (use,) = stored(tmp_path, "accounted_use", by="project", **WINDOW)
    assert (use["key"], use["gpu_hours"]) == ("ml", 16.0)  # two pods of two GPUs for four hours


def test_others_than_slurm_come_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "jobs", "--from", "pbs", "--data", str(tmp_path)]) != 0
    assert "others come as a --file" in " ".join(capsys.readouterr().err.split())
