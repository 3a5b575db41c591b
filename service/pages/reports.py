"""Reports: each kind read here for the time and filters above, downloaded, and put on a schedule.

What was read stays as it was made while somebody reads it: a report of the last week does not change under
the reader's eyes, and is made anew on request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import streamlit as st

from analytics.vocabulary.reports import REPORTS, ReportKind
from service.client import ClientError
from service.pages.data import jobs, queries, reports
from service.pages.data.reports import length_text
from service.pages.parts import submit_form
from service.pages.parts.context import PageContext, Site, body_or_notice, current_view, go, stage_of
from service.pages.parts.context import show as show_notice
from service.pages.parts.layout import SCHEDULED
from service.pages.parts.messages import Notice, explain
from service.pages.parts.report_view import draw_report
from service.pages.parts.url_state import UrlState
from service.pages.parts.widgets import plain
from service.pages.report_schedules import how_to_schedule, scheduled
from service.pages.sign_in import acting_allowed, may_read
from service.reports.on_request import FORMATS, Report, period

READ = "read"
WAYS = {READ: "Read one now", SCHEDULED: "What comes by itself"}
KINDS: Mapping[str, str] = {kind.value: words.label for kind, words in REPORTS.items()}
FIRST = ReportKind.CLUSTER_WEEK.value
FILES: Mapping[str, tuple[str, str]] = {
    "html": ("HTML", "text/html"),
    "md": ("Markdown", "text/markdown"),
    "csv": ("CSV", "text/csv"),
    "json": ("JSON", "application/json"),
}
HELD = "report-held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which report is read: the kind, and whom it is about."""

    kind: str
    user: str | None
    project: str | None


def show(site: Site) -> None:
    """Draw the page."""
    view = current_view()
    _ways(view)
    try:
        if view.by == SCHEDULED:
            scheduled(stage_of(site))
        else:
            body_or_notice(site, _read)
    except ClientError as error:
        show_notice(explain(error), retry=True)


def _ways(view: UrlState) -> None:
    st.session_state["reports-by"] = view.by if view.by in WAYS else READ
    st.segmented_control(
        "Read, or see what comes by itself",
        list(WAYS),
        key="reports-by",
        format_func=lambda way: WAYS[way],
        label_visibility="collapsed",
        required=True,
        on_change=_way_chosen,
    )


def _way_chosen() -> None:
    chosen = st.session_state["reports-by"]
    go(replace(current_view(), by=SCHEDULED if chosen == SCHEDULED else None, report=None))


def _read(scene: PageContext) -> None:
    kind = scene.view.kind or FIRST
    kind = kind if kind in KINDS else FIRST
    _kinds(kind)
    request = _request(scene, kind)
    if request is None:
        return
    window = _held_window(scene, request)
    with st.spinner("Making the report", show_time=False):
        report = reports.report(kind, window, scene.zone, request.user, request.project)
    st.header(plain(report.title), anchor=False)
    st.caption(period(report))
    st.markdown(f"**{plain(report.opening)}**")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="report-files"):
        _downloads(report)
        st.space("stretch")
        st.button(
            "Make it again",
            icon=":material/refresh:",
            type="tertiary",
            key="report-again",
            help=f"Made {scene.when(report.made_at)}; it does not change by itself.",
            on_click=_let_go,
        )
    draw_report(report, scene.colours)
    words = [request.kind, "--since", length_text(window[1] - window[0])]
    if not scene.view.live:
        words += ["--until", f"{window[1]:%Y-%m-%dT%H:%M}"]
    for flag, value in (("--user", request.user), ("--project", request.project)):
        words += [flag, value] if value else []
    st.subheader("The same in a shell", anchor=False)
    st.code(submit_form.command("report", *words), language="shell", wrap_lines=True)
    st.caption("It writes HTML; `--format md`, `csv` or `json` write the others.")
    how_to_schedule(scene, request.kind, window[1] - window[0], user=request.user, project=request.project)


def _kinds(kind: str) -> None:
    st.session_state["report-kind"] = kind
    st.pills(
        "Kind of report",
        list(KINDS),
        key="report-kind",
        format_func=lambda name: KINDS[name],
        label_visibility="collapsed",
        required=True,
        on_change=lambda: go(replace(current_view(), kind=st.session_state["report-kind"])),
    )


def _request(scene: PageContext, kind: str) -> Wanted | None:
    """Whom the report is about by the filters; ``None`` where that is to be said first, which was drawn."""
    view = scene.view
    match kind:
        case ReportKind.PROJECT_WEEK:
            if view.project is None:
                _which_project(view)
                return None
            return Wanted(kind=kind, user=None, project=view.project)
        case ReportKind.MY_WEEK:
            user = _whose(view)
            return None if user is None else Wanted(kind=kind, user=user, project=None)
        case _:
            return Wanted(kind=kind, user=view.user, project=view.project)


def _which_project(view: UrlState) -> None:
    st.header("Which project?", anchor=False)
    options = queries.ask("options")
    names = [str(each) for each in options[options["dimension"] == "project"]["value"]]
    if not names:
        st.caption("No project is known; see [projects] in the configuration.")
        return
    chosen = st.pills("Project", names, key="report-project", label_visibility="collapsed")
    if chosen is not None:
        go(view.only("project", chosen))
        st.rerun()


def _whose(view: UrlState) -> str | None:
    """The person whose week may be read here; ``None`` where that is to be said first, which was drawn."""
    signed = jobs.visitor() if acting_allowed() else None
    own = None if signed is None else signed.caller.name
    user = view.user or own
    if acting_allowed() and signed is None:
        show_notice(
            Notice(
                title="Your own week",
                found="This report is one person's own, and this dashboard does not know yet who you are.",
                todo="Sign in at the top right, or make it in a shell of your own:",
                command=submit_form.command("report", ReportKind.MY_WEEK.value, "--preview"),
            )
        )
        return None
    if user is None:
        show_notice(
            Notice(
                title="Whose week?",
                found="This report is about one person: what they held and used, and what to change.",
                todo="Choose a person above. In a shell it is about whoever asks:",
                command=submit_form.command("report", ReportKind.MY_WEEK.value, "--preview"),
            )
        )
        return None
    may = may_read(user)
    if not may.may and own is not None:
        st.info(f"{may.why} Below is your own.", icon=":material/person:")
        return own
    return user


def _held_window(scene: PageContext, request: Wanted) -> tuple[datetime, datetime]:
    """The window that was current when this report was first asked for here."""
    view = scene.view
    question = (request, view.range, view.since, view.until)
    entry: tuple[object, tuple[datetime, datetime]] | None = st.session_state.get(HELD)
    if entry is None or entry[0] != question:
        entry = (question, (scene.window.from_ts, scene.window.to_ts))
        st.session_state[HELD] = entry
    return entry[1]


def _let_go() -> None:
    st.session_state.pop(HELD, None)


def _downloads(report: Report) -> None:
    about = f"-{report.subject}" if report.subject else ""
    for name in FORMATS:
        label, mime = FILES[name]
        st.download_button(
            label,
            partial(reports.report_text, report, name),
            file_name=f"fallow-{report.kind}{about}-{report.span.end:%Y-%m-%d}.{name}",
            mime=mime,
            icon=":material/download:",
            key=f"report-as-{name}",
            on_click="ignore",
        )
