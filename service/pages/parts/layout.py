"""What stands above every page: name, navigation, how fresh the figures are, time range and filters."""

import os
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path

import streamlit as st

from analytics import text
from service import wording
from service.charts.theme import palette
from service.client import ClientError
from service.pages import sign_in
from service.pages.data import queries
from service.pages.parts.context import Site, current_view, go, scene_of, zone_of
from service.pages.parts.freshness import heard
from service.pages.parts.url_state import FILTERS, RANGES, UrlState, address, pinned, shared
from service.pages.parts.widgets import plain, style
from service.pages.server.host_check import listed_names, objection
from service.summaries.frames import records

MARK = Path(__file__).with_name("fallow.svg")
EVERYTHING = {"node": "All nodes", "project": "All projects", "user": "Everybody", "model": "All models"}
OF_NOW = ("queue", "settings")
TAKEN = {
    "queue": ("project", "user"),
    "actions": (),
    "whatif": (),
    "settings": (),
    "reports": ("project", "user"),
}
"""What pages can be narrowed by that do not take every filter."""
FIXED = "fixed"
SCHEDULED = "scheduled"
"""The part of the reports that no time and no filter narrows."""
LINKED = ("overview", "cluster", "people", "jobs", "to-do", "reports")
"""What everybody reads; each has a link in the first line."""
ACTING = ("queue", "actions", "whatif", "settings")
"""For whoever has Fallow act, or submits jobs to it; behind one box."""


def stop_strangers() -> None:
    """Draw nothing for a name that is not this machine's, by whatever server; before any page."""
    headers = st.context.headers
    if not headers:
        return  # nobody's browser: a rehearsal
    why = objection(headers.get("Host"), headers.get("Origin"), listed_names(os.environ))
    if why is not None:
        st.error(plain(why))
        st.stop()


def masthead(site: Site, chosen: str) -> None:
    """The first line: wordmark, links to the pages (which keep time and filters), and the pulse.

    On a narrow screen the links fold into a menu; ``dashboard.css`` says from which width.
    """
    style(palette(st.context.theme.type))
    carried = address(shared(current_view()))
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="masthead"):
        drawn = b64encode(MARK.read_bytes()).decode("ascii")
        mark = f'<img src="data:image/svg+xml;base64,{drawn}" alt="">'
        st.html(f'<div class="wordmark">{mark}Fallow</div>', width="content")
        for name in LINKED:
            with st.container(
                key="chosen-page" if _marked(name, chosen) else f"page-{name}", width="content"
            ):
                st.page_link(site[name], query_params=carried)
        _acting(site, chosen, carried)
        _menu(site, chosen, carried)
        st.space("stretch")
        with st.container(width="content", key="pulse"):
            _pulse()
        sign_in.who()


def rehearse() -> None:
    """Draw a line of nothing with nobody looking: what Streamlit looks up at its first one, it then has."""
    st.html("<i></i>")
    st.segmented_control("Nothing", [*RANGES])


def _marked(name: str, chosen: str) -> bool:
    return name == chosen or (name == "cluster" and chosen == "gpu")


@st.fragment
def _acting(site: Site, chosen: str, carried: dict[str, str]) -> None:
    """The pages of whoever acts, folded; the box is called as the page is while one of them is shown."""
    key = "chosen-page" if chosen in ACTING else "page-acting"
    with st.container(key=key, width="content"):
        title = site[chosen].title if chosen in ACTING else "Acting"
        box = st.popover(title, key="acting-box", type="tertiary", on_change="rerun")
    if not box.open:
        return
    with box:
        for name in ACTING:
            with st.container(key="acting-chosen" if name == chosen else f"acting-{name}"):
                st.page_link(site[name], query_params=carried, width="stretch")


@st.fragment
def _menu(site: Site, chosen: str, carried: dict[str, str]) -> None:
    """The links once more, folded: seen on a narrow screen alone, and sent when somebody unfolds them."""
    with st.container(key="menu", width="content"):
        box = st.popover(site[chosen].title, icon=":material/menu:", key="menu-box", on_change="rerun")
    if not box.open:
        return
    with box:
        for name in (*LINKED, *ACTING):
            with st.container(key="menu-chosen" if _marked(name, chosen) else f"menu-{name}"):
                st.page_link(site[name], query_params=carried, width="stretch")


def filters(site: Site, chosen: str) -> None:
    """The second line: time range, and a box each for exact times and for whom and what; in the address."""
    view = current_view()
    if chosen == "reports" and view.by == SCHEDULED:
        return
    names = TAKEN.get(chosen, FILTERS)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="filters"):
        if chosen not in OF_NOW:
            choices = [*RANGES] if view.live else [FIXED, *RANGES]
            key = f"range-{FIXED if not view.live else 'live'}"
            st.session_state[key] = view.range if view.live else FIXED
            st.segmented_control(
                "Time range",
                choices,
                key=key,
                format_func=lambda name: "Fixed" if name == FIXED else f"{name[:-1]} {name[-1]}",
                label_visibility="collapsed",
                required=True,
                on_change=_range_chosen,
                args=(key,),
            )
        with st.container(width="content"):
            _times(site, view)
        if names:
            with st.container(width="content"):
                _narrowed(view, names)


@st.fragment
def _times(site: Site, view: UrlState) -> None:
    """Which times are shown, and in its box how to set them: sent when somebody opens it."""
    _redraw_if_changed(view)
    zone, zone_name = zone_of(view)
    try:
        scene = scene_of(site, records(queries.ask("span"))[0])
    except (ClientError, IndexError):
        return
    shown = scene.window
    label = f"{wording.moment(shown.from_ts, zone)} {text.NOTHING} {wording.moment(shown.to_ts, zone)}"
    if view.live:
        label = f"until now, in {'UTC' if zone is UTC else 'local time'}"
    box = st.popover(label, icon=":material/schedule:", key="times", on_change="rerun")
    if not box.open:
        return
    with box:
        st.caption(f"Times are shown in {zone_name}.")
        st.session_state["tz"] = view.tz
        st.radio(
            "Show times in",
            ["local", "utc"],
            key="tz",
            format_func={"local": "My own zone", "utc": "UTC"}.get,
            horizontal=True,
            on_change=lambda: go(replace(current_view(), tz=st.session_state["tz"])),
        )
        _exact_times(view, shown.from_ts, shown.to_ts, zone_name)
        if view.live:
            st.button(
                "Hold this window, to send it as it is",
                icon=":material/push_pin:",
                on_click=go,
                args=(pinned(view, shown),),
                key="pin",
            )


@st.fragment
def _narrowed(view: UrlState, names: tuple[str, ...]) -> None:
    """What the page is narrowed to, and in its box how to narrow it: sent when somebody opens it."""
    _redraw_if_changed(view)
    chosen = [value for name in names if (value := getattr(view, name)) is not None]
    label = plain(" · ".join(chosen)) if chosen else "Filter"
    box = st.popover(label, icon=":material/filter_alt:", key="narrowed", on_change="rerun")
    if not box.open:
        return
    with box:
        try:
            options = queries.ask("options")
        except ClientError:
            st.caption("What there is to choose from could not be asked; try again in a moment.")
            return
        for name in names:
            _filter(view, name, [str(value) for value in options[options["dimension"] == name]["value"]])
        if chosen:
            bare = reduce(lambda less, name: less.only(name, None), names, view)
            st.button("Show everything", on_click=go, args=(bare,), key="bare")


def _redraw_if_changed(view: UrlState) -> None:
    """Draw the whole page again, if what was set in a part of it changed the address."""
    if current_view() != view:
        st.rerun()


def _range_chosen(key: str) -> None:
    chosen = st.session_state[key]
    if chosen in RANGES:
        go(replace(current_view(), range=chosen, since=None, until=None))


def _filter(view: UrlState, name: str, values: list[str]) -> None:
    chosen = getattr(view, name)
    choices = values if chosen in (None, *values) else [chosen, *values]
    key = f"filter-{name}"
    st.session_state[key] = chosen
    st.selectbox(
        f"Filter by {name}",
        choices,
        key=key,
        placeholder=EVERYTHING[name],
        label_visibility="collapsed",
        on_change=_filter_chosen,
        args=(name, key),
    )


def _filter_chosen(name: str, key: str) -> None:
    go(current_view().only(name, st.session_state[key]))


def _exact_times(view: UrlState, since: datetime, until: datetime, zone_name: str) -> None:
    zone, _ = zone_of(view)
    local = [at.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) for at in (since, until)]
    with st.form("exact", border=False):
        start = st.datetime_input("From", local[0], step=timedelta(minutes=1))
        end = st.datetime_input("To", local[1], step=timedelta(minutes=1))
        if st.form_submit_button("Show these times") and start and end:
            fixed = [at.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None) for at in (start, end)]
            if fixed[0] < fixed[1]:
                go(replace(current_view(), since=fixed[0], until=fixed[1]))
                st.rerun()
            st.error(f"The end must lie after the start ({zone_name}).")


@st.fragment(run_every=queries.TICK_S)
def _pulse() -> None:
    colours = palette(st.context.theme.type)
    zone, _ = zone_of(current_view())
    pulse = heard(colours, zone)
    html = pulse.told.replace("newest sample", '<span class="long">newest sample</span>')
    text = f"<b>{pulse.word}</b> · {html}" if pulse.word else html
    invented = '<b class="simulated" title="These GPUs, people and jobs are invented">SIMULATED</b>'
    st.html(
        f'<div class="pulse" role="status">{invented if pulse.simulated else ""}'
        f'<span class="dot" style="background:{pulse.colour}"></span>{text}</div>',
        width="content",
    )
