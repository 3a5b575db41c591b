"""The charts of reports: the dashboard's own drawings, as SVG or PNG by vl-convert; no script, no network."""

import base64
from contextlib import suppress
from typing import Any

from service.trouble import Trouble

WIDTH = 760
PNG_SCALE = 2.0
MARGIN = 24
"""Pixels left of a chart: fonts of mail programs and browsers are wider than the drawing library thinks."""


class CannotDraw(Trouble):
    """Charts cannot be drawn on this machine."""


def load() -> None:
    """Load the drawing engine, which takes half a second; what is wrong with it is said by who draws."""
    with suppress(CannotDraw, ValueError):
        _converter().vegalite_to_svg({"mark": "point", "data": {"values": [{}]}})


def svg(drawing: Any) -> str:
    """The drawing as one ``<svg>`` element. Raises CannotDraw without vl-convert."""
    text: str = _converter().vegalite_to_svg(_spec(drawing))
    return text[text.index("<svg") :]


def png(drawing: Any) -> bytes:
    """The drawing as a PNG of twice its size in pixels, for mail and sharp screens."""
    picture: bytes = _converter().vegalite_to_png(_spec(drawing), scale=PNG_SCALE)
    return picture


def data_address(picture: bytes) -> str:
    """A picture as an address that carries it."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def _spec(drawing: Any) -> dict[str, Any]:
    spec: dict[str, Any] = drawing.to_dict(validate=False)
    spec["width"] = WIDTH
    spec["background"] = "#ffffff"
    spec["padding"] = {"left": MARGIN, "right": 5, "top": 5, "bottom": 5}
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise CannotDraw(
            "charts need vl-convert, which is not installed here; install it with "
            "`pip install vl-convert-python`, or ask for --format md, csv or json"
        ) from error
    return vl_convert
