"""What the actions did give back, drawn above the journal."""

from datetime import datetime

import streamlit as st

from service.client.errors import NoData, StoreOlder, UnknownQuery
from service.pages import feed
from service.pages.giving import giving_frame, told_total
from service.pages.tabled import tabled


def giving(start: datetime, end: datetime) -> None:
    """Draw it for a window of whole minutes; silent where the store or the service is older. Blocks.

    Raises ``ClientError``.
    """
    try:
        found = feed.given_back(start, end)
    except (NoData, StoreOlder, UnknownQuery):
        return
    st.markdown(f"**What the actions did give back.** {told_total(found.total)}")
    if found.classes:
        tabled(giving_frame(found), "given-back", "What each class of action gave back, in GPU-hours")
