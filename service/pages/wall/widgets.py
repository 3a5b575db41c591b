"""The pieces that the wall is built from, as HTML: big figures, tiles of GPUs, ranked lines. Pure.

Everything that people named is escaped. Sizes are in ``kiosk.css``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from analytics import text
from analytics.vocabulary.states import WITHHELD, GpuState
from service.charts.theme import Theme, colour_of, ink_on
from service.pages.parts.widgets import escape, striped
from service.wording import activity, state_coloured, state_label

if TYPE_CHECKING:
    from service.schemas.rows import GpusNowTuple


MOST_WRITTEN = 96
"""More GPUs than this are tiles without words: nobody could read them."""
MOST_NAMED = 48
"""More nodes than this have no name beside them."""
MOST_TILES = 4_000
MOST_KINDS = 6
"""So many figures stand in a row."""
IN_A_LINE, SIDE_BY_SIDE = 8, 2
WIDE_PX, TALL_PX = 1_800, 650
"""The room for tiles on a screen with 1,080 lines."""
AROUND_PX = 66
"""What a node takes beside its tiles: its name and the gaps."""


def figures_html(items: Sequence[tuple[str, str]]) -> str:
    """Big figures in a row: (what, how much)."""
    parts = "".join(
        f'<div class="wall-figure"><dt>{escape(what)}</dt><dd>{escape(much)}</dd></div>'
        for what, much in items
    )
    return f'<dl class="wall-figures">{parts}</dl>'


def kind_figures(counts: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """How many there are of each kind, as figures in this order; what has no room is counted together."""
    shown = len(counts) if len(counts) <= MOST_KINDS else MOST_KINDS - 1
    items = [(kind, text.count(many)) for kind, many in counts[:shown]]
    if counts[shown:]:
        items.append(
            (f"{len(counts) - shown} more kinds", text.count(sum(many for _, many in counts[shown:])))
        )
    return items


def tiles_html(gpus: "Iterable[GpusNowTuple]", colours: Theme) -> str:
    """A tile a GPU in the colour of its state, by node; ``gpus`` are rows of ``gpus_now``.

    What was not measured is striped. Tiles are as large as so many can be: with their utilization in percent
    on them, then under their node's name, then bare.
    """
    rows = list(gpus)
    nodes: dict[str, list[GpusNowTuple]] = {}
    for row in rows[:MOST_TILES]:
        nodes.setdefault("unknown node" if text.missing(row.node) else str(row.node), []).append(row)
    if len(rows) > MOST_WRITTEN and len(nodes) > MOST_NAMED:
        return _bare(rows, colours)
    has_labels = len(rows) <= MOST_WRITTEN
    lines = "".join(
        f'<div class="wall-node"><span class="wall-name">{escape(node)}</span><span class="wall-tiles">'
        f"{''.join(_tile(row, colours, written=has_labels) for row in members)}</span></div>"
        for node, members in sorted(nodes.items())
    )
    if not has_labels:
        return f'<div class="wall-nodes wall-many">{lines}</div>'
    side = _side_px([len(members) for members in nodes.values()])
    ink = max(24, min(56, side * 2 // 5))
    return f'<div class="wall-nodes" style="--side:{side}px;--ink:{ink}px">{lines}</div>'


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


def _side_px(sizes: Sequence[int]) -> int:
    """How high a tile with words can be, for nodes of so many GPUs."""
    columns = min(SIDE_BY_SIDE, len(sizes))
    deep = -(-len(sizes) // columns)
    lines = max(-(-size // IN_A_LINE) for size in sizes)
    return max(48, min(240, (TALL_PX // deep - AROUND_PX) // lines - 10))


def _bare(rows: "Sequence[GpusNowTuple]", colours: Theme) -> str:
    """Tiles alone, side by side in the order of nodes; the picture as a whole is told."""
    shown = rows[:MOST_TILES]
    side = max(10, min(40, int((WIDE_PX * TALL_PX / len(shown)) ** 0.5) - 5))
    tiles = "".join(f'<i style="background:{_ground(row, colours)}"></i>' for row in shown)
    rest = f" The first {len(shown)} of {len(rows)}." if len(rows) > len(shown) else ""
    title = f"{len(rows)} GPUs in the order of their nodes, each in the colour of its state.{rest}"
    note = f'<p class="wall-said">{escape(rest.strip())}</p>' if rest else ""
    return (
        f'<div class="wall-bare" role="img" aria-label="{title}" style="--side:{side}px">{tiles}</div>{note}'
    )


def _tile(row: "GpusNowTuple", colours: Theme, *, written: bool) -> str:
    state, ground = _state(row), _ground(row, colours)
    like = state_coloured(state, _rhythm(row))
    ink = colours.ink if state == GpuState.UNKNOWN else ink_on(colour_of(like, colours, colours.stripe))
    index = "" if text.missing(row.gpu_place) else f"GPU {row.gpu_place}: "
    title = f"{index}{state_label(state, _rhythm(row))}"
    return (
        f'<span class="wall-tile" role="img" aria-label="{escape(title)}" title="{escape(title)}" '
        f'style="background:{ground};color:{ink}">{escape(_number(row)) if written else ""}</span>'
    )


def _number(row: "GpusNowTuple") -> str:
    """Its utilization in percent; nothing on one that nobody has, a dash where it was not measured."""
    match _state(row):
        case state if state == GpuState.FREE or state in WITHHELD:
            return ""
        case GpuState.UNKNOWN:
            return text.NOTHING
        case _:
            ratio = activity(row.utilization_ratio, row.engines_ratio)
            return text.NOTHING if ratio is None else f"{ratio * 100:.0f}"


def _state(row: "GpusNowTuple") -> str:
    return GpuState.UNKNOWN.value if text.missing(row.state) else str(row.state)


def _rhythm(row: "GpusNowTuple") -> str | None:
    """How it is used beside its state of this tick; an older service tells of none."""
    return getattr(row, "rhythm", None)


def _ground(row: "GpusNowTuple", colours: Theme) -> str:
    state = _state(row)
    if state == GpuState.UNKNOWN:
        return striped(colours.paper, colours.stripe)
    return colour_of(state_coloured(state, _rhythm(row)), colours, colours.stripe)
