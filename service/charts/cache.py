"""Charts whose specification is made once for a look and then filled with the rows of each drawing.

To put a chart together takes longer than everything else that a drawing does, and a browser that is sent a
specification it already shows exchanges the rows alone instead of making the chart anew. So a *look* (what a
chart function draws with) knows the colours, the zone and the size, never the rows: it names them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import ParamSpec

import altair as alt
import pandas as pd
from altair.utils.schemapi import debug_mode

LOOKS = 32
"""Looks of one chart that are kept: colours by zone by height, of which a site has a few."""
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Look:
    """A chart without rows, as the JSON of its Vega-Lite specification."""

    text: str

    def filled(self, **rows: pd.DataFrame) -> "Filled":
        """The chart with these rows under the names that it asks for."""
        return Filled(self, rows)


@dataclass(frozen=True, slots=True)
class Filled:
    """A look and the rows that it shows now, by the names that it gives them."""

    look: Look
    rows: Mapping[str, pd.DataFrame]

    def spec(self) -> dict[str, object]:
        """The specification without its rows; Streamlit takes them beside it, as frames."""
        return dict(json.loads(self.look.text))

    def to_dict(self, *, validate: bool = True) -> dict[str, object]:
        """The whole specification with the rows in it, as Altair's charts give it.

        Raises jsonschema's ValidationError on a specification that is none, unless told not to look.
        """
        spec = json.loads(self.look.text)
        spec["datasets"] = {name: alt.to_values(frame)["values"] for name, frame in self.rows.items()}
        if validate:
            alt.Chart.from_dict(spec)
        return dict(spec)


def kept(draw: Callable[P, alt.LayerChart | alt.FacetChart]) -> Callable[P, Look]:
    """``draw``, asked once for each look; its arguments must be hashable, and its chart name its rows."""

    @wraps(draw)
    def made(*args: P.args, **kwargs: P.kwargs) -> Look:
        with debug_mode(False):  # parts are not held against the schema; a test holds the whole to it
            return Look(json.dumps(draw(*args, **kwargs).to_dict(validate=False)))

    look: Callable[P, Look] = lru_cache(maxsize=LOOKS)(made)  # type: ignore[assignment]
    return look


def named(rows: str) -> alt.Chart:
    """A chart over rows that come later, under this name."""
    return alt.Chart(alt.NamedData(name=rows))
