"""A GPU that several jobs hold at once: whether what each used is told apart is said with the job's hours."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.query import run
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
    assert (row["shared_with"], row["is_told_apart"]) == (shared_with, is_told_apart)
