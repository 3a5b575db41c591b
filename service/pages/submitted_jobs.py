"""Jobs that were submitted to Fallow: the list, and one of them with its life, its orders and its buttons."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.jobs import is_submitted
from service import wording
from service.charts.frame import rows
from service.charts.job_timeline import (
    STANDS,
    gpu_hours,
    gpus_of,
    life_chart,
    life_of,
    reason_of,
    stand_colours,
)
from service.charts.theme import ink_on as readable
from service.client.jobs import ActingClient
from service.errors import UnknownJob
from service.pages.actions import action_table
from service.pages.data import jobs as acting
from service.pages.data.jobs import asked_gpus, jobs_frame, matching
from service.pages.parts.charted import charted, grid
from service.pages.parts.context import Stage, current_view, go
from service.pages.parts.context import show as show_notice
from service.pages.parts.idle_gaps import of_submitted
from service.pages.parts.job_buttons import allowed, buttons
from service.pages.parts.messages import NO_SUCH_JOB
from service.pages.parts.search_box import find_box, run_line
from service.pages.parts.widgets import facts, keys, plain, swatch, tag
from service.pages.queue import queued
from service.schemas.records import JobDetail, instant

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig


PER_PAGE = 50
MOST, MOST_LIVE = 1_000, 10_000
"""So many of all, and of those that have not ended, are asked for; where there are more, the page says so."""
LIVE = ("pending", "starting", "running", "paused")
COLUMNS = {
    "stood": "Stands",
    "name": "Job",
    "user": "Person",
    "project": "Project",
    "held": "Has",
    "asked": "Asked for",
    "priority": "Priority",
    "message": "Why",
    "submitted": "Submitted",
    "started": "Started",
    "ended": "Ended",
    "job": "Id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The jobs that a page lists, and how many there are: of those that have not ended, and of all."""

    jobs: pd.DataFrame
    of_live: int
    of_all: int


def submitted(stage: Stage) -> None:
    """Draw the list of submitted jobs."""
    jobs_recent = recent()
    jobs = jobs_recent.jobs
    st.header(_sentence(jobs), anchor=False)
    if jobs.empty:
        st.caption("A job started with `fallow run` appears here; the Queue page composes the command.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        ended = st.toggle("Also what has ended", key="launched-ended")
        st.space("stretch")
        find_box(stage.view)
    frame = matching(jobs, stage.view.find, user=stage.view.user, project=stage.view.project)
    frame = frame if ended else frame[frame["state"].isin(LIVE)]
    if frame.empty:
        st.caption("No job matches what was chosen above." if len(jobs) else "Nothing is running or waiting.")
        return
    _table(stage, frame)
    rest = unlisted(jobs_recent, ended=ended)
    if rest:
        st.caption(rest)


def one(stage: Stage, name: str) -> None:
    """Draw one submitted job, or a notice where the register does not know it."""
    try:
        job: JobDetail = acting.ask(ActingClient.job, job=name)
    except UnknownJob:
        show_notice(NO_SUCH_JOB)
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(_state_sentence(stage, job), anchor=False)
        ground = stand_colours(stage.colours).get(job.state, stage.colours.muted)
        st.html(tag(STANDS.get(job.state, job.state), ground, readable(ground)), width="content")
    for line in job.explain or (job.message,):
        st.markdown(plain(wording.localized(line, stage.zone)))
    buttons(job)
    _facts(stage, job)
    run_line(job.job)
    if job.submission.command:
        st.code(" ".join(job.submission.command), language="shell", wrap_lines=True)
    of_submitted(job, stage.colours)
    _life(stage, job)
    _told_and_done(stage, job)
    allowed(stage.when, job.job)


@st.cache_data(ttl=acting.KEPT_S, show_spinner=False)
def recent() -> Recent:
    """Jobs that have not ended, and the newest of all. Blocks. Raises ``ClientError``.

    Those that matter are asked for by themselves: behind many that ended they would not be among the newest.
    """
    live, newest = (
        acting.ask(ActingClient.jobs_listed, limit=MOST_LIVE, ended=False),
        acting.ask(ActingClient.jobs_listed, limit=MOST),
    )
    rows = {row.job: row for row in (*live.rows, *newest.rows)}
    return Recent(jobs=jobs_frame(rows.values()), of_live=live.total, of_all=newest.total)


def unlisted(recent: Recent, *, ended: bool) -> str | None:
    """How many jobs the list leaves out, in words; ``None`` where it is whole. Pure."""
    live = int(recent.jobs["state"].isin(LIVE).sum())
    more = recent.of_all - len(recent.jobs) if ended else recent.of_live - live
    if more <= 0:
        return None
    what = "older ones" if ended else "older ones that have not ended"
    flag = " --all" if ended else ""
    return f"{text.count(more)} {what} are not listed here; `fallow jobs{flag} --user NAME` lists somebody's."


def is_launched(job: str | None) -> bool:
    """Whether a job's id is one that Fallow gives."""
    return job is not None and is_submitted(job)


def _sentence(jobs: pd.DataFrame) -> str:
    if jobs.empty:
        return "Nothing was submitted yet"
    counted = jobs["state"].value_counts()
    running, paused = int(counted.get("running", 0)), int(counted.get("paused", 0))
    waiting = max(int(counted.get("pending", 0)), len(queued()))
    gpus = int(jobs["held"].sum())
    parts = [
        f"{text.count(running)} {'job runs' if running == 1 else 'jobs run'} on {text.many(gpus, 'GPU')}"
    ]
    parts += [f"{text.count(waiting)} {'waits' if waiting == 1 else 'wait'}"] if waiting else []
    parts += [f"{text.count(paused)} {'is' if paused == 1 else 'are'} paused"] if paused else []
    return ", ".join(parts)


def _table(stage: Stage, frame: pd.DataFrame) -> None:
    pages = -(-len(frame) // PER_PAGE)
    at = st.pagination(pages, key="launched-page") - 1 if pages > 1 else 0
    part = frame.iloc[at * PER_PAGE : (at + 1) * PER_PAGE]
    shown = part.assign(
        name=part["name"].where(part["name"].fillna("").astype(bool), part["job"]),
        stood=[_state_text(row) for row in rows(part)],
        asked=[
            "gaps" if row.background else asked_gpus(row.min_gpus, row.max_gpus, row.share)
            for row in rows(part)
        ],
        **{each: part[each].dt.tz_convert(stage.zone) for each in ("submitted", "started", "ended")},
    )
    picked = grid(
        shown[list(COLUMNS)],
        hide_index=True,
        height=min(38 + 35 * len(part), 38 + 35 * 20),
        column_config=_columns(),
        placeholder=text.NOTHING,
        on_select="rerun",
        selection_mode="single-row",
        key=f"launched-table-{at}",
        alt="The jobs that were submitted to Fallow, the newest first",
    )
    st.caption("The newest first. Choose a row to look into a job, or to order something.")
    if chosen := picked["selection"]["rows"]:
        go(replace(current_view(), job=str(part.iloc[chosen[0]]["job"]), find=None))
        st.rerun()


class _Standing(Protocol):
    state: str
    exit_reason: str | None


def _state_text(row: "_Standing") -> str:
    if row.state == "ended" and not text.missing(row.exit_reason):
        return str(row.exit_reason)
    return STANDS.get(row.state, str(row.state))


def _state_sentence(stage: Stage, job: JobDetail) -> str:
    name = plain(job.name or job.job)
    match job.state:
        case "running" | "starting" if job.beside is not None:
            verb = "runs" if job.state == "running" else "is being started"
            return f"{name} {verb} in the idle gaps of {plain(job.beside)}"
        case "running":
            return f"{name} runs on {_devices(job)}"
        case "ended":
            how = {"done": "is done", "failed": "failed", "cancelled": "was cancelled", "lost": "was lost"}
            code = f" with exit status {job.exit_code}" if job.exit_code else ""
            return f"{name} {how.get(job.exit_reason or '', 'ended')}{code}"
        case "paused":
            return f"{name} is paused" + (" by its owner" if job.held_by_user else "")
        case "starting":
            return f"{name} is being started on {_devices(job)}"
        case _:
            return f"{name} waits for {_gpus_text(job)}"


def _devices(job: JobDetail) -> str:
    many = len(job.gpus)
    if job.submission.share < 1:
        return f"{text.percent(job.submission.share)} of {many} GPU{'' if many == 1 else 's'}"
    return f"{many} GPU{'' if many == 1 else 's'}"


def _gpus_text(job: JobDetail) -> str:
    if job.submission.background:
        return "idle gaps of another job"
    gpus = asked_gpus(job.submission.min_gpus, job.submission.max_gpus, job.submission.share)
    return f"{gpus} GPU" if gpus == "1" else f"{gpus} GPUs"


def _facts(stage: Stage, job: JobDetail) -> None:
    items = [("by", job.user or "unknown"), ("project", job.project or text.NOTHING)]
    items.append(("asked for", _gpus_text(job)))
    submission = job.submission
    if submission.memory_bytes is not None:
        items.append(("memory on each", text.size(submission.memory_bytes)))
    items += [("priority", str(submission.priority))] if submission.priority else []
    items += [
        (what, value) for what, value in (("kind", submission.kind), ("world", submission.mobility)) if value
    ]
    items += [("kept apart by", job.sharing)] if job.sharing != "whole" else []
    items.append(("may be paused for others", "yes" if submission.preemptible else "no"))
    times = (("submitted", job.submitted_ms), ("started", job.started_ms), ("ended", job.ended_ms))
    items += [(what, stage.when(instant(at))) for what, at in times if at is not None]
    now = acting.now()
    keep_until, last_sign = instant(job.keep_until_ms), instant(job.last_seen_ms)
    if keep_until is not None and keep_until > now:
        items.append(("kept until", stage.when(keep_until)))
    if last_sign is not None and job.state != "ended":
        items.append(("last heard of", f"{text.length((now - last_sign).total_seconds())} ago"))
    facts([*items, ("id", job.job)])


def _life(stage: Stage, job: JobDetail) -> None:
    life = life_of(job, acting.now())
    if life.empty:
        return
    st.subheader("Its life, and its world over time", anchor=False)
    colours = stand_colours(stage.colours)
    states = [stand for stand in STANDS if stand in set(life["state"])]
    keys([(swatch(colours[stand]), STANDS[stand], None) for stand in states])
    charted(
        life_chart(life, stage.colours, utc=stage.view.tz == "utc"),
        "Where the job stood over time, and on how many GPUs it ran",
        life,
        f"life-of-{job.job.replace(':', '-')}",
        numbers="Where the job stood, and on how many GPUs",
    )
    if not job.submission.background:
        facts([("GPU-hours by what it was told", text.gpu_hours(gpu_hours(life, job.submission.share)))])


def _told_and_done(stage: Stage, job: JobDetail) -> None:
    if job.directives:
        st.subheader("What it was told", anchor=False)
        frame = pd.DataFrame(
            {
                "Number": [each.number for each in job.directives],
                "Told to": [each.verb for each in job.directives],
                "GPUs": [len(gpus_of(each)) or None for each in job.directives],
                "Given": [stage.when(instant(each.given_ms)) for each in job.directives],
                "Carried out": [
                    each.failed or stage.when(instant(each.acknowledged_ms)) for each in job.directives
                ],
                "Why": [reason_of(each) for each in job.directives],
            }
        )
        grid(frame.iloc[::-1], hide_index=True, placeholder=text.NOTHING, alt="The directives of this job")
    if job.actions:
        st.subheader("What was done about it", anchor=False)
        action_table(stage, job.actions)


def _columns() -> "dict[str, ColumnConfig | str]":
    columns: dict[str, ColumnConfig | str] = {**COLUMNS}
    columns["held"] = st.column_config.NumberColumn("Has", width="small", help="GPUs that it has now")
    columns["message"] = st.column_config.TextColumn("Why", width="medium")
    for name in ("submitted", "started", "ended"):
        columns[name] = st.column_config.DatetimeColumn(COLUMNS[name], format="D MMM HH:mm")
    return columns
