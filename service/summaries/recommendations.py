"""What a person held, what they used, and what they could change: one judgement for the page and the report.

Pure. Rows are those of the queries ``jobs``, ``findings`` and ``ledger_by_job`` over the person's window, and
of ``service.usecases.advised.advised``. Nobody is reproached with what was not measured: of a job of which
under ``ENOUGH_MEASURED`` is known only that is said.

How a holder works, in words with the numbers that made it so. Pure.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from shlex import quote

import pandas as pd

from analytics import text
from analytics.job_verdict import ENOUGH_MEASURED, is_upper_bound
from analytics.vocabulary.actions import ActionClass
from analytics.vocabulary.findings import IDLENESS, FindingKind
from analytics.vocabulary.jobs import is_submitted
from analytics.vocabulary.patterns import LAST, PatternKind, name_of_pattern
from service import energy
from service.energy import Energy
from service.schemas.advice import AdviceRow
from service.summaries.finding_groups import by_kind, grouped, the_rest
from service.summaries.frames import records
from service.wording import AT_MOST

Row = Mapping[str, object]

SMALL_WASTE = 0.05
"""Of the hours held: who wastes less is told that it is little, and not what to change."""
MOST_SENTENCES = 5
"""A list that is read to its end; the dearest come first."""
MOST_JOBS = 3
WORTH_TELLING_GPU_HOURS = 1.0
"""Below it a sentence costs its reader more than it gives back."""
NOTHING = "Nothing: nothing was found to complain about."
IDLE = (ActionClass.RECLAIM, ActionClass.TERMINATE)
GIVES_BACK = "Ending it when it is done, or stopping it until it is needed again, gives its GPUs back."
TOLD_BY: Mapping[str, Collection[str]] = {
    **dict.fromkeys(IDLE, IDLENESS),
    ActionClass.CAP_MEMORY: (FindingKind.MEMORY_HOG,),
}
"""The findings that an advice of a class is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What somebody held in a window, in GPU-hours; ``measured_ratio`` is how much of it is known.

    ``is_upper_bound``: of some of it GPU utilization alone is known, so less may have been used.
    """

    jobs: int
    held_gpu_hours: float
    used_gpu_hours: float
    wasted_gpu_hours: float
    utilization_ratio: float | None
    measured_ratio: float | None
    energy: Energy
    wasted_energy: Energy
    is_upper_bound: bool

    @property
    def mark(self) -> str:
        """Before what was used: that less may have been."""
        return AT_MOST if self.is_upper_bound else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What to change: sentences, and the settings among them as a shell takes them."""

    sentences: tuple[str, ...]
    commands: tuple[str, ...] = ()


def held_of(jobs: Iterable[Row], *, utilization: float | None, measured: float | None) -> Held:
    """The sums of somebody's jobs, with the figures of the ledger's head over the same window."""
    rows = list(jobs)
    return Held(
        jobs=len(rows),
        held_gpu_hours=_sum(rows, "gpu_hours"),
        used_gpu_hours=_sum(rows, "used_gpu_hours"),
        wasted_gpu_hours=_sum(rows, "wasted_gpu_hours"),
        utilization_ratio=utilization,
        measured_ratio=measured,
        energy=energy.used(rows),
        wasted_energy=energy.wasted(rows),
        is_upper_bound=any_upper_bound(rows),
    )


def any_upper_bound(jobs: Iterable[Row]) -> bool:
    """Whether the use of any of these jobs (query ``jobs``) rests on GPU utilization, an upper bound."""
    return any(is_upper_bound(row) for row in jobs)


def told_held(holdings: Held, name: str | None) -> str:
    """The opening: said to ``name``'s face where ``name`` is ``None``."""
    if not holdings.jobs:
        return f"{name or 'You'} held no GPU in this time."
    many = "One job" if holdings.jobs == 1 else f"{holdings.jobs} jobs"
    whose = name or "yours"
    used = f"{'at most ' if holdings.is_upper_bound else ''}{text.gpu_hours(holdings.used_gpu_hours)}"
    of_them = " of them" if holdings.used_gpu_hours <= holdings.held_gpu_hours else ", more than their shares"
    sentence = f"{many} of {whose} held {text.gpu_hours(holdings.held_gpu_hours)} and used {used}{of_them}."
    if holdings.measured_ratio is not None and holdings.measured_ratio < ENOUGH_MEASURED:
        return f"{sentence} Only {text.percent(holdings.measured_ratio)} of that time was measured."
    if holdings.held_gpu_hours and holdings.wasted_gpu_hours / holdings.held_gpu_hours <= SMALL_WASTE:
        if holdings.is_upper_bound:
            return (
                f"{sentence} By GPU utilization, which says that some kernel ran, next to nothing was wasted."
            )
        return f"{sentence} Next to nothing was wasted: thank you."
    return f"{sentence} {text.gpu_hours(holdings.wasted_gpu_hours)} did nothing at all."


def measured_of(ledger: Iterable[Row]) -> dict[str, float]:
    """How much of each job's time is known, from ``ledger_by_job``."""
    return {
        str(row["key"]): 1 - _hours(row, "unknown_gpu_hours") / _hours(row, "gpu_hours")
        for row in ledger
        if not text.missing(row["key"]) and _hours(row, "gpu_hours") > 0
    }


def changes(
    jobs: Sequence[Row],
    advice: Iterable[AdviceRow],
    findings: Iterable[Row],
    measured: Mapping[str, float],
    *,
    name: str | None,
    habits: Sequence[str] = (),
) -> Changes:
    """What to change, with the exact setting where there is one: advice, habits, findings, else numbers.

    ``advice`` is what is advised about anybody: pieces about these jobs count. ``name`` as in ``told_held``.
    """
    ids = {row["job"] for row in jobs}
    mine = [row for row in advice if row["job"] in ids]
    recommendations = _of_findings([row for row in findings if not _is_covered(row, mine)])[:MOST_SENTENCES]
    names = {row["job"]: f"{called(row)} ({row['job']})" for row in jobs}
    sentences = [*(_to_owner(row, names[row["job"]]) for row in mine), *habits, *recommendations]
    if not sentences:
        sentences = _by_numbers(jobs, measured, name)
    unknown = _not_judged(jobs, measured, {row["job"] for row in mine})
    return Changes(
        sentences=(*(sentences or ([] if unknown else [NOTHING])), *unknown),
        commands=tuple(dict.fromkeys(line for row in mine for line in _commands(row))),
    )


def called(row: Row) -> str:
    """What to call a job: its name, else its command, else its id."""
    return str(next((row[key] for key in ("job_name", "command") if _is_text(row, key)), row["job"]))


def _by_numbers(jobs: Sequence[Row], measured: Mapping[str, float], name: str | None) -> list[str]:
    """Where most was wasted, when nothing else is known of it; only of what was measured."""
    sentences = []
    judged = [row for row in jobs if measured.get(str(row["job"]), 0.0) >= ENOUGH_MEASURED]
    for row in sorted(judged, key=lambda each: -_hours(each, "wasted_gpu_hours"))[:MOST_JOBS]:
        wasted, gpu_hours = _hours(row, "wasted_gpu_hours"), _hours(row, "gpu_hours")
        if gpu_hours and wasted >= WORTH_TELLING_GPU_HOURS:
            sentences.append(
                f"{called(row)} ({row['job']}) held {text.gpu_hours(gpu_hours)} on "
                f"{text.many(text.known(row['gpus']), 'GPU')}; "
                f"{text.percent(wasted / gpu_hours)} of that did nothing."
            )
    why = (
        f"Did it wait for data, for itself to start, or for {name or 'you'}? Asking for GPUs later, or "
        "ending a job when it is done, gives them back."
    )
    return [*sentences, why] if sentences else []


def _not_judged(jobs: Sequence[Row], measured: Mapping[str, float], jobs_advised: Set[object]) -> list[str]:
    """The largest jobs of which too little is known to say anything."""
    dark = [
        row
        for row in jobs
        if row["job"] not in jobs_advised
        and measured.get(str(row["job"]), 0.0) < ENOUGH_MEASURED
        and _hours(row, "gpu_hours") >= WORTH_TELLING_GPU_HOURS
    ]
    return [
        f"Of {called(row)} ({row['job']}) only {text.percent(measured.get(str(row['job']), 0.0))} was "
        "measured: it is not judged."
        for row in sorted(dark, key=lambda each: -_hours(each, "gpu_hours"))[:MOST_JOBS]
    ]


def _is_text(row: Row, key: str) -> bool:
    return not text.missing(row.get(key)) and bool(row[key])


def _of_findings(findings: Sequence[Row]) -> list[str]:
    """One sentence a job and kind; that a job uses a part of its GPUs stands for those of each idle one."""
    sentences = []
    groups = grouped(findings, lambda row: (str(row["kind"]), _job(row), True))
    for part in (
        part for group in groups for part in by_kind(group, lambda row: str(row["kind"]), is_open=True)
    ):
        sentences.append(f"{part[0]['sentence']}{the_rest(part)}")
    return sentences


def _job(row: Row) -> str | None:
    return None if text.missing(row["job"]) else str(row["job"])


def _to_owner(row: AdviceRow, name: str) -> str:
    """An advice as its job's owner reads it: that somebody is to be told of it is no news to them."""
    if row["class"] in IDLE:
        why = str(row["why"])  # without a finding it speaks of "it", which only a heading had named
        return f"{name}{why[2:]} {GIVES_BACK}" if why.startswith("It ") else f"{why} {GIVES_BACK}"
    what = str(row["what"])
    return f"{what}{'' if what.endswith(('.', '!', '?')) else '.'} {row['why']}"


def _is_covered(finding: Row, advised: Iterable[AdviceRow]) -> bool:
    """Whether an advice about the same job says already what a finding says."""
    return any(
        row["job"] == finding["job"] and finding["kind"] in TOLD_BY.get(str(row["class"]), ())
        for row in advised
    )


def _commands(row: AdviceRow) -> list[str]:
    """What to type: the settings that an advice's steps name; for an idle job of ours, how it makes way."""
    ours = row["class"] in IDLE and is_submitted(str(row["job"]))
    settings = [
        f"export {key}={quote(str(value))}"
        for step in row["steps"]
        if isinstance(named := step.get("settings"), list | tuple)
        for key, value in named
    ]
    return [*settings, *([f"fallow pause {quote(str(row['job']))}"] if ours else [])]


def _sum(rows: Iterable[Row], name: str) -> float:
    return float(sum(_hours(row, name) for row in rows))


def _hours(row: Row, name: str) -> float:
    return text.known(row[name]) or 0.0


Said = tuple[str, object, object]
"""Kind, evidence and reason."""


def in_words(kind: str, evidence: object, reason: object = None) -> str:
    """One pattern: ``Saturated: active 92 % of 24 h, 88 % used while active``; why, if unknown."""
    if kind == PatternKind.UNKNOWN:
        return f"{name_of_pattern(kind)}: {'too little was measured' if text.missing(reason) else reason}"
    numbers = _numbers(evidence)
    measured = text.length((text.known(numbers.get("minutes")) or 0) * 60)
    active = f"active {text.percent(text.known(numbers.get('active_ratio')))} of {measured} measured"
    used = f"{text.percent(text.known(numbers.get('utilization_active_mean_ratio')))} used while active"
    if numbers.get("on_engines"):
        used = "on video engines"
    match kind:
        case PatternKind.ANALYSIS_BURSTS:
            sentences = [f"{numbers.get('runs')} runs, median {_span(numbers, 'run_median')}", active]
        case PatternKind.GAPS_BETWEEN_RUNS:
            sentences = [
                f"runs up to {_span(numbers, 'run_longest')}, gaps up to {_span(numbers, 'gap_longest')}"
            ]
        case PatternKind.UNCLEAR if numbers.get("active_ratio") == 0.0:
            return f"Never active in {measured} measured"
        case PatternKind.UNCLEAR:
            sentences = [active]
        case _:
            sentences = [active, used]
    return f"{name_of_pattern(kind)}: {', '.join(sentences)}"


def pattern_of_job(frame: pd.DataFrame | None, job: str) -> str | None:
    """The pattern of one job in words; ``None`` when none is kept."""
    if frame is None or frame.empty:
        return None
    own = frame[frame["job"] == job]
    return None if own.empty else in_words(*_said(records(own)[0]))


def patterns_by(result: pd.DataFrame | None, frame: pd.DataFrame) -> list[str | None]:
    """For each person or project of ``frame`` the patterns of their jobs, the commonest first."""
    keys = [name for name in ("user_name", "project") if name in frame]
    rows: dict[tuple[str | None, ...], list[Said]] = {}
    for row in () if result is None else records(result):
        rows.setdefault(_key(row, keys), []).append(_said(row))
    return [_together(rows.get(_key(row, keys), ())) for row in records(frame)]


def in_short(kinds: Sequence[str]) -> str | None:
    """Of one person or project: each kind of pattern once, the commonest first, with how many jobs."""
    counts = Counter(kinds)
    ranked = sorted(counts, key=lambda kind: (kind in LAST, -counts[kind], kind))
    return (
        ", ".join(f"{name_of_pattern(k)}{f' ({counts[k]})' if counts[k] > 1 else ''}" for k in ranked) or None
    )


def kinds_by(result: pd.DataFrame | None, frame: pd.DataFrame) -> list[list[str]]:
    """For each person or project of ``frame`` the kinds of their jobs' patterns."""
    keys = [name for name in ("user_name", "project") if name in frame]
    rows: dict[tuple[str | None, ...], list[str]] = {}
    for row in () if result is None else records(result):
        rows.setdefault(_key(row, keys), []).append(str(row["kind"]))
    return [rows.get(_key(row, keys), []) for row in records(frame)]


def _said(row: Row) -> Said:
    return str(row["kind"]), row["evidence"], row["reason"]


def _together(patterns: Sequence[Said]) -> str | None:
    """Several jobs of one holder: each kind with how many jobs, and the numbers from least to most."""
    if len(patterns) <= 1:
        return in_words(*patterns[0]) if patterns else None
    kinds: dict[str, list[Said]] = {}
    for pattern in patterns:
        kinds.setdefault(pattern[0], []).append(pattern)
    sentences = []
    for kind, each in sorted(kinds.items(), key=lambda pair: (pair[0] in LAST, -len(pair[1]))):
        if len(each) == 1:
            sentences.append(in_words(*each[0]))
        elif kind == PatternKind.UNKNOWN:
            sentences.append(f"{name_of_pattern(kind)}: {len(each)} jobs, too little of them measured")
        else:
            sentences.append(
                f"{name_of_pattern(kind)}: {len(each)} jobs, active {_range(each, 'active_ratio')}"
            )
    return "; ".join(sentences)


def _range(patterns: Sequence[Said], name: str) -> str:
    values = [value for _, each, _ in patterns if (value := text.known(_numbers(each).get(name))) is not None]
    if not values:
        return text.NOTHING
    least, most = text.percent(min(values)), text.percent(max(values))
    return least if least == most else f"{least} to {most}"


def _key(row: Row, keys: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(None if text.missing(row[name]) else str(row[name]) for name in keys)


def _span(numbers: Mapping[str, object], name: str) -> str:
    minutes = text.known(numbers.get(f"{name}_minutes"))
    return text.NOTHING if minutes is None else text.length(minutes * 60)


def _numbers(evidence: object) -> Mapping[str, object]:
    figures = json.loads(evidence) if isinstance(evidence, str) else evidence
    return figures if isinstance(figures, Mapping) else {}
