"""Judges the holds of a past as of the moments at which a service would have told of them.

A service judges each minute. Of a past only those moments count at which something was over: a hold's
end, and within it the ends of its idle times and silences, of its low use, of doubtful counters.
Blocks while it reads; changes nothing in the store.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

from analytics.assess import assess_jobs, finding_row
from analytics.gpu_pasts import Claims, claims_at
from analytics.model import IDLENESS, Finding, FindingKind
from analytics.query import Connection, run
from analytics.thresholds import Thresholds

MINUTE_MS = 60_000
MOST_MOMENTS = 3_000
"""Twice those of a month of 104 GPUs in 3,003 holds (decision 149). Beyond, the least idle are left out."""
SLICE_MOMENTS = 64
"""Judged before they are kept, in about fifteen seconds of processor time: so much a stop may lose."""
CLAIMS_KEPT = 64
"""Instants whose holders are kept: more GPUs than that seldom fell silent at different times and stay so."""
Row = Mapping[str, Any]
_IDLE = IDLENESS | {
    FindingKind.NOT_STARTED,
    FindingKind.SLEEPING_BATCH,
    FindingKind.CRASH_LOOP,
    FindingKind.USES_PART,
}
ENDED_BY: Mapping[str, frozenset[FindingKind]] = {
    "end": frozenset(FindingKind),
    "idle": _IDLE,
    "low": frozenset({FindingKind.LOW_SATURATION, FindingKind.MEMORY_HOG}),
    "doubt": frozenset({FindingKind.SUSPECT_COUNTERS}),
    "silent": frozenset({FindingKind.FALLING_GPU}),
}
"""What is over when the work goes on, when low use ends, and so on: of another kind an end says nothing."""
OF_JOB = frozenset({FindingKind.USES_PART, FindingKind.STRAGGLER, FindingKind.MAY_HANG})
"""One finding a job, at the first GPU that it is about: over with a rest or hold of any of its GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSlice:
    """What was found in a part of a past: rows as ``write_past_findings`` takes them.

    ``until_ms``: all that was over up to then is judged; ``None``: the past is. ``left_out`` is how many ends
    of holds or rests of the whole past are not looked at, for there are ``moments`` dearer ones.
    """

    rows: tuple[dict[str, object], ...]
    until_ms: int | None
    moments: int
    left_out: int


def past_slices(
    connection: Connection,
    span: tuple[int, int],
    t: Thresholds,
    tick_ms: int,
    *,
    after_ms: int | None = None,
    most: int = MOST_MOMENTS,
    at_once: int | None = None,
    tell: Callable[[float], None] = lambda _: None,
) -> Iterator[PastSlice]:
    """What was to be told of holds within ``span``, two whole minutes in UTC ms, and is over; at least one.

    ``after_ms``: what was over by then is judged already. ``at_once``: moments in one. ``tell`` hears before
    each moment what part is done, 0 to 1; what it raises ends the judging, and loses no slice that was taken.
    """
    asked = {"from_ts": span[0], "to_ts": span[1]}
    rows = run(connection, "assess_past_instants", asked).to_pylist()
    moments = list(_moments(rows))
    dearest = sorted(moments, key=lambda each: -max(row["idle_ms"] for row in each))[:most]
    left_out = len(rows) - sum(map(len, dearest))
    in_order = sorted(dearest, key=lambda each: int(each[0]["over_ms"]))
    todo = [each for each in in_order if after_ms is None or int(each[0]["over_ms"]) > after_ms]
    # A GPU that is silent for days is asked at each moment who held it last: the answer is the same.
    held_at = lru_cache(CLAIMS_KEPT)(partial(claims_at, connection))
    done = len(dearest) - len(todo)
    size = at_once or SLICE_MOMENTS
    for at in range(0, max(1, len(todo)), size):
        found: list[dict[str, object]] = []
        for moment in (taken := todo[at : at + size]):
            tell(done / len(dearest))
            found += _found(connection, moment, t, tick_ms, held_at)
            done += 1
        is_last = at + size >= len(todo)
        yield PastSlice(
            rows=tuple(_joined(found)),
            until_ms=None if is_last else int(taken[-1][0]["over_ms"]),
            moments=len(dearest),
            left_out=left_out,
        )


def _moments(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """What was over at the same time; a job's own, for one earlier its window may not be full."""
    for _, together in groupby(rows, key=lambda row: int(row["over_ms"])):
        yield list(together)


def _found(
    connection: Connection,
    moment: Sequence[Row],
    t: Thresholds,
    tick_ms: int,
    held_at: Callable[[int], Claims],
) -> Iterator[dict[str, object]]:
    over_ms = moment[0]["over_ms"]
    jobs = {row["job"] for row in moment}
    for finding in assess_jobs(connection, over_ms, jobs, t, tick_ms=tick_ms, held_at=held_at):
        held_from = [row["held_from_ms"] for row in moment if _is_over(finding, row)]
        if not held_from:
            continue
        opened_ms = _told_ms(finding, min(held_from), over_ms, t)
        yield finding_row(finding) | {"opened_ms": opened_ms, "seen_ms": over_ms - 1, "over_ms": over_ms}


def _is_over(finding: Finding, row: Row) -> bool:
    """Whether a finding is over with what a row of ``assess_past_instants`` says was."""
    is_its_gpu = finding.kind in OF_JOB or finding.uuid == row["uuid"]
    is_its_job = finding.holder is not None and finding.holder.job == row["job"]
    return is_its_gpu and is_its_job and finding.kind in ENDED_BY[row["why"]]


def _told_ms(finding: Finding, held_from_ms: int, at_ms: int, t: Thresholds) -> int:
    """From when on it would have been told: its window after it began, and after what is forgiven."""
    forgiven_s = t.grace_s
    if finding.kind is FindingKind.NOT_STARTED:
        forgiven_s = t.start_limit_s
    elif finding.kind in (FindingKind.SLEEPING_BATCH, FindingKind.CRASH_LOOP):
        forgiven_s = max(t.forgive_s, t.start_limit_s)
    began_ms = finding.since_ms + finding.window_to_ms - finding.window_from_ms
    if finding.kind is FindingKind.FALLING_GPU:
        began_ms = finding.since_ms + t.silent_s * 1000
    if finding.kind is FindingKind.CRASH_LOOP:
        began_ms = held_from_ms
    return min(at_ms, max(began_ms, held_from_ms + forgiven_s * 1000))


def _joined(rows: Iterable[dict[str, object]]) -> Iterator[dict[str, object]]:
    """One row for what was told without a break, as it was told last. ``rows`` in the order of judging."""
    by_key: defaultdict[tuple[object, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        earlier = by_key[row["kind"], row["uuid"], row["job"]]
        if earlier and row["opened_ms"] <= earlier[-1]["over_ms"]:
            first = earlier.pop()
            row |= {
                "opened_ms": min(first["opened_ms"], row["opened_ms"]),
                "over_ms": max(first["over_ms"], row["over_ms"]),
            }
        earlier.append(row)
    for told in by_key.values():
        yield from told
