"""Who waits at a workload manager, beside Fallow's own queue: why, how long, and who holds GPUs unused."""

from collections import Counter
from typing import Any

from analytics import text
from collector.model import WASTE_STATES
from service.cli import words
from service.cli.screen import Column, console, table

COLUMNS = (
    Column(title="job"),
    Column(title="name", least=8),
    Column(title="user"),
    Column(title="project"),
    Column(title="partition"),
    Column(title="GPUs", right=True),
    Column(title="waits", right=True),
    Column(title="why", least=20),
)
MOST_HOLDERS = 4
"""Named in one sentence; the ledger has all."""


def as_json(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as ``fallow queue --json`` has them behind its own, which have no ``manager``."""
    return [
        {
            "manager": row["cluster"],
            "place": place,
            "job": row["job"],
            "name": row["job_name"],
            "user": row["user_name"],
            "project": row["project"],
            "gpus": row["gpus"],
            "tasks": row["tasks"],
            "since_ms": round(words.moment(row["submitted_at"]).timestamp() * 1000),
            "waits_for": row["reason"],
            "partition": row["partition"],
            "qos": row["qos"],
        }
        for place, row in enumerate(rows, 1)
    ]


def draw(rows: list[dict[str, Any]], gpus: list[dict[str, Any]], limit: int | None, now_ms: int) -> None:
    """Print a table of ``rows`` (query ``manager_queue``), and who of ``gpus`` (``gpus_now``) uses none."""
    screen = console()
    for cluster in dict.fromkeys(row["cluster"] for row in rows):
        own = [row for row in rows if row["cluster"] == cluster]
        screen.print(f"At Slurm, cluster {cluster}: {_counted(own)}", style="bold")
        screen.print(table(COLUMNS, [_line(row, now_ms) for row in own[:limit]]))
        if limit is not None and len(own) > limit:
            screen.print(f"and {text.many(len(own) - limit, 'job')} more; --limit shows them")
    if unused := _unused(gpus):
        screen.print(unused)


def _counted(rows: list[dict[str, Any]]) -> str:
    jobs = sum(row["tasks"] for row in rows)
    gpus = sum((row["gpus"] or 0) * row["tasks"] for row in rows)
    waits = "waits" if jobs == 1 else "wait"
    return f"{text.many(jobs, 'job')} {waits} for {text.many(gpus, 'GPU')}"


def _line(row: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    since_s = now_ms / 1000 - words.moment(row["submitted_at"]).timestamp()
    each = text.NOTHING if row["gpus"] is None else text.count(row["gpus"])
    parts = f" {text.many(row['shards'], 'shard')}" if row["shards"] else ""
    return (
        f"slurm:{row['shown_id']}",
        str(row["job_name"] or text.NOTHING),
        str(row["user_name"] or text.NOTHING),
        str(row["project"] or text.NOTHING),
        " ".join(each for each in (row["partition"], row["qos"]) if each),
        f"{row['tasks']} x {each}"
        if row["tasks"] > 1
        else f"{'' if parts and not row['gpus'] else each}{parts}",
        text.length_cell(since_s),
        str(row["reason"] or text.NOTHING),
    )


def _unused(gpus: list[dict[str, Any]]) -> str | None:
    """Who has GPUs now and uses none of them, in a sentence; nothing where nobody does."""
    held = Counter(
        (row["job"], row["user_name"]) for row in gpus if row["state"] in WASTE_STATES and row["job"]
    )
    if not held:
        return None
    named = ", ".join(
        f"{job}{f' of {user}' if user else ''} ({count})"
        for (job, user), count in held.most_common(MOST_HOLDERS)
    )
    more = len(held) - MOST_HOLDERS
    others = f" and {text.many(more, 'other job')}" if more > 0 else ""
    total = held.total()
    are = "is" if total == 1 else "are"
    return f"Meanwhile {text.many(total, 'GPU')} {are} held and unused: {named}{others}."
