"""A finding in a box: one message a job, its evidence, what to write to its owner. Effects: it draws."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from analytics import text
from analytics.vocabulary.findings import same_on, words_of_kind
from service import wording
from service.charts.timelines import RUNGS
from service.pages.parts.context import PageContext
from service.pages.parts.evidence import told
from service.pages.parts.finding_messages import parts, summed
from service.pages.parts.finding_messages import told as message_of
from service.pages.parts.url_state import address, shared
from service.pages.parts.widgets import facts, kind_label, plain, spoken, tag_of_kind
from service.printable import in_lines
from service.summaries.finding_groups import is_own_doing
from service.summaries.message_to_owner import Said, message

if TYPE_CHECKING:
    from service.schemas.rows import FindingsTuple


def finding_box(scene: PageContext, group: "Sequence[FindingsTuple]") -> None:
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
                        # what ails a machine is its operator's to mend, also later
                        is_over = words.is_waste and not text.missing(part[0].closed_at)
                        remedy_of = words.next_time if is_over else words.remedy_for
                        remedy = remedy_of(_job_kind(group[0]), part[0].evidence)
                        when = wording.when_to_do(is_over=is_over)
                        st.markdown(f"**{when}:** {spoken(wording.localized(remedy, scene.zone))}.")
                    for what, much in told(part[0].evidence):
                        st.markdown(f"{plain(what)}: **{plain(much)}**")
            if text.missing(row.closed_at) and not text.missing(row.job) and is_own_doing(str(row.kind)):
                _to_owner(scene, group)
        st.markdown(message_of(scene, group))
        facts(_facts(scene, group))


def _to_owner(scene: PageContext, group: "Sequence[FindingsTuple]") -> None:
    """What to write to the job's owner, to be copied: the same as ``fallow tell``."""
    row = group[0]
    findings = [
        Said(
            str(part[0].kind),
            f"{part[0].sentence}{_rest(part)}",
            part[0].evidence,
        )
        for part in parts(group)
    ]
    with st.popover("Message", type="tertiary", icon=":material/mail:"):
        name = None if text.missing(row.job_name) else str(row.job_name)
        user = None if text.missing(row.user_name) else str(row.user_name)
        st.caption("To copy into a mail or a chat; nothing is sent from here.")
        body = message(user, str(row.job), name, findings, job_kind=_job_kind(row))
        st.code(in_lines(wording.localized(body, scene.zone)), language=None, wrap_lines=True)


def _rest(part: "Sequence[FindingsTuple]") -> str:
    """What follows the first sentence: on how many more GPUs it is so, and their hours in all."""
    hours = [(each.uuid, text.known(getattr(each, "judged_gpu_hours", None))) for each in part]
    return same_on(str(part[0].kind), hours)


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
