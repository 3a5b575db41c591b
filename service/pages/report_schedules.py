"""Reports that come by themselves: when, what became of the last, what was written, and how to add one.

Nothing is scheduled from here: the lines for the configuration are shown, and whoever runs the service puts
them there. Effects: it draws.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from analytics import text
from service.pages.data import reports
from service.pages.data.reports import OFTEN, WEEKDAYS, Regular, length_text, often_for, toml_of
from service.pages.parts.charted import grid
from service.pages.parts.context import PageContext, Stage, current_view, go
from service.pages.parts.report_view import sealed
from service.pages.parts.widgets import facts, plain
from service.pages.sign_in import may_read
from service.reports.on_request import Paper, read_paper
from service.reports.schedules import Delivery, Schedule
from service.schemas.values import as_it_was

ELSEWHERE = "The reports of another machine"
PAPER_PX = 900
MOST_PAPERS = 200
"""Some four weekly reports of a year; older ones are still files in the folder."""
OWNERS = "owners"
STATES = {
    "sent": "sent",
    "begun": "being sent",
    "failed": "to be tried again",
    "given-up": "given up",
    "waiting": "waiting",
}


def scheduled(stage: Stage) -> None:
    """Draw the schedules and what they wrote; of an opened one, what it says."""
    schedules, papers = reports.schedules(), reports.papers()
    if schedules is None or papers is None:
        st.header(ELSEWHERE, anchor=False)
        st.caption("This dashboard reads a service elsewhere; `fallow report --list` there says what comes.")
        return
    readable = [each for each in papers if not each.personal or may_read(each.subject).may]
    opened = next((each for each in readable if each.name == stage.view.report), None)
    if opened is not None:
        _opened(stage, opened)
        return
    st.header(_sentence(stage, schedules), anchor=False)
    if stage.view.report is not None:
        st.info("The report that the address names is not here, or is not yours to read.")
    _schedules(stage, schedules)
    _papers(stage, readable, kept_back=len(papers) - len(readable))


def how_to_schedule(
    scene: PageContext, kind: str, length: timedelta, *, user: str | None, project: str | None
) -> None:
    """The lines that have the report on the screen come by itself, from a few choices."""
    receivers = reports.receivers()
    with st.expander("Have it come by itself", icon=":material/schedule_send:", key="report-schedule"):
        schedule = _wished(
            scene, kind, length, [*receivers.routes, OWNERS] if receivers.owners else list(receivers.routes)
        )
        schedule = replace(schedule, user=user, project=project)
        st.code(toml_of(schedule), language="toml")
        st.caption(
            "Add these lines to `fallow.toml` in the data folder and start the service again. It is written "
            "into DATA/reports each time"
            + (
                " and sent."
                if schedule.to
                else "; receivers are set up under \\[delivery], see docs/reports.md."
            )
        )


def last_told(last: Delivery, when: Callable[[datetime | None], str]) -> str:
    """What became of the messages of a schedule's last report, in words; ``when`` writes an instant."""
    parts = [f"{many} {STATES.get(state, state)}" for state, many in last.counts.items()]
    sentence = ", ".join(parts)
    if last.next_at is not None and (last.counts.get("failed") or last.counts.get("begun")):
        sentence += f", next try {when(last.next_at)}"
    return sentence


def in_its_zone(each: Schedule) -> str:
    """When it comes next, on the clocks of its own zone: "Mon 23 Nov 08:00, Europe/Berlin"."""
    if each.next_at is None:
        return each.trouble or "never"
    return f"{each.next_at.astimezone(ZoneInfo(each.zone)):%a %d %b %H:%M}, {each.zone}"


def _sentence(stage: Stage, schedules: Sequence[Schedule]) -> str:
    if not schedules:
        return "No report comes by itself yet"
    coming = [(each.next_at, each.name) for each in schedules if each.next_at is not None]
    many = "1 report comes" if len(schedules) == 1 else f"{len(schedules)} reports come"
    if not coming:
        return f"{many} by themselves, and none has a next time"
    at, name = min(coming)
    itself = "itself" if len(schedules) == 1 else "themselves"
    return f"{many} by {itself}; {plain(name)} is next, {stage.when(at)}"


def _schedules(stage: Stage, schedules: Sequence[Schedule]) -> None:
    if not schedules:
        st.caption("Read one, and open *Have it come by itself* under it: it shows the lines to add.")
        return
    for each in schedules:
        with st.container(border=True, key=f"schedule-{each.name}", gap="xsmall"):
            about = f" of {each.about}" if each.about else ""
            st.markdown(f"**{plain(each.name)}** · {plain(each.kind)}{plain(about)}, as {plain(each.format)}")
            facts(_facts(stage, each))
            if each.last is not None and each.last.trouble:
                st.warning(plain(each.last.trouble), icon=":material/unsubscribe:")


def _facts(stage: Stage, each: Schedule) -> list[tuple[str, str]]:
    return [
        ("comes next", in_its_zone(each)),
        ("here that is", stage.when(each.next_at)),
        ("over the last", each.since),
        ("to", ", ".join(each.to) or f"the folder {each.folder}"),
        ("last one", "none was sent yet" if each.last is None else stage.when(each.last.due)),
        *([] if each.last is None else [("what became of it", last_told(each.last, stage.when))]),
    ]


def _papers(stage: Stage, papers: Sequence[Paper], *, kept_back: int) -> None:
    st.subheader("Written so far", anchor=False)
    if kept_back:
        st.caption(
            f"{kept_back} more are personal and not shown here: who they are about signs in to read them."
        )
    if not papers:
        st.caption("Nothing was written yet.")
        return
    shown = papers[:MOST_PAPERS]
    frame = pd.DataFrame(
        {
            "Of": [stage.when(each.due) for each in shown],
            "Schedule": [each.schedule or text.NOTHING for each in shown],
            "About": [each.subject or text.NOTHING for each in shown],
            "Format": [each.format for each in shown],
            "Size": [text.size(each.bytes) for each in shown],
            "File": [each.name for each in shown],
        }
    )
    picked = grid(
        frame,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key="papers",
        alt="Reports that schedules wrote, the newest first",
    )
    more = f" The newest {MOST_PAPERS} of {len(papers)}." if len(papers) > MOST_PAPERS else ""
    st.caption(f"Choose a row to read one.{more}")
    if chosen := picked["selection"]["rows"]:
        go(replace(current_view(), report=shown[chosen[0]].name))
        st.rerun()


def _opened(stage: Stage, paper: Paper) -> None:
    text = read_paper(paper)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "All that was written",
            icon=":material/arrow_back:",
            type="tertiary",
            key="all-papers",
            on_click=go,
            args=(replace(stage.view, report=None),),
        )
        st.space("stretch")
        st.download_button(
            "Download", text, file_name=paper.name, icon=":material/download:", key="paper", on_click="ignore"
        )
    of = f"{paper.schedule or 'A report'}{f' of {paper.subject}' if paper.subject else ''}"
    st.header(f"{plain(of)}, {stage.when(paper.due)}", anchor=False)
    match paper.format:
        case "html":
            st.iframe(sealed(text), height=PAPER_PX, tab_index=0, alt=f"The report {paper.name}")
        case "md":
            st.code(text, language="markdown", wrap_lines=True, height=PAPER_PX)
        case "csv":
            rows = list(csv.DictReader(io.StringIO(text)))
            grid(pd.DataFrame(rows).map(as_it_was), hide_index=True, alt=f"The report {paper.name}")
        case _:
            st.code(text, language="json", height=PAPER_PX)


def _wished(scene: PageContext, kind: str, length: timedelta, routes: list[str]) -> Regular:
    first, second, third = st.columns(3, vertical_alignment="bottom")
    often = first.segmented_control(
        "How often",
        list(OFTEN),
        default=often_for(length),
        key="schedule-often",
        format_func=lambda name: OFTEN[name],
        required=True,
    )
    weekday = "mon"
    if often == "weekly":
        weekday = second.selectbox(
            "On", list(WEEKDAYS), key="schedule-day", format_func=lambda day: WEEKDAYS[day]
        )
    hour = third.number_input("At the hour", 0, 23, 8, key="schedule-hour")
    first, second, third = st.columns(3, vertical_alignment="bottom")
    name = first.text_input("Its name", kind, key=f"schedule-name-{kind}")
    format = second.selectbox("As", ["html", "md", "csv", "json"], key="schedule-format")
    to = third.multiselect("Sent to", routes, key="schedule-to", placeholder="nobody: only written")
    return Regular(
        name=(name or "").strip() or kind,
        kind=kind,
        often=often or "weekly",
        hour=int(hour),
        weekday=weekday,
        zone=str(scene.zone),
        since="month" if often == "monthly" else length_text(length),
        format=format,
        to=tuple(to),
    )
