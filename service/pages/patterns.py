"""How a holder works, in words with the numbers that made it so. Pure."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from service.pages import wording

NAMES: Mapping[str, str] = {
    "analysis-bursts": "Analysis in bursts",
    "low-saturation": "Low saturation",
    "gaps-between-runs": "Gaps between runs",
    "saturated": "Saturated",
    "steady": "Steady",
    "unclear": "Not clear yet",
    "unknown": "Unknown",
}
LAST = ("unclear", "unknown")


Said = tuple[str, object, object]
"""Kind, evidence and reason."""


def in_words(kind: str, evidence: object, reason: object = None) -> str:
    """One pattern: ``Saturated: active 92 % of 24 h, 88 % used while active``; why, if unknown."""
    if kind == "unknown":
        return f"{NAMES[kind]}: {'too little was measured' if wording.missing(reason) else reason}"
    numbers = _numbers(evidence)
    measured = wording.span((numbers.get("minutes") or 0) * 60)
    active = f"active {wording.percent(numbers.get('active_ratio'))} of {measured} measured"
    used = f"{wording.percent(numbers.get('utilization_active_mean_ratio'))} used while active"
    match kind:
        case "analysis-bursts":
            told = [f"{numbers.get('runs')} runs, median {_span(numbers, 'run_median')}", active]
        case "gaps-between-runs":
            told = [f"runs up to {_span(numbers, 'run_longest')}, gaps up to {_span(numbers, 'gap_longest')}"]
        case "unclear" if numbers.get("active_ratio") == 0.0:
            return f"Never active in {measured} measured"
        case "unclear":
            told = [active]
        case _:
            told = [active, used]
    return f"{NAMES.get(kind, kind)}: {', '.join(told)}"


def pattern_of_job(found: pd.DataFrame | None, job: str) -> str | None:
    """The pattern of one job in words; ``None`` when none is kept."""
    if found is None or found.empty:
        return None
    own = found[found["job"] == job]
    return None if own.empty else in_words(*_said(own.iloc[0].to_dict()))


def patterns_by(found: pd.DataFrame | None, frame: pd.DataFrame) -> list[str | None]:
    """For each person or project of ``frame`` the patterns of their jobs, the commonest first."""
    keys = [name for name in ("user_name", "project") if name in frame]
    kept: dict[tuple[str | None, ...], list[Said]] = {}
    for row in () if found is None else found.to_dict("records"):
        kept.setdefault(_key(row, keys), []).append(_said(row))
    return [_together(kept.get(_key(row, keys), ())) for row in frame.to_dict("records")]


def in_short(kinds: Sequence[str]) -> str | None:
    """Of one person or project: each kind of pattern once, the commonest first, with how many jobs."""
    counts = Counter(kinds)
    ranked = sorted(counts, key=lambda kind: (kind in LAST, -counts[kind], kind))
    return ", ".join(f"{NAMES.get(k, k)}{f' ({counts[k]})' if counts[k] > 1 else ''}" for k in ranked) or None


def kinds_by(found: pd.DataFrame | None, frame: pd.DataFrame) -> list[list[str]]:
    """For each person or project of ``frame`` the kinds of their jobs' patterns."""
    keys = [name for name in ("user_name", "project") if name in frame]
    kept: dict[tuple[str | None, ...], list[str]] = {}
    for row in () if found is None else found.to_dict("records"):
        kept.setdefault(_key(row, keys), []).append(row["kind"])
    return [kept.get(_key(row, keys), []) for row in frame.to_dict("records")]


def _said(row: Mapping[Any, Any]) -> Said:
    return row["kind"], row["evidence"], row["reason"]


def _together(patterns: Sequence[Said]) -> str | None:
    """Several jobs of one holder: each kind with how many jobs, and the numbers from least to most."""
    if len(patterns) <= 1:
        return in_words(*patterns[0]) if patterns else None
    kinds: dict[str, list[Said]] = {}
    for said in patterns:
        kinds.setdefault(said[0], []).append(said)
    told = []
    for kind, each in sorted(kinds.items(), key=lambda pair: (pair[0] in LAST, -len(pair[1]))):
        if len(each) == 1:
            told.append(in_words(*each[0]))
        elif kind == "unknown":
            told.append(f"{NAMES[kind]}: {len(each)} jobs, too little of them measured")
        else:
            told.append(f"{NAMES.get(kind, kind)}: {len(each)} jobs, active {_range(each, 'active_ratio')}")
    return "; ".join(told)


def _range(patterns: Sequence[Said], name: str) -> str:
    values = [value for _, each, _ in patterns if (value := _numbers(each).get(name)) is not None]
    if not values:
        return wording.DASH
    least, most = wording.percent(min(values)), wording.percent(max(values))
    return least if least == most else f"{least} to {most}"


def _key(row: Mapping[Any, Any], keys: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(None if wording.missing(row[name]) else str(row[name]) for name in keys)


def _span(numbers: Mapping[str, Any], name: str) -> str:
    minutes = numbers.get(f"{name}_minutes")
    return wording.DASH if minutes is None else wording.span(minutes * 60)


def _numbers(evidence: object) -> Mapping[str, Any]:
    held = json.loads(evidence) if isinstance(evidence, str) else evidence
    return held if isinstance(held, Mapping) else {}
