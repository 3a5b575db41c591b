"""Logs what a source, or a part of one, cannot be read for: once when that begins, and once when it is over.

An exporter that sends garbage at every tick leaves one line, with what was wrong, and not one a tick; a
thousand that do so at once leave a few, and their number.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping

from collector.model import Unavailable
from collector.reading import Reading

log = logging.getLogger(__name__)

LINES_A_TICK = 16
"""A switch that fails takes hundreds of exporters along: a page of lines says as much as all of them."""
MOST_KNOWN = 4_096
"""Parts whose trouble is remembered; GPUs and exporters of one service are fewer."""
REASON_CHARS = 500
"""What a server sends may stand in a reason, and may be long."""

Part = tuple[str, str]
"""A source, and which part of it: a node, a GPU, an address; empty: all of it."""


class SourceLog:
    """One for a loop; ``note`` is called once a tick."""

    def __init__(self) -> None:
        self._known: dict[Part, str] = {}

    def note(self, outcomes: Iterable[Reading | Unavailable]) -> None:
        """Log what began and what is over since the last tick; a source that was not asked stays as it is."""
        outcomes = tuple(outcomes)
        now = dict(part for outcome in outcomes for part in troubles(outcome))
        sources = {outcome.source for outcome in outcomes}
        before = {part: why for part, why in self._known.items() if part[0] in sources}
        _write(logging.WARNING, "source-unreadable", {part: now[part] for part in now if part not in before})
        _write(logging.INFO, "source-readable", dict.fromkeys((p for p in before if p not in now), ""))
        reasons = {part: why for part, why in self._known.items() if part[0] not in sources} | now
        self._known = dict(list(reasons.items())[:MOST_KNOWN])


def troubles(outcome: Reading | Unavailable) -> Iterator[tuple[Part, str]]:
    """What could not be read, part by part, and why. Pure."""
    if isinstance(outcome, Unavailable):
        if not outcome.is_over:
            yield (outcome.source, ""), outcome.reason
        return
    for gap in outcome.gaps:
        yield (outcome.source, gap.uuid or gap.node or gap.reason.partition(" ")[0]), gap.reason


def _write(level: int, event: str, parts: Mapping[Part, str]) -> None:
    for (source, part), reason in list(parts.items())[:LINES_A_TICK]:
        fields = {"source": source, "part": part or None, "reason": reason[:REASON_CHARS] or None}
        _line(level, event, **fields)
    if len(parts) > LINES_A_TICK:
        _line(level, event, more=len(parts) - LINES_A_TICK)


def _line(level: int, event: str, **fields: object) -> None:
    """One event with its fields, as the service's formatters read them."""
    values = {name: value for name, value in fields.items() if value is not None}
    log.log(level, "%s", event, extra={"event": event, "fields": values})
