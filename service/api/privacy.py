"""Private mode (`[api] private`): what of other people's jobs is kept from everybody but operators. Pure.

A machine that mounts ``/proc`` with ``hidepid`` keeps people's commands from each other; without this,
Fallow would tell them. A text in an answer is hidden from others unless its column or field is one of
``SHOWN``, so a new one is hidden until somebody has read where it comes from. Who holds which GPU, since
when, and every figure stay.
"""

import json
import re
from typing import TYPE_CHECKING

from service.control.interface import Caller, Role
from service.schemas.answer import Row, RowOrRows

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = frozenset(
    {
        # whose, where, on what
        "job",
        "job_id",
        "after",
        "id",
        "user",
        "user_name",
        "project",
        "uuid",
        "gpu",
        "gpus",
        "node",
        "part_of_device",
        "model",
        "mig_profile",
        "foreground",
        "gpu_place",
        "gpu_uuid",
        "given_to",
        "holders",
        "paused_on",
        "promised_gpus",
        "gpu_model",
        "gpu_models",
        "host",
        "version",  # of the Fallow on a node
        "guest",
        # words that Fallow chooses from a fixed list
        "is",
        "kind",
        "job_kind",
        "kinds",
        "state",
        "rhythm",
        "mode",
        "modes",
        "project_modes",
        "mobility",
        "topology",
        "sharing",
        "origin",
        "exit_reason",
        "outcome",
        "verb",
        "action",
        "class",
        "rule",
        "engine",
        "rung",
        "verdict",
        "framework",
        "frameworks",
        "source",
        "currency",
        "dimension",
        "opted_out",
        "checkpoint_signal",
        # who did or was told something
        "actor",
        "halted",
        "settled_by",
        "by_user",
        "told",
        "missed",
        "waiting",
        "reached",
        # made of numbers, ids and the words above
        "undo",
        "no_undo",
        "apply",
        "step_s",
        # of a node or a GPU, not of a job
        "state_reason",
        "detail",
        "processes_now.flags",
        "cluster_now.withheld_because",
        # of a workload manager, or words that it chooses
        "cluster",
        "clusters_alike.other",
        "clusters_alike.told_by",
        "partition",
        "partitions",
        "qos",
        "reservation",
        "shown_id",
        "state_name",
        "manager_queue.reason",
        "manager_queue.cause",
        "manager_queue.gpu_type",
        "manager_runs.reason",
        "manager_nodes.manager",
        "manager_nodes.reason",
        "manager_runs.given",
        # of one query, where another's column of that name says something else
        "gaps.reason",
        "sources.reason",
        "unjudged.reason",
        "unjudged.held_by",
        "jobs.found",
        "job_gpus.found",
        "marks.name",
        "run_ids.name",
        "options.value",
        "ledger_by_account.key",
        "ledger_by_cluster.key",
        "ledger_by_framework.key",
        "ledger_by_gpu.key",
        "ledger_by_job.key",
        "ledger_by_model.key",
        "ledger_by_node.key",
        "ledger_by_partition.key",
        "ledger_by_project.key",
        "ledger_by_qos.key",
        "ledger_by_user.key",
        "accounted_use.key",
        "waited.key",
        "waited_holders.key",
        "waited_causes.cause",
        "waited_causes.reason",
        "waited_causes.account",
        "waited_causes.limit_met",
        "assess_gpus.xid",  # an event's detail, of the GPU's own
        "manager_queue.limit_met",  # QOS, account and owner, which the row has as well, and numbers
        "manager_runs.limit_met",
        "assess_past_instants.why",  # one of five words
        "unheld.why",
        "unheld.account",
        "accounted_runs.exit_code",
        "accounted_runs.gpu_types",
        "accounted_runs.node_names",
        "accounted_runs.measured",
    }
)
"""Texts that say nothing of what somebody runs."""

NAMES = ("job_name", "process_name", "command")
"""Columns that say what somebody runs; ``None`` in their place, as where it isn't known."""

QUOTING = frozenset({"findings.sentence", "patterns.reason"})
"""Sentences that quote no name but those of their row: these are taken out of them, the rest stays."""

BLANK = frozenset({"name", "command", "folder", "nonce"})
"""Fields of a submission that are empty where they are hidden, as they are where nothing was said."""

HIDDEN = "(hidden)"

_NAME_LABEL = re.compile(rb',name="(?:[^"\\]|\\.)*"|name="(?:[^"\\]|\\.)*",?')
_ALLOCATION = b"fallow_gpu_allocation_ratio{"


def concealed(table: "pa.Table", query: str, caller: Caller) -> "pa.Table":
    """The rows of a named query as this caller may see them; an operator sees all."""
    if caller.role is Role.OPERATOR:
        return table
    closed = [
        each.name
        for each in table.schema
        if _may_hold_text(each.type)
        and (f"{query}.{each.name}" in QUOTING or not {each.name, f"{query}.{each.name}"} & SHOWN)
    ]
    if not closed:
        return table
    rows = table.to_pylist()
    for row in rows:
        if not _is_own(row, caller):
            names = sorted({str(row[each]) for each in NAMES if row.get(each)}, key=len, reverse=True)
            for each in closed:
                is_quoting = f"{query}.{each}" in QUOTING
                row[each] = _unquoted(row, each, names) if is_quoting else _hidden(row[each], each)
    import pyarrow as pa

    for each in closed:
        place = table.column_names.index(each)
        kind = table.schema.field(each)
        table = table.set_column(place, kind, pa.array([row[each] for row in rows], kind.type))
    return table


def concealed_answer(answer: RowOrRows, caller: Caller) -> RowOrRows:
    """An answer of the desk, a row or a list of rows, as this caller may see it; an operator sees all."""
    if caller.role is Role.OPERATOR:
        return answer
    return (
        [_bare_row(row, caller) for row in answer] if isinstance(answer, list) else _bare_row(answer, caller)
    )


def concealed_metrics(page: bytes, caller: Caller) -> bytes:
    """The page of metrics as this caller may see it; an operator sees all."""
    return page if caller.role is Role.OPERATOR else nameless_metrics(page)


def nameless_metrics(page: bytes) -> bytes:
    """The page of metrics without job names; they are a label of allocations alone."""
    lines = (
        _NAME_LABEL.sub(b"", line) if line.startswith(_ALLOCATION) else line for line in page.split(b"\n")
    )
    return b"\n".join(lines)


def _is_own(row: Row, caller: Caller, uid: int | None = None) -> bool:
    """Whether it is about the caller's own job, or an order of the caller's; what is nobody's is not."""
    if caller.role is not Role.USER:
        return False
    user = row.get("user_name", row.get("user"))
    is_order = row.get("actor") == f"user {caller.name}"
    return is_order or (user is not None and caller.may_act_for(str(user), uid))


def _may_hold_text(kind: "pa.DataType") -> bool:
    from pyarrow import types

    plain = (
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_boolean,
        types.is_temporal,
        types.is_null,
    )
    return not any(is_so(kind) for is_so in plain)


def _hidden(value: object, column: str) -> str | list[str] | None:
    """What stands in place of a value of a table; the kind that its readers expect."""
    if column in NAMES or value is None:
        return None
    if column == "evidence":
        return _figures(str(value))
    return HIDDEN if isinstance(value, str) else []


def _figures(evidence: str) -> str:
    """The evidence without its texts."""
    try:
        read = json.loads(evidence)
    except ValueError:
        return "{}"
    if not isinstance(read, dict):
        return "{}"
    figures = {
        name: value
        for name, value in read.items()
        if value is None or isinstance(value, int | float) or name in SHOWN
    }
    return evidence if len(figures) == len(read) else json.dumps(figures)


def _unquoted(row: Row, column: str, names: list[str]) -> str | None:
    if row[column] is None:
        return None
    text = str(row[column])
    for name in names:
        text = text.replace(name, str(row.get("job") or HIDDEN))
    return text


def _bare_row(row: Row, caller: Caller) -> Row:
    """An object of an answer without the texts that are not shown; what is below a shown field is shown."""
    submission = row.get("submission")
    uid = (submission if isinstance(submission, dict) else row).get("uid")
    if _is_own(row, caller, uid if isinstance(uid, int) else None):
        return row
    return {key: each if key in SHOWN else _bare(each, key, caller) for key, each in row.items()}


def _bare(value: object, name: str, caller: Caller) -> object:
    if isinstance(value, dict):
        return _bare_row(value, caller)
    if isinstance(value, list | tuple):
        return [] if name in BLANK else [_bare(each, name, caller) for each in value]
    if isinstance(value, str) and value:
        return "" if name in BLANK else HIDDEN
    return value
