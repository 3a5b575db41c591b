"""Queue: what waits, in which place, for what and since when; and who holds what Fallow lent."""

from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics import text
from service.charts.bars import shares_chart, wanted_and_held
from service.client.jobs import ActingClient
from service.pages.data import jobs as acting
from service.pages.data.jobs import leases_frame, matching, queue_frame
from service.pages.parts import manager_queue
from service.pages.parts.charted import charted, grid
from service.pages.parts.context import Site, Stage, staged
from service.pages.parts.kill_switch import read_switch, switch_banner
from service.pages.parts.search_box import find_box
from service.pages.parts.submit_form import composer
from service.pages.parts.url_state import address, shared
from service.pages.parts.widgets import facts, keys, plain, swatch

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig


PER_PAGE = 50
MOST = 10_000
"""So many waiting jobs are asked for; a longer queue says so."""
COLUMNS = {
    "place": "Place",
    "name": "Job",
    "user": "Person",
    "project": "Project",
    "gpus": "GPUs",
    "waits_for": "Waits for",
    "waited": "Since",
    "promised": "Promised start",
    "job": "Id",
}


def show(site: Site) -> None:
    """Draw the page."""
    staged(site, _body)


def _body(stage: Stage) -> None:
    queue, leases, managed = queued(), lent(), manager_queue.managed_queue()
    st.header(_headline(queue, managed), anchor=False)
    switch_banner(stage, read_switch())
    _facts(queue, leases)
    composer()
    if not queue.empty or not leases.empty:
        _projects(stage, queue, leases)
    if not managed.empty:
        manager_queue.draw(stage, managed)
    if queue.empty:
        nothing = "Nothing waits" if managed.empty else "Nothing waits at Fallow itself"
        st.caption(f"{nothing}. A job that is submitted with `fallow run` and finds no room appears here.")
        return
    _table(stage, queue)


@st.cache_data(ttl=acting.KEPT_S, show_spinner=False)
def queued() -> pd.DataFrame:
    """The queue as a frame, kept for a moment. Blocks. Raises ``ClientError``."""
    return queue_frame(acting.ask(ActingClient.queue, limit=MOST))


@st.cache_data(ttl=acting.KEPT_S, show_spinner=False)
def lent() -> pd.DataFrame:
    """The leases as a frame, kept for a moment. Blocks. Raises ``ClientError``."""
    return leases_frame(acting.ask(ActingClient.leases))


def _headline(queue: pd.DataFrame, managed: pd.DataFrame) -> str:
    if managed.empty:
        return _sentence(queue)
    sentence = plain(manager_queue.told(managed))
    return sentence if queue.empty else f"{_sentence(queue)}. {sentence}"


def _sentence(queue: pd.DataFrame) -> str:
    if queue.empty:
        return "Nothing waits in the queue"
    more = " or more" if len(queue) >= MOST else ""
    jobs = "1 job waits" if len(queue) == 1 else f"{text.count(len(queue))}{more} jobs wait"
    gpus = queue["gpus"].astype(float).sum()
    first = queue.iloc[0]
    name = plain(first["name"] or first["job"])
    return f"{jobs} for {text.some_gpus(gpus)}; {name} is next"


def _facts(queue: pd.DataFrame, leases: pd.DataFrame) -> None:
    now = pd.Timestamp(acting.now())
    items = [("lent now", text.some_gpus(leases["share"].astype(float).sum()))]
    items.append(("to", _jobs(leases["job"].nunique())))
    if not queue.empty:
        longest = (now - queue["since"].min()).total_seconds()
        items.append(("the longest has waited", text.length(longest)))
        items.append(("with a promised start", text.count(int(queue["promised"].notna().sum()))))
    facts(items)


def _projects(stage: Stage, queue: pd.DataFrame, leases: pd.DataFrame) -> None:
    st.subheader("Held and wanted, by project", anchor=False)
    colours = stage.colours
    keys(
        ((swatch(colours.used), "held through Fallow", None), (swatch(colours.fallow_stripe), "wanted", None))
    )
    frame = wanted_and_held(queue, leases)
    charted(
        shares_chart(frame, colours),
        "GPUs that each project holds through Fallow, and waits for",
        frame.drop(columns="text"),
        "held-and-wanted",
        numbers="GPUs held and wanted, by project",
    )


def _table(stage: Stage, queue: pd.DataFrame) -> None:
    view = stage.view
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader("In order", anchor=False)
        st.space("stretch")
        find_box(view)
    frame = matching(queue, view.find, user=view.user, project=view.project)
    if frame.empty:
        st.caption("No waiting job matches what was chosen above.")
        return
    pages = -(-len(frame) // PER_PAGE)
    at = st.pagination(pages, key="queue-page") - 1 if pages > 1 else 0
    part = frame.iloc[at * PER_PAGE : (at + 1) * PER_PAGE]
    picked = grid(
        _shown(stage, part)[list(COLUMNS)],
        hide_index=True,
        height=min(38 + 35 * len(part), 38 + 35 * 20),
        column_config=_columns(),
        placeholder=text.NOTHING,
        on_select="rerun",
        selection_mode="single-row",
        key=f"queue-table-{at}",
        alt="The waiting jobs in order of their place",
    )
    st.caption(
        f"{_jobs(len(frame))}, the next first. A promised start is kept: nothing that comes later delays it. "
        "Choose a row to look into a job."
    )
    chosen = picked["selection"]["rows"]
    if chosen:
        job = str(part.iloc[chosen[0]]["job"])
        st.switch_page(stage.site["jobs"], query_params=address(shared(view)) | {"job": job})


def _shown(stage: Stage, part: pd.DataFrame) -> pd.DataFrame:
    now = pd.Timestamp(acting.now())
    waited = pd.Series(
        [text.length_cell((now - at).total_seconds()) for at in part["since"]], index=part.index
    )
    return part.assign(
        name=part["name"].where(part["name"].astype(bool), part["job"]),
        waited=waited,
        promised=part["promised"].dt.tz_convert(stage.zone),
    )


def _columns() -> "dict[str, ColumnConfig | str]":
    columns: dict[str, ColumnConfig | str] = {**COLUMNS}
    columns["place"] = st.column_config.NumberColumn("Place", width="small")
    columns["gpus"] = st.column_config.NumberColumn("GPUs", format="%g", width="small")
    columns["waits_for"] = st.column_config.TextColumn("Waits for", width="large")
    columns["promised"] = st.column_config.DatetimeColumn("Promised start", format="D MMM HH:mm")
    return columns


def _jobs(many: int) -> str:
    return "1 job" if many == 1 else f"{text.count(many)} jobs"
