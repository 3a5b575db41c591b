"""Rows on their way to JSON: the same text as at once, a few at a time."""

import json
import tracemalloc
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from service.api.rows import ROWS_AT_ONCE, to_json
from service.schemas.values import plain_rows


def table(rows: int) -> pa.Table:
    at = datetime(2026, 11, 27, 12, tzinfo=UTC).replace(tzinfo=None)
    names = ("uuid", "node", "user_name", "project", "job", "state", "framework", "model")
    columns = {name: [f"{name}-é{number % 7}" for number in range(rows)] for name in names}
    return pa.table(
        {
            **columns,
            "ts": [at] * rows,
            "ratio": [None if number % 3 else number / 7 for number in range(rows)],
            "levels": [[0.1, None]] * rows,
        },
        schema=pa.schema(
            [
                *((name, pa.string()) for name in names),
                ("ts", pa.timestamp("us")),
                ("ratio", pa.float64()),
                ("levels", pa.list_(pa.float64())),
            ]
        ),
    )


@pytest.mark.parametrize("rows", [0, 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 3 * ROWS_AT_ONCE - 1])
def test_the_text_is_that_of_all_rows_at_once(rows: int) -> None:
    whole = json.dumps(plain_rows(table(rows)), allow_nan=False, default=str)
    assert to_json(table(rows)).decode() == whole


def test_a_long_answer_is_never_whole_as_objects() -> None:
    """Seen by its memory: the encoder lets no other thread run, so it may not have all rows at once.

    Objects of all of them take several times the text; the text itself is there twice at the end.
    """
    made = table(10 * ROWS_AT_ONCE)
    tracemalloc.start()
    try:
        text = to_json(made)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2.5 * len(text)
