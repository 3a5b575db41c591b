"""What a page needs before it draws: the view, the window, the colours, the zone, and a guard for errors.

What an acting page needs before it draws: view, colours, zone; and a guard for errors.

An acting page shows what is so now, so it has no window and needs no sample in the store.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd
import streamlit as st

from analytics import text
from service import wording
from service.charts.frame import TimeAxis
from service.charts.theme import Theme, palette
from service.charts.window import Window
from service.client import ClientError
from service.pages.data import jobs, queries
from service.pages.parts.messages import NO_MATCH, NOTHING_YET, Notice, explain, explain_acting
from service.pages.parts.url_state import UrlState, address, parse, pinned, shared, window
from service.pages.parts.widgets import plain, spoken
from service.summaries.frames import records

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

    from service.schemas.rows import GpuHoldersRecord, GpusNowRecord, JobsRecord, SpanRecord


Site = Mapping[str, "StreamlitPage"]
FRESH = timedelta(minutes=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """One drawing of one page."""

    view: UrlState
    window: Window
    axis: TimeAxis
    colours: Theme
    zone: tzinfo
    zone_name: str
    site: Site

    @property
    def asked(self) -> dict[str, object]:
        """Window and filters, as most queries take them."""
        return {**self.window.span, **self.view.filters}

    @property
    def asked_until_now(self) -> dict[str, object]:
        """The same, but a live window runs past the roll-ups to this moment: for what is so now."""
        late = 2 * timedelta(minutes=1) if self.view.live else timedelta(0)
        return {**self.asked, "to_ts": self.window.to_ts + late}

    @property
    def asked_steps(self) -> dict[str, object]:
        """Window, step and filters."""
        return {**self.window.steps, **self.view.filters}

    def when(self, at: datetime | str | None) -> str:
        """A time of the store, written in the viewer's zone."""
        if at is None or text.missing(at):
            return text.NOTHING
        return wording.moment(pd.Timestamp(at).to_pydatetime(), self.zone)

    def began(self, row: "GpuHoldersRecord | JobsRecord") -> str:
        """When somebody was given a GPU; "or earlier" where its records only begin then."""
        bound = row.get("from_is_bound")
        return f"{self.when(row['from_ts'])}{' or earlier' if not text.missing(bound) and bound else ''}"

    def since(self, row: "GpusNowRecord") -> str:
        """Since when a GPU's state lasts, in the viewer's zone, of a row of ``gpus_now``.

        A bound is said to be one, and of a GPU that is silent when it was seen last.
        """
        rhythm_since = row.get("rhythm_since")
        if rhythm_since is not None and not text.missing(rhythm_since):
            return f"{self.when(rhythm_since)} or earlier"
        at, bound = row["state_since"], row["state_since_is_bound"]
        if text.missing(row["as_of"]):
            return "never measured" if text.missing(at) else self.when(at)
        if wording.is_silent(row):
            return f"last seen {self.when(at)}"
        if text.missing(at):
            return "just now"
        return f"{self.when(at)} or earlier" if not text.missing(bound) and bound else self.when(at)


def current_view() -> UrlState:
    """The view in the address bar."""
    return parse(st.query_params.to_dict())


def go(view: UrlState) -> None:
    """Write ``view`` into the address bar; the page is drawn again from there."""
    st.query_params.from_dict(address(view))


def zone_of(view: UrlState) -> tuple[tzinfo, str]:
    """The zone times are written in, and what to call it."""
    name = st.context.timezone
    if view.tz == "utc" or not name:
        return UTC, "UTC"
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC, "UTC"
    offset = datetime.now(zone).strftime("%z")
    return zone, f"{name} (UTC{offset[:3]}:{offset[3:]})"


def drawn(site: Site, body: Callable[[PageContext], None]) -> None:
    """Draw a page's body, again each tick while its window follows the clock.

    What goes wrong is said in the page's place; nothing else on the screen is lost.
    """
    live = current_view().live

    @st.fragment(run_every=queries.TICK_S if live else None)
    def redrawn() -> None:
        try:
            body_or_notice(site, body)
        except ClientError as error:
            show(explain(error), retry=True)

    redrawn()


def body_or_notice(site: Site, body: Callable[[PageContext], None]) -> None:
    """Draw the body if the store has anything in the window, else say what there is."""
    span: SpanRecord = records(queries.ask("span"))[0]
    first, last = span["first_ts"], span["last_ts"]
    if first is None or last is None or text.missing(last):
        show(NOTHING_YET)
        return
    scene = scene_of(site, span)
    if not (scene.axis.starts < last and first < scene.axis.ends):
        show(
            Notice(
                title="Nothing in this time range",
                found=f"The store holds {scene.when(first)} to {scene.when(last)} ({scene.zone_name}).",
                todo="Choose a time in which something was measured.",
            )
        )
        until = last.to_pydatetime().replace(second=0, microsecond=0) + timedelta(minutes=1)
        since = max(until - timedelta(hours=24), first.to_pydatetime().replace(second=0, microsecond=0))
        newest = Window(from_ts=since.replace(tzinfo=None), to_ts=until.replace(tzinfo=None), step_s=60)
        st.button(
            "Show the newest 24 hours there are",
            on_click=go,
            args=(pinned(scene.view, newest),),
            key="newest",
        )
        return
    body(scene)


def scene_of(site: Site, span: "SpanRecord") -> PageContext:
    """The scene of the view in the address bar; a live window ends where the roll-ups do."""
    view = current_view()
    now = datetime.now(UTC)
    complete = span["complete_to"]
    if complete is not None and not text.missing(complete):
        rolled = complete.to_pydatetime()
        now = rolled if timedelta(0) <= now - rolled < FRESH else now
    shown = window(view, now)
    zone, name = zone_of(view)
    return PageContext(
        view=view,
        window=shown,
        axis=TimeAxis(window=shown, utc=view.tz == "utc"),
        colours=palette(st.context.theme.type),
        zone=zone,
        zone_name=name,
        site=site,
    )


def show(notice: Notice, *, retry: bool = False) -> None:
    """A notice in the place of what could not be drawn."""
    with st.container(border=True, key="notice"):
        st.subheader(notice.title, anchor=False)
        st.markdown(spoken(notice.found))
        st.markdown(f"**What to do.** {spoken(notice.todo)}")
        if notice.command:
            st.code(notice.command, language="shell")
        if retry and st.button("Try again", key="retry"):
            queries.forget()
            st.rerun()


def nothing_matches(scene: PageContext) -> None:
    """Say that the filters leave nothing, and offer to take them away."""
    show(NO_MATCH)
    if scene.view.filtered:
        bare = UrlState(
            range=scene.view.range, since=scene.view.since, until=scene.view.until, tz=scene.view.tz
        )
        st.button("Clear the filters", on_click=go, args=(bare,), key="clear-filters")


def open_gpu(scene: PageContext, uuid: str) -> None:
    """Turn to the page of one GPU, with the same time and filters."""
    params = address(shared(scene.view)) | {"gpu": uuid}
    st.switch_page(scene.site["gpu"], query_params=params)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One drawing of one acting page."""

    view: UrlState
    colours: Theme
    zone: tzinfo
    zone_name: str
    site: Site

    def when(self, at: datetime | str | None) -> str:
        """An instant, written in the viewer's zone."""
        if at is None or text.missing(at):
            return text.NOTHING
        return wording.moment(pd.Timestamp(at).to_pydatetime(), self.zone)


def staged(site: Site, body: Callable[[Stage], None]) -> None:
    """Draw a page's body, again every few seconds; what goes wrong is said in its place."""

    @st.fragment(run_every=jobs.TICK_S)
    def redrawn() -> None:
        jobs.say_what_came()
        try:
            body(stage_of(site))
        except ClientError as error:
            jobs.forget()
            show(explain_acting(error), retry=True)

    redrawn()


def linked(stage: Stage, job: str) -> None:
    """A link to a job's page, under its id."""
    if not job:
        return
    st.page_link(
        stage.site["jobs"],
        label=plain(job),
        icon=":material/deployed_code:",
        query_params=address(shared(stage.view)) | {"job": job},
    )


def stage_of(site: Site) -> Stage:
    """The stage of the view in the address bar."""
    view = current_view()
    zone, name = zone_of(view)
    return Stage(view=view, colours=palette(st.context.theme.type), zone=zone, zone_name=name, site=site)
