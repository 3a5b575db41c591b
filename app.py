"""The dashboard's door: the pages and how one gets from each to the next; no SQL, no arithmetic, no engine.

Run by ``fallow up``, or by hand: ``streamlit run app.py`` with $FALLOW_DATA naming the store's folder.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from service.pages import (
    actions,
    cluster,
    gpu,
    job,
    overview,
    people,
    queue,
    reports,
    settings,
    sign_in,
    to_do,
    whatif,
)
from service.pages.parts import layout
from service.pages.wall import wall as kiosk

ABOUT = "**Fallow** finds the GPU hours that lie fallow: handed out, never used."


def main() -> None:
    """Draw the page that the address names."""
    st.set_page_config(
        page_title="Fallow",
        page_icon=str(layout.MARK),
        layout="wide",
        initial_sidebar_state="collapsed",
        menu_items={"About": ABOUT},
    )
    site: dict[str, Any] = {}
    site["overview"] = _page(site, overview.show, "Overview", "overview", default=True)
    site["cluster"] = _page(site, cluster.show, "Cluster", "cluster")
    site["people"] = _page(site, people.show, "People and projects", "people")
    site["jobs"] = _page(site, job.show, "Jobs", "jobs")
    site["to-do"] = _page(site, to_do.show, "To do", "todo")
    site["queue"] = _page(site, queue.show, "Queue", "queue")
    site["actions"] = _page(site, actions.show, "Actions", "actions")
    site["whatif"] = _page(site, whatif.show, "What if", "whatif")
    site["reports"] = _page(site, reports.show, "Reports", "reports")
    site["settings"] = _page(site, settings.show, "Settings", "settings")
    site["gpu"] = _page(site, gpu.show, "GPU", "gpu")
    for was in ("Findings", "Advice"):
        site[was.lower()] = _page(site, partial(to_do.moved, title=was), was, was.lower())
    layout.stop_strangers()
    sign_in.sign_in_by_address()
    chosen = st.navigation(list(site.values()), position="hidden")
    if (wall := kiosk.wall()) is not None:
        kiosk.show_wall(site, wall)
        return
    name = next(name for name, page in site.items() if page.title == chosen.title)
    layout.masthead(site, name)
    layout.filters(site, name)
    chosen.run()


def _page(
    site: dict[str, Any],
    show: Callable[[dict[str, Any]], None],
    title: str,
    path: str,
    *,
    default: bool = False,
) -> Any:
    def draw() -> None:
        show(site)

    return st.Page(draw, title=title, url_path=path, default=default)


if __name__ == "__main__":
    main()
