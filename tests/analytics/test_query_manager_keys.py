"""Ledgers by a workload manager's own keys: partition, QOS, account and cluster of what was measured here."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analytics.query import run
from collector.store.database import Store
from tests.analytics.world import NOON, WINDOW, fill

RUN = {
    "manager": "slurm",
    "cluster": "lab",
    "restarts": 0,
    "state": "ended",
    "state_name": "COMPLETED",
    "reason": "",
    "reservation": "",
    "nodes": 1,
    "shards": 0,
    "tasks": 1,
}
PAST = {
    "manager": "slurm",
    "cluster": "old",
    "state_name": "COMPLETED",
    "exit_code": "0:0",
    "reservation": "",
    "node_names": ["b"],
    "gpus": 1,
    "gpu_types": "",
    "shards": 0,
    "measured_gpus": 0,
    "unused_gpus": 0,
}


def put(connection: object, table: str, row: Mapping[str, object]) -> None:
    names = ", ".join(row)
    marks = ", ".join(f"${name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)  # type: ignore[attr-defined]


def ran(
    number: str, partition: str, qos: str, *, began: datetime | None = NOON, ago_h: int = 2
) -> dict[str, object]:
    submitted = NOON - timedelta(hours=ago_h)
    return RUN | {
        "number": number,
        "job": f"slurm:{number}",
        "shown_id": number,
        "project": "vision",
        "partition": partition,
        "qos": qos,
        "submitted_at": plain(submitted),
        "started_at": None if began is None else plain(began),
    }


def past(number: str, user: str, cluster: str = "old") -> dict[str, object]:
    return PAST | {
        "number": number,
        "shown_id": number,
        "user_name": user,
        "project": "lm",
        "partition": "debug",
        "qos": "",
        "cluster": cluster,
        "submitted_at": plain(NOON - timedelta(hours=1)),
        "started_at": plain(NOON),
        "ended_at": plain(NOON + timedelta(hours=3)),
    }


def plain(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)


def hours(
    path: Path,
    name: str,
    *rows: tuple[str, Mapping[str, object]],
    label: str = "3",
    cluster: str | None = None,
) -> dict[object, float]:
    """Held GPU-hours in the ledger ``name``, of a store with these rows; bo's job is told as ``label``.

    ``cluster`` is what a Prometheus's label says of all GPUs.
    """
    with fill(path) as store:
        with store.writing("rows of a manager's") as connection:
            connection.execute("UPDATE holders SET job = $1 WHERE job = 'slurm:3'", [f"slurm:{label}"])
            connection.execute("UPDATE gpus SET cluster = $1", [cluster])
            for table, row in rows:
                put(connection, table, row)
        with store.reader() as reader:
            found = run(reader, name, WINDOW).to_pylist()
    return {row["key"]: row["held_gpu_hours"] for row in found if row["held_gpu_hours"]}


MANAGED = (
    ("manager_jobs", ran("1", "main", "normal")),
    ("manager_jobs", ran("2", "short,main", "high", began=None, ago_h=1)),
    ("manager_jobs", ran("2", "short", "high") | {"restarts": 1}),
    ("accounted_runs", past("1", "ana")),
    ("accounted_runs", past("3", "bo")),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ledger_by_partition", {"main": 2.0, "short": 0.5, "debug": 1.0, None: 0.5}),
        ("ledger_by_qos", {"normal": 2.0, "high": 0.5, None: 1.5}),
        ("ledger_by_account", {"vision": 2.5, "lm": 1.0, None: 0.5}),
        ("ledger_by_cluster", {"lab": 2.5, "old": 1.0, None: 0.5}),
    ],
)
def test_hours_are_told_by_the_run_that_had_them(
    tmp_path: Path, name: str, expected: dict[object, float]
) -> None:
    assert hours(tmp_path, name, *MANAGED) == pytest.approx(expected)


@pytest.mark.parametrize("label", ["200+1", "4_2"])
@pytest.mark.parametrize("table", ["accounted_runs", "manager_jobs"])
def test_a_label_that_tells_a_part_of_a_job_finds_its_keys(tmp_path: Path, table: str, label: str) -> None:
    """Bo's hour is of the part that Slurm has as number 201; a run of another number says nothing of it."""
    part = past("201", "bo") if table == "accounted_runs" else ran("201", "debug", "")
    other = past("202", "bo") | {"partition": "wrong", "shown_id": "200+2"}
    rows = [(table, part | {"shown_id": label}), ("accounted_runs", other)]
    assert hours(tmp_path, "ledger_by_partition", *rows, label=label) == pytest.approx(
        {"debug": 1.0, None: 3.0}
    )


@pytest.mark.parametrize(
    "rows",
    [
        [("accounted_runs", past("3", "somebody"))],
        [("accounted_runs", past("3", "bo")), ("accounted_runs", past("3", "bo", cluster="other"))],
    ],
    ids=["another person's number", "a number of two clusters"],
)
def test_a_number_that_may_be_another_job_s_gives_no_key(
    tmp_path: Path, rows: list[tuple[str, Mapping[str, object]]]
) -> None:
    assert hours(tmp_path, "ledger_by_cluster", *rows) == {None: 4.0}


def test_a_cluster_that_only_a_label_names_has_its_hours(tmp_path: Path) -> None:
    """Slurm tells of job 1 and its cluster *lab*, accounting of job 3 in *old*; of ana's second job and bo's
    pod, half a GPU each, only a Prometheus's label tells the cluster: *Lab*, which is the same, or *b*.
    """
    rows = [("manager_jobs", ran("1", "main", "normal")), ("accounted_runs", past("3", "bo"))]
    assert hours(tmp_path / "Lab", "ledger_by_cluster", *rows, cluster="Lab") == {"lab": 3.0, "old": 1.0}
    assert hours(tmp_path / "b", "ledger_by_cluster", *rows, cluster="b") == {
        "lab": 2.0,
        "old": 1.0,
        "b": 1.0,
    }


MANAGED_IN_TWO = (
    ("manager_jobs", ran("2", "short", "high")),
    ("manager_jobs", ran("2", "long", "low") | {"cluster": "other"}),
    ("accounted_runs", past("3", "bo")),
    ("accounted_runs", past("3", "bo", cluster="other") | {"partition": "big"}),
    ("accounted_runs", past("3", "ana", cluster="7") | {"partition": "seven"}),
)


@pytest.mark.parametrize(
    ("job", "told", "partition"),
    [
        ("slurm:3", "slurm:3@old", "debug"),
        ("slurm:3", "slurm:3@Old", "debug"),  # as a label spells it
        ("slurm:3", "slurm:3@other", "big"),
        ("slurm:3", "slurm:3@new", None),  # a cluster of which nothing is known
        ("slurm:3", "slurm:3@cluster-7", None),  # another person's
        ("slurm:3", "slurm:3", None),  # of one of two clusters
        ("slurm:2", "slurm:2@lab", "short"),
        ("slurm:2", "slurm:2@other", "long"),
        ("slurm:2", "slurm:2@1772438100", None),  # used again by another person
    ],
)
def test_a_job_that_is_told_with_its_cluster_has_the_keys_of_its_run_there(
    managed_in_two: Store, job: str, told: str, partition: str | None
) -> None:
    """Held by slurm:2 half an hour, by slurm:3 (bo) an hour, in the world."""
    rename = "UPDATE holders SET job = $new WHERE job = $old"
    with managed_in_two.writing("a job as its labels name it") as connection:
        connection.execute(rename, {"new": told, "old": job})
    try:
        with managed_in_two.reader() as reader:
            rows = run(reader, "ledger_by_partition", WINDOW).to_pylist()
    finally:
        with managed_in_two.writing("as it was") as connection:
            connection.execute(rename, {"new": job, "old": told})
    held = {row["key"]: row["held_gpu_hours"] for row in rows if row["held_gpu_hours"]}
    assert held.get(partition, 0.0) >= {"slurm:2": 0.5, "slurm:3": 1.0}[job]
    assert set(held) <= {partition, None, "short"}
    if partition is None:
        assert not set(held) & {"debug", "big", "seven", "long"}


@pytest.fixture(scope="module")
def managed_in_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fill(tmp_path_factory.mktemp("keys")) as store:
        with store.writing("rows of a manager's") as connection:
            for table, row in MANAGED_IN_TWO:
                put(connection, table, row)
        yield store
