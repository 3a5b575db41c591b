"""What all charts share: the time axis, the look, and stripes. Pure: values in, Altair objects out.

Times are sent as UTC instants and written by the browser, in its own zone or in UTC, so that a change to
or from summer time is drawn where it happens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import altair as alt
import pandas as pd
from altair.utils.schemapi import debug_mode

from service.charts.theme import Theme
from service.charts.window import Window

FONT = '"Source Sans", "Source Sans Pro", system-ui, sans-serif'
LEFT = 64
P = ParamSpec("P")
T = TypeVar("T")
Layered = alt.LayerChart | alt.FacetChart
"""What Altair puts charts together to."""
Rows = pd.DataFrame | alt.NamedData
"""What a chart shows: a frame, or the name of one that is filled in later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How times are drawn: written in UTC or in the browser's zone."""

    utc: bool

    def x(self, field: str = "ts") -> alt.X:
        """The x channel, with day names at midnight and hours between."""
        kind: Literal["utc", "time"] = "utc" if self.utc else "time"
        axis = alt.Axis(
            title=None,
            grid=False,
            tickCount=8,
            labelExpr=self._label(),
            labelFlush=True,
            labelOverlap=True,
        )
        scale = alt.Scale(type=kind, nice=False)
        return alt.X(field, type="temporal", axis=axis, scale=scale)

    def anchors(self, ends: Rows) -> alt.Chart:
        """An unseen layer that holds the window's ends, so that every chart of a page spans the same time.

        (A domain given outright to layers that share a scale makes Vega-Lite complain of a conflict.)
        """
        chart: alt.Chart = alt.Chart(ends).mark_rule(opacity=0, tooltip=None).encode(x=self.x())
        return chart

    def when(self, field: str = "ts") -> str:
        """A Vega expression that writes an instant for a tooltip, naming UTC when it is."""
        format_of = "utcFormat" if self.utc else "timeFormat"
        return f"{format_of}(datum.{field}, '%a %d %b, %H:%M')" + (" + ' UTC'" if self.utc else "")

    def _label(self) -> str:
        head = "utc" if self.utc else ""
        format_of = "utcFormat" if self.utc else "timeFormat"
        midnight = f"({head}hours(datum.value) == 0 && {head}minutes(datum.value) == 0)"
        return f"{midnight} ? {format_of}(datum.value, '%a %d %b') : {format_of}(datum.value, '%H:%M')"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """The window a chart spans and whether its times are written in UTC or in the browser's zone."""

    window: Window
    utc: bool

    @property
    def clock(self) -> Clock:
        """How its times are drawn, whatever the window."""
        return Clock(utc=self.utc)

    @property
    def starts(self) -> pd.Timestamp:
        """The instant at which the window begins."""
        return utc(self.window.from_ts)

    @property
    def ends(self) -> pd.Timestamp:
        """The instant at which it ends."""
        return utc(self.window.to_ts)

    @property
    def ends_only(self) -> pd.DataFrame:
        """The rows of ``anchors``: the window's ends."""
        return pd.DataFrame({"ts": [self.starts, self.ends]})

    def x(self, field: str = "ts") -> alt.X:
        """The clock's x channel."""
        return self.clock.x(field)

    def anchors(self) -> alt.Chart:
        """The clock's anchors at this window's ends."""
        return self.clock.anchors(self.ends_only)

    def when(self, field: str = "ts") -> str:
        """The clock's words for an instant."""
        return self.clock.when(field)


def with_end(frame: pd.DataFrame, window: Window) -> pd.DataFrame:
    """The rows with ``end``, the instant at which each step ends.

    Steps are aligned to the epoch, as the named queries cut them: the first and the last may be short.
    """
    step = pd.Timedelta(seconds=window.step_s)
    ends = frame["ts"].dt.floor(step) + step
    return frame.assign(end=ends.where(ends < utc(window.to_ts), utc(window.to_ts)))


def steps_of(window: Window) -> pd.DataFrame:
    """The start ``ts`` of every step of the window, measured or not."""
    step = pd.Timedelta(seconds=window.step_s)
    first = utc(window.from_ts)
    starts = pd.date_range(first.floor(step), utc(window.to_ts), freq=step, inclusive="left").as_unit("us")
    return pd.DataFrame({"ts": starts.where(starts > first, first)})


def percent_of(field: str) -> str:
    """A Vega expression that writes a ratio as ``analytics.text.percent`` does; it runs in the browser."""
    digits = f"abs(datum.{field}) < 0.0995 && datum.{field} != 0 ? '.1f' : '.0f'"
    little = f"datum.{field} > 0 && datum.{field} < 0.0005"
    return f"({little} ? '<0.1%' : format(datum.{field} * 100, {digits}) + '%')"


def utc(at: datetime | str) -> pd.Timestamp:
    """The instant with its zone; a time without one is UTC."""
    stamp = pd.Timestamp(at)
    return stamp.tz_localize("UTC") if stamp.tzinfo is None else stamp


def closed(frame: pd.DataFrame) -> pd.DataFrame:
    """The steps with one more row at the last one's end, so that a stepped curve is drawn to its end."""
    if frame.empty:
        return frame
    last = frame.iloc[[-1]]
    return pd.concat([frame, last.assign(ts=last["end"])], ignore_index=True)


def rows(frame: pd.DataFrame) -> list[Any]:
    """The rows as named tuples; who asks for a query says which (``service.schemas.rows``)."""
    return list(frame.itertuples())


def stripes(ground: str, stripe: str, *, bands: int, tilt: float = 1.0) -> alt.LinearGradient:
    """A diagonal hatch as a hard-edged gradient over a mark's box: ``bands`` pairs of ground and stripe.

    ``tilt`` is the box's height over its width, for stripes at 45 degrees. The stops are a tuple, which
    Altair does not copy each time that it copies the chart.
    """
    stops: list[dict[str, object]] = []
    for band in range(bands):
        edges = (band / bands, (band + 0.62) / bands, (band + 1) / bands)
        stops += [
            {"offset": edges[0], "color": ground},
            {"offset": edges[1], "color": ground},
            {"offset": edges[1], "color": stripe},
            {"offset": edges[2], "color": stripe},
        ]
    reach = (1 + tilt) / (1 + tilt * tilt)
    return alt.LinearGradient(gradient="linear", stops=tuple(stops), x1=0, y1=0, x2=reach, y2=reach * tilt)


def unchecked(draw: Callable[P, T]) -> Callable[P, T]:
    """``draw`` without Altair's schema check of every part it is put together from.

    Tests hold the whole to the schema once: parts alone cost ten times that (a hatch of 60 stripes: 0.9 s
    against 0.1 s of CPU; measured 2026-11-21).
    """

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        with debug_mode(False):
            return draw(*args, **kwargs)

    return drawn


def styled(chart: Layered, colours: Theme, *, height: int, renderer: str = "canvas") -> Layered:
    """The chart in the house's look: no box, quiet grid, the page's own background and font.

    ``renderer``: a canvas draws many marks sooner; slanted stripes need "svg" (on a canvas Vega lays them
    from the chart's corner, not the mark's, and leaves a part unfilled). Single marks are not read aloud,
    hundreds of them: each chart has its words and a table.
    """
    config = alt.Config(
        font=FONT,
        view=alt.ViewConfig(strokeWidth=0),
        axis=alt.AxisConfig(
            labelColor=colours.muted,
            titleColor=colours.muted,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor=colours.rule,
            domainColor=colours.rule,
            tickColor=colours.rule,
            labelPadding=6,
        ),
        axisY=alt.AxisConfig(domain=False, ticks=False),
        mark=alt.MarkConfig(aria=False),
        text=alt.MarkConfig(font=FONT, fontSize=12, color=colours.ink),
    )
    return chart.properties(  # all at once: each call of Altair's copies the whole chart
        height=height,
        background="transparent",
        padding={"left": 0, "right": 6, "top": 4, "bottom": 0},
        usermeta={"embedOptions": {"renderer": renderer}},
        config=config,
    )


def hover(rows: Rows, clock: Clock, colours: Theme, columns: Sequence[tuple[str, str]]) -> alt.Chart:
    """A see-through column a step that lights up under the pointer and tells the step's figures.

    ``columns`` are (column holding the text, its title).
    """
    over = alt.selection_point(name="over", on="pointerover", clear="pointerout", fields=["ts"], empty=False)
    tooltip = [
        alt.Tooltip("when:N", title="Time"),
        *(alt.Tooltip(f"{column}:N", title=title) for column, title in columns),
    ]
    chart: alt.Chart = (
        alt.Chart(rows)
        .transform_calculate(when=clock.when())
        .mark_rect(color=colours.ink)
        .encode(
            x=clock.x(),
            x2="end:T",
            opacity=alt.condition(over, alt.value(0.10), alt.value(0.0)),
            tooltip=tooltip,
        )
        .add_params(over)
    )
    return chart
