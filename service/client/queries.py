"""The one way in for readers: the dashboard, the command line and scripts ask named queries here.

With a service running it is asked over HTTP; with none, the store's file is opened read-only. Nobody else
decides which.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from service import data_folder as client_place
from service.client.file import FileTransport
from service.client.http import HttpTransport
from service.client.local import is_alive, machine_service, named_socket, own_data, token_beside
from service.client.transport import UNIX
from service.errors import ServiceDown, ServiceOlder, StoreOlder, StoreUnusable, UnknownQuery
from service.printable import shown_rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from service.schemas.answer import Answer, Row
    from service.schemas.rows import Rows, RowsIfKept
    from service.schemas.service import Health, ImportedRanges, ImportPlan, ImportState, RunsCounted

    A = TypeVar("A", bound=Answer)

T = TypeVar("T")

TIMEOUT_S = 35.0
"""Longer than the service's own limit of a query (``api.query_timeout_s``, 30), so that its reason is
heard."""


class Transport(Protocol):
    """Where a client's questions go: a service, or the file."""

    url: str | None

    def arrow(self, name: str, params: dict[str, object]) -> "pa.Table":
        """A query's answer as a ``pyarrow.Table``."""

    def rows(self, name: str, params: dict[str, object]) -> "list[Row]":
        """A query's answer as JSON-ready objects."""

    def export(self, out: Path, kind: str, from_ms: int, to_ms: int) -> tuple[tuple[Path, int], ...]:
        """Files written into a folder, and the rows of each."""

    def health(self) -> "Row":
        """The state of what is behind the door."""

    def close(self) -> None:
        """Let go of it."""


class Client:
    """Answers named queries (docs/queries.md). Threads may share one. Made by ``connect``.

    A client of a DATA directory follows its service as it comes, goes and moves: where a question fails for
    that, it looks once for who answers now, and asks there.
    """

    def __init__(
        self, door: Transport, *, data: Path | None, reopen: Callable[[], Transport] | None = None
    ) -> None:
        self._door = door
        self._reopen = reopen
        self._for_people = False
        self.data = data

    def for_people(self) -> "Client":
        """This client, whose ``rows`` from now on hold only text that can be shown (``printable``)."""
        self._for_people = True
        return self

    @property
    def mode(self) -> Literal["service", "file"]:
        """Who answers: ``service``, or ``file`` when the store is read directly and does not move."""
        return "file" if self._door.url is None else "service"

    @property
    def url(self) -> str | None:
        """The service's address; ``None`` when the file is read directly."""
        return self._door.url

    def query(self, name: str, **params: object) -> "pd.DataFrame":
        """The rows of a named query as a frame; times are naive UTC. Blocks. Raises ``ClientError``.

        A parameter that is ``None`` is left out. Times are ``datetime`` (naive means UTC) or ISO 8601.
        """
        frame: pd.DataFrame = self.query_arrow(name, **params).to_pandas()
        return frame

    def query_arrow(self, name: str, **params: object) -> "pa.Table":
        """The rows of a named query as an Arrow table. Blocks. Raises ``ClientError``."""
        return self._ask(lambda door: door.arrow(name, params))

    def _rows(self, name: str, **params: object) -> "list[Row]":
        """The rows of a named query as JSON-ready objects, times as ISO 8601 text; needs no pandas."""
        rows = self._ask(lambda door: door.rows(name, params))
        return shown_rows(rows) if self._for_people else rows

    def _rows_if_kept(self, name: str, **params: object) -> "list[Row] | None":
        """As ``rows``; ``None`` where the store, or the service, is older than the question."""
        try:
            return self._rows(name, **params)
        except (StoreOlder, UnknownQuery):
            return None

    if TYPE_CHECKING:  # each query's rows have a type of their own
        rows: Rows
        rows_if_kept: RowsIfKept
    else:
        rows, rows_if_kept = _rows, _rows_if_kept

    def is_simulated(self) -> bool:
        """Whether what is shown is invented: a simulated cluster's. Blocks. Raises ``ClientError``."""
        rows = self.rows_if_kept("data_origin")  # None: from before there was such a mark
        return any(row["origin"] == "simulated" for row in rows or ())

    def export(
        self, out: Path, *, kind: Literal["parquet", "csv"], from_ts: datetime, to_ts: datetime
    ) -> tuple[tuple[Path, int], ...]:
        """Write samples, allocations and GPUs of a span as files into ``out``; the files and their rows.

        Blocks until they are whole. Raises ``ClientError``, and OSError where ``out`` cannot be written.
        """
        span = (round(at.timestamp() * 1000) for at in (_utc(from_ts), _utc(to_ts)))
        return self._door.export(out, kind, *span)

    def plan_import(self, order: dict[str, object]) -> "ImportPlan":
        """What the service would read for this order, which is not begun. Raises ``ClientError``."""
        from service.schemas.service import ImportPlan

        return self._read(ImportPlan, self._service().post("/v1/imports", order))

    def begin_import(self, order: dict[str, object]) -> "ImportState":
        """Have the service begin an import. Raises ``ClientError``."""
        from service.schemas.service import ImportState

        return self._read(ImportState, self._service().post("/v1/imports", {**order, "yes": True}))

    def import_runs(self, order: "Mapping[str, object]") -> "RunsCounted":
        """Have the service store an order's ``rows``. Raises ``ClientError``."""
        from service.schemas.service import RunsCounted

        return self._read(RunsCounted, self._service().post("/v1/imports/runs", order))

    def imported_runs(self, order: "Mapping[str, object]") -> "ImportedRanges":
        """The ranges of an order's ``origin`` that the service has, what is ``done`` included.

        Raises ``ClientError``.
        """
        from service.schemas.service import ImportedRanges

        return self._read(ImportedRanges, self._service().post("/v1/imports/runs", order))

    def import_state(self) -> "ImportState":
        """How the service's newest import stands. Raises ``ClientError``."""
        from service.schemas.service import ImportState

        return self._read(ImportState, self._service().get("/v1/imports"))

    def health(self) -> "Health":
        """How the service fares; ``stopped`` where only the store is read. Raises ``ClientError``."""
        from service.schemas.service import Health

        return self._read(Health, self._ask(lambda door: door.health()))

    @contextmanager
    def holding(self) -> Iterator[None]:
        """For many questions at once: the store's file, where it is read directly, stays open within."""
        with self._door.holding() if isinstance(self._door, FileTransport) else nullcontext():
            yield

    def close(self) -> None:
        """Let go of the store's file, if it was opened."""
        self._door.close()

    def _read(self, kind: "type[A]", row: "Row") -> "A":
        from service.schemas.answer import read

        try:
            return read(kind, row)
        except (ValueError, TypeError, AttributeError) as error:
            raise ServiceOlder(
                f"the service at {self.url} answers otherwise than this Fallow: {error}"
            ) from error

    def _ask(self, question: Callable[[Transport], T]) -> T:
        try:
            return question(self._door)
        except (ServiceDown, StoreUnusable):
            other = self._reopen() if self._reopen is not None else self._door
            if other.url == self._door.url:
                raise
            self._door = other
        return question(self._door)

    def _service(self) -> HttpTransport:
        if not isinstance(self._door, HttpTransport):
            raise ServiceDown("only a running service can be asked to import; start one with `fallow serve`")
        return self._door

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    data_dir: Path | None = None,
    url: str | None = None,
    token: str | None = None,
    timeout_s: float = TIMEOUT_S,
    *,
    only_looks: bool = False,
) -> Client:
    """A client of the service of a DATA directory, or of its file when none runs.

    ``url`` names a service elsewhere (else $FALLOW_SOCKET, else $FALLOW_URL); ``token`` is read from
    $FALLOW_TOKEN or DATA/token when not given. Where nothing is named and no service of this user's own
    answers, one of the whole machine is asked before the file is read. ``only_looks``: ask as a viewer,
    whatever more this account may; what a dashboard shows is seen by whoever opens it. Raises ``ServiceDown``
    only when a named address does not answer, and ``Untrusted``; what is wrong with a file the first question
    says.
    """
    result = own_data(data_dir)
    if address := url or (_named() if data_dir is None else None):
        secret = None if address.startswith(UNIX) else token_beside(result) if token is None else token
        door = HttpTransport(url=address, token=secret, timeout_s=timeout_s, only_looks=only_looks)
        door.health()
        return Client(door, data=None)

    def reopen() -> Transport:
        announcement = running(result) if isinstance(result, Path) else None
        if announcement is not None and isinstance(result, Path):
            secret = client_place.token(result) if token is None else token
            return HttpTransport(
                url=announcement.url, token=secret, timeout_s=timeout_s, only_looks=only_looks
            )
        address = machine_service() if data_dir is None else None
        if address is not None:
            return HttpTransport(url=address, token=None, timeout_s=timeout_s, only_looks=only_looks)
        if isinstance(result, Path):
            return FileTransport(result)
        raise result

    return Client(reopen(), data=result if isinstance(result, Path) else None, reopen=reopen)


def running(data: Path) -> client_place.Announcement | None:
    """The service that runs for a DATA directory, if one answers there; blocks for at most 2 s."""
    announcement = client_place.announced(data)
    if announcement is None:
        return None
    return announcement if is_alive(announcement.url, announcement.pid) else None


def _named() -> str | None:
    return named_socket() or os.environ.get(client_place.URL_VARIABLE)


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
