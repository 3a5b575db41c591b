"""``fallow tell``: what to write to a job's owner about what is found of it now. It sends nothing."""

import argparse
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from analytics.vocabulary.jobs import is_called
from service.cli import freshness, manager_job, words
from service.cli.asking import asked
from service.cli.screen import print_json
from service.errors import FallowError
from service.summaries.finding_groups import by_kind, is_own_doing, the_rest
from service.summaries.message_to_owner import Said, message

if TYPE_CHECKING:
    from service.schemas.rows import FindingsRow

BACK = timedelta(days=1)
"""An open finding was seen in the last minute; a day is beyond any doubt, and as ``findings`` looks back."""


class NothingToTell(FallowError):
    """Nothing that its owner does is found of a job now."""


def run_tell(flags: argparse.Namespace) -> int:
    """Print the message, to be copied."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    with asked(flags) as client:
        rows = client.rows("findings", from_ts=now - BACK, to_ts=now + timedelta(minutes=1), open=True)
        judged = freshness.lateness(client, datetime.now(UTC))
        rows = [row for row in rows if row["job"] and is_own_doing(row["kind"])]
        ids = manager_job.ids_of(flags.job)
        if not any(row["job"] in ids for row in rows):
            ids = manager_job.meant(client, flags.job)
            if not any(row["job"] in ids for row in rows):
                span = {"from_ts": now - BACK, "to_ts": now + timedelta(minutes=1)}
                _one_cluster(flags.job, ids, [row["job"] for row in client.rows("jobs", **span)])
    rows_of_job = _of(flags.job, ids, rows)
    if not rows_of_job:
        why = "nothing was judged yet" if judged == freshness.NEVER else "nothing is found of it now"
        raise NothingToTell(
            f"nothing to tell about {flags.job!r}: {why}; `fallow findings` lists what is open, "
            "`fallow explain` says why nothing is"
        )
    job = str(rows_of_job[0]["job"])
    parts = by_kind(rows_of_job, lambda each: str(each["kind"]), is_open=True)
    findings = [
        Said(str(part[0]["kind"]), f"{part[0]['sentence']}{the_rest(part)}", part[0].get("evidence"))
        for part in parts
    ]
    row = rows_of_job[0]
    body = message(row["user_name"], job, row["job_name"], findings, job_kind=row.get("job_kind"))
    text_to_owner = words.localized(body)
    if flags.json:
        print_json([{"job": job, "user": row["user_name"], "message": text_to_owner}], flags)
    else:
        print(text_to_owner)
    return 0


def _one_cluster(name: str, meant: tuple[str, ...], jobs: "list[str]") -> None:
    """Nothing where at most one cluster has a job of this id; it may be the one of which nothing is found.

    Raises ``NothingToTell``.
    """
    ids = sorted({job for job in jobs if is_called(job, None, meant)})
    if len(ids) > 1:
        raise NothingToTell(_several(name, ids))


def _several(name: str, ids: "list[str]") -> str:
    return f"{len(ids)} jobs are called {name!r}; name one by its id: {', '.join(ids[:8])}"


def _of(name: str, meant: tuple[str, ...], rows: "list[FindingsRow]") -> "list[FindingsRow]":
    """The rows of one job: with one of the ids ``meant``, else of that name where only one job has it.

    Raises ``NothingToTell``.
    """
    own = [row for row in rows if row["job"] in meant]
    own = own or [row for row in rows if is_called(str(row["job"]), row["job_name"], (name, *meant))]
    ids = sorted({str(row["job"]) for row in own})
    if len(ids) > 1:
        raise NothingToTell(_several(name, ids))
    return own
