"""GPUs that each project holds through Fallow and waits for, as two bars a project. Pure."""

from typing import Any

import altair as alt
import pandas as pd

from service.pages import wording
from service.pages.chart_frame import styled, unchecked
from service.pages.palette import Theme

MOST = 12
KINDS = ("held through Fallow", "wanted")


def wanted_and_held(queue: pd.DataFrame, leases: pd.DataFrame) -> pd.DataFrame:
    """A row a project and kind: ``project, kind, gpus``; the projects that want most first, at most 12."""
    held = leases.assign(share=leases["share"].astype(float)).groupby(_project(leases))["share"].sum()
    wanted = queue.assign(gpus=queue["gpus"].astype(float)).groupby(_project(queue))["gpus"].sum()
    both = pd.DataFrame({KINDS[0]: held, KINDS[1]: wanted}).fillna(0.0)
    both = both.sort_values([KINDS[1], KINDS[0]], ascending=False).head(MOST)
    both.index.name = "project"
    long = both.reset_index().melt(id_vars="project", var_name="kind", value_name="gpus")
    return long.assign(text=[wording.gpus(gpus) for gpus in long["gpus"]])


@unchecked
def shares_chart(frame: pd.DataFrame, colours: Theme) -> Any:
    """The bars, each with its number beside it."""
    order = list(dict.fromkeys(frame["project"]))
    most = float(frame["gpus"].max() or 1.0)
    base = alt.Chart(frame).encode(
        y=alt.Y("project:N", sort=order, axis=alt.Axis(title=None, labelFontSize=13, labelColor=colours.ink)),
        yOffset=alt.YOffset("kind:N", sort=list(KINDS)),
        x=alt.X("gpus:Q", axis=None, scale=alt.Scale(domain=[0, most * 1.12], nice=False)),
        tooltip=[
            alt.Tooltip("project:N", title="Project"),
            alt.Tooltip("kind:N", title="GPUs"),
            alt.Tooltip("text:N", title="How many"),
        ],
    )
    bars = base.mark_bar(cornerRadiusEnd=3, height=11).encode(
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=list(KINDS), range=[colours.used, colours.fallow_stripe]),
            legend=None,
        )
    )
    texts = base.mark_text(align="left", dx=6, color=colours.muted).encode(text="text:N")
    return styled(alt.layer(bars, texts), colours, height=len(order) * 34 + 4)


def _project(frame: pd.DataFrame) -> "pd.Series[str]":
    return frame["project"].astype(object).where(frame["project"].notna(), "no project")
