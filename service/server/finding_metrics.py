"""What was found, by kind, on ``/metrics``: how many findings are open, on how many GPUs, at what cost.

The only label is the kind, of which there are as many as the judgement knows; jobs and people are on Fallow's
own pages. What was not judged lately is not told: an old finding may be over, and none may be wrong.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from analytics import text
from analytics.query import run
from analytics.vocabulary.findings import KINDS, FindingKind
from collector.metrics_endpoint import Metric, family, single
from collector.store.errors import StoreError

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.store.database import Store

KEPT_MS = 60_000
"""The judgement is made anew each minute; scrapes come more often and need no answer of their own."""
LATE_MS = 600_000
"""Ten judgements were missed: what was said then is not of now."""
DAY = timedelta(hours=24)
"""The hours of a day: a daily rhythm goes in whole, and a scrape reads a day's roll-ups, no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the newest judgement says; ``rows`` are those of the query ``findings_by_kind``."""

    at_ms: int
    rows: tuple[Mapping[str, object], ...]


def finding_exposition(judged: Judged | None, now_ms: int) -> bytes:
    """The metrics as Prometheus text: every kind, with 0 where nothing is open; nothing while unjudged."""
    if judged is None:
        return b""
    lines = list(
        single(
            "fallow_judged_timestamp_seconds", "When what was measured was last judged.", judged.at_ms / 1000
        )
    )
    if now_ms - judged.at_ms <= LATE_MS:
        lines += _by_kind({str(row["kind"]): row for row in judged.rows})
    return "".join(f"{line}\n" for line in lines).encode()


def finding_metrics(store: "Store", clock: "Clock") -> Callable[[], bytes]:
    """The part of ``/metrics`` about findings, asked of the store at most once a minute."""
    lock, pages = threading.Lock(), list[tuple[int, bytes]]()

    def metrics() -> bytes:
        with lock:
            at_ms = clock.monotonic_ms()
            if not pages or at_ms - pages[0][0] >= KEPT_MS:
                pages[:] = [(at_ms, finding_exposition(_judged(store, clock.now_ms()), clock.now_ms()))]
            return pages[0][1]

    return metrics


def _judged(store: "Store", now_ms: int) -> Judged | None:
    """The newest judgement; ``None`` where there is none yet, or the store is not answering now."""
    end = datetime.fromtimestamp(now_ms / 1000, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    try:
        with store.reader() as connection:
            (page,) = run(connection, "judgement").to_pylist()
            rows = run(connection, "findings_by_kind", {"from_ts": end - DAY, "to_ts": end}).to_pylist()
    except StoreError:
        return None
    at = page["judged_at"]
    if at is None:
        return None
    return Judged(at_ms=round(at.replace(tzinfo=UTC).timestamp() * 1000), rows=tuple(rows))


def _by_kind(rows: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    def each(column: str, kinds: Iterable[str], factor: int = 1) -> Iterator[tuple[dict[str, str], float]]:
        return (
            ({"kind": kind}, (text.known(rows[kind][column]) or 0.0) * factor if kind in rows else 0)
            for kind in kinds
        )

    kinds = [kind.value for kind in FindingKind]
    yield from family(
        Metric(field="", name="fallow_findings", says="Open findings by kind."), each("findings", kinds)
    )
    yield from family(
        Metric(field="", name="fallow_findings_gpus", says="GPUs with an open finding of the kind."),
        each("gpus", kinds),
    )
    yield from family(
        Metric(
            field="",
            name="fallow_findings_wasted_gpu_seconds",
            says="GPU-seconds that their holders left empty or idle on these GPUs in the last 24 h.",
        ),
        each("wasted_gpu_hours", (kind.value for kind, words in KINDS.items() if words.is_waste), 3600),
    )
