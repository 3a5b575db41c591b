"""How a holder's activity lies in time, in words. Pure."""

from collections.abc import Mapping
from enum import StrEnum


class PatternKind(StrEnum):
    """How a holder's activity lies in time.

    UNCLEAR: measured, and too little of it to show a pattern. UNKNOWN: too little of it was measured.
    """

    ANALYSIS_BURSTS = "analysis-bursts"
    LOW_SATURATION = "low-saturation"
    GAPS_BETWEEN_RUNS = "gaps-between-runs"
    SATURATED = "saturated"
    STEADY = "steady"
    UNCLEAR = "unclear"
    UNKNOWN = "unknown"


NAMES: Mapping[PatternKind, str] = {
    PatternKind.ANALYSIS_BURSTS: "Analysis in bursts",
    PatternKind.LOW_SATURATION: "Low saturation",
    PatternKind.GAPS_BETWEEN_RUNS: "Gaps between runs",
    PatternKind.SATURATED: "Saturated",
    PatternKind.STEADY: "Steady",
    PatternKind.UNCLEAR: "Not clear yet",
    PatternKind.UNKNOWN: "Unknown",
}
LAST = (PatternKind.UNCLEAR, PatternKind.UNKNOWN)
"""Those that say nothing of how somebody works stand behind all others."""


def name_of_pattern(kind: str) -> str:
    """What a pattern is called; one that only a newer Fallow knows keeps its own name."""
    return NAMES[PatternKind(kind)] if kind in NAMES else kind
