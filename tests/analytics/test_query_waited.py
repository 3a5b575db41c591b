"""Who waited for GPUs while others held GPUs idle, against values counted by hand from ``world``.

From 13:00 to 14:00 a0 is ana's slurm:1, held and idle; a1 is free; b0 is bo's slurm:3, without a process
but for 13:30 to 13:45, in which nobody measured it. Node a is in main and short, node b in long.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from analytics.query import run
from collector.store.database import Store
from tests.analytics.test_query_manager_keys import plain, put
from tests.analytics.world import NOON, ONE, TWO, WINDOW, fill

NODES = (
    {"node": "a", "partitions": "main,short", "gpu_types": "h100"},
    {"node": "b.example", "partitions": "long", "gpu_types": "a100"},
)
LAST = plain(TWO + timedelta(minutes=3))


def wait(
    number: str, user: str, partition: str, gpus: int, minutes: tuple[int, int | None], **more: object
) -> dict[str, Any]:
    """One from so many minutes after one o'clock to so many, or still."""
    start, end = minutes
    return {
        "manager": "slurm",
        "cluster": "lab",
        "number": number,
        "submitted_at": plain(NOON),
        "restarts": 0,
        "job": f"slurm:{number}",
        "user_name": user,
        "project": {"ana": "vision", "bo": "lm"}.get(user, "speech"),
        "partition": partition,
        "qos": "normal",
        "reservation": "",
        "gpu_type": "",
        "gpus": gpus,
        "cause": "resources",
        "reason": "Resources",
        "from_ts": plain(ONE + timedelta(minutes=start)),
        "to_ts": None if end is None else plain(ONE + timedelta(minutes=end)),
        **more,
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The world with its nodes and a look at them."""
    with fill(tmp_path_factory.mktemp("waited")) as opened:
        with opened.writing("nodes") as connection:
            for node in NODES:
                put(connection, "manager_nodes", {"manager": "slurm", "cluster": "lab", "reason": "", **node})
            put(connection, "manager_looks", _look(LAST))
        yield opened


def asked(store: Store, name: str, waits: list[dict[str, Any]], **params: object) -> list[dict[str, Any]]:
    """A query's rows where these wait, and nobody of whom other tests asked."""
    with store.writing("waits") as connection:
        connection.execute("DELETE FROM manager_waits")
        for row in waits:
            put(connection, "manager_waits", row)
    with store.reader() as reader:
        return run(reader, name, {**WINDOW, **params}).to_pylist()


def _look(at: datetime) -> Mapping[str, object]:
    counts = dict.fromkeys(
        ("running", "pending", "nodes", "gpus", "given_gpus", "doubted_nodes", "took_ms"), 0
    )
    return {"ts": at, "manager": "slurm", "cluster": "lab", **counts}


def told(row: Mapping[str, Any]) -> tuple[float, ...]:
    names = ("waited_gpu_hours", "beside_idle_gpu_hours", "beside_own_gpu_hours", "beside_free_gpu_hours")
    return tuple(round(row[name], 6) for name in names)


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        pytest.param(
            [wait("9", "cy", "main", 4, (0, 30))], {"cy": (2.0, 0.5, 0, 0.5)}, id="a0 idles, a1 is free"
        ),
        pytest.param(
            [wait("9", "cy", "main", 4, (0, None))], {"cy": (4.0, 1.0, 0, 1.0)}, id="it waits still"
        ),
        pytest.param(
            [wait("9", "ana", "main", 4, (0, 30))], {"ana": (2.0, 0, 0.5, 0.5)}, id="one's own idle GPU"
        ),
        pytest.param(
            [wait("9", "cy", "main,long", 4, (0, 60))], {"cy": (4.0, 1.75, 0, 1.0)}, id="two partitions"
        ),
        pytest.param(
            [wait("9", "cy", "other", 4, (0, 60))], {"cy": (4.0, 0, 0, 0)}, id="GPUs of other partitions"
        ),
        pytest.param(
            [wait("9", "cy", "main,long", 4, (0, 60), gpu_type="a100")],
            {"cy": (4.0, 0.75, 0, 0)},
            id="one type",
        ),
        pytest.param(
            [wait("9", "cy", "main", 1, (0, 60)), wait("10", "di", "short", 3, (0, 60))],
            {"cy": (1.0, 0.25, 0, 0.25), "di": (3.0, 0.75, 0, 0.75)},
            id="one GPU is idle beside two people once",
        ),
        pytest.param(
            [wait("9", "cy", "main", 2, (0, 60), cause="limit", reason="QOSMaxGRESPerUser")], {}, id="a limit"
        ),
        pytest.param([wait("9", "cy", "main", 2, (0, 60), cause="held")], {}, id="held"),
        pytest.param([wait("9", "cy", "main", 60, (-30, -15))], {"cy": (15.0, 0, 0, 0)}, id="nothing idle"),
        pytest.param([wait("9", "cy", "main", 1, (0, 0))], {}, id="no time"),
    ],
)
def test_waits_stand_beside_what_others_held_idle(
    store: Store, waits: list[dict[str, Any]], expected: Mapping[str, tuple[float, ...]]
) -> None:
    rows = asked(store, "waited", waits)
    assert {row["key"]: told(row) for row in rows} == {
        key: pytest.approx(each) for key, each in expected.items()
    }


@pytest.mark.parametrize(("days", "minutes"), [(2, 30), (10, 60)], ids=["in ten minutes", "in hours"])
def test_a_longer_window_is_gone_through_in_longer_steps(store: Store, days: int, minutes: int) -> None:
    waits = [wait("9", "cy", "main", 4, (0, minutes))]
    since = {"from_ts": TWO - timedelta(days=days)}
    (row,) = asked(store, "waited", waits, **since)
    hours = minutes / 60
    assert told(row) == pytest.approx((4 * hours, hours, 0, hours))


def test_parts_of_a_minute_count_as_parts(store: Store) -> None:
    row = wait("9", "cy", "main", 1, (0, 0))
    row |= {"from_ts": row["from_ts"] + timedelta(seconds=90), "to_ts": row["to_ts"] + timedelta(seconds=200)}
    (found,) = asked(store, "waited", [row])
    assert found["waited_gpu_hours"] == pytest.approx(110 / 3600)
    assert found["beside_idle_gpu_hours"] == pytest.approx(110 / 3600)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("user", {"cy": 2.0, "di": 1.0}),
        ("account", {"speech": 3.0}),
        ("partition", {"main": 2.0, "short": 1.0}),
        ("qos", {"normal": 3.0}),
        ("cluster", {"lab": 3.0}),
        ("all", {"all": 3.0}),
    ],
)
def test_waits_are_summed_by_slurms_keys(store: Store, by: str, expected: Mapping[str, float]) -> None:
    waits = [wait("9", "cy", "main", 2, (0, 60)), wait("10", "di", "short", 1, (0, 60))]
    rows = asked(store, "waited", waits, by=by)
    assert {row["key"]: row["waited_gpu_hours"] for row in rows} == pytest.approx(expected)


def test_holders_are_named_beside_others_waits_alone(store: Store) -> None:
    waits = [wait("9", "cy", "main", 1, (0, 30)), wait("10", "ana", "main,long", 3, (0, 30))]
    rows = asked(store, "waited_holders", waits, by="job")
    # a0 is offered to both by what they ask for: a quarter to cy; b0 to ana alone.
    assert {row["key"]: (row["user_name"], round(row["beside_gpu_hours"], 6)) for row in rows} == {
        "slurm:1": ("ana", 0.125),
        "slurm:3": ("bo", 0.5),
    }


def test_both_sides_have_the_same_sum(store: Store) -> None:
    waits = [wait("9", "cy", "main", 1, (0, 30)), wait("10", "ana", "main,long", 3, (0, 30))]
    by_waiter = asked(store, "waited", waits)
    by_holder = asked(store, "waited_holders", waits)
    assert sum(row["beside_idle_gpu_hours"] for row in by_waiter) == pytest.approx(
        sum(row["beside_gpu_hours"] for row in by_holder)
    )


def test_every_cause_is_told_with_its_hours(store: Store) -> None:
    waits = [
        wait("9", "cy", "main", 2, (0, 60)),
        wait("10", "cy", "main", 1, (0, 30), cause="dependency"),
        wait("11", "cy", "main", 1, (0, 15), cause="limit", reason="QOSGrpGRES"),
    ]
    rows = asked(store, "waited_causes", waits)
    assert [
        (row["cause"], row["reason"], row["qos"], row["jobs"], row["waited_gpu_hours"]) for row in rows
    ] == [
        ("resources", None, None, 1, 2.0),
        ("dependency", None, None, 1, 0.5),
        ("limit", "QOSGrpGRES", "normal", 1, 0.25),
    ]


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        pytest.param([], {"nobody": 1.0}, id="nobody waited"),
        pytest.param(
            [wait("9", "cy", "main", 4, (0, 30), cause="limit", reason="QOSGrpGRES")],
            {"nobody": 0.5, "limit": 0.5},
            id="a limit keeps it",
        ),
        pytest.param(
            [wait("9", "cy", "main", 4, (0, 30))], {"nobody": 0.5, "resources": 0.5}, id="too few of them"
        ),
        pytest.param(
            [
                wait("9", "cy", "main", 4, (0, 30)),
                wait("10", "di", "main", 4, (15, 60), cause="limit", reason="QOSGrpGRES"),
            ],
            {"resources": 0.5, "limit": 0.5},
            id="who waits for GPUs comes first",
        ),
        pytest.param([wait("9", "cy", "main", 4, (0, 30), cause="held")], {"nobody": 1.0}, id="held"),
    ],
)
def test_what_nobody_held_is_told_by_what_kept_it(
    store: Store, waits: list[dict[str, Any]], expected: Mapping[str, float]
) -> None:
    rows = asked(store, "unheld", waits)
    assert {row["why"]: row["gpu_hours"] for row in rows} == pytest.approx(expected)
