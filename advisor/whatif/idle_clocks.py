"""After how long each recorded idle time would have been found idle: findings' clocks on the past. Pure.

What a limit on idle time gives back is counted from where a finding would be there, never from where the GPU
fell still: a job that rests between two pieces of work, as its own silences tell, is not idle
(docs/findings.md). The rhythm is that of the whole job; whether a process was there is not gone through, so
that the clock is the one of a GPU with a process, which is the longer one.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf

from advisor.planner.observed import IdleStretch
from analytics.thresholds import Thresholds
from collector.model import JobId, JobKind

WEEK_MS = 7 * 86_400_000
"""A rhythm is told from the silences of seven days."""
RHYTHM = 0.9
"""The part of its own silences that are no longer than what a job may rest."""


def with_clocks(stretches: Sequence[IdleStretch], thresholds: Thresholds) -> tuple[IdleStretch, ...]:
    """The idle times, each with after how long a finding would have called it idle (``found_s``).

    That is never where a job did nothing before it began to work: nothing is known of its rhythm then, and
    what was said of it, that it had not started, says nothing of idleness. A job that never worked counts
    from where no excuse is left. Open ones count as far as they are known.
    """
    silences: defaultdict[JobId, list[IdleStretch]] = defaultdict(list)
    for each in stretches:
        if each.worked_after and not each.first:
            silences[each.job].append(each)
    return tuple(
        replace(each, found_s=inf if _is_late_start(each) else _clock_s(each, silences[each.job], thresholds))
        for each in stretches
    )


def _is_late_start(stretch: IdleStretch) -> bool:
    """Whether work followed, of a job that nobody sits at."""
    return stretch.unstarted and stretch.worked_after and stretch.kind is not JobKind.INTERACTIVE


def _clock_s(stretch: IdleStretch, silences: Sequence[IdleStretch], t: Thresholds) -> float:
    """A terminal has the window alone; others their own usual silences where these are longer."""
    if stretch.kind is JobKind.INTERACTIVE:
        return 0.0 if stretch.unstarted else t.idle_window_s
    if stretch.unstarted:
        return max(0.0, t.forgive_s - t.start_limit_s)  # it is told from where its time to start is over
    near = sorted(
        each.length_s
        for each in silences
        if each.from_ms != stretch.from_ms and abs(each.from_ms - stretch.from_ms) <= WEEK_MS
    )
    usual_s = near[ceil(len(near) * RHYTHM) - 1] if near else 0.0
    return max(t.idle_window_s, min(usual_s, t.idle_longest_s))
