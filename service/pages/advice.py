"""Advice: what waits for a yes, what is advised and what it rests on, and what is left alone and why.

What is advised is of now; what recurs is of the time range, ended jobs included, beside all that was wasted
in it.
"""

from collections.abc import Sequence

import streamlit as st

from analytics import text
from service.pages.data import queries
from service.pages.parts.advised import advice_box, head_sentence, left_alone, recurring
from service.pages.parts.context import Site, Stage, staged
from service.pages.parts.kill_switch import read_switch, switch_banner
from service.pages.parts.waiting_plans import plans_that_wait, waiting_plans
from service.pages.parts.widgets import facts
from service.schemas.advice import AdviceRow
from service.usecases.advised import Advised

PER_PAGE = 8


def show(site: Site) -> None:
    """Draw the page."""
    staged(site, _body)


def _body(stage: Stage) -> None:
    found = queries.advised()
    plans = plans_that_wait(stage)
    rows = [each for each in found.advice if stage.view.kind in (None, each["class"])]
    st.header(head_sentence(rows, plans), anchor=False)
    if plans is not None:
        switch_banner(stage, read_switch())
        waiting_plans(stage, plans, found)
    recurring(stage, found)
    _advised(stage, found, rows)
    left_alone(found)


def _advised(stage: Stage, found: Advised, rows: Sequence[AdviceRow]) -> None:
    facts(
        [
            ("as of", stage.when(found.as_of)),
            ("rules from", found.rules_from),
            ("left alone", text.count(len(found.abstained))),
        ]
    )
    pages = -(-len(rows) // PER_PAGE)
    at = st.pagination(pages, key="advice-page") - 1 if pages > 1 else 0
    for row in rows[at * PER_PAGE : (at + 1) * PER_PAGE]:
        advice_box(stage, found, row)
