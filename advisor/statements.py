"""Named SQL statements of those who act: ``sql/NAME.sql``, one question a file, parameters only."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collector.store.database import Store

_FOLDER = Path(__file__).parent


@cache
def statement(name: str) -> str:
    """The text of ``sql/NAME.sql``."""
    return (_FOLDER / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def asked(store: "Store", name: str, parameters: Mapping[str, object]) -> tuple[dict[str, Any], ...]:
    """The rows of a named question, by a reader of its own: never blocks a writer. Blocks for the answer."""
    with store.reader() as connection:
        return rows_of(connection.execute(statement(name), dict(parameters)))


def rows_of(cursor: Any) -> tuple[dict[str, Any], ...]:
    """What a cursor has, by the names of its columns."""
    names = [column[0] for column in cursor.description or ()]
    return tuple(dict(zip(names, row, strict=True)) for row in cursor.fetchall())
