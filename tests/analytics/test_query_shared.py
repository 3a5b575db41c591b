"""A GPU that several jobs hold at once: whether what each used is told apart is said with the job's hours."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.query import run
from collector.store.retention import Retention
from tests.collector.store.store_parts import T0, at_path
from tests.collector.store.test_store_shared import ALL_MS, charged
from tests.stores import open_store

SPAN = {
    "from_ts": datetime.fromtimestamp(T0 / 1000, UTC),
    "to_ts": datetime.fromtimestamp((T0 + ALL_MS) / 1000, UTC),
}
UNKNOWN = {"ann": 0.5, "bob": 0.0, "zoe": 0.3}
"""Zoe's process is of nobody who is known: whose the use was, nobody tells."""


@pytest.mark.parametrize(
    ("people", "uses", "shared_with", "is_told_apart"),
    [
        (("ann", "bob"), {"ann": 0.95, "bob": 0.0}, 1, True),
        (("ann", "bob"), {}, 1, False),
        (("ann", "bob"), UNKNOWN, 1, False),
        (("ann",), {"ann": 0.95}, 0, None),
    ],
)
def test_a_shared_gpu_says_whether_each_one_s_use_is_told_apart(
    tmp_path: Path,
    people: tuple[str, ...],
    uses: dict[str, float | None],
    shared_with: int,
    is_told_apart: bool | None,
) -> None:
    charged(tmp_path, people, uses)
    with open_store(at_path(tmp_path)) as store, store.reader() as connection:
        (row,) = run(connection, "job_gpus", {"job": "slurm:ann", **SPAN}).to_pylist()
        (whole,) = run(connection, "charged_alike", SPAN).to_pylist()
        (anns,) = run(connection, "charged_alike", {**SPAN, "user": "ann"}).to_pylist()
    assert (row["shared_with"], row["is_told_apart"]) == (shared_with, is_told_apart)
    hours = ALL_MS / 3_600_000
    shared = hours if shared_with else 0.0
    assert whole["shared_gpu_hours"] == pytest.approx(shared)
    assert whole["alike_gpu_hours"] == pytest.approx(shared if is_told_apart is False else 0.0)
    assert anns["alike_gpu_hours"] == pytest.approx(whole["alike_gpu_hours"] / 2)


def test_what_an_exporter_tells_of_whole_pods_tells_holders_apart(tmp_path: Path) -> None:
    charged(tmp_path, ("ann", "bob"), {})
    with open_store(at_path(tmp_path)) as store, store.reader() as connection:
        connection.execute(
            "INSERT INTO holder_samples SELECT ts, gpu_id, holder_id, width_ms, "
            "CASE WHEN user_name = 'ann' THEN 9500 ELSE 0 END, CASE WHEN user_name = 'ann' THEN 7 ELSE 5 END "
            "FROM samples JOIN allocations USING (gpu_id) JOIN holders USING (holder_id)"
        )
        (row,) = run(connection, "job_gpus", {"job": "slurm:ann", **SPAN}).to_pylist()
        now = run(connection, "use_by_holder", {"uuid": row["uuid"]}).to_pylist()
        instants = {"bins_from": T0, "bins_to": T0 + ALL_MS, "as_of": T0 + ALL_MS}
        (whole,) = run(connection, "charged_alike", SPAN).to_pylist()
        parts = run(connection, "assess_shared", {**instants, "gpu_ids": [1]}).to_pylist()
    assert row["is_told_apart"] is True and whole["alike_gpu_hours"] == 0.0
    assert [(each["job"], each["gpu_utilization_ratio"], each["memory_used_bytes"]) for each in now] == [
        ("slurm:ann", 0.95, 7),
        ("slurm:bob", 0.0, 5),
    ]
    assert {(each["holder_id"], each["part"], each["memory_bytes"]) for each in parts} == {
        (1, 1.0, 7),
        (2, 0.0, 5),
    }
    assert len({each["bin"] for each in parts}) == ALL_MS // 30_000


def test_who_worked_on_a_small_share_for_minutes_has_computed(tmp_path: Path) -> None:
    """20 minutes on a sixteenth of a GPU are 75 s of the ledger's; who did nothing did not compute."""
    people = ("ann", *(f"p{number}" for number in range(15)))
    charged(tmp_path, people, {"ann": 0.8, **dict.fromkeys(people[1:], 0.0)})
    with open_store(at_path(tmp_path)) as store, store.reader() as connection:
        rows = {row["job"]: row["gpus_used"] for row in run(connection, "jobs", SPAN).to_pylist()}
    assert rows["slurm:ann"] == 1
    assert {rows[f"slurm:{name}"] for name in people[1:]} == {0}


def test_a_rhythm_is_told_by_the_clock_whatever_the_share(tmp_path: Path) -> None:
    """20 minutes on a sixteenth of a GPU are 20 minutes of work, at four fifths of the GPU."""
    people = ("ann", *(f"p{number}" for number in range(15)))
    charged(tmp_path, people, {"ann": 0.8, **dict.fromkeys(people[1:], 0.0)})
    asked = {"as_of": T0 + ALL_MS, "gpu_ids": [1]}
    with open_store(at_path(tmp_path)) as store, store.reader() as connection:
        ann, *others = run(connection, "assess_rhythm", asked).to_pylist()
    assert (ann["busy_ms"], ann["known_ms"]) == (pytest.approx(ALL_MS), pytest.approx(ALL_MS))
    assert ann["busy_ratio"] == pytest.approx(0.8, abs=0.01)
    assert {(other["busy_ms"], round(other["known_ms"])) for other in others} == {(0.0, ALL_MS)}
    hours = sum(other["idle_gpu_hours"] for other in others)
    assert hours == pytest.approx(ALL_MS / 3_600_000 * 15 / 16), "the hours are the ledger's"


def test_nobody_uses_more_than_all_of_what_they_were_given(tmp_path: Path) -> None:
    """Eight hold a GPU that one of them uses to 80%: 640% of an eighth."""
    people = ("ann", *(f"p{number}" for number in range(7)))
    charged(tmp_path, people, {"ann": 0.8, **dict.fromkeys(people[1:], 0.0)})
    with open_store(at_path(tmp_path)) as store, store.reader() as connection:
        for name, key in (("jobs", "job"), ("people", "user_name"), ("ledger_by_user", "key")):
            rows = {row[key]: row for row in run(connection, name, SPAN).to_pylist()}
            ann = rows["slurm:ann" if name == "jobs" else "ann"]
            assert ann["utilization_ratio"] == 1.0
            assert ann["used_gpu_hours"] == pytest.approx(0.8 * ALL_MS / 3_600_000, rel=0.01)
        (row,) = run(connection, "job_gpus", {"job": "slurm:ann", **SPAN}).to_pylist()
        (whole,) = run(connection, "ledger_by_gpu", SPAN).to_pylist()
        minutes = {"from_ts": T0, "to_ts": T0 + ALL_MS}
        active = {row["job"]: row for row in run(connection, "activity", minutes).to_pylist()}
    assert row["utilization_ratio"] == active["slurm:ann"]["utilization_ratio"] == 1.0
    assert whole["utilization_ratio"] == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(("days", "is_told_apart"), [(30.0, True), (1.0, None)])
def test_what_is_not_kept_that_long_is_not_known(
    tmp_path: Path, days: float, is_told_apart: bool | None
) -> None:
    charged(tmp_path, ("ann", "bob"), {"ann": 0.95, "bob": 0.0})
    with open_store(at_path(tmp_path)) as store, store.reader() as connection:
        store.apply_retention(Retention(process_samples_days=days), T0 + 3 * 86_400_000)
        (row,) = run(connection, "job_gpus", {"job": "slurm:ann", **SPAN}).to_pylist()
        (whole,) = run(connection, "charged_alike", SPAN).to_pylist()
    assert (row["shared_with"], row["is_told_apart"]) == (1, is_told_apart)
    assert whole["alike_gpu_hours"] == 0.0
    assert (whole["unclear_gpu_hours"] > 0) is (is_told_apart is None)


@pytest.mark.parametrize(
    ("people", "uses", "own"),
    [
        # 20 min at 80% of the SMs, all of ann's; each process keeps 1 GiB.
        (("ann", "bob"), {"ann": 0.95, "bob": 0.0}, {"ann": (0.8, 1), "bob": (0.0, 1)}),
        (("ann", "bob"), {"ann": 0.6, "bob": 0.2}, {"ann": (0.6, 1), "bob": (0.2, 1)}),
        (("ann", "bob"), {"ann": 0.95}, {"ann": (0.8, 1), "bob": (0.0, 0)}),
        (("ann", "bob"), {}, {"ann": None, "bob": None}),
        (("ann", "bob"), UNKNOWN, {"ann": None, "bob": None}),
        (("ann",), {"ann": 0.95}, {}),  # nobody else: what is measured is its own
    ],
)
def test_what_each_did_and_kept_by_itself(
    tmp_path: Path,
    people: tuple[str, ...],
    uses: dict[str, float | None],
    own: dict[str, tuple[float, int] | None],
) -> None:
    charged(tmp_path, people, uses)
    with open_store(at_path(tmp_path)) as store, store.reader() as connection:
        asked = {"as_of": T0 + ALL_MS, "from_ts": T0}
        rows = {row["job"]: row for row in run(connection, "decide_shared", asked).to_pylist()}
    assert set(rows) == {f"slurm:{name}" for name in own}
    for name, expected in own.items():
        row = rows[f"slurm:{name}"]
        if expected is None:
            assert (row["told_ms"], row["utilization_p95_ratio"], row["memory_peak_bytes"]) == (0, None, None)
            continue
        use, memory_gib = expected
        assert row["told_ms"] == ALL_MS
        assert row["utilization_p95_ratio"] == pytest.approx(use, abs=0.002)
        assert row["utilization_mean_ratio"] == pytest.approx(use, abs=0.002)
        over_a_tenth, over_half = row["excess_ratios"][1], row["excess_ratios"][9]
        assert over_a_tenth == pytest.approx(max(0.0, use - 0.1), abs=0.002)
        assert over_half == pytest.approx(max(0.0, use - 0.5), abs=0.002)
        assert row["memory_peak_bytes"] == memory_gib << 30
        assert row["board_p95_ratio"] == pytest.approx(0.8, abs=0.002)
