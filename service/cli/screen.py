"""Where verbs print: colours on a terminal; plain in a pipe, lines whole or as wide as COLUMNS says; JSON."""

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from analytics.vocabulary.states import GpuState
from collector.gpu_place import node_place
from service.cli.asking import marked
from service.cli.colours import FINDING_STYLES, STATE_STYLES
from service.printable import escaped_json, in_lines, on_a_line
from service.schemas.values import as_text, utc_text

PIPE_WIDTH = 100_000
GUTTER = 2
LONGEST_CELL = 1_000
"""More than any name or command that means something; lines in a pipe are as wide as the widest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a screen's table.

    On a narrow terminal those that go ``below`` stand under their row, each on a line of its own; then
    those with a ``least`` width give way; where that is not enough, those with a place in ``spare`` are left
    out, the smallest first. The rest is never cut: if it still finds no room, each row becomes a few lines.
    """

    title: str
    right: bool = False
    least: int | None = None
    spare: int | None = None
    below: bool = False


class _Screen(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Called by rich for all that is printed: whatever it is, none of its text steers the terminal.

        Colours and the cursor's moves are rich's own, and come after this or as control segments.
        """
        for each in super().render(renderable, options):
            yield each if each.control else each._replace(text=in_lines(each.text))

    def on_broken_pipe(self) -> None:
        """A reader that has seen enough is no trouble: it ends the verb as it does without colours."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """The terminal, or a pipe in which no line is coloured, nor cut but to a width that somebody set.

    Brackets and colons are text: names come from people's jobs, and may hold what rich takes for markup.
    """
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return _Screen(stderr=stderr, highlight=False, markup=False, emoji=False)
    return _Screen(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None,
        width=_asked_width() or PIPE_WIDTH,
        soft_wrap=_asked_width() is None,
        legacy_windows=False,
    )


def _asked_width() -> int | None:
    """The width that a person set with ``COLUMNS``, in cells; shells keep their own to themselves."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdigit() and 0 < int(columns) < PIPE_WIDTH else None


def print_json(rows: Sequence[Mapping[str, object]], flags: argparse.Namespace) -> None:
    """A list of objects whose keys are the table's columns; where they are invented, each says so."""
    speaks_all = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(marked(rows, flags), indent=1, ensure_ascii=not speaks_all)
    print(escaped_json(text))


def print_csv(
    columns: Sequence[str], rows: Sequence[Mapping[str, object]], flags: argparse.Namespace
) -> None:
    """Comma-separated values under a line of columns, to be forwarded: numbers whole, times in UTC.

    Text is made safe for a spreadsheet that runs formulas and for a terminal; where rows are invented, each
    says so in a column of its own.
    """
    rows_shown = marked(rows, flags)
    names = [
        *columns,
        *(name for name in dict.fromkeys(key for row in rows_shown for key in row) if name not in columns),
    ]
    lines = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    lines.writeheader()
    lines.writerows({name: _plain_cell(value) for name, value in row.items()} for row in rows_shown)


def _plain_cell(value: object) -> object:
    match value:
        case str():
            return as_text(on_a_line(value))
        case bool():
            return str(value).lower()
        case datetime():
            return utc_text(value)
        case list() | tuple():
            return as_text(on_a_line("; ".join(map(str, value))))
        case _:
            return value


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str | Text]], *, width: int | None = None
) -> RenderableType:
    """A table in the house's manner: light rules, numbers to the right, and only what may give way is cut.

    ``width`` is the terminal's unless given.
    """
    cells = [tuple(map(_cell, row)) for row in rows]
    wide = console().width if width is None else width
    under: list[int] = []
    if _needed(_widest(columns, cells)) > wide:
        under = [at for at, each in enumerate(columns) if each.below]
    beside = [at for at in range(len(columns)) if at not in under]
    above = [columns[at] for at in beside]
    lines = [tuple(line[at] for at in beside) for line in cells]
    places = which_fit(above, lines, wide)
    if (
        _needed(_least([above[at] for at in places], [tuple(line[at] for at in places) for line in lines]))
        > wide
    ):
        return Group(*(_record(columns, line) for line in cells))
    grid = _in_columns(
        [above[at] for at in places], [tuple(line[at] for at in places) for line in lines], wide
    )
    if not under:
        return grid
    return Group(*_with_lines_below(grid, columns, cells, under, wide))


def _in_columns(columns: Sequence[Column], lines: Sequence[Sequence[str | Text]], wide: int) -> Table:
    grid = Table(
        box=box.SIMPLE_HEAD,
        header_style="bright_black",
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for each, size in zip(columns, fitted(columns, lines, wide), strict=True):
        justify: Literal["left", "right"] = "right" if each.right else "left"
        grid.add_column(each.title, justify=justify, no_wrap=True, overflow="ellipsis", width=size)
    for line in lines:
        grid.add_row(*line)
    return grid


def _with_lines_below(
    grid: Table,
    columns: Sequence[Column],
    cells: Sequence[Sequence[str | Text]],
    under: Sequence[int],
    wide: int,
) -> Iterable[RenderableType]:
    """The table's own lines, and under each row what found no room beside it, indented and wrapped."""
    screen = Console(width=wide, color_system="truecolor", markup=False, highlight=False, emoji=False)
    drawn = screen.render_lines(grid, screen.options.update(width=wide), pad=False)
    head = len(drawn) - len(cells)
    for at, line in enumerate(drawn):
        yield Text.assemble(*((each.text, each.style or "") for each in line))
        if at >= head:
            for place in under:
                if _width(cell := cells[at - head][place]):
                    yield _indented(_titled(columns[place], cell))


def _record(columns: Sequence[Column], line: Sequence[str | Text]) -> RenderableType:
    """A row as lines: its first cell, and under it every other with its title."""
    named = [(each, cell) for each, cell in zip(columns[1:], line[1:], strict=True) if _width(cell)]
    bodies = [
        Text.assemble((f"{each.title} ", "bright_black"), cell)
        for each, cell in named
        if each.title and not each.below
    ]
    lines = [Text(" · ").join(bodies), *(_titled(each, cell) for each, cell in named if each.below)]
    return Group(Text.assemble(line[0]), *(_indented(each) for each in lines if each))


def _titled(column: Column, cell: str | Text) -> Text:
    return Text.assemble((f"{column.title}: ", "bright_black"), cell)


def _indented(line: Text) -> Padding:
    return Padding(line, (0, 0, 0, 2), expand=False)


def which_fit(columns: Sequence[Column], lines: Sequence[Sequence[str | Text]], width: int) -> list[int]:
    """The places of the columns that fit on a line of ``width``, those that give way at their least. Pure."""
    needed = _least(columns, lines)
    places = list(range(len(columns)))
    spare = sorted((each.spare, at) for at, each in enumerate(columns) if each.spare is not None)
    for _, at in spare:
        if _needed([needed[place] for place in places]) <= width:
            break
        places.remove(at)
    return places


def fitted(columns: Sequence[Column], lines: Sequence[Sequence[str | Text]], width: int) -> list[int]:
    """The width of each column: its widest cell, the widest of those that may give way cut first. Pure."""
    widths, least = _widest(columns, lines), _least(columns, lines)
    excess = _needed(widths) - width
    while excess > 0:
        soft = [at for at, size in enumerate(least) if widths[at] > size]
        if not soft:
            return widths
        widest = max(soft, key=lambda at: widths[at])
        widths[widest] -= 1
        excess -= 1
    return widths


def _needed(widths: Sequence[int]) -> int:
    """How wide a line of so wide columns is."""
    return sum(widths) + GUTTER * (len(widths) - 1)


def _least(columns: Sequence[Column], lines: Sequence[Sequence[str | Text]]) -> list[int]:
    """The width that each column needs at least; titles are never cut."""
    return [
        size if each.least is None else min(size, max(each.least, cell_len(each.title)))
        for each, size in zip(columns, _widest(columns, lines), strict=True)
    ]


def _widest(columns: Sequence[Column], lines: Sequence[Sequence[str | Text]]) -> list[int]:
    return [
        max([cell_len(each.title), *(_width(line[at]) for line in lines)]) for at, each in enumerate(columns)
    ]


def state_text(state: str | None) -> Text:
    """A state in its colour; the word is always there, colour is never alone."""
    name = state or GpuState.UNKNOWN.value
    return Text(name, style=STATE_STYLES.get(name) or FINDING_STYLES.get(name, ""))


def place(gpu: Mapping[str, object]) -> str:
    """Where a GPU is, as people say it: "node1:3", "node1:0/1g.10gb#7", else with the start of its UUID."""
    node, at = gpu["node"], gpu["gpu_place"]
    return node_place(None if node is None else str(node), None if at is None else str(at), str(gpu["uuid"]))


def _cell(cell: str | Text) -> str | Text:
    if isinstance(cell, str):
        return on_a_line(cell, LONGEST_CELL)
    return cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL]


def _width(cell: str | Text) -> int:
    return cell_len(cell) if isinstance(cell, str) else cell.cell_len
