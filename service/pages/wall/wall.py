"""The wall: a screen without anybody in front of it, that turns from panel to panel by itself.

Everything it shows is in the address, so it comes back by itself after a restart of the dashboard, of the
service or of the screen. What cannot be answered is said in large letters, and it goes on turning.

What a screen on the wall shows, and when it turns to the next: read from the address. Pure.

``?kiosk=1`` turns through all panels, ``?kiosk=cluster`` holds one; ``every`` is how long each stays.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import streamlit as st

from service.charts.theme import palette
from service.client import ClientError
from service.pages.data import queries
from service.pages.parts.context import Site, body_or_notice, current_view, zone_of
from service.pages.parts.freshness import clock, heard
from service.pages.parts.messages import explain, explain_acting
from service.pages.parts.url_state import address, shared
from service.pages.parts.widgets import plain, style
from service.pages.wall.panels import DRAWN
from service.pages.wall.widgets import dots_html

PANELS: Mapping[str, str] = {
    "overview": "Overview",
    "cluster": "Cluster",
    "findings": "Findings",
    "projects": "Projects",
    "queue": "Queue",
}
"""The panels in the order in which they come, and what they are called."""

PARAMETER = "kiosk"
EVERY = "every"
EVERY_S, LEAST_S, MOST_S = 20, 5, 3_600
FRESH_S = 10.0
"""No figure on the wall is older than a tick, however slowly it turns."""
EARLY_S = 0.5
"""A drawing that comes this much early is still the panel's last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """What an address asks for. ``held`` is the panel that stays; ``None`` when they turn."""

    held: str | None
    every_s: int

    @property
    def beat_s(self) -> float:
        """How often it is drawn anew: an even part of a panel's time, so that a turn falls on a drawing."""
        if self.held is not None:
            return FRESH_S
        return self.every_s / math.ceil(self.every_s / FRESH_S)

    @property
    def params(self) -> dict[str, str]:
        """The query parameters that ask for it."""
        slow = {} if self.every_s == EVERY_S else {EVERY: str(self.every_s)}
        return {PARAMETER: self.held or "1", **slow}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The panel that is shown and since when, in seconds of any clock that never goes back."""

    panel: str
    since_s: float


def wall_of(params: Mapping[str, str]) -> Wall | None:
    """The wall that an address asks for; ``None`` when it asks for a page. Bad seconds are the default."""
    value = params.get(PARAMETER)
    if not value or value == "0":
        return None
    try:
        every_s = round(float(params.get(EVERY, EVERY_S)))
    except (ValueError, OverflowError):
        every_s = EVERY_S
    return Wall(held=value if value in PANELS else None, every_s=min(max(every_s, LEAST_S), MOST_S))


def turned(turn: Turn | None, wall: Wall, now_s: float) -> Turn:
    """What is shown at ``now_s``: the next panel once the last has had its time, as near as drawings come."""
    order = list(PANELS)
    if wall.held is not None:
        return Turn(panel=wall.held, since_s=now_s)
    if turn is None:
        return Turn(panel=order[0], since_s=now_s)
    if now_s - turn.since_s < wall.every_s - EARLY_S:
        return turn
    return Turn(panel=order[(order.index(turn.panel) + 1) % len(order)], since_s=now_s)


STYLE = Path(__file__).with_name("wall.css")
CLOCK_S = 5
TURN = "wall-turn"


def wall() -> Wall | None:
    """The wall that the address asks for; ``None`` when it asks for a page."""
    return wall_of(st.query_params.to_dict())


def show_wall(site: Site, chosen: Wall) -> None:
    """Draw the wall: the clock, the panel whose turn it is, and the way to hold one or to leave."""
    style(palette(st.context.theme.type))
    st.html(f"<style>{STYLE.read_text(encoding='utf-8')}</style>")
    with st.container(key="wall"):
        with st.container(key="wall-clock"):
            _clock()
        _panel(site, chosen)
        # Buttons, because a link from a page to itself leaves the address as it was.
        carried = address(shared(current_view()))
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="wall-foot"):
            for name, title in PANELS.items():
                fixed = Wall(held=name, every_s=chosen.every_s)
                _way(title, carried | fixed.params, chosen=chosen.held == name)
            turning = Wall(held=None, every_s=chosen.every_s)
            _way(f"Turn every {chosen.every_s} s", carried | turning.params, chosen=chosen.held is None)
            st.space("stretch")
            _way("Leave the wall", carried, chosen=False)


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
    health = heard(colours, zone)
    as_of = f"data as of {clock(health.last, zone)}" if health.last is not None else health.told
    loud = "" if health.word in ("live", "") else f" · <b>{health.word}</b>"
    invented = '<b class="simulated">SIMULATED</b>' if health.simulated else ""
    st.html(
        f'<div class="wall-clock">{invented}<time>{datetime.now(zone):%H:%M}</time>'
        f'<span role="status"><i style="background:{health.colour}"></i>{as_of}{loud}</span></div>'
    )


def _panel(site: Site, chosen: Wall) -> None:
    @st.fragment(run_every=chosen.beat_s)
    def drawn_again() -> None:
        turn: Turn = turned(st.session_state.get(TURN), chosen, time.monotonic())
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
                queries.forget()

    drawn_again()


def _way(label: str, params: dict[str, str], *, chosen: bool) -> None:
    kind: Literal["secondary", "tertiary"] = "secondary" if chosen else "tertiary"
    st.button(label, key=f"wall-to-{label}", type=kind, on_click=_turn_to, args=(params,))


def _turn_to(params: dict[str, str]) -> None:
    st.query_params.from_dict(params)
