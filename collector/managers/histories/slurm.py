"""What ``sacct`` prints, as text (``--parsable2``) or as JSON (``--json``), as past jobs. Pure.

Sources: sacct(1) for the columns; the JSON of Slurm 21.08 to 25.05, where numbers became objects of
``set``, ``infinite`` and ``number``, and states became lists.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from typing import Any

from collector.managers.histories.model import (
    INSTANCES,
    NOT_OVER,
    STEP,
    HistoryError,
    LeftOut,
    Record,
    Unreadable,
)
from collector.managers.histories.values import job, word
from collector.managers.slurm.sacct_text import (
    UNDECIDED,
    NotAccounting,
    Refused,
    gpus_of,
    header_of,
    records,
    run_of,
)

NEEDED = ("JobID", "User", "State", "Submit", "Start", "End", "AllocTRES")
"""Fewer than an import asks for: a simulation needs no nodes and no cluster."""

MS = 1000.0

_LEADING = re.compile(r"\d+")
"""``1003_4`` and ``812+1`` are of the jobs 1003 and 812; their own numbers are JobIDRaw, where it is."""
_INSTANCE = re.compile(r"\d+g\.\d+gb")
"""NVIDIA's names of MIG's profiles, as in ``a100_1g.10gb``, which sites keep in the types of their GRES."""

SHARES = LeftOut("held shares of GPUs (gres/shard, gres/mps), whose size is not told")


def text_records(lines: Iterable[str]) -> Iterator[tuple[int, Record]]:
    """Each record of ``sacct --parsable2`` with its line. Raises HistoryError where a column is missing."""
    rows = iter(lines)
    try:
        header = header_of(next(rows, ""), NEEDED)
    except NotAccounting as error:
        raise HistoryError(str(error)) from error
    for line, cells in records(header, rows):
        if isinstance(cells, Refused):
            yield line, Unreadable(cells.reason)
            continue
        yield line, _of_row(dict(zip(header.columns, cells, strict=True)))


def _of_row(row: Mapping[str, str]) -> Record:
    """A record as an import reads it (``run_of``), without the columns that only an import needs."""
    if "." in row["JobID"]:
        return STEP
    number = _LEADING.match(row["JobID"])
    filled = {"JobIDRaw": number[0] if number else row["JobID"], "Account": "", "NodeList": "", "Cluster": ""}
    run = run_of({**filled, **row}, UTC)
    if run is None:
        return NOT_OVER
    if isinstance(run, str):
        return Unreadable(run)
    if _INSTANCE.search(run.gpu_types):
        return INSTANCES
    if run.shards and not run.gpus:
        return SHARES
    _, models = gpus_of(row.get("ReqTRES", ""))  # those of AllocTRES are what it got, not what it asked for
    return job(
        key=word(row["JobID"]),
        submitted_s=run.submitted_ms / MS,
        started_s=None if run.started_ms is None else run.started_ms / MS,
        ended_s=run.ended_ms / MS,
        gpus=run.gpus or run.asked_gpus or 0,  # one that never started holds nothing
        names={"user": run.user, "project": run.project, "name": run.name},
        gpu_models=tuple(filter(None, models.split(","))),
    )


def json_records(document: Mapping[str, Any]) -> Iterator[tuple[int, Record]]:
    """Each job of ``sacct --json``, numbered from 1. Raises HistoryError where there is no list of jobs."""
    jobs = document.get("jobs")
    if not isinstance(jobs, list):
        raise HistoryError("it has no list of jobs; save it with sacct --json")
    for number, each in enumerate(jobs, 1):
        try:
            yield number, _of_json(each)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            yield number, Unreadable(f"not as sacct --json writes a job: {error}")


def _of_json(each: Mapping[str, Any]) -> Record:
    """The same as a row of text: what the JSON says in objects and lists is one word or number there."""
    state, tres, times = each["state"]["current"], each.get("tres") or {}, each["time"]
    states = [state] if isinstance(state, str) else [str(one) for one in state]
    moments = {"Submit": "submission", "Start": "start", "End": "end"}
    return _of_row(
        {
            "JobID": _key(each),
            "JobIDRaw": str(each["job_id"]),
            "User": str(each.get("user") or ""),
            "Account": str(each.get("account") or ""),
            "JobName": str(each.get("name") or ""),
            "State": next((one for one in states if one in UNDECIDED), states[0]),
            "AllocTRES": _tres(tres.get("allocated")),
            "ReqTRES": _tres(tres.get("requested")),
            **{name: str(_number(times.get(theirs)) or "") for name, theirs in moments.items()},
        }
    )


def _key(each: Mapping[str, Any]) -> str:
    array = each.get("array") or {}
    task, main = _number(array.get("task_id")), _number(array.get("job_id"))
    return f"{main}_{task}" if main and task is not None else str(each["job_id"])


def _number(value: object) -> int | None:
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{value!r} where a number goes")
    return value


def _tres(entries: object) -> str:
    """As text has it: ``gres/gpu=4,gres/gpu:a100=4``."""
    if not isinstance(entries, list):
        return ""
    parts = []
    for each in entries:
        kind, name, count = each.get("type"), each.get("name"), _number(each.get("count"))
        if kind == "gres" and name and count:
            parts.append(f"gres/{name}={count}")
    return ",".join(parts)
