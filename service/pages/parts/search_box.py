"""A box that finds rows by their words; what is typed lives in the address. Effects: it draws.

The runs that a job's processes say they are: links where their page is known, else plain text.
"""

from dataclasses import replace

import streamlit as st

from service.pages.data import queries
from service.pages.parts.context import current_view, go
from service.pages.parts.url_state import UrlState
from service.pages.parts.widgets import facts, plain
from service.summaries.frames import records
from service.summaries.run_links import Run, runs_of


def find_box(view: UrlState) -> None:
    """The box; a change draws the page anew from the address."""
    st.session_state["find"] = view.find or ""
    st.text_input(
        "Find a job",
        key="find",
        placeholder="Find by name, person, project or id",
        label_visibility="collapsed",
        width=300,
        on_change=_apply,
    )


def _apply() -> None:
    go(replace(current_view(), find=st.session_state["find"].strip() or None))


MOST = 12


def run_line(job: str) -> None:
    """One line of them below a job's facts; nothing where it says none, or the store is older. Blocks.

    Raises ``ClientError``.
    """
    run_ids = queries.ask_if_kept("run_ids", job=job)
    if run_ids is None or run_ids.empty:
        return
    runs = runs_of(records(run_ids), queries.run_pages())
    if not runs:
        return
    if names := [(run.tracker, run.name) for run in runs if run.url is None]:
        facts(names[:MOST])
    if linked := [run for run in runs if run.url is not None]:
        with st.container(horizontal=True, gap="small", key="run-links"):
            for run in linked[:MOST]:
                _link(run)
    if len(names) > MOST or len(linked) > MOST:
        st.caption(f"{len(runs)} runs altogether; `fallow explain` lists them all.")


def _link(run: Run) -> None:
    """A link that leaves this site, in a window of its own; Streamlit sends no referrer along."""
    assert run.url is not None
    st.link_button(
        f"{plain(run.tracker)} {plain(run.name)}", run.url, icon=":material/open_in_new:", type="tertiary"
    )
