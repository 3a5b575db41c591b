"""Whose a Ray job is, and under which id it is kept. Pure.

Ray knows no people. Who submitted is a client's word in the job's metadata, believed only under a key that
the site names (``user_key``), because its own gateway writes it. That a driver belongs to a submission is
the driver's word too (metadata ``job_submission_id``); Ray's list of jobs repeats it.

A driver's number counts up within one cluster, and a cluster's own id is random: ``ray:CLUSTER:DRIVER``, and
``ray:CLUSTER/SUBMISSION`` for what was submitted, the cluster by the first 8 of its 56 digits. No name that
anybody chooses can be taken for a driver. Names are written as in an address (``%40``): others' ids end at @.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from collector.inventory.ray import PREFIX
from collector.managers.ray.answers import RayJob
from collector.managers.ray.api import bounded
from collector.model import Holder, JobId
from collector.procfs.job_root import storable

CLUSTER_DIGITS = 8
LONGEST_NAME = 64
"""Characters of a person's name that are believed: longer ones are no account's (useradd: 32)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A job of Ray's: its holder, what people call it, and what is kept of it."""

    holder: Holder
    shown_id: str
    key: str
    began_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The jobs that a cluster lists, by their drivers and by their submissions."""

    cluster: str
    by_driver: Mapping[str, Named] = field(default_factory=dict)
    by_submission: Mapping[str, Named] = field(default_factory=dict)

    def of(self, driver: str, submission: str | None = None) -> Named:
        """The job of a driver, or of the submission whose supervisor it is; also one that is in no list."""
        if submission is not None and submission in self.by_submission:
            return self.by_submission[submission]
        known = self.by_driver.get(driver)
        return known or Named(
            holder=Holder(job=JobId(f"{PREFIX}{self.cluster}:{driver}")), shown_id=driver, key=f":{driver}"
        )


def names_of(cluster_id: str, jobs: Iterable[RayJob], user_key: str) -> Names:
    """The names of the jobs of this cluster's list."""
    cluster = cluster_id[:CLUSTER_DIGITS]
    by_driver, by_submission = {}, {}
    for job in jobs:
        key = f"/{quote(job.submission, safe='')}" if job.submission else f":{job.driver}"
        user = job.metadata.get(user_key, "") if user_key else ""
        named = Named(
            holder=Holder(
                job=JobId(f"{PREFIX}{cluster}{key}"),
                user=user if 0 < len(user) <= LONGEST_NAME else None,
                name=bounded(job.submission) or None,
                command=storable(job.entrypoint.split()),
            ),
            shown_id=bounded(job.submission) or job.driver,
            key=key,
            began_ms=job.began_ms,
        )
        if job.submission:
            by_submission[job.submission] = named
        if job.driver:
            by_driver[job.driver] = named
    return Names(cluster=cluster, by_driver=by_driver, by_submission=by_submission)
