"""In what colour a terminal shows each name of the vocabulary; the word is there too, colour never alone."""

from collections.abc import Mapping

from analytics.vocabulary.actions import ActionClass
from analytics.vocabulary.alerts import AlertKind
from analytics.vocabulary.findings import KINDS, FindingKind
from analytics.vocabulary.patterns import PatternKind
from analytics.vocabulary.states import WITHHELD, GpuState

PLAIN = "bold"
"""Of what has no colour of its own, and of what only a newer Fallow knows."""

STATE_STYLES: Mapping[str, str] = {
    GpuState.FREE: "cyan",
    GpuState.ALLOCATED_EMPTY: "magenta",
    GpuState.HELD_IDLE: "red",
    GpuState.LOW_SATURATION: "yellow",
    GpuState.MODERATE: "green",
    GpuState.GOOD: "bold green",
    GpuState.SUSPECT: "bold magenta",
    GpuState.WITHHELD: "blue",
    **dict.fromkeys(WITHHELD, "blue"),
    GpuState.UNKNOWN: "bright_black",
}

FINDING_STYLES: Mapping[str, str] = {
    **{kind: STATE_STYLES[words.like] for kind, words in KINDS.items()},
    # what differs from the state that it resembles: doubts about a job are yellow, faults and strangers bold
    FindingKind.NOT_STARTED: PLAIN,
    FindingKind.MEMORY_HOG: "yellow",
    FindingKind.RESERVED_BY_DESIGN: "yellow",
    FindingKind.ZOMBIE_MEMORY: "magenta",
    FindingKind.FALLING_GPU: "bold red",
    FindingKind.INTRUDER: "bold red",
    FindingKind.UNPROVEN_CLAIM: "bold red",
}

PATTERN_STYLES: Mapping[str, str] = {
    PatternKind.ANALYSIS_BURSTS: "cyan",
    PatternKind.LOW_SATURATION: "yellow",
    PatternKind.GAPS_BETWEEN_RUNS: "magenta",
    PatternKind.SATURATED: "green",
    PatternKind.STEADY: "",
    PatternKind.UNCLEAR: "bright_black",
    PatternKind.UNKNOWN: "bright_black",
}

ACTION_STYLES: Mapping[str, str] = {
    **dict.fromkeys(ActionClass, PLAIN),
    ActionClass.RECLAIM: "red",
    ActionClass.CAP_MEMORY: "yellow",
    ActionClass.PACK: "cyan",
    ActionClass.CONSOLIDATE: "cyan",
    ActionClass.RIGHT_SIZE: "green",
    ActionClass.TERMINATE: "bold red",
    ActionClass.BACKGROUND: "green",
}

ALERT_STYLES: Mapping[str, str] = {
    **dict.fromkeys(AlertKind, PLAIN),
    AlertKind.HELD_IDLE: "red",
    AlertKind.MEMORY_HOG: "yellow",
    AlertKind.GPU_FAULT: "bold red",
    AlertKind.LOW_UTILIZATION: "yellow",
    AlertKind.QUOTA_STARVED: "magenta",
    AlertKind.COLLECTOR_BLIND: "bold magenta",
}
