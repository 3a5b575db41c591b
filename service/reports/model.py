"""What a report is before it is written in any format: figures, tables and charts, in sections. Pure values.

Numbers stay numbers here; ``service.reports.values`` alone writes them, by a column's or figure's ``kind``,
with the functions that write the dashboard, so that both show the same digits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING

from analytics.vocabulary.reports import ReportKind as ReportKind  # noqa: PLC0414
from service.charts.drawing import Drawing
from service.charts.theme import LIGHT, Theme

if TYPE_CHECKING:
    import pandas as pd


Keys = tuple[tuple[str, str], ...]


class Format(StrEnum):
    """What a report can be written as."""

    HTML = "html"
    MARKDOWN = "md"
    CSV = "csv"
    JSON = "json"


class Measure(StrEnum):
    """How a value is written. Ratios are 0..1, hours GPU-hours."""

    TEXT = "text"
    COUNT = "count"
    GPUS = "gpus"
    HOURS = "gpu_hours"
    RATIO = "ratio"
    COVERAGE = "coverage"
    """A ratio of which the last percent counts."""
    MONEY = "money"
    BYTES = "bytes"
    ENERGY = "kwh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Whole minutes, half-open, aware UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number at the head of a report; ``key`` names it in JSON, with its unit.

    ``mark`` stands before it where it is a bound (``service.wording.AT_MOST``, ``AT_LEAST``).
    """

    key: str
    label: str
    value: float | None
    measure: Measure
    help: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; ``key`` is its name in JSON and CSV, with its unit.

    ``bound`` is the key of how many GPU-hours of a row's use rest on GPU utilization alone: from
    ``service.wording.LEAST_BOUND_HOURS`` on the cell is an upper bound, and is written as one.
    """

    key: str
    title: str
    measure: Measure = Measure.TEXT
    bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows by column key; ``None`` is not known or not measured, and is written as a dash."""

    name: str
    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, object]]
    empty: str = "Nothing in this time."


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing with a sentence that says the same to whoever doesn't see it.

    ``draw`` makes it, Altair's, in the colours of paper or of a screen, its times in UTC or in the zone of
    the browser that shows it; ``key`` names the colours in it and what each stands for; ``numbers`` is the
    frame that it shows.
    """

    name: str
    says: str
    draw: Callable[[Theme, bool], Drawing]
    key: Callable[[Theme], Keys] = lambda _: ()
    numbers: "pd.DataFrame"

    @property
    def drawing(self) -> Drawing:
        """The drawing on paper, in UTC: a mail is read in any zone."""
        return self.draw(LIGHT, True)

    @property
    def keys(self) -> Keys:
        """Its colours on paper."""
        return self.key(LIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with what stands under it, in this order."""

    heading: str
    sentences: tuple[str, ...] = ()
    chart: Chart | None = None
    table: Table | None = None
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole report. ``subject`` is the project or person it is about, ``None`` for the cluster."""

    kind: ReportKind
    title: str
    opening: str
    span: Span
    zone: tzinfo
    subject: str | None
    figures: tuple[Figure, ...]
    sections: tuple[Section, ...]
    currency: str | None
    made_at: datetime
    notes: tuple[str, ...] = ()
    simulated: bool = False
    """Whether it is about a simulated cluster: all that it says is invented."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables, the most important first."""
        return tuple(section.table for section in self.sections if section.table is not None)
