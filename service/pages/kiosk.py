"""The wall: a screen without anybody in front of it, that turns from panel to panel by itself.

Everything it shows is in the address, so it comes back by itself after a restart of the dashboard, of the
service or of the screen. What cannot be answered is said in large letters, and it goes on turning.
"""

import time
from datetime import datetime
from pathlib import Path
from typing import Literal

import streamlit as st

from service.client import ClientError
from service.pages import feed
from service.pages.kiosk_panels import DRAWN
from service.pages.kiosk_pieces import dots_html
from service.pages.kiosk_turn import PANELS, Turn, Wall, turned, wall_of
from service.pages.notice import explain, explain_acting
from service.pages.palette import palette
from service.pages.pieces import plain, style
from service.pages.pulse import clock, heard
from service.pages.scene import Site, body_or_notice, current_view, zone_of
from service.pages.view import address, shared

STYLE = Path(__file__).with_name("kiosk.css")
CLOCK_S = 5
TURN = "wall-turn"


def wall() -> Wall | None:
    """The wall that the address asks for; ``None`` when it asks for a page."""
    return wall_of(st.query_params.to_dict())


def show_wall(site: Site, asked: Wall) -> None:
    """Draw the wall: the clock, the panel whose turn it is, and the way to hold one or to leave."""
    style(palette(st.context.theme.type))
    st.html(f"<style>{STYLE.read_text(encoding='utf-8')}</style>")
    with st.container(key="wall"):
        with st.container(key="wall-clock"):
            _clock()
        _panel(site, asked)
        _foot(asked)


def kiosk_link(site: Site) -> None:
    """The way to the wall, for the settings page: it keeps the time range and the filters."""
    st.page_link(
        site["overview"],
        label="Show it on a wall",
        icon=":material/tv:",
        query_params=address(shared(current_view())) | Wall(held=None, every_s=20).params,
    )


@st.fragment(run_every=CLOCK_S)
def _clock() -> None:
    colours = palette(st.context.theme.type)
    zone, _ = zone_of(current_view())
    found = heard(colours, zone)
    as_of = f"data as of {clock(found.last, zone)}" if found.last is not None else found.told
    loud = "" if found.word in ("live", "") else f" · <b>{found.word}</b>"
    invented = '<b class="simulated">SIMULATED</b>' if found.simulated else ""
    st.html(
        f'<div class="wall-clock">{invented}<time>{datetime.now(zone):%H:%M}</time>'
        f'<span role="status"><i style="background:{found.colour}"></i>{as_of}{loud}</span></div>'
    )


def _panel(site: Site, asked: Wall) -> None:
    @st.fragment(run_every=asked.beat_s)
    def drawn_again() -> None:
        turn: Turn = turned(st.session_state.get(TURN), asked, time.monotonic())
        st.session_state[TURN] = turn
        st.html(dots_html(turn.panel, PANELS))
        with st.container(key=f"wall-{turn.panel}"):
            try:
                body_or_notice(site, DRAWN[turn.panel])
            except ClientError as error:
                notice = explain_acting(error) if turn.panel == "queue" else explain(error)
                st.header(notice.title, anchor=False)
                st.html('<p class="wall-said">It goes on by itself once this is mended.</p>')
                st.caption(plain(str(error)))
                feed.forget()

    drawn_again()


def _foot(asked: Wall) -> None:
    """Whoever stands at the keyboard holds a panel, lets it turn again, or leaves.

    Buttons, because a link from a page to itself leaves the address as it was.
    """
    carried = address(shared(current_view()))
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="wall-foot"):
        for name, title in PANELS.items():
            held = Wall(held=name, every_s=asked.every_s)
            _way(title, carried | held.params, chosen=asked.held == name)
        turning = Wall(held=None, every_s=asked.every_s)
        _way(f"Turn every {asked.every_s} s", carried | turning.params, chosen=asked.held is None)
        st.space("stretch")
        _way("Leave the wall", carried, chosen=False)


def _way(label: str, params: dict[str, str], *, chosen: bool) -> None:
    kind: Literal["secondary", "tertiary"] = "secondary" if chosen else "tertiary"
    st.button(label, key=f"wall-to-{label}", type=kind, on_click=_turn_to, args=(params,))


def _turn_to(params: dict[str, str]) -> None:
    st.query_params.from_dict(params)
