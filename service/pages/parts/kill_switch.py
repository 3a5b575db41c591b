"""Whether the service may act at all: a line where it may not, and the kill switch. Effects: it draws."""

import streamlit as st

from service.client.jobs import ActingClient
from service.pages.data import jobs
from service.pages.parts import submit_form
from service.pages.parts.context import Stage
from service.pages.parts.widgets import plain
from service.pages.sign_in import may_order
from service.schemas.control import Switch
from service.schemas.records import instant


def read_switch() -> Switch:
    """Whether the service may act. Blocks. Raises ``ClientError``."""
    switch: Switch = jobs.ask(ActingClient.acting)
    return switch


def switch_banner(stage: Stage, switch: Switch) -> None:
    """Say loudly where nothing is done to any job, and why."""
    if not switch.acting:
        with st.container(key="switch-off"):
            st.error(_stopped(stage, switch), icon=":material/front_hand:")


def kill_switch(stage: Stage, switch: Switch) -> None:
    """The switch with a confirmation and a reason; an operator's."""
    may = may_order(switch=True)
    if switch.acting:
        with st.popover("Stop acting", icon=":material/front_hand:", type="secondary"):
            st.markdown(
                "**Stop everything that Fallow does by itself or on request.** It works at once, also in the "
                "middle of a plan, and lasts until somebody starts it again, a restart of the service "
                "included. Running jobs go on; nothing new is started."
            )
            reason = st.text_input("Because", key="stop-because", disabled=not may.may)
            st.button(
                "Stop acting now",
                key="stop-acting",
                type="primary",
                disabled=not may.may or not reason.strip(),
                on_click=jobs.order,
                args=("stop_acting", "stop acting"),
                kwargs={"because": reason.strip()},
            )
            _by_hand(may.why, submit_form.command("stop-acting", "--because", reason.strip() or "..."))
        return
    with st.popover("Start acting again", icon=":material/play_arrow:", type="primary"):
        st.markdown(f"{_stopped(stage, switch)} Once started, waiting jobs are started and plans are made.")
        st.button(
            "Start acting now",
            key="start-acting",
            type="primary",
            disabled=not may.may,
            on_click=jobs.order,
            args=("start_acting", "start acting again"),
        )
        _by_hand(may.why, submit_form.command("start-acting"))


def _stopped(stage: Stage, switch: Switch) -> str:
    by = f" by {plain(switch.by)}" if switch.by else ""
    since = f" since {stage.when(instant(switch.at_ms))}" if switch.at_ms else ""
    sentence = f": {plain(switch.because)}" if switch.because else "."
    return f"**Acting is stopped**{since}{by}{sentence}"


def _by_hand(why: str, command: str) -> None:
    if why:
        st.caption(why)
    st.caption("In a shell of your own:")
    st.code(command, language="shell")
