"""What the simulated cluster's labels say of a GPU at an instant; the rules are in ``bench/findings.py``."""

import math
from bisect import bisect_right
from dataclasses import dataclass

from analytics.model import FindingKind
from collector.model import JobKind
from collector.sources.simulated.labels import Label, LabelKind

IDLE_LABELS = {
    LabelKind.NOTEBOOK_AWAY,
    LabelKind.BETWEEN_RUNS,
    LabelKind.BETWEEN_RUNS_EMPTY,
    LabelKind.HELD_EMPTY,
    LabelKind.FORGOTTEN_SERVICE,
}
ACCUSING = {FindingKind.HELD_IDLE, FindingKind.ALLOCATED_EMPTY}
START_LIMIT_MS = 2 * 3_600_000
"""A job that has not worked yet is starting for so long, a notebook too (``Thresholds.start_limit_s``)."""
EMPTY_LABELS = {LabelKind.BETWEEN_RUNS_EMPTY, LabelKind.HELD_EMPTY}
RHYTHM_MS = 7 * 86_400_000
LEAST_SILENCE_MS = 600_000
"""Shorter is a pause within work (``analytics/sql/assess_rhythm.sql``)."""
SLACK_MS = 120_000
"""Labels change at any second, and the newest two minutes may not be rolled up yet."""
OWN_SILENCE_S = 6 * 3600
"""The longest window of held-idle, where its holder's silences are long (``Thresholds.idle_longest_s``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """One GPU's truth, cut at every change: label sets of the times that begin at ``starts_ms``."""

    starts_ms: tuple[int, ...]
    rows: tuple[tuple[Label, ...], ...]

    def at(self, at_ms: int) -> tuple[Label, ...]:
        """The labels at an instant."""
        return self.rows[bisect_right(self.starts_ms, at_ms) - 1]

    def during(self, from_ms: int, to_ms: int) -> tuple[tuple[Label, ...], ...]:
        """All labels of a time, in order."""
        first = max(0, bisect_right(self.starts_ms, from_ms) - 1)
        return self.rows[first : max(first + 1, bisect_right(self.starts_ms, to_ms - 1))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One GPU at one instant: its labels, when it was not measured, and what was said of it."""

    place: str
    truth: Labels
    dark: tuple[tuple[int, int], ...]
    now_ms: int
    found: frozenset[FindingKind]
    unknown: tuple[str, ...]

    @property
    def present(self) -> tuple[Label, ...]:
        """The labels of the instant."""
        return self.truth.at(self.now_ms - 1)

    @property
    def is_older_than_records(self) -> bool:
        """Whether a holder of now already had the GPU when the records begin."""
        first = {row.holder for row in self.truth.rows[0]}
        return any(row.holder in first for row in self.present)

    @property
    def words(self) -> str:
        """Which case, for the list of mistakes."""
        return f"{self.place} {'+'.join(row.kind.value for row in self.present)}"


def labelled(case: Case, kind: FindingKind, from_ms: int) -> list[bool]:
    """Whether the label says so, one answer for each of its stretches in the time that the rule looks at."""
    if kind is FindingKind.SLEEPING_BATCH:
        return [not _is_notebook(case) and has_slept_since(case) <= from_ms]
    return [_says(rows, kind) for rows in case.truth.during(from_ms, case.now_ms)]


def has_slept_since(case: Case) -> float:
    """Since when a job has the GPU, if it has never worked on it; infinite where it has."""
    if len(case.present) != 1 or case.is_older_than_records:
        return math.inf
    (row,) = case.present
    began_ms, stretches = case.now_ms, reversed(case.truth.during(0, case.now_ms))
    for rows in stretches:
        own = [each for each in rows if each.holder is not None and each.holder == row.holder]
        if not own:
            break
        if own[0].kind not in IDLE_LABELS | {LabelKind.STARTING_UP}:
            return math.inf
        began_ms = own[0].from_ms
    return began_ms if began_ms < case.now_ms else math.inf


def _is_notebook(case: Case) -> bool:
    notebooks = {LabelKind.NOTEBOOK_AWAY, LabelKind.NOTEBOOK_SESSION}
    kinds = {row.holder.kind for row in case.present if row.holder is not None}
    return JobKind.INTERACTIVE in kinds or any(row.kind in notebooks for row in case.present)


def is_excused(case: Case, kind: FindingKind) -> bool:
    """Whether an idle or empty GPU has another name by now, or not yet its own."""
    slept_since_ms = has_slept_since(case)
    if case.now_ms - START_LIMIT_MS < slept_since_ms < math.inf:
        return True
    if slept_since_ms < math.inf and not _is_notebook(case):
        return bool(case.found & {FindingKind.NOT_STARTED, FindingKind.SLEEPING_BATCH})
    if _is_notebook(case):
        return False
    quiet_ms, own_ms = own_silences(case, kind)
    return quiet_ms < min(own_ms, OWN_SILENCE_S * 1000) + SLACK_MS if own_ms else False


def own_silences(case: Case, kind: FindingKind) -> tuple[int, int]:
    """How long the holder has done nothing here, and the 90th percentile of such times that work has ended.

    By the labels alone, of seven days; 0 where there was none of ten minutes or more. For allocated-empty: of
    those in which nobody was there for ten minutes.
    """
    holders = {row.holder for row in case.present}
    quiet_ms, empty_ms, ended = 0, 0, []
    times = [at for at in case.truth.starts_ms if at < case.now_ms]
    for from_ms, to_ms in zip(times, [*times[1:], case.now_ms], strict=True):
        rows = [row for row in case.truth.at(from_ms) if row.holder in holders]
        if not rows or to_ms <= case.now_ms - RHYTHM_MS:
            quiet_ms = empty_ms = 0
        elif any(row.kind not in IDLE_LABELS for row in rows):
            if (quiet_ms if kind is FindingKind.HELD_IDLE else empty_ms) >= LEAST_SILENCE_MS:
                ended.append(quiet_ms)
            quiet_ms = empty_ms = 0
        else:
            quiet_ms += to_ms - from_ms
            empty_ms += (to_ms - from_ms) * any(row.kind in EMPTY_LABELS for row in rows)
    return quiet_ms, sorted(ended)[math.ceil(0.9 * len(ended)) - 1] if ended else 0


def _says(rows: tuple[Label, ...], kind: FindingKind) -> bool:
    return kind.value in {said.value for said in rows[0].findings}
