"""Findings: each in a sentence, with window, coverage, measure and evidence; and what is unknown.

What people are told of: the open cases of alerts. Part of the findings page.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.findings import KINDS, words_of_kind
from service import energy, wording
from service.charts.frame import rows
from service.charts.timelines import RUNGS
from service.pages.data import queries
from service.pages.parts import freshness
from service.pages.parts.charted import grid
from service.pages.parts.context import PageContext, Site, current_view, drawn, go
from service.pages.parts.evidence import told
from service.pages.parts.finding_messages import messages, parts, summed
from service.pages.parts.finding_messages import told as message_of
from service.pages.parts.unknown import unjudged, unknowns
from service.pages.parts.url_state import address, shared
from service.pages.parts.widgets import facts, kind_label, plain, spoken, tag_of_kind
from service.printable import in_lines
from service.summaries.finding_groups import is_own_doing
from service.summaries.frames import records
from service.summaries.message_to_owner import Said, message

if TYPE_CHECKING:
    from service.schemas.rows import FindingsTuple, WasteRow


FILTERS = ("node", "project", "user")


def alerts(scene: PageContext) -> None:
    """The open cases in a table; a quiet line when there are none."""
    st.subheader("Alerts", anchor=False)
    window = {name: scene.asked_until_now[name] for name in ("from_ts", "to_ts")}
    filters = {name: scene.asked.get(name) for name in FILTERS}
    found = queries.ask_if_kept("alerts", open=True, **window, **filters)
    if found is None:
        st.caption("An older Fallow wrote this store and keeps none; start the service once.")
        return
    if found.empty:
        st.caption("Nobody had to be told of anything that is still so.")
        return
    grid(
        table(found, scene),
        hide_index=True,
        placeholder=text.NOTHING,
        alt="The open alerts: what, since when, what happens next, and whom a word reached",
    )


def table(found: pd.DataFrame, scene: PageContext) -> pd.DataFrame:
    """A row a case, in words."""
    each = list(rows(found))
    return pd.DataFrame(
        {
            "What": [row.title for row in each],
            "Kind": [f"{row.kind}, {row.rung}" for row in each],
            "Since": [scene.when(row.since_ts) for row in each],
            "Next": [wording.localized(row.next, scene.zone) for row in each],
            "Told": [_people(row.told) for row in each],
            "On its way to": [_people(row.waiting) for row in each],
            "Did not reach": [_people(row.missed) for row in each],
            "Answer": [row.command or None for row in each],
        }
    )


def _people(receivers: object) -> str | None:
    if text.missing(receivers):
        return None
    return str(receivers).replace("user:", "").replace("project:", "the head of ")


PER_PAGE = 12


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def _body(scene: PageContext) -> None:
    open_only = scene.view.closed != "yes"
    found = queries.ask("findings", open=True if open_only else None, **scene.asked_until_now)
    _head(scene, found, open_only)
    with st.container(horizontal=True, vertical_alignment="center"):
        _kinds(scene, found)
        _closed(open_only)
    shown = found if scene.view.kind is None else found[found["kind"] == scene.view.kind]
    freshness.lateness(scene)
    if shown.empty and not found.empty:
        st.caption("None of this kind in this time.")
    groups = messages(shown)
    pages = -(-len(groups) // PER_PAGE)
    at = st.pagination(pages, key="findings-page") - 1 if pages > 1 else 0
    for group in groups[at * PER_PAGE : (at + 1) * PER_PAGE]:
        _finding(scene, group)
    alerts(scene)
    unjudged(scene)
    unknowns(scene)


def _head(scene: PageContext, found: pd.DataFrame, open_only: bool) -> None:
    # To this moment, as the findings: what was opened since the newest whole minute is open too.
    waste = queries.ask_if_kept("waste", **scene.asked_until_now)
    if found.empty:
        st.header(f"{freshness.calm()}{wasted(waste, open_only=open_only)}", anchor=False)
    else:
        st.header(sentence(len(messages(found)), waste, open_only=open_only), anchor=False)
    if waste is not None and not waste.empty:
        st.caption(beside(waste))


def sentence(count: int, waste: pd.DataFrame | None, *, open_only: bool) -> str:
    """How many findings there are, one a job, and the ledger's sum of the range's waste."""
    many = text.many(count, "open finding" if open_only else "finding")
    return f"{many}{'' if open_only else ', open and closed'}{wasted(waste, open_only=open_only)}"


def wasted(waste: pd.DataFrame | None, *, open_only: bool) -> str:
    """The range's waste as the end of a sentence, and how much of it findings are about."""
    if waste is None or waste.empty or not waste["wasted_gpu_hours"].iloc[0]:
        return ""
    row = waste.iloc[0]
    cost = row["wasted_cost"]
    worth = "" if text.missing(cost) else f", {text.money(cost, row['currency'])},"
    named = row["open_gpu_hours" if open_only else "found_gpu_hours"]
    about = "what is open" if open_only else "these"
    told = f"; {text.gpu_hours(row['wasted_gpu_hours'])}{worth} were wasted in this time"
    return f"{told}, {text.gpu_hours(named)} of them about {about}" if named else told


def beside(waste: pd.DataFrame) -> str:
    """What the sum is made of, and the figure that is no part of it."""
    row: WasteRow = records(waste)[0]
    least = wording.at_least(row.get("bound_used_gpu_hours"))
    low = f"{least}{text.gpu_hours(row['low_saturation_gpu_hours'])}"
    drawn = energy.wasted([row]) if "wasted_energy_kwh" in row else None
    metered = f" What was wasted drew {energy.written(drawn)}." if drawn is not None and drawn.kwh else ""
    return (
        "Wasted is held with no process on it, or with one that did nothing; each GPU-hour counts once, "
        f"whatever is found about it. {low} at low saturation are beside it.{metered}"
    )


def _kinds(scene: PageContext, found: pd.DataFrame) -> None:
    told = [part[0].kind for group in messages(found) for part in parts(group)]
    counts = pd.Series(told, dtype=object).value_counts()
    options = [kind.value for kind in KINDS if kind in counts.index or kind == scene.view.kind]
    options += [str(kind) for kind in counts.index if kind not in KINDS]
    if not options:
        return
    st.session_state["kind"] = scene.view.kind if scene.view.kind in options else None
    st.pills(
        "Kind of finding",
        options,
        key="kind",
        format_func=lambda kind: f"{kind_label(kind)} {counts.get(kind, 0)}",
        label_visibility="collapsed",
        on_change=lambda: go(replace(current_view(), kind=st.session_state["kind"])),
    )


def _closed(open_only: bool) -> None:
    st.session_state["closed"] = not open_only
    st.toggle(
        "Also what is over",
        key="closed",
        on_change=lambda: go(replace(current_view(), closed="yes" if st.session_state["closed"] else None)),
    )


def _finding(scene: PageContext, group: "Sequence[FindingsTuple]") -> None:
    """One message a job; the other GPUs that a sentence is about are named behind it."""
    row = group[0]
    carried = address(shared(scene.view))
    with st.container(border=True, key=f"finding-{row.finding_id}", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            for part in parts(group):
                label = kind_label(part[0].kind)
                st.html(tag_of_kind(part[0].kind, label, scene.colours), width="content")
            st.page_link(
                scene.site["gpu"],
                label=plain(wording.short_gpu(row.node, row.gpu_place, row.uuid)),
                icon=":material/memory:",
                query_params=carried | {"gpu": row.uuid},
            )
            if not text.missing(row.job):
                st.page_link(
                    scene.site["jobs"],
                    label=plain(row.job if text.missing(row.job_name) else row.job_name),
                    icon=":material/deployed_code:",
                    query_params=carried | {"job": str(row.job)},
                )
            st.space("stretch")
            with st.popover("Evidence", type="tertiary", icon=":material/query_stats:"):
                for part in parts(group):
                    if words := words_of_kind(part[0].kind):
                        st.markdown(f"**{words.title}:** {spoken(words.says)}.")
                        remedy = words.remedy_for(_job_kind(group[0]), part[0].evidence)
                        st.markdown(f"**To do:** {spoken(remedy)}.")
                    for what, much in told(part[0].evidence):
                        st.markdown(f"{plain(what)}: **{plain(much)}**")
            if text.missing(row.closed_at) and not text.missing(row.job) and is_own_doing(str(row.kind)):
                _to_owner(scene, group)
        st.markdown(message_of(scene, group))
        facts(_facts(scene, group))


def _to_owner(scene: PageContext, group: "Sequence[FindingsTuple]") -> None:
    """What to write to the job's owner, to be copied: the same as ``fallow tell``."""
    row = group[0]
    firsts = [part[0] for part in parts(group)]
    said = [
        Said(str(each.kind), wording.localized(each.sentence, scene.zone), each.evidence) for each in firsts
    ]
    with st.popover("Message", type="tertiary", icon=":material/mail:"):
        name = None if text.missing(row.job_name) else str(row.job_name)
        user = None if text.missing(row.user_name) else str(row.user_name)
        st.caption("To copy into a mail or a chat; nothing is sent from here.")
        written = message(user, str(row.job), name, said, job_kind=_job_kind(row))
        st.code(in_lines(written), language=None, wrap_lines=True)


def _job_kind(row: "FindingsTuple") -> str | None:
    kind = getattr(row, "job_kind", None)  # none in an older service's answer
    return None if text.missing(kind) else str(kind)


def _facts(scene: PageContext, group: "Sequence[FindingsTuple]") -> list[tuple[str, str]]:
    row = group[0]
    wasted, low, cost = (
        summed(group, name) for name in ("wasted_gpu_hours", "low_saturation_gpu_hours", "wasted_cost")
    )
    who = " · ".join(str(each) for each in (row.user_name, row.project) if not text.missing(each))
    items = [("held by", who or ("nobody" if text.missing(row.job) else "somebody"))]
    if wasted is not None:
        items.append(("wasted in this time", text.gpu_hours(wasted)))
    if low:
        items.append(("low saturation", text.gpu_hours(low)))
    if cost:
        items.append(("cost of the waste", text.money(cost, row.currency)))
    items += [
        ("found", scene.when(min(each.opened_at for each in group))),
        ("judged on", f"{scene.when(row.window_from)} to {scene.when(row.window_to)}"),
        ("covered", text.percent(row.coverage)),
        ("measure", RUNGS.get(int(text.known(row.rung) or 0), "no measure")),
    ]
    if not text.missing(row.closed_at):
        items.append(("over since", scene.when(row.closed_at)))
    return items
