"""A table of jobs (CSV) with a heading, as past jobs; columns are known by name or by a mapping. Pure.

A Weights & Biases export of runs is one such table. The times that it has decide what is known of a job: its
start and its end, or one of them and how long it ran.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo

from collector.managers.histories.model import NOT_OVER, HistoryError, PastJob, Record, Unreadable
from collector.managers.histories.values import gpus_in, job, length_s, moment_s, nodes_in, word

NAMES: Mapping[str, tuple[str, ...]] = {
    "job": ("job_id", "jobid", "job", "id", "job_name", "name"),
    "user": ("user", "user_name", "username", "owner"),
    "project": ("project", "account", "group", "team", "queue", "namespace", "cluster", "vc"),
    "submitted": ("submit_time", "submitted", "submitted_at", "submit", "created",
                  "created_at", "creation_time", "timestamp", "arrival_time"),
    "started": ("start_time", "started", "started_at", "start", "begin"),
    "ended": ("end_time", "ended", "ended_at", "end", "finish_time", "finished", "finished_at"),
    "length": ("duration", "duration_s", "runtime", "run_time", "elapsed", "elapsed_s"),
    "gpus": ("gpus", "num_gpus", "gpu_count", "n_gpus", "ngpus", "num_gpu", "gpu"),
    "gpu_model": ("gpu_model", "gpu_type"),
    "topology": ("topology",),
    "state": ("state", "status"),
    "nodes": ("nodes", "node", "node_list", "nodelist", "hosts", "host", "hostname"),
}  # fmt: skip
"""Ours, and what they are called; the first that a table has is taken. Spaces and case don't matter."""

TOPOLOGIES = ("node", "prefer-node", "any")
"""Whether its GPUs had to lie on one node; nothing said is any."""
STILL_RUNNING = frozenset({"running", "pending", "queued", "waiting", "starting"})


def columns_of(heading: Sequence[str], mapping: Mapping[str, str] | None = None) -> dict[str, int]:
    """Where each of our columns stands. Raises HistoryError, which names those that are missing.

    ``mapping`` names the table's own column for each of ours, and goes before the names that are known.
    """
    if mapping is not None:
        _check(mapping, heading)
    plain = [re.sub(r"[^a-z0-9]+", "_", cell.strip().lower()).strip("_") for cell in heading]
    columns: dict[str, int] = {}
    for ours, names in NAMES.items():
        if mapping is not None and ours in mapping:
            columns[ours] = list(heading).index(mapping[ours])
        else:
            place = next((plain.index(name) for name in names if name in plain), None)
            if place is not None and place not in columns.values():
                columns[ours] = place
    missing = [] if "gpus" in columns else ["gpus"]
    timed = columns.keys() & {"submitted", "started"}
    if not timed:
        missing.append("submitted or started")
    if "length" not in columns and not {"started", "ended"} <= columns.keys():
        missing.append("length, or both started and ended")
    if missing:
        choices = "; ".join(
            f"{ours}: {', '.join(NAMES[ours])}"
            for ours in ("gpus", "submitted", "started", "ended", "length")
        )
        raise HistoryError(
            f"the table lacks {' and '.join(missing)}; its columns are {', '.join(heading)[:200]}. "
            f'Name yours in FILE.toml beside it, like gpus = "GPUs used". Known names are {choices}'
        )
    return columns


def _check(mapping: Mapping[str, str], heading: Sequence[str]) -> None:
    for ours, theirs in mapping.items():
        if ours not in NAMES:
            near = difflib.get_close_matches(ours, NAMES, n=1)
            nearest = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(NAMES)}"
            raise HistoryError(f"the mapping names {ours!r}, which is no column of a job{nearest}")
        if theirs not in heading:
            raise HistoryError(f"the mapping says {ours} = {theirs!r}, and the table has no such column")


def table_records(
    columns: Mapping[str, int], width: int, rows: Iterator[tuple[int, Sequence[str]]], zone: tzinfo = UTC
) -> Iterator[tuple[int, Record]]:
    """Each row as a job; one without a name of its own is named by its line. Times may be of ``zone``."""
    for line, cells in rows:
        if len(cells) != width:
            yield line, Unreadable(f"{len(cells)} cells where the heading has {width}")
            continue
        row = {ours: cells[place] for ours, place in columns.items()}
        try:
            yield line, _job(row, f"line {line}", zone)
        except ValueError as error:
            yield line, Unreadable(str(error))


def _job(row: Mapping[str, str], key: str, zone: tzinfo) -> Record:
    if row.get("state", "").strip().lower() in STILL_RUNNING:
        return NOT_OVER
    submitted_s = moment_s(row.get("submitted", ""), "submitted", zone)
    started_s = moment_s(row.get("started", ""), "started", zone)
    ended_s = moment_s(row.get("ended", ""), "ended", zone)
    ran_s = length_s(row.get("length", ""), "length")
    if started_s is None and "started" not in row:
        started_s = submitted_s  # nobody noted the wait: how long it ran is what counts
    if ran_s is not None and started_s is not None:
        ended_s = started_s + ran_s
    model = word(row.get("gpu_model", ""))
    topology = row.get("topology", "").strip().lower() or "any"
    if topology not in TOPOLOGIES:
        raise ValueError(f"the topology {topology[:20]!r}: it is one of {', '.join(TOPOLOGIES)}")
    past = job(
        key=word(row.get("job", "")) or key,
        submitted_s=submitted_s,
        started_s=started_s,
        ended_s=ended_s,
        gpus=gpus_in(row["gpus"], "gpus"),
        names={"user": word(row.get("user", "")), "project": word(row.get("project", ""))},
        gpu_models=(model,) if model else (),
        nodes=nodes_in(row.get("nodes", "")),
    )
    return replace(past, topology=topology) if isinstance(past, PastJob) else past
