"""Judges the holds of a past as of the moments at which a service would have told of them.

A service judges each minute. Of a past only those moments count at which something was over: a hold's
end, and within it the end of its longest idle time, of its low use, of doubtful counters, of a silence.
Blocks while it reads; changes nothing in the store.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from analytics.assess import assess_jobs, finding_row
from analytics.gpu_pasts import Claims, claims_at
from analytics.model import Finding, FindingKind
from analytics.query import Connection, run
from analytics.thresholds import Thresholds

MINUTE_MS = 60_000
GROUP_MS = 10 * MINUTE_MS
"""What was over within so long is judged at once, as of the first of it: a third of the shortest window."""
MOST_MOMENTS = 1_000
"""A month of 104 GPUs in 3,003 holds has under 900 (decision 149). Beyond, who was idle least is left out."""
CLAIMS_KEPT = 64
"""Instants whose holders are kept: more GPUs than that seldom fell silent at different times and stay so."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFindings:
    """What was found in a past: rows as ``Store.write_past_findings`` takes them.

    ``moments`` is how often was judged; ``left_out`` how many ends of holds or rests were not looked at.
    """

    rows: tuple[dict[str, object], ...]
    moments: int
    left_out: int


def past_findings(
    connection: Connection,
    span: tuple[int, int],
    t: Thresholds,
    tick_ms: int,
    *,
    most: int = MOST_MOMENTS,
    tell: Callable[[float], None] = lambda _: None,
) -> PastFindings:
    """What was to be told of holds within ``span``, two whole minutes in UTC ms, and is over.

    ``tell`` hears before each moment what part is done, 0 to 1; what it raises ends the judging.
    """
    asked = {"from_ts": span[0], "to_ts": span[1]}
    rows = run(connection, "assess_past_instants", asked).to_pylist()
    groups = list(_groups(rows))
    dearest = sorted(groups, key=lambda group: -max(row["idle_ms"] for row in group))[:most]
    found: list[dict[str, object]] = []
    # A GPU that is silent for days is asked at each moment who held it last: the answer is the same.
    held_at = lru_cache(CLAIMS_KEPT)(partial(claims_at, connection))
    for done, group in enumerate(sorted(dearest, key=lambda each: int(each[0]["at_ms"]))):
        tell(done / len(dearest))
        found += _found(connection, group, t, tick_ms, held_at)
    return PastFindings(
        rows=tuple(_joined(found)), moments=len(dearest), left_out=len(rows) - sum(map(len, dearest))
    )


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows in order of their moments, those that are near together as one."""
    group: list[Row] = []
    for row in rows:
        if group and row["at_ms"] > group[0]["at_ms"] + GROUP_MS:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _found(
    connection: Connection,
    group: Sequence[Row],
    t: Thresholds,
    tick_ms: int,
    held_at: Callable[[int], Claims],
) -> Iterator[dict[str, object]]:
    at_ms = group[0]["at_ms"] - 1
    over: dict[str, int] = {}
    held: dict[str, int] = {}
    for row in group:
        over[row["job"]] = max(row["over_ms"], over.get(row["job"], 0))
        held[row["job"]] = min(row["held_from_ms"], held.get(row["job"], at_ms))
    for finding in assess_jobs(connection, at_ms, over.keys(), t, tick_ms=tick_ms, held_at=held_at):
        job = None if finding.holder is None else finding.holder.job
        if job not in over:
            continue
        times = {"opened_ms": _told_ms(finding, held[job], at_ms, t), "seen_ms": at_ms, "over_ms": over[job]}
        yield finding_row(finding) | times


def _told_ms(finding: Finding, held_from_ms: int, at_ms: int, t: Thresholds) -> int:
    """From when on it would have been told: its window after it began, and after what is forgiven."""
    forgiven_s = t.grace_s
    if finding.kind is FindingKind.NOT_STARTED:
        forgiven_s = t.start_limit_s
    elif finding.kind in (FindingKind.SLEEPING_BATCH, FindingKind.CRASH_LOOP):
        forgiven_s = max(t.forgive_s, t.start_limit_s)
    began_ms = finding.since_ms + finding.window_to_ms - finding.window_from_ms
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
