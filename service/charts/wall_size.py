"""A chart for a wall: every size in its specification taken so many times larger. Pure."""

SIZES = frozenset(
    {
        "cornerRadiusEnd",
        "dx",
        "dy",
        "fontSize",
        "height",
        "labelFontSize",
        "labelLimit",
        "labelPadding",
        "minExtent",
        "strokeWidth",
        "tickSize",
        "titleFontSize",
        "titlePadding",
    }
)
"""What Vega-Lite measures in pixels, as far as our charts use it."""
NOT_DRAWN = frozenset({"data", "datasets", "usermeta", "transform", "params"})


def enlarged(spec: dict[str, object], by: float, *, height: int | None = None) -> dict[str, object]:
    """The specification with its sizes multiplied, the figures in it untouched; ``height`` in pixels."""
    spec_enlarged = {name: _sized(name, inner, by) for name, inner in spec.items()}
    return spec_enlarged if height is None else {**spec_enlarged, "height": height}


def _scaled(part: object, by: float) -> object:
    match part:
        case dict():
            return {name: _sized(name, inner, by) for name, inner in part.items()}
        case list():
            return [_scaled(each, by) for each in part]
        case _:
            return part


def _sized(name: str, inner: object, by: float) -> object:
    if name in NOT_DRAWN:
        return inner
    if name in SIZES and isinstance(inner, int | float) and not isinstance(inner, bool):
        return inner * by
    return _scaled(inner, by)
