"""A box that finds rows by their words; what is typed lives in the address. Effects: it draws."""

from dataclasses import replace

import streamlit as st

from service.pages.scene import current_view, go
from service.pages.view import UrlState


def find_box(view: UrlState) -> None:
    """The box; a change draws the page anew from the address."""
    st.session_state["find"] = view.find or ""
    st.text_input(
        "Find a job",
        key="find",
        placeholder="Find by name, person, project or id",
        label_visibility="collapsed",
        width=300,
        on_change=_found,
    )


def _found() -> None:
    go(replace(current_view(), find=st.session_state["find"].strip() or None))
