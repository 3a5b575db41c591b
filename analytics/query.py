"""Named queries: the only way from the store to a screen, a report or a finding.

One question a file in ``sql/``; its header declares the parameters, the output columns with their units and
what NULL means, and this file reads that header, checks what a caller hands in and runs the text as it
stands. SQL is never put together here. What a result means is decided by whoever asked.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from analytics.parameter import Kind, convert

FOLDER = Path(__file__).parent / "sql"
STEPS_MOST = 3000
"""More points than a screen has columns; and what a row a step costs stays bounded whoever asks."""
BATCH_ROWS = 16_384
"""A few MiB: by so much may an answer go beyond its bound before that is noticed."""
NOTHING_COMPLETE = convert(Kind.INSTANT, 0)
"""Of a level that was never rolled up: every window begins after it, so all is read from the level below."""

# A relation (``sql``) would spare a copy of the result, which is small here, but it binds a query twice, and
# that costs a fifth of most of these questions.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy", UserWarning)


class QueryError(Exception):
    """A named query could not be run as asked; the message says what is allowed instead.

    QueryError
    ├── UnknownQueryError    no file of that name
    └── BadParameterError    a parameter is missing, unknown or out of bounds
    """


class UnknownQueryError(QueryError):
    """There is no query of that name."""


class BadParameterError(QueryError):
    """A parameter is missing, unknown or out of bounds."""


class AnswerTooLargeError(BadParameterError):
    """The parameters choose more rows than an answer may hold."""


class Answer(Protocol):
    """What a connection's ``execute`` returns, once the query has run."""

    def to_arrow_reader(self, batch_size: int, /) -> pa.RecordBatchReader:
        """All rows, a batch at a time."""

    def to_arrow_table(self) -> pa.Table:
        """Hand over the whole result."""
        ...


class Connection(Protocol):
    """The part of a store's reader that a query needs; the store's own connections have it."""

    def execute(self, query: str, parameters: object = ...) -> Answer:
        """Run ``query`` with named parameters."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One declared parameter; ``required`` when the header gives it no default."""

    name: str
    kind: Kind
    about: str
    required: bool = True
    default: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One declared output column; ``unit`` is empty where the value has none."""

    name: str
    type: str
    unit: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpec:
    """What a query's header says, and its text.

    ``marks`` are parameters that no caller gives: how far a level of the store is complete, by its name.
    ``never_null`` are columns that have a value in each row.
    """

    name: str
    summary: str
    null_means: str
    sql: str = field(repr=False)
    parameters: tuple[Parameter, ...] = ()
    columns: tuple[Column, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()
    never_null: frozenset[str] = frozenset()

    @property
    def reads_samples(self) -> bool:
        """Whether it reads samples of a window that the caller chooses, be it long ago."""
        window = {parameter.name for parameter in self.parameters} >= {"from_ts", "to_ts"}
        return window and "samples_all" in self.sql


def run(
    connection: Connection,
    name: str,
    params: Mapping[str, Any] | None = None,
    most_bytes: int | None = None,
) -> pa.Table:
    """The whole result of the query ``name``; blocks while it runs. Raises AnswerTooLargeError past a bound.

    Timestamps come back as UTC without a zone. Raises UnknownQueryError and BadParameterError; what the store
    itself raises goes through.
    """
    spec = load(name)
    values = checked(spec, params or {})
    if spec.marks:
        values |= _marks(connection, spec)
    if most_bytes is None:
        return _table(connection, spec, values)
    return _bounded(connection, spec, values, most_bytes)


def catalogue() -> dict[str, QuerySpec]:
    """Every named query by name, in alphabetical order."""
    return {path.stem: load(path.stem) for path in sorted(FOLDER.glob("*.sql"))}


@cache
def load(name: str) -> QuerySpec:
    """The query ``name``, read once; raises UnknownQueryError, naming the nearest ones."""
    known = sorted(path.stem for path in FOLDER.glob("*.sql"))
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.5) or known
        raise UnknownQueryError(f"there is no query named {name!r}; nearest: {', '.join(near)}")
    return _parse(name, (FOLDER / f"{name}.sql").read_text())


def checked(spec: QuerySpec, given: Mapping[str, Any]) -> dict[str, object]:
    """The parameters as the store takes them, defaults filled in; raises BadParameterError."""
    known = {parameter.name for parameter in spec.parameters}
    for name in given:
        if name not in known:
            allowed = ", ".join(sorted(known)) or "none"
            raise BadParameterError(f"query {spec.name!r} has no parameter {name!r}; it takes: {allowed}")
    values = {parameter.name: _value(spec.name, parameter, given) for parameter in spec.parameters}
    _check_window(spec.name, values)
    return values


def _table(connection: Connection, spec: QuerySpec, values: Mapping[str, object]) -> pa.Table:
    return connection.execute(spec.sql, values).to_arrow_table()


def _bounded(
    connection: Connection, spec: QuerySpec, values: Mapping[str, object], most_bytes: int
) -> pa.Table:
    """The same, taken a batch at a time: what is too large is never held whole."""
    reader = connection.execute(spec.sql, values).to_arrow_reader(BATCH_ROWS)
    batches, taken = [], 0
    for batch in reader:
        taken += batch.nbytes
        if taken > most_bytes:
            raise AnswerTooLargeError(f"query {spec.name!r}: {too_large(most_bytes)}")
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=reader.schema)


def too_large(most_bytes: int) -> str:
    """What to do about an answer that is larger than it may be."""
    return (
        f"the answer has more than {most_bytes / 2**20:.3g} MiB (api.answer_mib, a quarter of it as JSON); "
        "ask for a shorter window or longer steps, or for one GPU, user, project or node; all of it: `fallow "
        "export`"
    )


def _marks(connection: Connection, spec: QuerySpec) -> dict[str, object]:
    """How far the levels are complete, read first: bounds known at planning prune what is read."""
    rows = _table(connection, load("marks"), {}).to_pylist()
    complete_to = {row["name"]: row["complete_to"] for row in rows}
    return {name: complete_to.get(level, NOTHING_COMPLETE) for name, level in spec.marks}


def _value(query: str, parameter: Parameter, given: Mapping[str, Any]) -> object:
    value = given.get(parameter.name)
    if value is None:
        if parameter.required:
            raise BadParameterError(
                f"query {query!r} needs parameter {parameter.name!r}: {parameter.kind.allowed()} "
                f"({parameter.about})"
            )
        return parameter.default
    try:
        return convert(parameter.kind, value)
    except (ValueError, OverflowError) as error:
        raise BadParameterError(
            f"query {query!r}: parameter {parameter.name!r} must be {parameter.kind.allowed()}; got {value!r}"
        ) from error


def _check_window(query: str, values: Mapping[str, Any]) -> None:
    start, end, step_s = values.get("from_ts"), values.get("to_ts"), values.get("step_s")
    if start is None or end is None:
        return
    if end <= start:
        raise BadParameterError(f"query {query!r}: to_ts must be after from_ts; got {start} to {end}")
    if step_s is not None and (end - start).total_seconds() > STEPS_MOST * step_s:
        raise BadParameterError(
            f"query {query!r}: parameter 'step_s' must cut the window into at most {STEPS_MOST} steps; "
            f"got {step_s} s for {start} to {end}"
        )


def _parse(name: str, text: str) -> QuerySpec:
    header = [line.removeprefix("--").strip() for line in text.splitlines() if line.startswith("--")]
    tags = ("summary", "param", "mark", "column", "never_null", "null")
    parts: dict[str, list[str]] = {tag: [] for tag in tags}
    current = "summary"
    for line in header:
        tag, _, rest = line.partition(" ")
        if tag.startswith("@"):
            current = tag.removeprefix("@")
            parts[current].append(rest.strip())
        elif parts[current] and line:
            parts[current][-1] = f"{parts[current][-1]} {line}"
        elif line:
            parts[current].append(line)
    return QuerySpec(
        name=name,
        summary=" ".join(parts["summary"]),
        null_means=" ".join(parts["null"]),
        never_null=frozenset(name for line in parts["never_null"] for name in line.split(", ")),
        sql=text,
        parameters=tuple(_parameter(line) for line in parts["param"]),
        columns=tuple(_column(line) for line in parts["column"]),
        marks=tuple((name, level) for name, level in map(str.split, parts["mark"])),
    )


def _parameter(line: str) -> Parameter:
    declaration, _, about = line.partition(": ")
    head, has_default, default = declaration.partition(" = ")
    name, kind_name = head.split()
    kind = Kind(kind_name)
    value = None if default in ("", "NULL") else convert(kind, default)
    return Parameter(name=name, kind=kind, about=about, required=not has_default, default=value)


def _column(line: str) -> Column:
    declaration, _, about = line.partition(": ")
    name, _, type_and_unit = declaration.partition(" ")
    type_name, _, unit = type_and_unit.partition(" (")
    return Column(name=name, type=type_name, unit=unit.removesuffix(")"), about=about)
