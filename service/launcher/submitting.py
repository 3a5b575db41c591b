"""Hands a submission to the service: the first time, and again where the service lost it."""

import time

from advisor.jobs.model import Submission
from advisor.serialize import to_tree
from collector.model import JobId
from service.client.jobs import ActingClient
from service.errors import QueryFailed, ServiceBusy, ServiceDown
from service.launcher.fitness import job_id

# Long enough for a service that restarts; then the user is told.
SUBMIT_LIMIT_S = 10.0
AGAIN_S = 0.5
NOT_SENT = ("user", "uid")
"""The service knows who calls."""
NEWER = ("background", "step_s_predicted")
"""Sent where they say something: a service from before would refuse names that it doesn't know."""


def submit(client: ActingClient, submission: Submission, limit_s: float = SUBMIT_LIMIT_S) -> JobId:
    """Its id; asked again when the line breaks or the service asks to wait, for ``limit_s`` in all.

    The nonce makes that safe. Raises ``ClientError``.
    """
    body = {name: value for name, value in to_tree(submission).items() if name not in NOT_SENT}
    body = {name: value for name, value in body.items() if value or name not in NEWER}
    until_s = time.monotonic() + limit_s
    while True:
        try:
            entry = client.submit(body)
            break
        except (ServiceDown, ServiceBusy) as error:
            wait_s = error.retry_after_s if isinstance(error, ServiceBusy) else AGAIN_S
            if time.monotonic() + wait_s > until_s:
                raise
            time.sleep(wait_s)
    job = job_id(entry.job)
    if job is None:
        raise QueryFailed(
            f"the service at {client.url} took the job and did not say its number; ask its operator"
        )
    return job
