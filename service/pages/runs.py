"""The runs that a job's processes say they are: links where their page is known, else plain text."""

import streamlit as st

from service.client.run_ids import Run, runs_of
from service.pages import feed
from service.pages.pieces import facts, plain

MOST = 12


def run_line(job: str) -> None:
    """One line of them below a job's facts; nothing where it says none, or the store is older. Blocks.

    Raises ``ClientError``.
    """
    found = feed.ask_if_kept("run_ids", job=job)
    if found is None or found.empty:
        return
    runs = runs_of(found.to_dict("records"), feed.run_pages())
    if not runs:
        return
    if told := [(run.tracker, run.name) for run in runs if run.url is None]:
        facts(told[:MOST])
    if linked := [run for run in runs if run.url is not None]:
        with st.container(horizontal=True, gap="small", key="run-links"):
            for run in linked[:MOST]:
                _link(run)
    if len(told) > MOST or len(linked) > MOST:
        st.caption(f"{len(runs)} runs altogether; `fallow explain` lists them all.")


def _link(run: Run) -> None:
    """A link that leaves this site, in a window of its own; Streamlit sends no referrer along."""
    assert run.url is not None
    st.link_button(
        f"{plain(run.tracker)} {plain(run.name)}", run.url, icon=":material/open_in_new:", type="tertiary"
    )
