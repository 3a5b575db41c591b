"""Where a range's waste went: its largest jobs in a table that wraps, each with what to do."""

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from urllib.parse import urlencode

import streamlit as st

from analytics import text
from service import wording
from service.pages.parts.context import PageContext
from service.pages.parts.url_state import address
from service.pages.parts.widgets import commands, escape
from service.summaries.waste_table import TALK, Waste

MOST = 10
"""As many as stand on a first screen of 1280 x 720, and more than anybody writes to in a week."""


def draw(scene: PageContext, rows: Sequence[Waste]) -> None:
    """The ten largest of a range, jobs that ended too; who, which job, how much, why, and what to do."""
    carried = address(scene.view)
    st.html(html(rows[:MOST], lambda job: f"jobs?{urlencode({**carried, 'job': job})}", scene.zone))
    if rest := rows[MOST:]:
        hours = text.gpu_hours(sum(each.gpu_hours for each in rest))
        st.caption(f"{len(rest)} more wasted {hours} together; `fallow waste --by job --all` lists them.")


def html(rows: Sequence[Waste], address_of: Callable[[str], str], zone: tzinfo = UTC) -> str:
    """The table, its times in ``zone``. Pure; every name in it is escaped."""
    priced = any(each.cost is not None for each in rows)
    titles = {
        "who": "who",
        "job": "job",
        "hours": "GPU-hours",
        "cost": "cost",
        "why": "why",
        "do": "what to do",
    }
    head = "".join(
        f'<th scope="col" class="{name}">{title}</th>'
        for name, title in titles.items()
        if priced or name != "cost"
    )
    body = "".join(_row(each, address_of, zone, priced=priced) for each in rows)
    return f'<table class="largest"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _row(row: Waste, address_of: Callable[[str], str], zone: tzinfo, *, priced: bool) -> str:
    job = row.worst
    who = "unknown" if job is None or job["user_name"] is None else job["user_name"]
    cells = [
        ("who", escape(who)),
        ("job", _job(row, address_of)),
        ("hours", escape(text.hours(row.gpu_hours))),
        *([("cost", escape(text.money(row.cost, row.currency)))] if priced else []),
        ("why", escape(row.found)),
        ("do", commands(wording.localized(_to_do(row), zone))),
    ]
    return f"<tr>{''.join(f'<td class={name}>{shown}</td>' for name, shown in cells)}</tr>"


def _to_do(row: Waste) -> str:
    """What the verb says, but for the way to the job's page, which its name is here."""
    return f"over: {TALK}" if row.worst is not None and row.live is None else row.remedy


def _job(row: Waste, address_of: Callable[[str], str]) -> str:
    """Its name, which leads to its page; that of a job whose name nobody tells is its id."""
    if row.key is None:
        return "not known"
    name = row.worst["job_name"] if row.worst is not None else None
    ended = "" if row.running else ' <span class="over">ended</span>'
    return f'<a href="{escape(address_of(row.key))}" target="_self">{escape(name or row.key)}</a>{ended}'
