"""Private mode (`[api] private`): what of other people's jobs is kept from everybody but operators. Pure.

A machine that mounts ``/proc`` with ``hidepid`` keeps people's commands from each other; without this, Fallow
would tell them. Hidden are commands, process names and job names, also within sentences; who holds which GPU,
since when, and every figure stay.
"""

import re
from typing import TYPE_CHECKING, Any

from service.api.port import Caller, Role

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = ("job_name", "process_name", "command")
"""Columns that say what somebody runs."""

TEXTS = ("sentence", "reason")
"""Columns of sentences that may quote one of those."""

CLOSED = {"alerts": ("title", "says", "evidence", "command"), "run_ids": ("value",)}
"""Queries whose rows don't carry the names that their texts quote: these columns are hidden whole."""

HIDDEN = "(hidden)"

NO_EVIDENCE = "{}"
"""In place of evidence that names what somebody runs: its readers expect an object."""

_NAME_LABEL = re.compile(rb',name="(?:[^"\\]|\\.)*"|name="(?:[^"\\]|\\.)*",?')
_ALLOCATION = b"fallow_gpu_allocation_ratio{"


def concealed(table: "pa.Table", query: str, caller: Caller) -> "pa.Table":
    """The rows of a named query as this caller may see them; an operator sees all."""
    if caller.role is Role.OPERATOR:
        return table
    closed = CLOSED.get(query, ())
    columns = [each for each in (*NAMES, *TEXTS, "evidence", *closed) if each in table.column_names]
    if not columns:
        return table
    rows = table.to_pylist()
    for row in rows:
        if not _is_own(row, caller):
            _conceal(row, closed)
    import pyarrow as pa

    for each in dict.fromkeys(columns):
        place = table.column_names.index(each)
        kind = table.schema.field(each)
        table = table.set_column(place, kind, pa.array([row[each] for row in rows], kind.type))
    return table


def concealed_metrics(page: bytes, caller: Caller) -> bytes:
    """The page of metrics without job names; they are a label of allocations alone."""
    if caller.role is Role.OPERATOR:
        return page
    lines = (
        _NAME_LABEL.sub(b"", line) if line.startswith(_ALLOCATION) else line for line in page.split(b"\n")
    )
    return b"\n".join(lines)


def _is_own(row: dict[str, Any], caller: Caller) -> bool:
    """Whether it is about the caller's own job; what is nobody's is not."""
    return caller.role is Role.USER and row.get("user_name") == caller.name


def _conceal(row: dict[str, Any], closed: tuple[str, ...]) -> None:
    names = sorted({str(row[each]) for each in NAMES if row.get(each)}, key=len, reverse=True)
    for each in TEXTS:
        if row.get(each):
            text = str(row[each])
            for name in names:
                text = text.replace(name, str(row.get("job") or HIDDEN))
            row[each] = text
    if row.get("evidence") and any(name in str(row["evidence"]) for name in (*names, '"command"')):
        row["evidence"] = NO_EVIDENCE
    for each in NAMES:
        if each in row:
            row[each] = None
    for each in closed:
        if row.get(each):
            row[each] = NO_EVIDENCE if each == "evidence" else HIDDEN
