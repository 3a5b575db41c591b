"""Queries that look things up, against ``tests/analytics/world.py``: what is there, who, what happened."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import History, to_table
from collector.model import Basis, GpuSample
from collector.store.judgements import Judgement
from tests.analytics.conftest import Ask
from tests.analytics.world import A0, END_MS, GIB, NOON, ONE, TWO, WINDOW, fill

BARE_NOON, BARE_ONE = NOON.replace(tzinfo=None), ONE.replace(tzinfo=None)


def test_span(ask: Ask) -> None:
    (row,) = ask("span")
    assert row["first_ts"] == BARE_NOON
    assert row["last_ts"] == TWO.replace(minute=3, tzinfo=None)
    assert row["complete_to"] == TWO.replace(minute=2, tzinfo=None)
    assert (row["nodes"], row["gpus"], row["holders"], row["samples"]) == (2, 3, 4, 120 + 63 * 3 - 15)


def test_marks(ask: Ask) -> None:
    assert {row["name"]: row["complete_to"].hour for row in ask("marks")} == {
        "rollup_1d": 0,
        "rollup_1h": 14,
        "rollup_1m": 14,
    }


def test_options(ask: Ask) -> None:
    rows = [(row["dimension"], row["value"]) for row in ask("options")]
    assert rows == [
        ("model", "A100"),
        ("model", "H100"),
        ("node", "a"),
        ("node", "b"),
        ("project", "lm"),
        ("project", "vision"),
        ("user", "ana"),
        ("user", "bo"),
    ]


def test_sources(ask: Ask) -> None:
    (row,) = ask("sources")
    assert (row["source"], row["reason"], row["last_ts"]) == (
        "hand",
        None,
        TWO.replace(minute=3, tzinfo=None),
    )


def test_gaps(ask: Ask) -> None:
    (row,) = ask("gaps", **WINDOW)
    assert (row["node"], row["uuid"], row["reason"]) == ("b", "GPU-b0", "the cable was out")
    assert (row["from_ts"].minute, row["to_ts"].minute) == (30, 45)
    assert ask("gaps", from_ts=NOON, to_ts=ONE) == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [({}, 1), ({"node": "a"}, 0), ({"user": "bo"}, 1), ({"user": "ana"}, 0), ({"project": "lm"}, 1)],
)
def test_events(ask: Ask, filters: dict[str, str], found: int) -> None:
    rows = ask("events", **WINDOW, **filters)
    assert [(row["uuid"], row["kind"], row["detail"]) for row in rows] == [("GPU-b0", "xid", "13")] * found


def test_gpu_holders(ask: Ask) -> None:
    rows = ask("gpu_holders", uuid="GPU-a1", **WINDOW)
    assert [(row["user_name"], row["share"], row["source"]) for row in rows] == [
        ("bo", 0.5, "slurm"),
        ("ana", 0.5, "slurm"),
    ]
    assert ask("gpu_holders", uuid="GPU-a1", from_ts=ONE, to_ts=TWO) == []


def test_gpu_names(ask: Ask) -> None:
    names = {row["uuid"]: (row["node"], row["gpu_place"], row["to_ts"]) for row in ask("gpu_names", **WINDOW)}
    assert names["GPU-a1"] == ("a", "1", None)
    assert ask("gpu_names", from_ts="2020-01-01", to_ts="2020-01-02") == []


def test_processes_now(ask: Ask) -> None:
    (row,) = ask("processes_now", uuid="GPU-a0")
    assert (row["pid"], row["user_name"], row["frameworks"], row["job"]) == (
        71,
        "ana",
        ["PyTorch"],
        "slurm:1",
    )
    assert row["memory_used_bytes"] == 30 * GIB
    assert ask("processes_now", uuid="GPU-a1") == []


def test_cluster_now(ask: Ask) -> None:
    (row,) = ask("cluster_now")
    counted = ("gpus", "held_gpus", "idle_held_gpus", "free_gpus", "unknown_gpus", "used_gpus")
    assert [row[name] for name in counted] == [3, 2, 2, 1, 0, 0]
    assert row["power_w"] == 190.0
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (30 * GIB, 200 * GIB)
    (bos,) = ask("cluster_now", user="bo")
    assert (bos["gpus"], bos["held_gpus"]) == (1, 1)


def test_gpus_now(ask: Ask) -> None:
    rows = {row["uuid"]: row for row in ask("gpus_now")}
    assert {uuid: row["state"] for uuid, row in rows.items()} == {
        "GPU-a0": "held-idle",
        "GPU-a1": "free",
        "GPU-b0": "allocated-empty",
    }
    assert rows["GPU-a0"]["state_since"] == BARE_ONE
    assert (rows["GPU-a0"]["user_name"], rows["GPU-a1"]["user_name"]) == ("ana", None)
    assert rows["GPU-a0"]["power_w"] == 100.0
    assert [row["uuid"] for row in ask("gpus_now", project="lm")] == ["GPU-b0"]


def test_heatmap(ask: Ask) -> None:
    rows = ask("heatmap", **WINDOW, step_s=3600)
    assert [(row["uuid"], row["ts"].hour, row["state"], row["held_ratio"]) for row in rows] == [
        ("GPU-a0", 12, "good", 1.0),
        ("GPU-a0", 13, "held-idle", 1.0),
        ("GPU-a1", 12, "moderate", 1.0),
        ("GPU-a1", 13, "free", 0.0),
        ("GPU-b0", 13, "allocated-empty", 1.0),
    ]
    assert [row["utilization_ratio"] for row in rows] == pytest.approx([0.8, 0.0, 0.4, 0.0, 0.0])
    quarters = ask("heatmap", **WINDOW, step_s=900, node="b")
    empty = "allocated-empty"
    # nothing is known of 13:30 to 13:45 but whose it was
    told = [(row["ts"].minute, row["state"], row["held_ratio"]) for row in quarters]
    assert told == [(0, empty, 1.0), (15, empty, 1.0), (30, "unknown", 1.0), (45, empty, 1.0)]


def test_heatmap_by_node(ask: Ask) -> None:
    rows = ask("heatmap_by_node", **WINDOW, step_s=3600)
    assert [(row["node"], row["ts"].hour, row["held_ratio"]) for row in rows] == [
        ("a", 12, 1.0),
        ("a", 13, 0.5),
        ("b", 13, 1.0),  # of the time that was recorded
    ]
    assert [row["utilization_ratio"] for row in rows] == pytest.approx([0.6, 0.0, 0.0])
    assert {row["node"] for row in ask("heatmap_by_node", **WINDOW, step_s=900, node="b")} == {"b"}


def test_gpu_timeline(ask: Ask) -> None:
    rows = ask("gpu_timeline", uuid="GPU-a1", **WINDOW, step_s=1800)
    assert [row["utilization_ratio"] for row in rows] == pytest.approx([0.4, 0.4, 0.0, 0.0])
    assert [row["gpu_utilization_ratio"] for row in rows] == pytest.approx([0.5, 0.5, 0.0, 0.0])
    assert [row["state"] for row in rows] == ["moderate", "moderate", "free", "free"]
    assert [row["holders"] for row in rows] == ["ana, bo", "ana, bo", None, None]
    assert [row["encoder_ratio"] for row in rows] == [None] * 4
    assert rows[0]["rung"] == 3


def test_job_timeline(ask: Ask) -> None:
    rows = ask("job_timeline", job="pod:lm/x", **WINDOW, step_s=1800)
    assert [(row["uuid"], row["share"], row["ts"].minute) for row in rows] == [
        ("GPU-a1", 0.5, 0),
        ("GPU-a1", 0.5, 30),
    ]
    assert rows[0]["memory_controller_ratio"] == pytest.approx(0.2)


def test_use_of_jobs(ask: Ask) -> None:
    """By the hour: 30 of 80 GiB, and of the shell's hour, which nobody works in, a quarter not measured."""
    rows = ask("use_of_jobs", jobs=("slurm:1", "slurm:3", "nobody's"), **WINDOW, step_s=3600)
    assert [(row["job"], row["ts"].hour) for row in rows] == [
        ("slurm:1", 12),
        ("slurm:1", 13),
        ("slurm:3", 13),
    ]
    assert [row["utilization_ratio"] for row in rows] == pytest.approx([0.8, 0.0, 0.0])
    assert [row["memory_used_max_ratio"] for row in rows] == pytest.approx([0.375, 0.375, 0.0])
    assert [row["wasted_ratio"] for row in rows] == pytest.approx([0.0, 1.0, 0.75])
    (alone,) = ask("use_of_jobs", jobs="slurm:3", **WINDOW, step_s=7200)
    assert alone["utilization_ratio"] == 0.0, "over HTTP a list of one is a text"


def test_use_of_jobs_is_unknown_where_nothing_was_measured(ask: Ask) -> None:
    rows = ask("use_of_jobs", jobs=["slurm:3"], **WINDOW, step_s=900)
    assert [row["utilization_ratio"] for row in rows] == [0.0, 0.0, None, 0.0]


def test_activity(ask: Ask) -> None:
    rows = {row["job"]: row for row in ask("activity", **WINDOW)}
    fit = rows["slurm:1"]
    assert (fit["minutes"], fit["active_minutes"], fit["runs"]) == (120, 60, 1)
    assert (fit["run_longest_minutes"], fit["gap_longest_minutes"]) == (60, None)
    assert fit["edge_longest_minutes"] == 60, "it has done nothing since 13:00"
    assert fit["utilization_ratio"] == pytest.approx(0.8)
    assert (rows["slurm:3"]["minutes"], rows["slurm:3"]["runs"]) == (45, 0)
    assert (rows["slurm:3"]["held_gpu_minutes"], rows["slurm:3"]["measured_gpu_minutes"]) == (60, 45.0)
    half = rows["pod:lm/x"]
    assert (half["held_gpu_minutes"], half["measured_gpu_minutes"]) == (60, 60.0), "a share is no coverage"


def test_what_was_measured_too_long_ago_is_not_shown_as_measured_now(tmp_path: Path) -> None:
    later = END_MS + 300_000
    sample = GpuSample(uuid=A0, at_ms=later, width_ms=60_000, rung=Basis.SM_ACTIVE, utilization_ratio=0.5)
    with fill(tmp_path) as store:
        store.write_history(History(source="hand", gpus=(), samples=to_table([sample])))
        with store.reader() as reader:
            rows = {row["uuid"]: row for row in run(reader, "gpus_now", {}).to_pylist()}
    measures = ("utilization_ratio", "memory_used_bytes", "power_w", "process_count", "temperature_c")
    assert rows["GPU-a0"]["utilization_ratio"] == 0.5
    silent = rows["GPU-a1"]
    assert (silent["state"], [silent[name] for name in measures]) == ("unknown", [None] * 5)
    assert silent["as_of"] == datetime.fromtimestamp(END_MS / 1000, UTC).replace(tzinfo=None)


def test_findings(tmp_path: Path) -> None:
    found = {
        "kind": "held-idle",
        "uuid": "GPU-a0",
        "job": "slurm:1",
        "window_from_ms": END_MS - 3_600_000,
        "window_to_ms": END_MS,
        "coverage": 1.0,
        "rung": 3,
        "wasted_gpu_hours": 1.5,
        "sentence": "ana holds it and does nothing.",
        "evidence": {"idle_bins": 120},
    }
    with fill(tmp_path) as store, store.reader() as reader:
        store.write_judgement(Judgement(findings=[found]), END_MS)
        window = {"from_ts": NOON, "to_ts": NOON.replace(hour=16)}
        (row,) = run(reader, "findings", window).to_pylist()
        assert (row["kind"], row["uuid"], row["user_name"], row["model"]) == (
            "held-idle",
            "GPU-a0",
            "ana",
            "H100",
        )
        idle = 62 / 60  # from 13:00 on; rolled up until 14:02
        assert row["wasted_gpu_hours"] == pytest.approx(idle), "of the window, not of the judgement"
        assert (row["wasted_cost"], row["currency"]) == (pytest.approx(4 * idle), "EUR")
        assert (row["judged_gpu_hours"], row["low_saturation_gpu_hours"]) == (1.5, 0.0)
        assert json.loads(row["evidence"]) == {"idle_bins": 120}
        assert row["closed_at"] is None
        store.write_judgement(Judgement(), END_MS + 60_000)
        assert run(reader, "findings", window | {"open": True}).num_rows == 0
        (closed,) = run(reader, "findings", window | {"open": False, "user": "ana"}).to_pylist()
        assert closed["closed_at"] is not None
        assert run(reader, "findings", window | {"node": "b"}).num_rows == 0


def test_held_minutes_count_once_however_often_the_share_changes(tmp_path: Path) -> None:
    with fill(tmp_path) as store, store.reader() as reader:
        reader.execute(
            "INSERT INTO allocations SELECT gpu_id, holder_id, 0.5, from_ts + to_minutes(10), "
            "from_ts + to_minutes(70), source FROM allocations WHERE to_ts IS NULL"
        )
        rows = {row["job"]: row for row in run(reader, "activity", WINDOW).to_pylist()}
    assert rows["slurm:1"]["held_gpu_minutes"] == 120
