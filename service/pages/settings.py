"""Settings: the configuration in force, what each value is now, and where it came from."""

import pandas as pd
import streamlit as st

from service.pages.data import queries
from service.pages.parts.charted import grid, tabled
from service.pages.parts.context import Site, Stage, staged
from service.pages.parts.widgets import plain
from service.pages.wall.wall import kiosk_link
from service.usecases.advised import SettingRow

DEFAULT = "default"


def show(site: Site) -> None:
    """Draw the page."""
    kiosk_link(site)
    staged(site, _body)


def _body(stage: Stage) -> None:
    setting_rows = queries.settings()
    if setting_rows is None:
        st.header("The configuration of another machine", anchor=False)
        st.caption("It reads a service elsewhere; `fallow config` there prints what it runs with.")
        return
    chosen = [each for each in setting_rows if each.origin != DEFAULT]
    st.header(_sentence(chosen), anchor=False)
    st.caption(
        "From the file in the data folder; a flag typed when the service was started stands above it and is "
        "not seen here. A change is read when the service starts."
    )
    only = st.toggle("Only what somebody set", value=bool(chosen), key="settings-only")
    find = st.text_input("Find a setting", key="settings-find", placeholder="idle, retention, port ...")
    rows = [each for each in (chosen if only else setting_rows) if (find or "").lower() in each.key.lower()]
    if not rows:
        st.caption("No setting of that name." if find else "Nothing was set: every value is the default.")
        return
    for table in dict.fromkeys(each.key.split(".")[0] for each in rows):
        st.subheader(plain(f"[{table}]"), anchor=False)
        part = [each for each in rows if each.key.split(".")[0] == table]
        grid(
            as_frame(part),
            hide_index=True,
            column_config={"Setting": st.column_config.TextColumn(width="medium")},
            alt=f"The settings of {table}, their values and where each came from",
        )
    tabled(as_frame(setting_rows), "settings", "Every setting, its value and where it came from")


def as_frame(rows: list[SettingRow] | tuple[SettingRow, ...]) -> pd.DataFrame:
    """Settings as a table; a value as it would stand in the file."""
    return pd.DataFrame(
        {
            "Setting": [each.key.partition(".")[2] or each.key for each in rows],
            "Value": [as_written(each.value) for each in rows],
            "From": [each.origin for each in rows],
        }
    )


def as_written(value: object) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case tuple() | list():
            return f"[{', '.join(as_written(each) for each in value)}]"
        case dict():
            return "{ " + ", ".join(f"{name} = {as_written(each)}" for name, each in value.items()) + " }"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def _sentence(chosen: list[SettingRow]) -> str:
    if not chosen:
        return "Every setting is at its default"
    many = len(chosen)
    return f"{many} {'setting was' if many == 1 else 'settings were'} chosen here; all others are defaults"
