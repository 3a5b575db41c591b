"""Keeps pandas out of a process that only measures and stores; no other module is kept out here.

pyarrow imports pandas at the first ``pa.array`` of a list, only to ask whether the list is one of its series:
a third of a second of processor time and some 30 MiB (docs/decisions/0151) for a service or a node that has
no data frame.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

import pyarrow as pa


class _NoPandas(importlib.abc.MetaPathFinder):
    """Finds no pandas, in whatever folder it lies."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is kept out while pyarrow asks for it", name=name)
        return None


def leave_pandas_out() -> None:
    """Have pyarrow ask for pandas now, in vain; it doesn't ask again until ``to_pandas`` needs it.

    Call it before other threads run: one that imports pandas in this moment would fail. Where pandas is
    imported already, nothing changes. From a ``to_pandas`` on, pyarrow knows pandas' series as usual; a
    process that makes its own and hands them to ``pa.array`` must not call this.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
