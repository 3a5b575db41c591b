"""A process that measures carries no pandas, and one that asks for a frame gets it all the same."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import pyarrow as pa
from collector.without_pandas import leave_pandas_out

leave_pandas_out()
table = pa.table({"hours": pa.array([1.5, None]), "who": pa.array(["anna", None])})
table = pa.Table.from_pylist(table.to_pylist(), schema=table.schema)
assert "pandas" not in sys.modules, "pyarrow asked for it"
frame = table.to_pandas()
assert frame["hours"].isna().tolist() == [False, True]
import pandas as pd

assert pa.array(pd.Series([1.5, float("nan")])).null_count == 1, "a series is known as one again"
assert pa.Table.from_pandas(frame, preserve_index=False).to_pylist() == table.to_pylist()
assert not any(type(one).__module__ == "collector.without_pandas" for one in sys.meta_path)
"""


@pytest.mark.slow
def test_pandas_is_imported_when_a_frame_is_asked_for_and_not_before() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
