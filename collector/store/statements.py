"""Named SQL statements: ``sql/NAME.sql``, one question a file, parameters only."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def statement(name: str) -> str:
    """The text of ``sql/NAME.sql``."""
    return (_FOLDER / "sql" / f"{name}.sql").read_text(encoding="utf-8")


@cache
def migrations() -> tuple[tuple[int, str, str], ...]:
    """Number, name and text of each ``schema/NNN_name.sql``, in their order."""
    paths = sorted((_FOLDER / "schema").glob("[0-9][0-9][0-9]_*.sql"))
    return tuple((int(path.stem[:3]), path.stem[4:], path.read_text(encoding="utf-8")) for path in paths)
