"""The parts of SQL files and of pages of documentation that repeat the list of metrics, made from it.

SQL is not put together while the service runs: a file has every column. This writes them there.

    python -m tests.collector.metric_files

To be run after a change of ``collector/metrics.py``; ``test_metric_files.py`` fails until it was.
"""

from collections.abc import Iterator
from pathlib import Path

from collector.declared_metric import Metric
from collector.metrics import METRICS

ROOT = Path(__file__).parents[2]
EXPORT = "collector/store/sql/export_samples.sql"
TIMELINES = ("analytics/sql/gpu_timeline.sql", "analytics/sql/job_timeline.sql")
BEGIN, END = "-- made from collector/metrics.py", "-- made to here"
BY_HAND = ("at_ms", "width_ms", "rung", "utilization_ratio")
"""What each file has its own words for: when, how long, and the best measure with the one behind it."""
UNITS = {"ratio": "ratio", "bytes": "bytes", "w": "W", "c": "°C", "mhz": "MHz"}
SMALL = {"int16": "smallint", "int32": "integer", "int64": "bigint"}


def made() -> dict[str, str]:
    """Each file's text as the list has it, by path."""
    texts = {path: (ROOT / path).read_text() for path in (EXPORT, *TIMELINES)}
    texts[EXPORT] = between(texts[EXPORT], exported())
    for path in TIMELINES:
        texts[path] = with_header(between(texts[path], stepped()))
    return texts


def between(text: str, lines: list[str]) -> str:
    """The text with these lines between the two marks, indented as the first mark is."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    indent = head[head.rindex("\n") + 1 :]
    return "".join([head, BEGIN, "\n", *(f"{indent}{line}\n" for line in lines), indent, END, tail])


def exported() -> list[str]:
    """The columns of an export, in the units of a sample; one more follows them."""
    return [
        f"CAST({each.column} / 10000.0 AS FLOAT) AS {each.name}," if each.is_ratio else f"{each.name},"
        for each in METRICS
        if each.is_stored and each.name not in ("at_ms", "width_ms", "rung")
    ]


def stepped() -> list[str]:
    """The columns of a timeline; nothing follows them."""
    lines = [f"{_aggregated(each, step)} AS {name}," for each, step, name, _ in columns()]
    return [*lines[:-1], lines[-1].removesuffix(",")]


def columns() -> Iterator[tuple[Metric, str, str, str]]:
    """Each column of a timeline: its metric, what it has of the samples, its name and what it is."""
    for each in METRICS:
        if each.timeline and each.name not in BY_HAND:
            for at, (step, about) in enumerate(zip(each.timeline.steps, each.timeline.about, strict=True)):
                stem, _, unit = each.on_screen.rpartition("_")
                yield each, step, f"{stem}_{step}_{unit}" if at else each.on_screen, about


def with_header(text: str) -> str:
    """The text of a query with the columns of the list declared in its header, in their place."""
    lines = text.splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if line.startswith("-- @column rung")) + 1
    after = next(
        n for n, line in enumerate(lines) if n > first and line.startswith(("-- @column state", "-- @null"))
    )
    return "".join([*lines[:first], *(f"-- @column {line}\n" for line in declared()), *lines[after:]])


def declared() -> Iterator[str]:
    """The header's words for each column of a timeline."""
    for each, step, name, about in columns():
        kind = "double" if step == "avg" or each.is_ratio else SMALL[each.arrow]
        unit = UNITS.get(name.rpartition("_")[2])
        yield f"{name} {kind}{f' ({unit})' if unit else ''}: {about}"


def _aggregated(metric: Metric, step: str) -> str:
    scale = " / 10000.0" if metric.is_ratio else " / 1000.0" if metric.on_screen != metric.name else ""
    return f"{step}({metric.column}){scale}"


if __name__ == "__main__":
    for path, text in made().items():
        (ROOT / path).write_text(text)
