"""Writes ``service/schemas/rows.pyi``: the types of named queries' rows, from the headers of the queries.

python -m tests.service.rows_stub > service/schemas/rows.pyi
"""

from analytics.query import Column, QuerySpec, catalogue

HEAD = '''"""The rows of named queries as JSON has them, for the type checker alone: each is a dictionary.

Written by ``python -m tests.service.rows_stub``. A column that its query does not promise may be ``None``.
"""

# mypy: disable-error-code="overload-overlap"

from typing import Any, Literal, Protocol, TypedDict, overload
'''
TYPES = {
    "text": "str",
    "timestamp": "str",
    "json": "str",
    "text[]": "list[str]",
    "double": "float",
    "float": "float",
    "boolean": "bool",
    "tinyint": "int",
    "smallint": "int",
    "integer": "int",
    "bigint": "int",
}
"""What JSON makes of each type of a header."""

INTERNAL = ("assess_", "decide_")
"""What is asked by the service alone."""


def class_of(query: str) -> str:
    """``GpusNowRow`` of ``gpus_now``."""
    return "".join(map(str.capitalize, query.split("_"))) + "Row"


def written() -> str:
    """The whole stub."""
    queries = {name: spec for name, spec in catalogue().items() if not name.startswith(INTERNAL)}
    rows = "\n".join(_row(spec) for spec in queries.values())
    return f"{HEAD}\n{rows}\n{_asks('Rows', queries, '')}\n{_asks('RowsIfKept', queries, ' | None')}"


def _row(spec: QuerySpec) -> str:
    fields = "".join(f'        "{each.name}": {_type(spec, each)},\n' for each in spec.columns)
    return f'{class_of(spec.name)} = TypedDict(\n    "{class_of(spec.name)}",\n    {{\n{fields}    }},\n)\n'


def _type(spec: QuerySpec, column: Column) -> str:
    return TYPES[column.type] + ("" if column.name in spec.never_null else " | None")


def _asks(name: str, queries: dict[str, QuerySpec], else_: str) -> str:
    one = "    @overload\n    def __call__(self, name: {}, **params: object) -> list[{}]{}: ...\n"
    each = "".join(one.format(f'Literal["{query}"]', class_of(query), else_) for query in queries)
    return f"class {name}(Protocol):\n{each}{one.format('str', 'dict[str, Any]', else_)}"


if __name__ == "__main__":
    print(written(), end="")
