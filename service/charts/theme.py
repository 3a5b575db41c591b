"""The dashboard's colours, for light and for dark, keyed by the states of the vocabulary.

Chosen to be told apart by people with any kind of colour vision: what works is blue, what is wasted is
amber to rust, what cannot be judged is violet or grey, what nobody may have is olive; neighbours in a
stack differ in lightness as well as in hue (``tests/dashboard/test_dashboard_palette.py`` measures both).
Colour is never the only sign: states are labelled, what was not measured is striped, what is held is
outlined.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from analytics.vocabulary.states import WITHHELD, GpuState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Theme:
    """Every colour that a chart may use, in one mode; each is itself alone, and may be a key."""

    dark: bool
    paper: str
    surface: str
    ink: str
    muted: str
    rule: str
    used: str
    allocated: str
    fallow: str
    fallow_stripe: str
    third: str
    stripe: str
    ramp: tuple[str, ...]
    states: Mapping[GpuState, str]


LIGHT = Theme(
    dark=False,
    paper="#fbfaf7",
    surface="#ffffff",
    ink="#20262b",
    muted="#5d666d",
    rule="#e3e1da",
    used="#1b5e80",
    allocated="#9a5208",
    fallow="#f6d9a4",
    fallow_stripe="#efbf6a",
    third="#8a3fa0",
    stripe="#8d9499",
    ramp=("#f5f1e4", "#d3e4e1", "#9ecbd2", "#5da3ba", "#2a7699", "#0c4368"),
    states={
        GpuState.GOOD: "#0f4c6e",
        GpuState.MODERATE: "#3f8fb0",
        GpuState.LOW_SATURATION: "#a9d3df",
        GpuState.HELD_IDLE: "#e9a63a",
        GpuState.ALLOCATED_EMPTY: "#a8480f",
        GpuState.SUSPECT: "#cb71e0",
        GpuState.UNKNOWN: "#8d9499",
        GpuState.WITHHELD: "#424a2e",
        GpuState.FREE: "#e4e2da",
    },
)

DARK = Theme(
    dark=True,
    paper="#14181b",
    surface="#1b2024",
    ink="#e9e7e1",
    muted="#a3abb0",
    rule="#2e353a",
    used="#6fc3dc",
    allocated="#f0b453",
    fallow="#5a4320",
    fallow_stripe="#7d5c26",
    third="#d98bec",
    stripe="#79828a",
    ramp=("#1f2529", "#1f3f4e", "#22627c", "#3390b0", "#72c3d8", "#d8f3f4"),
    states={
        GpuState.GOOD: "#a6e3f0",
        GpuState.MODERATE: "#4ea3c0",
        GpuState.LOW_SATURATION: "#24607a",
        GpuState.HELD_IDLE: "#f0b453",
        GpuState.ALLOCATED_EMPTY: "#cb5f22",
        GpuState.SUSPECT: "#d98bec",
        GpuState.UNKNOWN: "#79828a",
        GpuState.WITHHELD: "#b7c99c",
        GpuState.FREE: "#333a40",
    },
)


NOT_AT_WORK = (GpuState.HELD_IDLE, GpuState.ALLOCATED_EMPTY, GpuState.FREE)
"""States that a map draws in their own colour, for utilization says nothing of them."""


def palette(mode: str | None) -> Theme:
    """The palette for a theme type, "dark" or anything else."""
    return DARK if mode == "dark" else LIGHT


def colour_of(key: str | None, colours: Theme, other: str) -> str:
    """The colour of a state, or of why a GPU is withheld, which is one; ``other`` where neither has one."""
    state = GpuState.WITHHELD if key in WITHHELD else key or GpuState.UNKNOWN
    return colours.states[GpuState(state)] if state in colours.states else other


def ink_on(ground: str) -> str:
    """Black or white, whichever stands out more from ``ground`` (WCAG relative luminance)."""
    channels = [int(ground[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#111517" if (light + 0.05) / 0.05 > 1.05 / (light + 0.05) else "#ffffff"
