"""The dashboard's colours, for light and for dark, and the order and words of the states.

Chosen to be told apart by people with any kind of colour vision: what works is blue, what is wasted is
amber to rust, what cannot be judged is violet or grey, what nobody may have is olive; neighbours in a
stack differ in lightness as well as in hue (``tests/dashboard/test_dashboard_palette.py`` measures both).
Colour is never the only sign: states are labelled, what was not measured is striped, what is held is
outlined.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A GPU state as screens name it; ``column`` is its column in ``states_over_time``."""

    key: str
    label: str
    meaning: str

    @property
    def column(self) -> str:
        """The state's column in ``states_over_time`` and the ``ledger_by_`` queries."""
        return f"{self.key.replace('-', '_')}_gpu_hours"


STATES: tuple[State, ...] = (
    State(key="good", label="good use", meaning="at least 50 % busy"),
    State(key="moderate", label="moderate", meaning="25 to 50 % busy"),
    State(key="low-saturation", label="low saturation", meaning="busy, under 25 %"),
    State(key="held-idle", label="held, idle", meaning="a process sits there, at most 1 % busy"),
    State(key="allocated-empty", label="held, empty", meaning="given to somebody, no process on it"),
    State(key="suspect", label="suspect", meaning="its counters contradict each other"),
    State(key="unknown", label="unknown", meaning="not measured"),
    State(key="withheld", label="withheld", meaning="nobody may have it: drained, down or reserved"),
    State(key="free", label="free", meaning="nobody holds it"),
)
"""From the best use to none, the order of every stack and legend."""


WITHHELD = ("drained", "down", "reserved")
"""What ``gpus_now`` says of a GPU that is withheld, instead of the state."""


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
    states: Mapping[str, str]


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
        "good": "#0f4c6e",
        "moderate": "#3f8fb0",
        "low-saturation": "#a9d3df",
        "held-idle": "#e9a63a",
        "allocated-empty": "#a8480f",
        "suspect": "#cb71e0",
        "unknown": "#8d9499",
        "withheld": "#424a2e",
        "free": "#e4e2da",
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
        "good": "#a6e3f0",
        "moderate": "#4ea3c0",
        "low-saturation": "#24607a",
        "held-idle": "#f0b453",
        "allocated-empty": "#cb5f22",
        "suspect": "#d98bec",
        "unknown": "#79828a",
        "withheld": "#b7c99c",
        "free": "#333a40",
    },
)


def palette(mode: str | None) -> Theme:
    """The palette for a theme type, "dark" or anything else."""
    return DARK if mode == "dark" else LIGHT


def colour_of(key: str | None, colours: Theme, other: str) -> str:
    """The colour of a state, or of why a GPU is withheld, which is one; ``other`` where neither has one."""
    return colours.states.get("withheld" if key in WITHHELD else key or "unknown", other)


def label_of(key: str | None) -> str:
    """What a state is called on screens; an unlisted one keeps its own name."""
    return next((state.label for state in STATES if state.key == key), key or "unknown")


def ink_on(ground: str) -> str:
    """Black or white, whichever stands out more from ``ground`` (WCAG relative luminance)."""
    channels = [int(ground[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#111517" if (light + 0.05) / 0.05 > 1.05 / (light + 0.05) else "#ffffff"
