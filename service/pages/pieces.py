"""Small pieces of screen that several pages share: legends, figures, headings. Effects: they draw.

Text that came from a user's job (names, commands, sentences) is escaped before it meets HTML or Markdown.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st

from service.pages import wording
from service.pages.palette import STATES, Palette

IN_A_ROW = 6
STYLE = Path(__file__).with_name("dashboard.css")
KINDS: Mapping[str, str] = {
    "held-idle": "Held, idle",
    "allocated-empty": "Held, empty",
    "not-started": "Not started yet",
    "sleeping-batch": "Never computed",
    "crash-loop": "Crash loop",
    "rarely-used": "Rarely used",
    "low-saturation": "Low saturation",
    "memory-hog": "Memory hog",
    "reserved-by-design": "Reserved by design",
    "suspect-counters": "Suspect counters",
    "zombie-memory": "Zombie memory",
    "falling-gpu": "Falling GPU",
    "intruder": "Intruder",
    "unproven-claim": "Unproven claim",
    "uses-part": "Uses a part",
    "straggler": "Straggler",
}
"""The kinds of finding, as they are called on screens."""


def style(colours: Palette) -> None:
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


def state_keys(colours: Palette) -> None:
    """The legend of the GPU states, with what each means when pointed at."""
    parts = [
        f'<span title="{escape(state.meaning)}">'
        f"{swatch(colours.states[state.key])}{escape(state.label)}</span>"
        for state in STATES
    ]
    st.html(f'<div class="keys">{"".join(parts)}</div>')


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that a page leads with: what it is called, how much, and what that means.

    ``told`` may end with what to do, and ``code`` is what to write then.
    """

    label: str
    much: str
    told: str = ""
    code: str = ""


def figures(items: Sequence[Figure]) -> None:
    """Figures in rows of equal length, as one piece of HTML: Streamlit's take a browser 0.2 s for six."""
    rows = -(-len(items) // IN_A_ROW) or 1
    in_a_row = -(-len(items) // rows)
    st.html(f'<dl class="figures" style="--in-a-row: {in_a_row}">{"".join(map(_figure, items))}</dl>')


def _figure(figure: Figure) -> str:
    label = escape(figure.label)
    why = ""
    if figure.told:
        code = f"<pre>{escape(figure.code)}</pre>" if figure.code else ""
        aloud = escape(f"{figure.label}: {figure.told} {figure.code}".strip(), quote=True)
        why = (
            f'<span class="why" tabindex="0" role="note" aria-label="{aloud}">?'
            f'<span class="told" aria-hidden="true">{escape(figure.told)}{code}</span></span>'
        )
    return f"<div><dt>{label}{why}</dt><dd>{escape(figure.much)}</dd></div>"


def facts(items: Sequence[tuple[str, str]]) -> None:
    """Figures in one quiet line: (what, how much)."""
    parts = [f"<span>{escape(what)} <b>{escape(much)}</b></span>" for what, much in items]
    st.html(f'<div class="facts">{"".join(parts)}</div>')


def definitions(items: Sequence[tuple[str, str]]) -> None:
    """A quiet list: who or what, and a line about it that may wrap."""
    parts = [f"<dt>{escape(what)}</dt><dd>{escape(told)}</dd>" for what, told in items]
    st.html(f'<dl class="definitions">{"".join(parts)}</dl>')


def tag(text: str, background: str, ink: str) -> str:
    """A small label with a colour of its own, as HTML."""
    return f'<span class="tag" style="background:{background};color:{ink}">{escape(text)}</span>'


def state_tag(key: str | None, label: str, colours: Palette) -> str:
    """The label of a state in its colour, with ink that can be read on it."""
    ground = colours.states.get(key or "unknown", colours.muted)
    return tag(label, ground, ink_on(ground))


def ink_on(ground: str) -> str:
    """Black or white, whichever stands out more from ``ground`` (WCAG relative luminance)."""
    channels = [int(ground[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#111517" if (light + 0.05) / 0.05 > 1.05 / (light + 0.05) else "#ffffff"


def plain(text: Any) -> str:
    """Text that Markdown will show as it stands."""
    return re.sub(r"([\\`*_{}\[\]#|<>~$:])", r"\\\1", str(text))


def heat_keys(colours: Palette) -> None:
    """The legend of the heat map."""
    ramp = f"linear-gradient(90deg,{','.join(colours.ramp)})"
    edge = f"box-shadow:inset 0 0 0 1px {colours.rule}"
    parts = (
        f'<span>{wording.percent(0)}<i class="ramp" style="background:{ramp};{edge}"></i>'
        f"{wording.percent(1)} utilized</span>",
        f"<span>{swatch(colours.ramp[0], outline=colours.allocated)}held</span>",
        f"<span>{swatch(colours.ramp[0])}free</span>",
        f"<span>{swatch(striped(colours.paper, colours.stripe))}not measured</span>",
        f"<span>{swatch(striped(colours.paper, colours.states['suspect']))}"
        "counters contradict each other</span>",
    )
    st.html(f'<div class="keys">{"".join(parts)}</div>')


def kind_label(kind: str) -> str:
    """What a kind of finding is called; one that only a newer Fallow knows keeps its own name."""
    return KINDS.get(kind, kind)


def tag_of_kind(kind: str, label: str, colours: Palette) -> str:
    """The label of a finding's kind, in the colour of the state it is about."""
    like = {
        "held-idle": "held-idle",
        "allocated-empty": "allocated-empty",
        "sleeping-batch": "held-idle",
        "crash-loop": "held-idle",
        "rarely-used": "low-saturation",
        "low-saturation": "low-saturation",
        "memory-hog": "moderate",
        "reserved-by-design": "moderate",
        "suspect-counters": "suspect",
        "zombie-memory": "suspect",
        "falling-gpu": "unknown",
        "intruder": "held-idle",
        "unproven-claim": "held-idle",
        "uses-part": "allocated-empty",
        "straggler": "low-saturation",
    }
    ground = colours.states[like.get(kind, "free")]
    return tag(label, ground, ink_on(ground))
