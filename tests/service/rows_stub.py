"""Writes ``service/schemas/rows.pyi``: the types of named queries' rows, from the headers of the queries.

python -m tests.service.rows_stub > service/schemas/rows.pyi
"""

from analytics.query import Column, QuerySpec, catalogue

HEAD = '''"""The rows of named queries as JSON has them, for the type checker alone: each is a dictionary.

Written by ``python -m tests.service.rows_stub``. A column that its query does not promise may be ``None``.
A ``Record`` is the row of a frame (``DataFrame.to_dict("records")``), a ``Tuple`` the same of ``itertuples``:
times are UTC, and what is missing may be NaN or NaT.
"""

# mypy: disable-error-code="overload-overlap"

from typing import Literal, Protocol, TypedDict, overload

import pandas as pd
'''
TYPES = {
    "text": "str",
    "timestamp": "str",
    "json": "str",
    "text[]": "list[str]",
    "double": "float",
    "double[]": "list[float]",
    "float": "float",
    "boolean": "bool",
    "tinyint": "int",
    "smallint": "int",
    "integer": "int",
    "bigint": "int",
}
"""What JSON makes of each type of a header."""

IN_FRAMES = {
    "cluster_now": "Record",
    "findings": "Tuple",
    "gpu_holders": "Record",
    "gpus_now": "Record Tuple",
    "jobs": "Record Tuple",
    "ledger_by_state": "Tuple",
    "manager_nodes": "Record",
    "manager_queue": "Record",
    "span": "Record",
}
"""The queries whose rows pages take out of frames, and how."""

INTERNAL = ("assess_", "decide_")
"""What is asked by the service alone."""


def class_of(query: str) -> str:
    """``GpusNowRow`` of ``gpus_now``."""
    return "".join(map(str.capitalize, query.split("_"))) + "Row"


def written() -> str:
    """The whole stub."""
    queries = {name: spec for name, spec in catalogue().items() if not name.startswith(INTERNAL)}
    rows = "\n".join(_row(spec) + _in_frames(spec) for spec in queries.values())
    return f"{HEAD}\n{rows}\n{_asks('Rows', queries, '')}\n{_asks('RowsIfKept', queries, ' | None')}"


def _row(spec: QuerySpec) -> str:
    fields = "".join(f'        "{each.name}": {_type(spec, each)},\n' for each in spec.columns)
    return f'{class_of(spec.name)} = TypedDict(\n    "{class_of(spec.name)}",\n    {{\n{fields}    }},\n)\n'


def _in_frames(spec: QuerySpec) -> str:
    made = ""
    for how in IN_FRAMES.get(spec.name, "").split():
        name = class_of(spec.name).removesuffix("Row") + how
        types = {
            each.name: _type(spec, each).replace("str", "pd.Timestamp")
            if each.type == "timestamp"
            else _type(spec, each)
            for each in spec.columns
        }
        if how == "Record":
            fields = "".join(f'        "{each}": {kind},\n' for each, kind in types.items())
            made += f'\n{name} = TypedDict(\n    "{name}",\n    {{\n{fields}    }},\n)\n'
        else:
            fields = "".join(f"    {each}: {kind}\n" for each, kind in types.items())
            made += f"\nclass {name}(Protocol):\n{fields}"
    return made


def _type(spec: QuerySpec, column: Column) -> str:
    return TYPES[column.type] + ("" if column.name in spec.never_null else " | None")


def _asks(name: str, queries: dict[str, QuerySpec], else_: str) -> str:
    one = "    @overload\n    def __call__(self, name: {}, **params: object) -> list[{}]{}: ...\n"
    each = "".join(one.format(f'Literal["{query}"]', class_of(query), else_) for query in queries)
    return f"class {name}(Protocol):\n{each}{one.format('str', 'dict[str, object]', else_)}"


if __name__ == "__main__":
    print(written(), end="")
