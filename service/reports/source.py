"""What reports ask, in one place: a client, a window and whom it is about, as the dashboard asks them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from service.charts.window import Window, step_for
from service.client import Client
from service.reports.model import Chart, Span
from service.usecases.advised import Replayed

if TYPE_CHECKING:
    import pandas as pd

    from service.charts.frame import TimeAxis
    from service.schemas.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One client and one window; ``filters`` as queries take them (node, project, user, model).

    ``replayed`` waits for the replay of the window under today's rules, where the kind of report wants one;
    ``begin`` has a chart drawn that is known before the rest of the report is.
    """

    client: Client
    span: Span
    filters: dict[str, str] = field(default_factory=dict)
    replayed: Callable[[], Replayed] | None = None
    begin: Callable[[Chart], None] = lambda chart: None

    @property
    def about(self) -> str | None:
        """Whose GPUs, where it is not everybody's: "ada in vision"."""
        named = [name for key in ("user", "project") if (name := self.filters.get(key))]
        return " in ".join(named) or None

    @property
    def window(self) -> Window:
        """The window in the dashboard's terms: naive UTC and a chart's step."""
        start, end = (at.replace(tzinfo=None) for at in (self.span.start, self.span.end))
        return Window(from_ts=start, to_ts=end, step_s=step_for((end - start).total_seconds()))

    def axis(self, *, utc: bool) -> "TimeAxis":
        """The time axis of its charts: in UTC, or in the zone of the browser that shows them."""
        from service.charts.frame import TimeAxis

        return TimeAxis(window=self.window, utc=utc)

    if TYPE_CHECKING:

        @property
        def rows(self) -> Rows:
            """A named query's rows over the window. Blocks. Raises ``ClientError``."""

    else:

        def rows(self, name, **more):
            """A named query's rows over the window. Blocks. Raises ``ClientError``."""
            return self.client.rows(name, **self._span(), **self.filters, **more)

    def frame(self, name: str, **more: object) -> "pd.DataFrame":
        """The same as a frame, times as UTC instants, as the dashboard's charts take them."""
        frame = self.client.query(name, **self._span(), **self.filters, **more)
        for column in frame.select_dtypes("datetime").columns:
            frame[column] = frame[column].dt.tz_localize("UTC").dt.as_unit("us")
        return frame

    def steps(self, name: str) -> "pd.DataFrame":
        """A frame step by step over the window."""
        return self.frame(name, step_s=self.window.step_s)

    def earlier(self) -> "Source":
        """The same questions about the stretch of equal length before."""
        length: timedelta = self.span.end - self.span.start
        before = Span(start=self.span.start - length, end=self.span.start)
        return Source(client=self.client, span=before, filters=self.filters)

    def _span(self) -> dict[str, object]:
        return {"from_ts": self.span.start, "to_ts": self.span.end}
