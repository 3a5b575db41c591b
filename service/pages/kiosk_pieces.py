"""The pieces that the wall is built from, as HTML: big figures, tiles of GPUs, ranked lines. Pure.

Everything that people named is escaped. Sizes are in ``kiosk.css``.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from service.pages import wording
from service.pages.palette import Palette, label_of
from service.pages.pieces import ink_on, striped

MOST_WRITTEN = 96
"""More GPUs than this are tiles without words: nobody could read them."""
MOST_TILES = 2_000


def figures_html(items: Sequence[tuple[str, str]]) -> str:
    """Big figures in a row: (what, how much)."""
    parts = "".join(
        f'<div class="wall-figure"><dt>{escape(what)}</dt><dd>{escape(much)}</dd></div>'
        for what, much in items
    )
    return f'<dl class="wall-figures">{parts}</dl>'


def tiles_html(gpus: Iterable[Any], colours: Palette) -> str:
    """A tile a GPU in the colour of its state, by node; ``gpus`` are rows of ``gpus_now``.

    What was not measured is striped; up to ``MOST_WRITTEN`` GPUs have their utilization written on them.
    """
    rows = list(gpus)[:MOST_TILES]
    written = len(rows) <= MOST_WRITTEN
    nodes: dict[str, list[Any]] = {}
    for row in rows:
        nodes.setdefault("unknown node" if wording.missing(row.node) else str(row.node), []).append(row)
    lines = "".join(
        f'<div class="wall-node"><span class="wall-name">{escape(node)}</span><span class="wall-tiles">'
        f"{''.join(_tile(row, colours, written=written) for row in held)}</span></div>"
        for node, held in sorted(nodes.items())
    )
    size = "" if written else " wall-many"
    return f'<div class="wall-nodes{size}">{lines}</div>'


def lines_html(rows: Sequence[Sequence[str]], titles: Sequence[str], numbers: frozenset[int]) -> str:
    """A table in big letters; ``numbers`` are the columns that stand to the right."""

    def cell(tag: str, at: int, text: str) -> str:
        side = ' class="wall-number"' if at in numbers else ""
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{scope}{side}>{escape(text)}</{tag}>"

    head = "".join(cell("th", at, title) for at, title in enumerate(titles))
    body = "".join(f"<tr>{''.join(cell('td', at, text) for at, text in enumerate(row))}</tr>" for row in rows)
    return f'<table class="wall-lines"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def dots_html(panel: str, panels: Mapping[str, str]) -> str:
    """The panel's name, and which of how many it is."""
    dots = "".join(f'<i class="{"here" if name == panel else ""}"></i>' for name in panels)
    return f'<div class="wall-title">{escape(panels[panel])}<span class="wall-dots">{dots}</span></div>'


def _tile(row: Any, colours: Palette, *, written: bool) -> str:
    state = "unknown" if wording.missing(row.state) else str(row.state)
    unknown = state == "unknown" or wording.missing(row.utilization_ratio)
    ground = striped(colours.paper, colours.stripe) if unknown else colours.states.get(state, colours.stripe)
    ink = colours.ink if unknown else ink_on(ground)
    text = (
        wording.percent(row.utilization_ratio, digits=0).removesuffix(f"{wording.THIN}%") if written else ""
    )
    index = "" if wording.missing(row.gpu_index) else f"GPU {int(row.gpu_index)}: "
    told = f"{index}{label_of(state)}"
    return (
        f'<span class="wall-tile" role="img" aria-label="{escape(told)}" title="{escape(told)}" '
        f'style="background:{ground};color:{ink}">{escape(text)}</span>'
    )
