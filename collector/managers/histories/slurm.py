"""What ``sacct`` prints, as text (``--parsable2``) or as JSON (``--json``), as past jobs. Pure.

Sources: sacct(1) for the columns; the JSON of Slurm 21.08 to 25.05, where numbers became objects of
``set``, ``infinite`` and ``number``, and states became lists.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
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
from collector.managers.histories.values import job, moment_s, word
from collector.managers.slurm.sacct_text import (
    UNDECIDED,
    NotAccounting,
    Refused,
    gpus_of,
    header_of,
    records,
    shards_of,
)

NEEDED = ("JobID", "User", "State", "Submit", "Start", "End", "AllocTRES")
"""Fewer than an import asks for: a simulation needs no nodes and no cluster."""

_INSTANCE = re.compile(r"gres/gpu:[^=,]*\d+g\.\d+gb[^=,]*=")
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
        row = dict(zip(header.columns, cells, strict=True))
        try:
            yield line, _of_text(row)
        except ValueError as error:
            yield line, Unreadable(str(error))


def _of_text(row: Mapping[str, str]) -> Record:
    if "." in row["JobID"]:
        return STEP
    state = row["State"].partition(" ")[0].rstrip("+")
    if state in UNDECIDED:
        return NOT_OVER
    held, asked = row["AllocTRES"], row.get("ReqTRES", "")
    gpus, _ = gpus_of(held)
    if (part := _part(held)) is not None:
        return part
    _, models = gpus_of(asked)  # those of AllocTRES are what it got, not what it asked for
    return job(
        key=word(row["JobID"]),
        submitted_s=moment_s(row["Submit"], "Submit"),
        started_s=moment_s(row["Start"], "Start"),
        ended_s=moment_s(row["End"], "End"),
        gpus=gpus or gpus_of(asked)[0],  # one that never started holds nothing
        names={
            "user": word(row["User"]),
            "project": word(row.get("Account", "")),
            "name": word(row.get("JobName", "")),
        },
        gpu_models=tuple(filter(None, models.split(","))),
    )


def _part(held: str) -> Record | None:
    """Why what a job held is no number of whole GPUs, or ``None`` where it is."""
    if _INSTANCE.search(held):
        return INSTANCES
    return SHARES if shards_of(held) and not gpus_of(held)[0] else None


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
    state = each["state"]["current"]
    states = [state] if isinstance(state, str) else list(state)
    if any(str(one).upper() in UNDECIDED for one in states):
        return NOT_OVER
    tres, times = each.get("tres") or {}, each["time"]
    held, asked = _tres(tres.get("allocated")), _tres(tres.get("requested"))
    gpus, _ = gpus_of(held)
    if (part := _part(held)) is not None:
        return part
    _, models = gpus_of(asked)
    return job(
        key=_key(each),
        submitted_s=_seconds(times.get("submission")),
        started_s=_seconds(times.get("start")),
        ended_s=_seconds(times.get("end")),
        gpus=gpus or gpus_of(asked)[0],
        names={
            "user": word(each.get("user")),
            "project": word(each.get("account")),
            "name": word(each.get("name")),
        },
        gpu_models=tuple(filter(None, models.split(","))),
    )


def _key(each: Mapping[str, Any]) -> str | None:
    array = each.get("array") or {}
    task = _number(array.get("task_id"))
    main = _number(array.get("job_id"))
    return f"{main}_{task}" if main and task is not None else word(each.get("job_id"))


def _seconds(value: object) -> float | None:
    """A time of the JSON; 0 is none, as Slurm has it."""
    number = _number(value)
    return moment_s(str(number), "a time") if number else None


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
