"""A table behind a chart, and its download; nothing is sent before it is opened. Effects: it draws."""

import pandas as pd
import streamlit as st

from service.pages import wording


def tabled(frame: pd.DataFrame, name: str, told: str) -> None:
    """The numbers of a chart as a table and as a CSV file; ``told`` says what they are."""
    box = st.expander(
        "The numbers", icon=":material/table:", key=f"numbers-{name}", type="compact", on_change="rerun"
    )
    if not box.open:
        return
    with box:
        st.dataframe(frame, hide_index=True, placeholder=wording.DASH, alt=told)
        st.download_button(
            "Download as CSV",
            lambda: frame.to_csv(index=False),
            file_name=f"fallow-{name}.csv",
            mime="text/csv",
            icon=":material/download:",
            key=f"download-{name}",
            on_click="ignore",
        )
