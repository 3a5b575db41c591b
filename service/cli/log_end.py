"""When nothing more will come in a detached job's log: by the service's word, or by its launcher's end."""

from pathlib import Path

from collector.model import JobId
from service.client.jobs import connect_acting
from service.errors import ClientError, UnknownJob
from service.launcher.folder import About
from service.launcher.process import is_alive

ENDED = ""
"""It has ended, as jobs do: that needs no words."""


def end_of(job: JobId, about: About, data: Path | None) -> str | None:
    """Why nothing more will come, in words; ``None`` while something may. Blocks for one answer.

    A number that was given again is another job: its end says nothing about this log.
    """
    lives = about.launcher is not None and is_alive(about.launcher)
    try:
        entry = connect_acting(data).for_people().job(job)
    except UnknownJob:
        return None if lives else _unknown(job)
    except ClientError as error:
        gone = about.launcher is not None and not lives
        return f"the launcher of {job} is gone, and the service does not say more: {error}" if gone else None
    if about.nonce not in (None, entry["submission"]["nonce"]):
        return None if lives else _unknown(job)
    return ENDED if entry["state"] == "ended" else None


def _unknown(job: JobId) -> str:
    return f"the service does not know the job of this log ({job}), and its launcher is gone: it ends here"
