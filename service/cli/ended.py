"""What is known of a job that has ended, a sentence each: ``fallow explain`` decides on those that run."""

from datetime import UTC, datetime, timedelta
from typing import Any

from service.cli import words
from service.client import Client

PAST = timedelta(days=30)
"""As far back as decisions look."""


def ended(client: Client, name: str, as_of_ms: int) -> tuple[str, ...]:
    """Who held what and until when, what the job made of it, and what was found.

    Nothing where no job of the last 30 days has that id, or id's end. Blocks. Raises ``ClientError``.
    """
    from service.summaries.job_verdicts import efficiency, verdict

    until = datetime.fromtimestamp(as_of_ms / 1000, UTC).replace(second=0, microsecond=0) + timedelta(
        minutes=1
    )
    span = {"from_ts": until - PAST, "to_ts": until}
    rows = [row for row in client.rows("jobs", **span) if name in (row["job"], row["job"].split(":")[-1])]
    if len(rows) != 1:
        return ()
    row = rows[0]
    found = [each for each in client.rows("findings", **span) if each["job"] == row["job"]]
    line, told = efficiency(row), verdict(row)
    return (
        _who(row),
        *(() if line is None else (f"{line}.",)),
        *(() if told is None else (f"Its verdict: {told}.",)),
        *(
            f"Found {words.clock_time(each['opened_at'])}: {words.localized(each['sentence'])}"
            for each in found
        ),
    )


def _who(row: dict[str, Any]) -> str:
    """That it has ended, or that it holds something of which no decision is made (a GPU that is gone)."""
    name = f" {row['job_name']}" if row["job_name"] else ""
    project = f" of project {row['project']}" if row["project"] else ""
    whose = f"{row['user_name']}'s" if row["user_name"] else "somebody's"
    began = words.began(row)
    if row["to_ts"] is None:
        return f"{row['job']} is {whose} job{name}{project}; it holds GPUs that are gone, since {began}."
    gpus = words.many(row["gpus"], "GPU")
    return (
        f"{row['job']} was {whose} job{name}{project}, and has ended: it held {gpus} "
        f"from {began} to {words.clock_time(row['to_ts'])}."
    )
