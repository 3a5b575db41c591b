"""Small pieces of screen that several pages share: legends, figures, headings. Effects: they draw.

Text that came from a user's job (names, commands, sentences) is escaped before it meets HTML or Markdown.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from analytics import text
from analytics.vocabulary.findings import title_of_kind, words_of_kind
from analytics.vocabulary.states import STATES, GpuState, label_of
from service.charts.theme import NOT_AT_WORK, Theme, colour_of, ink_on
from service.printable import on_a_line, unlinked

IN_A_ROW = 6
_MARKUP = re.compile(r"([\\`*_{}\[\]#|<>~$:&]|^[-+](?= ))")
_COMMAND = re.compile(r"(`fallow [a-z -]+`)")
STYLE = Path(__file__).with_name("dashboard.css")


def style(colours: Theme) -> None:
    """The page's few rules of its own; colours come from the palette of the mode."""
    chosen = "rgba(111,195,220,0.16)" if colours.dark else "rgba(27,94,128,0.10)"
    rules = STYLE.read_text(encoding="utf-8")
    st.html(
        f"<style>:root {{ --line: {colours.rule}; --quiet: {colours.muted}; --text: {colours.ink}; "
        f"--card: {colours.surface}; --chosen: {chosen}; }}{rules}</style>"
    )


def swatch(background: str, *, outline: str | None = None, css: str = "") -> str:
    """A little square of a legend."""
    border = f"border:2px solid {outline};" if outline else ""
    return f'<i class="{css}" style="background:{background};{border}"></i>'


def striped(ground: str, stripe: str) -> str:
    """A CSS background with the same diagonal hatch as the charts."""
    return f"repeating-linear-gradient(135deg,{ground} 0 2.5px,{stripe} 2.5px 4.5px)"


def keys(items: Sequence[tuple[str, str, str | None]]) -> None:
    """A legend in one line: (swatch, label, figure or ``None``)."""
    parts = [
        f"<span>{mark}{escape(label)}{f' <b>{escape(figure)}</b>' if figure else ''}</span>"
        for mark, label, figure in items
    ]
    st.html(f'<div class="keys">{"".join(parts)}</div>')


def state_keys(colours: Theme, *, withheld: bool = True) -> None:
    """The legend of the GPU states, with what each means when pointed at; ``withheld``: some are."""
    parts = [
        f'<span title="{escape(state.meaning)}">'
        f"{swatch(colours.states[state.key])}{escape(state.label)}</span>"
        for state in STATES
        if withheld or state.key is not GpuState.WITHHELD
    ]
    st.html(f'<div class="keys">{"".join(parts)}</div>')


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that a page leads with: what it is called, how much, and what that means.

    ``told`` may end with what to do, and ``code`` is what to write then. ``beside`` stands small under it.
    """

    label: str
    much: str
    told: str = ""
    code: str = ""
    beside: str = ""


def figures(items: Sequence[Figure], *, leading: bool = False) -> None:
    """Figures in rows of equal length, as one piece of HTML: Streamlit's take a browser 0.2 s for six.

    ``leading``: those that a page begins with.
    """
    rows = -(-len(items) // IN_A_ROW) or 1
    in_a_row = -(-len(items) // rows)
    kind = "figures leading" if leading else "figures"
    st.html(f'<dl class="{kind}" style="--in-a-row: {in_a_row}">{"".join(map(_figure, items))}</dl>')


def _figure(figure: Figure) -> str:
    label = escape(figure.label)
    why = ""
    if figure.told:
        code = f"<pre>{escape(figure.code)}</pre>" if figure.code else ""
        aloud = escape(f"{figure.label}: {figure.told} {figure.code}".strip())
        why = (
            f'<span class="why" tabindex="0" role="note" aria-label="{aloud}">?'
            f'<span class="told" aria-hidden="true">{escape(figure.told)}{code}</span></span>'
        )
    beside = f'<dd class="beside">{escape(figure.beside)}</dd>' if figure.beside else ""
    return f"<div><dt>{label}{why}</dt><dd>{escape(figure.much)}</dd>{beside}</div>"


def facts(items: Sequence[tuple[str, str]]) -> None:
    """Figures in one quiet line: (what, how much)."""
    parts = [f"<span>{escape(what)} <b>{escape(much)}</b></span>" for what, much in items]
    st.html(f'<div class="facts">{"".join(parts)}</div>')


def definitions(items: Sequence[tuple[str, str]]) -> None:
    """A quiet list: who or what, and a line about it that may wrap."""
    parts = [f"<dt>{escape(what)}</dt><dd>{escape(definition)}</dd>" for what, definition in items]
    st.html(f'<dl class="definitions">{"".join(parts)}</dl>')


def tag(text: str, background: str, ink: str) -> str:
    """A small label with a colour of its own, as HTML."""
    return f'<span class="tag" style="background:{background};color:{ink}">{escape(text)}</span>'


def state_tag(key: str | None, label: str, colours: Theme) -> str:
    """The label of a state in its colour, with ink that can be read on it."""
    ground = colour_of(key, colours, colours.muted)
    return tag(label, ground, ink_on(ground))


def escape(text: object) -> str:
    """Text that HTML, in an attribute too, will show as it stands: on one line, and all of it visible."""
    return html.escape(on_a_line(str(text)))


def plain(text: object) -> str:
    """Text that Markdown will show as it stands: on one line, and all of it visible."""
    return _MARKUP.sub(r"\\\1", unlinked(on_a_line(str(text))))


def spoken(message: str) -> str:
    """A message of ours, which may quote somebody, as Markdown: commands stay code, the rest is text."""
    return "".join(part if place % 2 else plain(part) for place, part in enumerate(_COMMAND.split(message)))


def commands(sentence: str) -> str:
    """A sentence of ours as HTML, in which what stands between backticks is typed."""
    parts = sentence.split("`")
    return "".join(f"<code>{escape(p)}</code>" if place % 2 else escape(p) for place, p in enumerate(parts))


def heat_keys(colours: Theme, *, withheld: bool = False) -> None:
    """The legend of the heat map; ``withheld``: some of it is."""
    ramp = f"linear-gradient(90deg,{','.join(colours.ramp)})"
    edge = f"box-shadow:inset 0 0 0 1px {colours.rule}"
    parts = (
        f'<span>{text.percent(0)}<i class="ramp" style="background:{ramp};{edge}"></i>'
        f"{text.percent(1)} utilized</span>",
        *(f"<span>{swatch(colours.states[state])}{label_of(state)}</span>" for state in NOT_AT_WORK),
        f"<span>{swatch(colours.paper, outline=colours.muted)}held</span>",
        f"<span>{swatch(striped(colours.paper, colours.stripe))}not measured</span>",
        f"<span>{swatch(striped(colours.paper, colours.states[GpuState.SUSPECT]))}"
        "counters contradict each other</span>",
        *(
            (f"<span>{swatch(striped(colours.paper, colours.states[GpuState.WITHHELD]))}withheld</span>",)
            if withheld
            else ()
        ),
    )
    st.html(f'<div class="keys">{"".join(parts)}</div>')


def kind_label(kind: str) -> str:
    """What a kind of finding is called; one that only a newer Fallow knows keeps its own name."""
    return title_of_kind(kind)


def tag_of_kind(kind: str, label: str, colours: Theme) -> str:
    """The label of a finding's kind, in the colour of the state it is about."""
    words = words_of_kind(kind)
    ground = colours.states[words.like if words else GpuState.FREE]
    return tag(label, ground, ink_on(ground))
