"""How the service's components fare, for the overview: ages in a line, and loudly what is not well."""

from collections.abc import Sequence

import streamlit as st

from analytics import text
from service.client import ClientError
from service.pages.data import queries
from service.pages.parts.widgets import plain
from service.schemas.service import ComponentHealth

BAD = ("failing", "late")
AGED = ("sampler", "source", "store", "cycle", "alerts", "delivery")
"""Components whose ages are shown while they are well; of the others only what is not well."""


def show_health() -> None:
    """Draw it. A service that cannot be asked is said elsewhere on the page."""
    try:
        components = queries.components()
    except ClientError:
        return
    bad = unwell(components)
    if bad:
        st.error("  \n".join(plain(each) for each in bad), icon=":material/monitor_heart:")
    if sentence := ages(components):
        st.caption(f"Last success: {plain(sentence)}.")


def unwell(components: Sequence[ComponentHealth]) -> list[str]:
    """What is wrong, a sentence a component. Pure."""
    return [
        f"{each.name} is {each.state}: {each.reason or 'nothing was heard of it'}"
        for each in components
        if each.state in BAD
    ]


def ages(components: Sequence[ComponentHealth]) -> str:
    """How long ago each last succeeded, in a line; empty where none of them works, as in a replay. Pure."""
    return ", ".join(
        f"{each.name} {'not yet' if each.age_s is None else text.length(each.age_s) + ' ago'}"
        for each in components
        if each.name.partition(":")[0] in AGED or each.state in BAD
    )
