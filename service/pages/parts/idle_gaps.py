"""What background jobs made in a job's idle gaps and what that cost it, as figures on the job's page."""

from datetime import datetime

from analytics import text
from service.pages.data import queries
from service.pages.parts.widgets import facts
from service.summaries.frames import records
from service.usecases.harvests import harvests_of, ratio


def idle_gaps(job: str, since: datetime) -> None:
    """A line for each background job that was in its idle gaps; nothing where none was."""
    harvests = queries.ask_if_kept("harvests", from_ts=since)
    if harvests is None or harvests.empty:
        return
    for each in harvests_of(records(harvests), job):
        if each.job == job:
            continue
        harvested = "not measured yet" if each.harvested_gpu_s is None else text.length(each.harvested_gpu_s)
        facts(
            [
                ("in its idle gaps", each.job),
                ("steps", text.count(each.steps)),
                ("GPU time harvested", harvested),
                ("its own step beside it, of its step alone", ratio(each)),
            ]
        )
