"""The evidence of an advice or of a step on the screen: its job's measures with the lines it turns on.

A finding's evidence as words: each number by the unit its name ends with. Pure.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypedDict

import streamlit as st

from analytics import text
from analytics.vocabulary.actions import ActionClass
from service.charts.evidence import evidence_chart, evidence_window, measures_of, over_job, steps_table
from service.charts.frame import TimeAxis
from service.pages.data import queries
from service.pages.parts.charted import charted
from service.pages.parts.context import Stage
from service.pages.parts.widgets import facts
from service.schemas.advice import AdviceRow


def told(evidence: object) -> list[tuple[str, str]]:
    """(what, how much) for each number, in the order given; ``evidence`` is JSON text or what it held."""
    figures = _loaded(evidence)
    return [text.evidence(name, value) for name, value in _pairs(figures)]


def _loaded(evidence: object) -> object:
    if not isinstance(evidence, str):
        return evidence
    try:
        return json.loads(evidence)
    except ValueError:
        return {"evidence": evidence}


def _pairs(content: object) -> Iterator[tuple[str, object]]:
    match content:
        case Mapping():
            yield from ((str(name), value) for name, value in content.items())
        case list():
            for each in content:
                if isinstance(each, Mapping) and "name" in each:
                    yield str(each["name"]), each.get("value")
        case _:
            return


SIGNS = (
    ("idle_s", ActionClass.RECLAIM),
    ("memory_held_bytes", ActionClass.CAP_MEMORY),
    ("foreground_job", ActionClass.PACK),
    ("utilization_p95_ratio", ActionClass.RIGHT_SIZE),
)


def class_of(evidence: Mapping[str, object]) -> str:
    """The class of action that evidence speaks for, by what it measures; empty where it measures nothing."""
    return next((action for sign, action in SIGNS if sign in evidence), "")


Judged = TypedDict("Judged", {"class": str, "job": str, "evidence": Mapping[str, object]})
"""A step of a plan, as far as its evidence is drawn."""


def evidence_box(
    stage: Stage, row: "Judged | AdviceRow", *, lines: Mapping[str, float], as_of: datetime, key: str
) -> None:
    """A box that draws the evidence once it is opened; ``row`` has ``class``, ``job`` and ``evidence``."""
    box = st.expander("Evidence", icon=":material/query_stats:", key=f"evidence-{key}", on_change="rerun")
    with box:
        if box.open:
            draw_evidence(stage, row, lines=lines, as_of=as_of, key=key)


def draw_evidence(
    stage: Stage, row: "Judged | AdviceRow", *, lines: Mapping[str, float], as_of: datetime, key: str
) -> None:
    """The job's measures over the time that was judged, with the lines, and the numbers of the evidence."""
    window = evidence_window(row["evidence"], as_of)
    axis = TimeAxis(window=window, utc=stage.view.tz == "utc")
    if row["job"]:
        timeline = queries.ask("job_timeline", job=row["job"], **window.steps)
        if timeline.empty:
            st.caption("No sample of its GPUs lies in this time.")
        else:
            for measure in measures_of(row, lines):
                steps = over_job(timeline, measure.column)
                charted(
                    evidence_chart(steps, measure, axis, stage.colours),
                    f"{measure.title} of the job over time, with the line that the advice turns on",
                    steps_table(steps, measure),
                    f"evidence-{key}-{measure.column}",
                    numbers=f"{measure.title} of the job, step by step, and the line",
                )
    facts(told(row["evidence"]))
