"""Who waits at a workload manager, beside Fallow's own queue: why, how long, and who holds GPUs unused."""

from typing import TYPE_CHECKING

from analytics import text
from service.cli import words
from service.cli.screen import Column, console, table, which_fit
from service.client import Client
from service.summaries import waiting

if TYPE_CHECKING:
    from service.schemas.rows import GpusNowRow, ManagerNodesRow, ManagerQueueRow

COLUMNS = (
    Column(title="job"),
    Column(title="name", least=8, spare=3),
    Column(title="user"),
    Column(title="project", spare=2),
    Column(title="partition", spare=1),
    Column(title="GPUs", right=True),
    Column(title="waits", right=True),
    Column(title="starts", spare=4),
    Column(title="why", below=True),
)

DAY_MS = 86_400_000


def read(client: Client) -> "list[ManagerQueueRow]":
    """Who waits there; what an older service does not tell is not known. Blocks. Raises ``ClientError``."""
    rows = client.rows("manager_queue")
    added = ("cause", "expected_at", "limit_met")
    return [{**row, **{name: row.get(name) for name in added}} for row in rows]  # type: ignore[typeddict-item]


def as_json(rows: "list[ManagerQueueRow]") -> list[dict[str, object]]:
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
            "cause": row["cause"],
            "limit": waiting.met(row["limit_met"]),
            "expected_ms": None
            if row["expected_at"] is None
            else round(words.moment(row["expected_at"]).timestamp() * 1000),
            "partition": row["partition"],
            "qos": row["qos"],
        }
        for place, row in enumerate(rows, 1)
    ]


def draw(
    rows: "list[ManagerQueueRow]",
    gpus: "list[GpusNowRow]",
    nodes: "list[ManagerNodesRow]",
    limit: int | None,
    now_ms: int,
) -> None:
    """Print a table of ``rows`` (query ``manager_queue``), and who of ``gpus`` (``gpus_now``) uses none.

    ``nodes`` (``manager_nodes``) are the manager's: what keeps their free GPUs is said.
    """
    screen = console()
    for cluster in dict.fromkeys(row["cluster"] for row in rows):
        own = [row for row in rows if row["cluster"] == cluster]
        screen.print(
            f"At {waiting.manager_of(own[0]['job'])}, cluster {cluster}: {waiting.counted(own)}", style="bold"
        )
        lines = [_line(row, now_ms) for row in own[:limit]]
        places = which_fit(COLUMNS, lines, screen.width)
        shown = [[line[at] for at in places] for line in lines]
        screen.print(table([COLUMNS[at] for at in places], shown))
        if limit is not None and len(own) > limit:
            screen.print(f"and {text.many(len(own) - limit, 'job')} more; --limit shows them")
    for sentence in (waiting.unused(gpus), *waiting.kept(rows, gpus, nodes)):
        if sentence:
            screen.print(sentence)


def _line(row: "ManagerQueueRow", now_ms: int) -> tuple[str, ...]:
    since_s = now_ms / 1000 - words.moment(row["submitted_at"]).timestamp()
    each = text.NOTHING if row["gpus"] is None else text.count(row["gpus"])
    parts = f" {text.many(row['shards'], 'shard')}" if row["shards"] else ""
    return (
        waiting.shown(row),
        str(row["job_name"] or text.NOTHING),
        str(row["user_name"] or text.NOTHING),
        str(row["project"] or text.NOTHING),
        " ".join(each for each in (row["partition"], row["qos"]) if each),
        f"{row['tasks']} x {each}"
        if row["tasks"] > 1
        else f"{'' if parts and not row['gpus'] else each}{parts}",
        text.length_cell(since_s),
        _starts(row["expected_at"], now_ms),
        waiting.why_of(row),
    )


def _starts(expected_at: str | None, now_ms: int) -> str:
    """A time of day within a day from now, else with its date, in the reader's own zone."""
    if expected_at is None:
        return text.NOTHING
    at = words.moment(expected_at)
    is_soon = at.timestamp() * 1000 - now_ms < DAY_MS
    return f"{at.astimezone():%H:%M}" if is_soon else words.clock_time(expected_at)
