"""What background jobs make in a job's idle gaps and what that costs it: lanes and figures of its page."""

from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from analytics import text
from service.charts.idle_gaps import PARTS, lanes_chart, part_colours, step_lanes
from service.charts.theme import Theme
from service.pages.data import jobs as acting
from service.pages.data import queries
from service.pages.parts.charted import charted
from service.pages.parts.widgets import facts, keys, swatch
from service.schemas.records import JobDetail, instant
from service.summaries.frames import records
from service.usecases.harvests import harvests_of, ratio

EVER = datetime(2000, 1, 1, tzinfo=UTC)
"""Of a job whose submission nobody noted."""


def idle_gaps(job: str, since: datetime) -> None:
    """A line for each background job that was in its idle gaps, and for each job in whose gaps it was."""
    harvests = queries.ask_if_kept("harvests", from_ts=since)
    if harvests is None or harvests.empty:
        return
    for each in harvests_of(records(harvests), job):
        harvested = "not measured yet" if each.harvested_gpu_s is None else text.length(each.harvested_gpu_s)
        is_guest = each.job == job
        facts(
            [
                (
                    "in the idle gaps of" if is_guest else "in its idle gaps",
                    each.foreground if is_guest else each.job,
                ),
                ("steps", text.count(each.steps)),
                ("GPU time harvested", harvested),
                (
                    "that job's step beside it" if is_guest else "its own step beside it",
                    f"{ratio(each)} of its step alone",
                ),
            ]
        )


def of_submitted(job: JobDetail, colours: Theme) -> None:
    """The section of a submitted job: nothing where it neither announces idle gaps nor was in any."""
    since = instant(job.submitted_ms) or EVER
    gaps = () if job.report is None or job.submission.background else job.report.idle_gaps
    harvests = queries.ask_if_kept("harvests", from_ts=since)
    rows = [] if harvests is None or harvests.empty else records(harvests)
    mine = [row for row in rows if job.job in (row["job"], row["foreground"])]
    theirs = [row for row in mine if row["foreground"] == job.job]
    lanes = step_lanes(gaps, theirs, acting.now().timestamp() * 1000)
    if lanes.empty and not mine:
        return
    st.subheader("A step, and its idle gaps" if not lanes.empty else "In idle gaps", anchor=False)
    if not lanes.empty:
        colours_of = part_colours(colours)
        shown = [part for part in PARTS if part in set(lanes["part"])]
        keys([(swatch(colours_of[part]), part, _of_a_step(lanes, part)) for part in shown])
        charted(
            lanes_chart(lanes, colours),
            "How long the GPU computes and waits in one step",
            lanes,
            f"step-of-{job.job.replace(':', '-')}",
            numbers="Parts of a step on each GPU, in milliseconds",
        )
    idle_gaps(job.job, since)


def _of_a_step(lanes: pd.DataFrame, part: str) -> str:
    """Of all GPUs together."""
    lasts = lanes["high"] - lanes["low"]
    return text.percent(float(lasts[lanes["part"] == part].sum() / lasts.sum()))
