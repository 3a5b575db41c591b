"""Jobs: a searchable list, and for one of them its GPUs and every measure on one time axis."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics import text
from service import energy, wording
from service.charts.frame import rows
from service.charts.heatmap import PICK, heat_map
from service.charts.timelines import RUNGS, banded, lanes_chart, lanes_of, measured_lanes, over_gpus
from service.pages import submitted_jobs
from service.pages.data import jobs as acting
from service.pages.data import queries
from service.pages.parts.charted import charted, grid
from service.pages.parts.context import (
    PageContext,
    Site,
    Stage,
    current_view,
    drawn,
    go,
    nothing_matches,
    open_gpu,
    staged,
)
from service.pages.parts.context import show as show_notice
from service.pages.parts.finding_messages import messages, say
from service.pages.parts.idle_gaps import idle_gaps
from service.pages.parts.job_buttons import allowed, keep_button
from service.pages.parts.messages import NO_SUCH_JOB
from service.pages.parts.search_box import run_line
from service.pages.parts.url_state import UrlState
from service.pages.parts.widgets import facts, heat_keys, kind_label, plain
from service.summaries.frames import records
from service.summaries.job_verdicts import efficiency, used_where_known, verdict
from service.summaries.recommendations import any_upper_bound, pattern_of_job

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig

    from service.schemas.rows import JobsRecord, JobsTuple


EARLIER = " {jobs} held a GPU when its records begin: From is then, or earlier, as Began says."
VERDICT_PX = 345
"""The longest verdict, on a line of the table."""
HELD, SUBMITTED = "held", "submitted"
HEAT = ("ts", "node", "gpu_index", "gpu_place", "uuid", "share", "utilization_ratio", "rung")
COLUMNS = {
    "job_name": "Job",
    "user_name": "Person",
    "project": "Project",
    "gpus": "GPUs",
    "from_ts": "From",
    "to_ts": "To",
    "gpu_hours": "Held",
    "used_gpu_hours": "Used",
    "wasted_gpu_hours": "Wasted",
    "energy_kwh": "kWh",
    "utilization": "Utilization",
    "verdict": "Verdict",
    "framework": "Framework",
    "kind": "Kind",
    "from_note": "Began",
    "job": "Id",
}


def show(site: Site) -> None:
    """Draw the page: jobs that held GPUs, or that were submitted; of one, its life and its measures."""
    view = current_view()
    if submitted_jobs.is_launched(view.job):
        _back(view)
        staged(site, _life)
        drawn(site, _measured)
        return
    if view.job is None:
        st.session_state["jobs-by"] = SUBMITTED if view.by == SUBMITTED else HELD
        st.segmented_control(
            "Which jobs",
            [HELD, SUBMITTED],
            key="jobs-by",
            format_func=lambda name: "Held GPUs" if name == HELD else "Submitted to Fallow",
            label_visibility="collapsed",
            required=True,
            on_change=_which_chosen,
        )
    if view.job is None and view.by == SUBMITTED:
        staged(site, submitted_jobs.submitted)
        return
    drawn(site, _body)


def _life(stage: Stage) -> None:
    submitted_jobs.one(stage, str(stage.view.job))


def _which_chosen() -> None:
    chosen = st.session_state["jobs-by"]
    go(replace(current_view(), by=SUBMITTED if chosen == SUBMITTED else None, find=None))


def _body(scene: PageContext) -> None:
    jobs = queries.ask("jobs", **scene.asked)
    if jobs.empty:
        nothing_matches(scene)
        return
    labels = {row.job: label_of_job(row) for row in rows(jobs)}
    if scene.view.job is not None:
        labels.setdefault(scene.view.job, scene.view.job)
    st.session_state["job"] = scene.view.job
    st.selectbox(
        "Find a job",
        list(labels),
        key="job",
        format_func=lambda job: labels.get(job, job),
        placeholder=f"Find one of {text.many(len(jobs), 'job')} by name, person, project or id",
        label_visibility="collapsed",
        on_change=lambda: go(replace(current_view(), job=st.session_state["job"])),
    )
    if scene.view.job is None:
        _list(scene, jobs)
        return
    rows_of_job = jobs[jobs["job"] == scene.view.job]
    if rows_of_job.empty:
        show_notice(NO_SUCH_JOB)
        return
    _one(scene, records(rows_of_job)[0])


def _measured(scene: PageContext) -> None:
    """What was measured of a submitted job, if it held a GPU in the time range."""
    timeline = queries.ask("job_timeline", job=scene.view.job, **scene.window.steps)
    if timeline.empty:
        st.caption("It held no measured GPU in this time range.")
        return
    _gpus(scene, timeline)
    _measures(scene, timeline)


def label_of_job(row: "JobsTuple") -> str:
    """A job as the search lists it."""
    who = " · ".join(str(each) for each in (row.user_name, row.project) if not text.missing(each))
    name = row.job if text.missing(row.job_name) else row.job_name
    return f"{name} · {who} · {text.gpu_hours(row.gpu_hours)} · {row.job}"


def _list(scene: PageContext, jobs: pd.DataFrame) -> None:
    hours, wasted = jobs["gpu_hours"].sum(), jobs["wasted_gpu_hours"].sum()
    st.header(
        f"{text.many(len(jobs), 'job')} held {text.gpu_hours(hours)}; {text.gpu_hours(wasted)} of them were "
        "wasted outright",
        anchor=False,
    )
    metered = "energy_kwh" in jobs and jobs["energy_kwh"].gt(0).any()
    earlier = began_earlier(jobs)
    hidden = (*(() if metered else ("energy_kwh",)), *(() if any(earlier) else ("from_note",)))
    shown = jobs.assign(
        utilization=jobs["utilization_ratio"] * 100,
        used_gpu_hours=used_where_known(records(jobs)),
        verdict=[verdict(row) or text.NOTHING for row in records(jobs)],
        from_note=["or earlier" if each else "" for each in earlier],
        from_ts=jobs["from_ts"].dt.tz_convert(scene.zone),
        to_ts=jobs["to_ts"].dt.round("s").dt.tz_convert(scene.zone),
    )
    picked = grid(
        shown[[name for name in COLUMNS if name in shown and name not in hidden]],
        hide_index=True,
        height=min(38 + 35 * len(jobs), 720),
        column_config=_columns(jobs),
        placeholder=text.NOTHING,
        on_select="rerun",
        selection_mode="single-row",
        key="job-table",
        alt="The jobs of this time range, the most wasteful first",
    )
    st.caption(
        "The most wasteful first; hours are GPU-hours in this time range. Choose a row to look into a job."
        + (wording.energy_measured(records(jobs)) if metered else "")
        + (EARLIER.format(jobs=text.many(sum(earlier), "job")) if any(earlier) else "")
    )
    chosen = picked["selection"]["rows"]
    if chosen:
        go(replace(scene.view, job=str(jobs.iloc[chosen[0]]["job"])))
        st.rerun()


def _back(view: UrlState) -> None:
    st.button(
        "All jobs",
        icon=":material/arrow_back:",
        type="tertiary",
        key="all-jobs",
        on_click=go,
        args=(replace(view, job=None, by=SUBMITTED if submitted_jobs.is_launched(view.job) else None),),
    )


def _one(scene: PageContext, row: "JobsRecord") -> None:
    _back(scene.view)
    acting.say_what_came()
    st.header(_line(row), anchor=False)
    if (line := efficiency(row)) is not None:
        st.markdown(plain(f"{line}."))
    _facts(scene, row)
    run_line(str(row["job"]))
    if text.missing(row["to_ts"]) and scene.view.live:
        user = None if text.missing(row["user_name"]) else str(row["user_name"])
        keep_button(str(row["job"]), user)
        allowed(scene.when, str(row["job"]))
    if not text.missing(row["command"]):
        st.code(str(row["command"]), language="shell", wrap_lines=True)
    idle_gaps(str(row["job"]), scene.window.from_ts)
    _findings(scene, str(row["job"]))
    _each_gpu(scene, str(row["job"]))
    timeline = queries.ask("job_timeline", job=row["job"], **scene.window.steps)
    if timeline.empty:
        st.caption("No sample of its GPUs lies in this time.")
        return
    _gpus(scene, timeline)
    _measures(scene, timeline)


def _line(row: "JobsRecord") -> str:
    name = plain(row["job_name"] if not text.missing(row["job_name"]) else row["job"])
    sentence = verdict(row)
    return name if sentence is None else f"{name}: {sentence}"


def _facts(scene: PageContext, row: "JobsRecord") -> None:
    cells: Mapping[str, object] = row
    items = [
        (what, str(cells[column]))
        for what, column in (
            ("by", "user_name"),
            ("project", "project"),
            ("framework", "framework"),
            ("kind", "kind"),
        )
        if not text.missing(cells[column])
    ]
    is_over = not text.missing(row["to_ts"])
    until = (
        scene.when(row["to_ts"])
        if is_over
        else wording.so_far(row["measured_to"], datetime.now(UTC), scene.when)
    )
    items += [
        ("GPUs", text.count(row["gpus"])),
        ("held", f"{scene.began(row)} to {until}"),
        ("id", str(row["job"])),
    ]
    if not text.missing(row["cost"]):
        items.append(("cost", text.money(row["cost"], row["currency"])))
    if not text.missing(row.get("energy_kwh")):
        items.append(("energy", energy.written(energy.used([row]))))
        items.append(("of it while it did nothing", energy.written(energy.wasted([row]))))
    facts(items)
    patterns = queries.ask_if_kept(
        "patterns", project=scene.asked.get("project"), user=scene.asked.get("user")
    )
    if (pattern := pattern_of_job(patterns, str(row["job"]))) is not None:
        facts([("worked in the last 24 hours", pattern)])


def _findings(scene: PageContext, job: str) -> None:
    """What was found about the job, one message over all its GPUs."""
    findings = queries.ask("findings", **scene.asked_until_now)
    groups = messages(findings[findings["job"] == job])
    if groups:
        st.subheader("Found", anchor=False)
    for group in groups:
        say(scene, group)


def _each_gpu(scene: PageContext, job: str) -> None:
    """A row for each GPU, under the verdict that is over all of them."""
    gpus = queries.ask_if_kept("job_gpus", job=job, **scene.window.span)
    if gpus is None or gpus.empty:
        return
    shown = pd.DataFrame(
        {
            "GPU": [wording.short_gpu(row.node, row.gpu_place, row.uuid) for row in rows(gpus)],
            "Given": gpus["gpu_hours"],
            "Used": used_where_known(records(gpus)),
            "Wasted": gpus["wasted_gpu_hours"],
            "Not measured": gpus["unknown_gpu_hours"],
            "Utilization of measured time": gpus["utilization_ratio"] * 100,
            "kWh": gpus.get("energy_kwh"),
            "Most memory": [text.size(each) for each in gpus["memory_used_max_bytes"]],
            "Measure": [_measure(each) for each in gpus["rung"]],
            "Found": [_titles(each) for each in gpus["found"]],
        }
    )
    st.subheader("Each GPU", anchor=False)
    hours = {
        name: st.column_config.NumberColumn(name, format="%.1f")
        for name in ("Given", "Used", "Wasted", "Not measured", "kWh")
    }
    of_measured = "Utilization of measured time"
    bar = st.column_config.ProgressColumn(of_measured, format="%.0f %%", min_value=0, max_value=100)
    grid(
        shown,
        hide_index=True,
        column_config={**hours, of_measured: bar},
        placeholder=text.NOTHING,
        key="job-each-gpu",
        alt="What the job made of each of its GPUs in this time range",
    )
    if any_upper_bound(records(gpus)):
        st.caption(wording.upper_bound())
    alike = gpus[gpus["shared_with"].gt(0) & gpus["is_told_apart"].eq(False)]
    if not alike.empty:
        names = ", ".join(wording.short_gpu(row.node, row.gpu_place, row.uuid) for row in rows(alike))
        st.caption(
            f"{names}: shared with other jobs, and nobody tells whose the use was. All who held it are "
            "charged alike, by their shares."
        )


def _titles(kinds: object) -> str | None:
    """Comma-separated kinds by their titles."""
    return None if text.missing(kinds) or not kinds else "; ".join(map(kind_label, str(kinds).split(", ")))


def _measure(rung: float | None) -> str:
    return RUNGS.get(0 if text.missing(rung) else int(rung or 0), "no measure")


def _gpus(scene: PageContext, timeline: pd.DataFrame) -> None:
    st.subheader("Its GPUs over time", anchor=False)
    heat_keys(scene.colours)
    cells = timeline.assign(held_ratio=1.0, state=None)
    picked = charted(
        heat_map(cells, scene.axis, scene.colours, whole=False),
        "The job's GPUs over time: what works by utilization, wasted amber, outlined while it held them",
        timeline[[name for name in HEAT if name in timeline]],
        "job-gpus",
        numbers="Utilization of each of the job's GPUs, step by step",
        key="job-heat",
        on_select="rerun",
        selection_mode=PICK,
    )
    chosen = picked["selection"].get(PICK) or []
    if chosen and "uuid" in chosen[0]:
        open_gpu(scene, str(chosen[0]["uuid"]))


def _measures(scene: PageContext, timeline: pd.DataFrame) -> None:
    several = timeline["uuid"].nunique() > 1
    st.subheader(
        "Every measure" + (": mean over its GPUs, shaded from least to most" if several else ""), anchor=False
    )
    merged = over_gpus(timeline)
    lanes = measured_lanes(banded(lanes_of()) if several else lanes_of(), merged)
    charted(
        lanes_chart(merged, lanes, scene.axis, scene.colours),
        "Every measure of the job's GPUs on one time axis",
        timeline,
        "job-measures",
        numbers="Every measure of the job's GPUs, step by step",
    )


def began_earlier(jobs: pd.DataFrame) -> list[bool]:
    """Which jobs may have held their first GPU before its records begin; an older service tells of none."""
    return [value is True or value == 1 for value in jobs.get("from_is_bound", [None] * len(jobs))]


def _columns(jobs: pd.DataFrame) -> "dict[str, ColumnConfig | str]":
    columns: dict[str, ColumnConfig | str] = {**COLUMNS}
    most = float(jobs["gpu_hours"].max())
    columns["gpu_hours"] = st.column_config.NumberColumn("Held", format="%.1f")
    columns["used_gpu_hours"] = st.column_config.NumberColumn("Used", format="%.1f")
    columns["wasted_gpu_hours"] = st.column_config.ProgressColumn(
        "Wasted", format="%.1f", min_value=0, max_value=max(most, 1.0)
    )
    columns["utilization"] = st.column_config.ProgressColumn(
        "Utilization", format="%.0f %%", min_value=0, max_value=100
    )
    columns["energy_kwh"] = st.column_config.NumberColumn("kWh", format="%.1f")
    columns["job_name"] = st.column_config.TextColumn("Job", width=180)
    columns["verdict"] = st.column_config.TextColumn("Verdict", width=VERDICT_PX)
    columns["from_ts"] = st.column_config.DatetimeColumn("From", format="D MMM HH:mm")
    columns["to_ts"] = st.column_config.DatetimeColumn("To", format="D MMM HH:mm")
    return columns
