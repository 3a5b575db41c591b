"""Prometheus text format to rows, fast enough for a thousand exporters a tick.

prometheus_client's parser reads the labels, once for each distinct label block: an exporter repeats the same
block for each of its thirty metrics, and parsing it is nearly all of the cost. Names are taken as they stand
on the line, so the ``_total`` that prometheus_client appends to every typed counter never shows.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

NAMED = 6
"""Names of metrics that a message quotes: enough to tell what answered there."""
LONGEST_BLOCK = 16_384
"""Characters in one row's labels; the longest of a real exporter are under a thousand."""
LONGEST_VALUE = 1024
"""Characters in one label's value: a pod's name has 253 at most, a job's of Slurm 1,024."""
CUT = "... (cut)"

_LEAST_MILLISECONDS = 1e11
"""As milliseconds this is 1973, as seconds the year 5138: no page is of either."""
_EXEMPLAR = " # "
_MEASURED = re.compile(r"""(?:[^"#]|"(?:[^"\\]|\\.)*")*""")
"""A line up to the ``#`` that begins an OpenMetrics exemplar; one in quotes is part of a label."""


class MalformedText(ValueError):
    """What was answered is not Prometheus text; the message quotes the line."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sample line; rows with the same label block share one mapping.

    ``at_ms`` is the time on the line: a Prometheus' ``/federate`` gives one and an exporter none.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    at_ms: int | None = None


def parse(text: str, wanted: Callable[[str], bool]) -> tuple[Row, ...]:
    """The rows with a wanted name; other lines are passed over unread. Raises MalformedText."""
    blocks: dict[str, Mapping[str, str]] = {"": {}}
    cache: dict[str, bool] = {}
    rows = []
    for line in text.split("\n"):
        if not line or line[0] == "#":
            continue
        name, block, rest = _split(line)
        if name not in cache:
            cache[name] = wanted(name)
        if not cache[name]:
            continue
        labels = blocks.get(block)
        if labels is None:
            labels = blocks[block] = _labels(block, line)
        rows.append(Row(name, labels, *_value(rest, line)))
    return tuple(rows)


def names_in(text: str) -> tuple[str, ...]:
    """The first few metric names of an exposition, to tell a person what was found instead."""
    names = dict.fromkeys(
        _split(line)[0] for line in text.split("\n")[:2000] if line.strip() and line[0] not in "#<"
    )
    return tuple(name for name in names if name.isidentifier())[:NAMED]


def _split(line: str) -> tuple[str, str, str]:
    if _EXEMPLAR in line and (measured := _MEASURED.match(line)):
        line = measured[0]
    start = line.find("{")
    if start < 0:
        name, _, rest = line.strip().partition(" ")
        return name, "", rest
    end = line.rfind("}")
    return line[:start].strip(), line[start + 1 : end] if end > start else line[start:], line[end + 1 :]


def _labels(block: str, line: str) -> Mapping[str, str]:
    if len(block) > LONGEST_BLOCK:
        raise MalformedText(f"labels of {len(block)} characters in the line {_quote(line)}")
    try:
        (family,) = text_string_to_metric_families(f"x{{{block}}} 0")
        (sample,) = family.samples
        if sample.value or sample.timestamp is not None:
            raise ValueError("the labels end before their end: what follows is no number of ours")
    except (ValueError, IndexError, KeyError) as error:
        raise MalformedText(f"unreadable labels in the line {_quote(line)}") from error
    return {name: _bounded(value) for name, value in sample.labels.items()}


def _bounded(value: str) -> str:
    """The value as it is kept: one that is too long says so at its end."""
    return value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + CUT


def _value(rest: str, line: str) -> tuple[float, int | None]:
    """The value, and the time on the line: milliseconds, or OpenMetrics' seconds, told by their size."""
    parts = rest.split()
    try:
        if not 1 <= len(parts) <= 2 or "_" in rest:
            raise ValueError(rest)
        value = float(parts[0])
        if len(parts) == 1:
            return value, None
        time = float(parts[1])
        return value, round(time if time >= _LEAST_MILLISECONDS else time * 1000)
    except (ValueError, OverflowError) as error:
        raise MalformedText(f"no number at the end of the line {_quote(line)}") from error


def _quote(line: str) -> str:
    return repr(line if len(line) <= 120 else line[:117] + "...")
