"""When all was last judged, and so what it means that nothing was found."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import streamlit as st

from service.pages import feed
from service.pages.scene import PageContext

NEVER = "Nothing was judged yet"
NEVER_WHY = "What is measured is judged once a minute, the first time as soon as the first measurement is in."
CALM = "Nothing was found to complain about"
LATE = timedelta(minutes=5)
"""Five judgements that did not come."""


def calm() -> str:
    """What there is to say where no finding is open: that there is none, or that nobody has looked yet."""
    return CALM if _judged_at() is not None else NEVER


def lateness(scene: PageContext) -> None:
    """A line where nobody has looked for a while, or ever; else nothing."""
    at = _judged_at()
    if at is None:
        st.caption(NEVER_WHY)
    elif datetime.now(UTC) - at > LATE:
        st.caption(f"Judged last {scene.when(at)}, and not since: what was open then may be over.")


def _judged_at() -> datetime | None:
    """The newest judgement; an older store does not say, and is believed to be judged up to now."""
    found = feed.ask_if_kept("judgement")
    if found is None:
        return datetime.now(UTC)
    moments = [pd.Timestamp(at).to_pydatetime() for at in found["judged_at"].dropna()]
    return moments[0] if moments else None
