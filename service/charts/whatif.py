"""What each kind of action would have given back, with its earned error, beside the rules in force. Pure."""

from collections.abc import Mapping

import altair as alt
import pandas as pd

from analytics import text
from service.charts.frame import Layered, styled, unchecked
from service.charts.theme import Theme
from service.usecases.advised import Replayed

TEXT_PX = 165
"""What is written behind a row, "1 593 GPU-h (408 to 1 778)", is so wide at most."""


def compared(after: Replayed, before: Replayed, words: Mapping[str, str]) -> pd.DataFrame:
    """A row an action: its figures under the moved rules, and ``before``, its hours by those in force."""
    then = {each["action"]: float(each["gpu_hours"]) for each in before.given}
    frame = pd.DataFrame.from_records([dict(each) for each in after.given])
    return frame.assign(
        before=frame["action"].map(then),
        action=[words.get(str(action), str(action)) for action in frame["action"]],
    )


@unchecked
def given_chart(frame: pd.DataFrame, colours: Theme, *, both: bool) -> Layered:
    """A bar an action with its error, its hours beside it, and a tick where the rules in force would end."""
    labels = [
        f"{text.amount(hours)} h{_band(low, high)}"
        for hours, low, high in zip(frame["gpu_hours"], frame["low"], frame["high"], strict=True)
    ]
    ends = frame[["gpu_hours", "high", "before"]].astype(float).max(axis="columns")
    shown = frame.assign(told=labels, end=ends)
    scale = _scale(ends)
    base = alt.Chart(shown).encode(
        y=_names(shown, "action", colours),
        tooltip=[
            alt.Tooltip("action:N", title="What"),
            alt.Tooltip("how:N", title="How"),
            alt.Tooltip("told:N", title="Given back"),
            alt.Tooltip("jobs:Q", title="Jobs"),
            alt.Tooltip("disturbed:Q", title="Disturbed"),
        ],
    )
    x = alt.X("gpu_hours:Q", axis=None, scale=scale)
    layers = [
        _bar(base, x, colours),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(color=colours.ink, strokeWidth=1.5)
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        _labels(base, scale, colours),
    ]
    if both:
        layers.insert(1, _tick(base, "before", scale, colours))
    return styled(alt.layer(*layers), colours, height=len(shown) * 40)


@unchecked
def charged_chart(frame: pd.DataFrame, colours: Theme) -> Layered:
    """A bar a project: its part of what is lent, were held-idle hours charged; a tick at its part now."""
    labels = [
        f"{text.percent(now)} \u2192 {text.percent(then)}"
        for now, then in zip(frame["part"], frame["part_charged"], strict=True)
    ]
    ends = frame[["part", "part_charged"]].astype(float).max(axis="columns")
    shown = frame.assign(told=labels, end=ends)
    scale = _scale(ends)
    base = alt.Chart(shown).encode(
        y=_names(shown, "project", colours),
        tooltip=[
            alt.Tooltip("project:N", title="Project"),
            alt.Tooltip("allocated_ratio:Q", title="Held of the cluster", format=".1%"),
            alt.Tooltip("held_idle_ratio:Q", title="Of that idle", format=".1%"),
            alt.Tooltip("told:N", title="Part of what is lent"),
        ],
    )
    x = alt.X("part_charged:Q", axis=None, scale=scale)
    layers = [
        _bar(base, x, colours),
        _tick(base, "part", scale, colours),
        _labels(base, scale, colours),
    ]
    return styled(alt.layer(*layers), colours, height=len(shown) * 40)


def _scale(ends: "pd.Series[float]") -> alt.Scale:
    """From 0 to the longest row, with room for what is written behind it, on a phone too."""
    reach = f"{float(ends.max() or 1.0)} * clamp(width / max(width - {TEXT_PX}, 1), 1.3, 4)"
    return alt.Scale(domainMin=0, domainMax=alt.ExprRef(reach), nice=False)


def _names(shown: pd.DataFrame, column: str, colours: Theme) -> alt.Y:
    """What each row is called, in the order of the frame."""
    axis = alt.Axis(title=None, labelFontSize=13, labelColor=colours.ink, labelLimit=220)
    return alt.Y(f"{column}:N", sort=list(shown[column]), axis=axis)


def _bar(base: alt.Chart, x: alt.X, colours: Theme) -> alt.Chart:
    chart: alt.Chart = base.mark_bar(cornerRadiusEnd=3, height=18, color=colours.used).encode(x=x)
    return chart


def _tick(base: alt.Chart, column: str, scale: alt.Scale, colours: Theme) -> alt.Chart:
    """Where the row would end by what is in force."""
    tick = base.mark_tick(thickness=3, height=26, color=colours.stripe)
    chart: alt.Chart = tick.encode(x=alt.X(f"{column}:Q", scale=scale))
    return chart


def _labels(base: alt.Chart, scale: alt.Scale, colours: Theme) -> alt.Chart:
    labels = base.mark_text(align="left", dx=8, color=colours.muted)
    chart: alt.Chart = labels.encode(x=alt.X("end:Q", scale=scale), text="told:N")
    return chart


def _band(low: float | None, high: float | None) -> str:
    return "" if text.missing(low) else f" ({text.amount(low)} to {text.amount(high)})"
