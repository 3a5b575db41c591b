"""The charts of reports: the dashboard's own drawings, as SVG or PNG by vl-convert; no script, no network."""

import base64
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from service.charts.drawing import Drawing
from service.errors import FallowError
from service.printable import in_lines, shown_rows

if TYPE_CHECKING:
    from service.reports.model import Chart

WIDTH = 760
PNG_SCALE = 2.0
"""Twice the pixels, so that it is sharp on a dense screen and in print."""
MARGIN = 24
"""Pixels left of a chart: fonts of mail programs and browsers are wider than the drawing library thinks."""

BLANK: dict[str, object] = {"mark": "point", "data": {"values": [{}]}}
"""A drawing of nothing: the first one loads the engine, which takes half a second."""


class Form(StrEnum):
    """What a drawing becomes: one ``<svg>`` element, or a PNG of twice its size in pixels, in base64."""

    SVG = "svg"
    PNG = "png"


Draw = Callable[[Drawing, Form], Callable[[], str]]
"""Begins a drawing; what it returns waits for the text. Raises ``CannotDraw``."""


class Drawings:
    """The charts of one report, each drawn once in a form; begun early, one is ready when it is needed."""

    def __init__(self, draw: Draw | None = None) -> None:
        self._draw = here if draw is None else draw
        self._begun: dict[tuple[str, Form], Callable[[], str]] = {}

    def begin(self, chart: "Chart", form: Form) -> None:
        """Have it drawn, unless it is."""
        if (chart.name, form) not in self._begun:
            self._begun[chart.name, form] = self._draw(chart.drawing, form)

    def text(self, chart: "Chart", form: Form) -> str:
        """The chart. Blocks until it is drawn. Raises ``CannotDraw``."""
        self.begin(chart, form)
        return self._begun[chart.name, form]()


class CannotDraw(FallowError):
    """Charts cannot be drawn on this machine."""


def here(drawing: Drawing, form: Form) -> Callable[[], str]:
    """Draw in this process, when it is asked for."""
    return partial(drawn, spec_of(drawing), form)


def png(drawing: Drawing) -> bytes:
    """The drawing as a PNG of twice its size in pixels, for mail and sharp screens."""
    return base64.b64decode(here(drawing, Form.PNG)())


def data_address(picture: str) -> str:
    """A PNG in base64 as an address that carries it."""
    return f"data:image/png;base64,{picture}"


def spec_of(drawing: Drawing) -> dict[str, object]:
    """The drawing as the engine takes it, at the width of a report.

    Names in it hold no control character: vl-convert 1.x ends the whole process at one (``\\0``, an escape).
    """
    spec = shown_rows(drawing.to_dict(validate=False), in_lines)
    spec["width"] = WIDTH
    spec["background"] = "#ffffff"
    spec["padding"] = {"left": MARGIN, "right": 5, "top": 5, "bottom": 5}
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    layers = spec.get("layer")
    for layer in layers if isinstance(layers, list) else ():
        across = layer.get("encoding", {}).get("x", {})
        if across.get("scale", {}).get("type") == "utc":  # the words around it may be in another zone
            across["axis"] = {**across["axis"], "title": "UTC"}
    return spec


def drawn(spec: Mapping[str, object], form: Form) -> str:
    """A chart as text. Blocks. Raises ``CannotDraw`` without vl-convert."""
    converter = _converter()
    if form is Form.PNG:
        return base64.b64encode(converter.vegalite_to_png(spec, scale=PNG_SCALE)).decode()
    text: str = converter.vegalite_to_svg(spec)
    return text[text.index("<svg") :]


def _converter() -> ModuleType:
    try:
        import vl_convert
    except ImportError as error:
        raise CannotDraw(
            "charts need vl-convert, which is not installed here; install it with "
            "`pip install vl-convert-python`, or ask for --format md, csv or json"
        ) from error
    return vl_convert
