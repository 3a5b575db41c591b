"""The evidence of an advice or of a step on the screen: its job's measures with the lines it turns on."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import streamlit as st

from service.pages import feed
from service.pages.chart_evidence import (
    evidence_chart,
    evidence_window,
    measures_of,
    over_job,
    steps_table,
)
from service.pages.chart_frame import TimeAxis
from service.pages.evidence import told
from service.pages.pieces import facts
from service.pages.stage import Stage
from service.pages.tabled import charted

SIGNS = (
    ("idle_s", "reclaim"),
    ("memory_held_bytes", "cap-memory"),
    ("foreground_job", "pack"),
    ("utilization_p95_ratio", "right-size"),
)


def class_of(evidence: Mapping[str, Any]) -> str:
    """The class of action that evidence speaks for, by what it measures; empty where it measures nothing."""
    return next((action for sign, action in SIGNS if sign in evidence), "")


def evidence_box(
    stage: Stage, row: Mapping[str, Any], *, lines: Mapping[str, float], as_of: datetime, key: str
) -> None:
    """A box that draws the evidence once it is opened; ``row`` has ``class``, ``job`` and ``evidence``."""
    box = st.expander("Evidence", icon=":material/query_stats:", key=f"evidence-{key}", on_change="rerun")
    with box:
        if box.open:
            _draw(stage, row, lines, as_of, key)


def _draw(
    stage: Stage, row: Mapping[str, Any], lines: Mapping[str, float], as_of: datetime, key: str
) -> None:
    window = evidence_window(row["evidence"], as_of)
    axis = TimeAxis(window=window, utc=stage.view.tz == "utc")
    if row["job"]:
        timeline = feed.ask("job_timeline", job=row["job"], **window.steps)
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
