"""A named query on a connection, every failure made a reader's error; service and file share it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from service.errors import BadParameter, QueryFailed, StoreOlder, UnknownQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from analytics.query import Connection, QuerySpec
    from collector.store.archive import Reader
    from service.schemas.service import Query

INTERRUPTED = "Query interrupted"
"""DuckDB's RuntimeError when Ctrl-C comes amid a query, in place of KeyboardInterrupt."""

LISTS_OF_WHAT_WAS_FOUND = frozenset({"findings", "findings_by_kind"})
"""Queries whose rows say what was found, with sums of whole minutes beside it: a finding is told at once."""


def answer(
    connection: "Connection", name: str, params: Mapping[str, object], most_bytes: int | None = None
) -> "pa.Table":
    """The rows of a named query; blocks while it runs. Parameters may be text. Raises ``ClientError``, also
    for more than ``most_bytes`` of rows."""
    from analytics import query
    from collector.store.errors import ArchiveAway

    try:
        spec = query.load(name)
        # A list parameter given once arrives as one text over HTTP.
        lists = {each.name for each in spec.parameters if each.kind == "texts"}
        parameters = {
            key: [value] if key in lists and isinstance(value, str) else value
            for key, value in params.items()
        }
        until_now = _until_now(connection, spec, parameters)
        with _archived(connection, spec, until_now):
            return query.run(connection, name, until_now, most_bytes)
    except query.UnknownQueryError as error:
        raise UnknownQuery(str(error)) from error
    except query.BadParameterError as error:
        raise BadParameter(str(error)) from error
    except ArchiveAway as error:
        raise QueryFailed(f"query {name!r}: {error}") from error
    except Exception as error:
        if str(error) == INTERRUPTED:
            raise KeyboardInterrupt from error
        if type(error).__name__ in ("CatalogException", "BinderException"):
            raise StoreOlder(
                f"query {name!r}: an older Fallow wrote this store, and it keeps no such thing yet; "
                f"start the service once, which brings it up to date. Found: {str(error).splitlines()[0]}"
            ) from error
        raise QueryFailed(
            f"query {name!r} failed: {error}; see the service's log, and `fallow doctor`"
        ) from error


def _until_now(
    connection: "Connection", spec: "QuerySpec", parameters: Mapping[str, object]
) -> Mapping[str, object]:
    """The parameters with a window that ends now at the latest: what is yet to come was neither installed nor
    unknown. Now is the newest sample's minute where that is later, as under a calendar that hurries.

    Sums of whole minutes end with the last one; what was found or happened in this minute is in the rest.
    """
    from analytics import query

    if parameters.get("to_ts") is None or not {"from_ts", "to_ts"} <= {each.name for each in spec.parameters}:
        return parameters
    values = query.checked(spec, parameters)
    start, end = values["from_ts"], values["to_ts"]
    now = datetime.now(UTC).replace(tzinfo=None)
    if not isinstance(start, datetime) or not isinstance(end, datetime) or end <= now:
        return parameters
    newest = query.run(connection, "span").column("last_ts")[0].as_py()
    minute = max(now, newest or now).replace(second=0, microsecond=0, tzinfo=None)
    sums = bool(spec.marks) and spec.name not in LISTS_OF_WHAT_WAS_FOUND
    latest = minute if sums else minute + timedelta(minutes=1)
    if start >= latest:
        raise query.BadParameterError(
            f"query {spec.name!r}: this time is yet to come: from_ts is {start:%Y-%m-%d %H:%M}, and it is "
            f"{now:%Y-%m-%d %H:%M} (UTC) now"
        )
    return parameters if end <= latest else {**parameters, "to_ts": latest}


def catalogue() -> "list[Query]":
    """Every named query with its parameters and columns."""
    from analytics import query
    from service.schemas.service import Query, QueryColumn, QueryParameter

    return [
        Query(
            name=spec.name,
            summary=spec.summary,
            parameters=tuple(
                QueryParameter(name=each.name, kind=each.kind.value, required=each.required, about=each.about)
                for each in spec.parameters
            ),
            columns=tuple(
                QueryColumn(name=each.name, type=each.type, unit=each.unit, about=each.about)
                for each in spec.columns
            ),
            null_means=spec.null_means,
        )
        for spec in query.catalogue().values()
    ]


def _archived(
    connection: "Connection", spec: "QuerySpec", parameters: Mapping[str, object]
) -> "AbstractContextManager[None]":
    """The archived days of the question's window in its reach, if it reads samples of one."""
    from analytics.query import checked
    from collector.store.archive import reaching

    if not spec.reads_samples:
        return nullcontext()
    values = checked(spec, parameters)
    bounds = [values[name] for name in ("from_ts", "to_ts")]
    from_ms, to_ms = (
        round(at.replace(tzinfo=UTC).timestamp() * 1000) for at in bounds if isinstance(at, datetime)
    )
    return reaching(cast("Reader", connection), from_ms, to_ms)
