"""What an acting page needs before it draws: view, colours, zone; and a guard for errors.

An acting page shows what is so now, so it has no window and needs no sample in the store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import pandas as pd
import streamlit as st

from service.client import ClientError
from service.pages import acting, wording
from service.pages.notice import explain_acting
from service.pages.palette import Theme, palette
from service.pages.pieces import plain
from service.pages.scene import Site, current_view, zone_of
from service.pages.scene import show as show_notice
from service.pages.view import UrlState, address, shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One drawing of one acting page."""

    view: UrlState
    colours: Theme
    zone: tzinfo
    zone_name: str
    site: Site

    def when(self, at: Any) -> str:
        """An instant, written in the viewer's zone."""
        return (
            wording.DASH
            if wording.missing(at)
            else wording.moment(pd.Timestamp(at).to_pydatetime(), self.zone)
        )


def staged(site: Site, body: Callable[[Stage], None]) -> None:
    """Draw a page's body, again every few seconds; what goes wrong is said in its place."""

    @st.fragment(run_every=acting.TICK_S)
    def redrawn() -> None:
        acting.say_what_came()
        try:
            body(stage_of(site))
        except ClientError as error:
            acting.forget()
            show_notice(explain_acting(error), retry=True)

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
