"""Actions: the journal, newest first, with what came of each and how it is undone; and the kill switch.

What the actions did give back, drawn above the journal.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.states import GpuState
from service import wording
from service.charts.theme import ink_on as readable
from service.client.jobs import ActingClient
from service.errors import NoData, StoreOlder, UnknownQuery
from service.pages.data import jobs, queries
from service.pages.parts import submit_form
from service.pages.parts.charted import grid, tabled
from service.pages.parts.context import Site, Stage, linked, staged
from service.pages.parts.kill_switch import kill_switch, read_switch, switch_banner
from service.pages.parts.search_box import find_box
from service.pages.parts.url_state import RANGES
from service.pages.parts.widgets import facts, plain, tag
from service.pages.sign_in import may_order
from service.schemas.control import Switch
from service.schemas.records import Action, instant
from service.summaries.savings import giving_frame, told_total


def giving(start: datetime, end: datetime) -> None:
    """Draw it for a window of whole minutes; silent where the store or the service is older. Blocks.

    Raises ``ClientError``.
    """
    try:
        savings = queries.given_back(start, end)
    except (NoData, StoreOlder, UnknownQuery):
        return
    st.markdown(f"**What the actions did give back.** {told_total(savings.total)}")
    if savings.classes:
        tabled(giving_frame(savings), "given-back", "What each class of action gave back, in GPU-hours")


PER_PAGE = 25


def show(site: Site) -> None:
    """Draw the page."""
    staged(site, _body)


def _body(stage: Stage) -> None:
    since = _since(stage)
    actions: list[Action] = list(jobs.ask(ActingClient.actions, since_ms=since, job=stage.view.job))
    actions.sort(key=lambda each: -each.action)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(_sentence(actions), anchor=False)
        st.space("stretch")
        switch = read_switch()
        kill_switch(stage, switch)
    switch_banner(stage, switch)
    _modes(switch)
    if stage.view.job is None:
        # The same time range in whole minutes, UTC.
        start = datetime.fromtimestamp(since / 1000, UTC).replace(second=0, microsecond=0)
        until = stage.view.until.replace(tzinfo=UTC) if stage.view.until is not None else jobs.now()
        giving(start, max(until.replace(second=0, microsecond=0), start + timedelta(minutes=1)))
    if not actions:
        st.caption("Nothing was done in this time. Advice is only said, unless a mode is set to ask or auto.")
        return
    find_box(stage.view)
    actions_shown = [each for each in actions if _matches(each, stage.view.find)]
    pages = -(-len(actions_shown) // PER_PAGE)
    at = st.pagination(pages, key="actions-page") - 1 if pages > 1 else 0
    for each in actions_shown[at * PER_PAGE : (at + 1) * PER_PAGE]:
        _one(stage, each)


def _modes(switch: Switch) -> None:
    """How far each class of action goes by itself, everywhere and where a project has its own."""
    if switch.modes:
        facts(list(switch.modes.items()))
    for project, modes in switch.project_modes.items():
        facts([("in project", project), *modes.items()])


def action_table(stage: Stage, actions: Sequence[Action]) -> None:
    """Some actions as a table, the newest first."""
    newest = sorted(actions, key=lambda each: -each.action)
    grid(
        pd.DataFrame(
            {
                "Number": [each.action for each in newest],
                "When": [stage.when(instant(each.at_ms)) for each in newest],
                "What": [each.verb for each in newest],
                "By": [each.actor for each in newest],
                "Why": [each.reason for each in newest],
                "Outcome": [told_outcome(each) for each in newest],
                "Undo": [each.undo if undoable(each) else None for each in newest],
            }
        ),
        hide_index=True,
        placeholder=text.NOTHING,
        alt="What was done about this job, and what came of it",
    )


def undoable(action: Action) -> bool:
    """Whether there is something to undo: it was done, there is a way back, and nobody has gone it yet."""
    done = (action.outcome or "").lower() == "done"
    return done and action.undo is not None and action.undone_by is None


def told_outcome(action: Action) -> str:
    """What came of an action, in words; one that is not settled is being done."""
    if action.undone_by is not None:
        return f"undone by {action.undone_by}"
    return (action.outcome or "being done") + (f": {action.found}" if action.found else "")


def _one(stage: Stage, action: Action) -> None:
    with st.container(border=True, key=f"action-{action.action}", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            ground = _ground(stage, action)
            outcome = "undone" if action.undone_by is not None else action.outcome or "being done"
            st.html(tag(outcome, ground, readable(ground)), width="content")
            st.markdown(f"**{plain(action.verb)}**", width="content")
            linked(stage, action.job)
            st.space("stretch")
            _undo(action)
        if action.reason:
            st.markdown(plain(wording.localized(action.reason, stage.zone)))
        if action.found and action.found != action.reason:
            st.markdown(plain(wording.localized(action.found, stage.zone)))
        facts(_facts(stage, action))


def _undo(action: Action) -> None:
    if not undoable(action):
        return
    may = may_order()
    with st.popover("Undo", icon=":material/undo:", key=f"undo-{action.action}"):
        st.markdown(
            f"**Undo action {action.action}?** It does this, and stands in the journal like any other:"
        )
        st.code(action.undo, language="shell")
        st.button(
            "Undo it",
            key=f"do-undo-{action.action}",
            type="primary",
            disabled=not may.may,
            on_click=jobs.order,
            args=("undo", f"undo action {action.action}", action.action),
        )
        st.caption(may.why or "Or in a shell:")
        st.code(submit_form.command("undo", str(action.action)), language="shell")


def _facts(stage: Stage, action: Action) -> list[tuple[str, str]]:
    items = [
        ("action", str(action.action)),
        ("by", action.actor),
        ("begun", stage.when(instant(action.at_ms))),
    ]
    if action.settled_ms is not None:
        items.append(("settled", stage.when(instant(action.settled_ms))))
        if action.at_ms is not None:
            items.append(("took", text.length((action.settled_ms - action.at_ms) / 1000)))
    if action.plan is not None:
        items.append(("plan", str(action.plan)))
    if action.undone_by is not None:
        items.append(("undone by action", str(action.undone_by)))
    elif action.undo is None and action.no_undo:
        items.append(("no undo", action.no_undo))
    return items


def _ground(stage: Stage, action: Action) -> str:
    states = stage.colours.states
    if action.undone_by is not None:
        return states[GpuState.UNKNOWN]
    match (action.outcome or "").lower():
        case "":
            return states[GpuState.LOW_SATURATION]
        case "done":
            return states[GpuState.MODERATE]
        case "stale" | "unsupported" | "undone":
            return states[GpuState.UNKNOWN]
        case _:
            return states[GpuState.ALLOCATED_EMPTY]


def _sentence(actions: Sequence[Action]) -> str:
    if not actions:
        return "Nothing was done in this time"
    by_itself = sum(each.actor == "fallow" for each in actions)
    many = f"{text.count(len(actions))} action{'' if len(actions) == 1 else 's'}"
    done = sum((each.outcome or "").lower() == "done" for each in actions)
    return f"{many}, {text.count(done)} done; Fallow itself began {text.count(by_itself)}"


def _since(stage: Stage) -> int:
    """The start of the time range, on a whole minute so that the answer can be kept."""
    if stage.view.since is not None:
        return round(stage.view.since.replace(tzinfo=UTC).timestamp() * 1000)
    start = datetime.now(UTC) - timedelta(minutes=RANGES[stage.view.range])
    return round(start.replace(second=0, microsecond=0).timestamp() * 1000)


def _matches(action: Action, find: str | None) -> bool:
    words = f"{action.action} {action.job} {action.verb} {action.actor} {action.reason}"
    return not find or find.lower() in words.lower()
