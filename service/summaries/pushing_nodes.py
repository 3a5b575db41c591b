"""What is said of machines that push what they measure: when each was heard, what waits there. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from analytics import text

if TYPE_CHECKING:
    from service.schemas.rows import NodesRow

SILENT_S = 60.0
"""As long as anything is called stale on a screen (``service.durations``)."""
BEHIND_S = 60.0
"""A spool whose oldest tick is older holds more than what the last push was about to bring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWords:
    """One machine in words: a sentence about its last push and spool, and what is wrong with it."""

    node: str
    state: str
    trouble: tuple[str, ...] = ()


def utc(at: str) -> str:
    """A time of a row, as it is."""
    return f"{at[:19].replace('T', ' ')} UTC"


def of_nodes(
    rows: "Sequence[NodesRow]", at: datetime, clock: Callable[[str], str] = utc
) -> tuple[NodeWords, ...]:
    """Each machine, those with something wrong first; ``clock`` writes a time."""
    node_words = [
        NodeWords(node=row["node"], state=_state(row, at), trouble=_trouble(row, clock)) for row in rows
    ]
    return tuple(sorted(node_words, key=lambda each: not each.trouble))


def in_a_line(rows: "Sequence[NodesRow]", at: datetime, most: int) -> str:
    """The machines that push, with their last push and spool, as one line; the others are counted."""
    node_words = of_nodes(rows, at)
    shown = ", ".join(f"{each.node} {each.state}" for each in node_words[:most])
    rest = len(node_words) - most
    return f"nodes: {shown}{f', and {rest} more (`fallow doctor`)' if rest > 0 else ''}"


def _state(row: "NodesRow", at: datetime) -> str:
    if row["last_ts"] is None:
        return "was heard, and nothing of it is stored yet"
    pushed = datetime.fromisoformat(row["pushed_ts"]).replace(tzinfo=UTC)
    return f"pushed {text.length(max(0.0, (at - pushed).total_seconds()))} ago{_spool(row)}"


def _spool(row: "NodesRow") -> str:
    age_s, waiting = row["spool_age_s"], row["waiting_ticks"]
    if age_s is None or waiting is None or age_s <= BEHIND_S:
        return ""
    return f" (its spool then held {text.many(waiting, 'tick')}, the oldest {text.length(age_s)} old)"


def _trouble(row: "NodesRow", clock: Callable[[str], str]) -> tuple[str, ...]:
    sentences = []
    silent_s, ahead_s = row["silent_s"], row["clock_ahead_s"]
    if silent_s is None or silent_s > SILENT_S:
        when = "never" if row["last_ts"] is None else clock(row["last_ts"])
        sentences.append(f"node {row['node']} was last heard {when}: what it measures meanwhile comes later")
    if ahead_s:
        side = "ahead of" if ahead_s > 0 else "behind"
        sentences.append(
            f"the clock of node {row['node']} is {text.length(abs(ahead_s))} {side} this service's, by whose "
            "time its ticks are stored: set it by NTP"
        )
    return tuple(sentences)
