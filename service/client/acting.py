"""Orders and questions about jobs, queue, plans and actions: a method a route of docs/api.md.

What comes back is the route's JSON, as plain objects; what goes wrong is a ``ClientError`` whose message says
what to do. A stream of directives ends when the service goes: to come back is the reader's decision.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from service.client import place as client_place
from service.client.errors import ClientError, ServiceDown
from service.client.http import HttpDoor
from service.client.wire import UNIX, Wire

TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 2.0
SILENCE_S = 15.0
"""The service says something every 5 s: three times that without a word, and it is gone."""

Row = dict[str, Any]


class ActingClient:
    """The acting routes of one service. Threads may share one. Made by ``connect_acting``.

    Every method blocks for one answer and raises ``ClientError``.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def url(self) -> str:
        """The service's address: ``http://…`` or ``unix:PATH``."""
        return self._wire.url

    def whoami(self) -> Row:
        """Whom the service takes the asker for: ``name``, ``uid``, ``role``."""
        return self._row("/v1/whoami")

    def submit(self, submission: Mapping[str, object]) -> Row:
        """The entry of a new job, or of the one that the same ``nonce`` made before."""
        return self._row("/v1/jobs", dict(submission))

    def jobs(
        self,
        *,
        stand: str | None = None,
        user: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Entries, the newest first."""
        return self._rows("/v1/jobs", stand=stand, user=user, project=project, limit=limit)

    def job(self, job: str) -> Row:
        """One entry, with its ``directives``, ``actions`` and ``explain`` lines."""
        return self._row(_job(job))

    def directives(self, job: str, after: int = 0, silence_s: float = SILENCE_S) -> "Told":
        """What a job's launcher is told, as it comes; close it when done."""
        return Told(self._wire, f"{_job(job)}/directives?after={after}", silence_s)

    def report(self, job: str, report: Mapping[str, object]) -> Row:
        """Tell how a job fares, as its launcher."""
        return self._row(f"{_job(job)}/reports", dict(report))

    def pause(self, job: str, because: str = "") -> Row:
        """Have a job give its GPUs back, to go on later."""
        return self._order(job, "pause", because=because)

    def resume(self, job: str, because: str = "") -> Row:
        """Let a paused job go on when there is room."""
        return self._order(job, "resume", because=because)

    def cancel(self, job: str, because: str = "") -> Row:
        """End a job for good."""
        return self._order(job, "cancel", because=because)

    def resize(self, job: str, gpus: int, because: str = "") -> Row:
        """Give a job so many GPUs."""
        return self._order(job, "resize", gpus=gpus, because=because)

    def keep(self, job: str, hours: float, because: str = "") -> Row:
        """Leave a job alone for so long; foreign jobs too."""
        return self._order(job, "keep", hours=hours, because=because)

    def queue(self, limit: int | None = None) -> list[Row]:
        """The jobs that wait, in order."""
        return self._rows("/v1/queue", limit=limit)

    def leases(self) -> list[Row]:
        """Who was given which GPU."""
        return self._rows("/v1/leases")

    def plans(self) -> list[Row]:
        """Plans, those that wait for somebody first."""
        return self._rows("/v1/plans")

    def apply(self, plan: int, steps: Sequence[int] | None = None) -> Row:
        """Do a waiting plan, or some of its steps."""
        return self._row(f"/v1/plans/{plan}/apply", {"steps": None if steps is None else list(steps)})

    def reject(self, plan: int, because: str, snooze_hours: float | None = None) -> Row:
        """Turn a waiting plan down."""
        return self._row(f"/v1/plans/{plan}/reject", {"because": because, "snooze_hours": snooze_hours})

    def actions(self, *, since_ms: int | None = None, job: str | None = None) -> list[Row]:
        """The journal, the newest first."""
        return self._rows("/v1/actions", since_ms=since_ms, job=job)

    def undo(self, action: int) -> Row:
        """Take an action back."""
        return self._row(f"/v1/actions/{action}/undo", {})

    def acting(self) -> Row:
        """Whether the service acts, who said so, and the modes."""
        return self._row("/v1/acting")

    def stop_acting(self, because: str = "") -> Row:
        """The kill switch."""
        return self._row("/v1/acting/stop", {"because": because})

    def start_acting(self) -> Row:
        """Release the kill switch."""
        return self._row("/v1/acting/start", {})

    def _order(self, job: str, verb: str, **given: object) -> Row:
        return self._row(f"{_job(job)}/{verb}", given)

    def _row(self, path: str, given: dict[str, object] | None = None) -> Row:
        found: Row = self._wire.told(path, given)
        return found

    def _rows(self, path: str, **params: object) -> list[Row]:
        given = {key: value for key, value in params.items() if value is not None}
        found: list[Row] = self._wire.told(f"{path}?{urlencode(given)}" if given else path)
        return found


class Told:
    """A stream of what a launcher is told: iterate on one thread, ``close`` from any.

    Each item is ``{"directive": …}``, ``{"place": …}`` or ``{"alive": true}``. It ends when the job or the
    service ends it, or when it is closed. Raises ``ClientError`` when it cannot begin, and ``ServiceDown``
    when it breaks off.
    """

    def __init__(self, wire: Wire, path: str, silence_s: float) -> None:
        self._wire, self._path, self._silence_s = wire, path, silence_s
        self._socket: socket.socket | None = None
        self._closed = False

    def __iter__(self) -> Iterator[Row]:
        asked = self._wire.asked(
            self._path, accept="application/x-ndjson", timeout_s=self._silence_s, connected=self._hold
        )
        with asked as answer:
            if answer.status != 200:
                raise self._wire.refusal(answer, answer.read())
            try:
                while not self._closed and (line := answer.readline()):
                    yield json.loads(line)
            except (OSError, HTTPException, ValueError) as error:
                if not self._closed:
                    raise ServiceDown(self._wire.down(error)) from error
            finally:
                self._socket = None

    def _hold(self, connection: socket.socket) -> None:
        self._socket = connection

    def close(self) -> None:
        """End the stream; a thread that waits for its next item is woken."""
        self._closed = True
        held = self._socket
        if held is not None:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)


def connect_acting(
    data_dir: Path | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> ActingClient:
    """A client of the service that answers here. Blocks briefly. Raises ``ServiceDown``.

    ``url`` (``http://…`` or ``unix:PATH``) and ``token`` name one, and as whom to speak. Else, in order:
    $FALLOW_SOCKET; $FALLOW_URL with $FALLOW_TOKEN; what the DATA directory announces, by its socket where
    that can be opened; a service of the whole machine.
    """
    if url is not None:
        return ActingClient(Wire(url=url, token=token, timeout_s=timeout_s))
    data = client_place.data_dir(data_dir)
    if data_dir is None and (named := _named(data, token, timeout_s)):
        return ActingClient(named)
    said = client_place.announced(data)
    if said is not None:
        if token is None and said.socket is not None and _listens(Path(said.socket)):
            return ActingClient(Wire(url=f"{UNIX}{said.socket}", token=None, timeout_s=timeout_s))
        held = token or client_place.token(data)
        if held is not None and (_health(said.url) or {}).get("pid") == said.pid:
            return ActingClient(Wire(url=said.url, token=held, timeout_s=timeout_s))
    if data_dir is None and token is None and not os.environ.get(client_place.DATA_VARIABLE):
        for path in client_place.machine_sockets():
            if _listens(path):
                return ActingClient(Wire(url=f"{UNIX}{path}", token=None, timeout_s=timeout_s))
    raise ServiceDown(
        f"no service answers for {data}; start one with `fallow serve`, or name one with --data, "
        f"{client_place.SOCKET_VARIABLE} or {client_place.URL_VARIABLE}"
    )


def _named(data: Path, token: str | None, timeout_s: float) -> Wire | None:
    """The service that the environment names, if it does. A token speaks for itself, so only on TCP."""
    path = os.environ.get(client_place.SOCKET_VARIABLE)
    if path and token is None:
        return Wire(url=f"{UNIX}{Path(path).expanduser().absolute()}", token=None, timeout_s=timeout_s)
    if address := os.environ.get(client_place.URL_VARIABLE):
        return Wire(url=address, token=token or client_place.token(data), timeout_s=timeout_s)
    return None


def _listens(path: Path) -> bool:
    """Whether a service answers at this socket, and this user may speak with it."""
    return _health(f"{UNIX}{path}") is not None


def _health(url: str) -> Row | None:
    try:
        return HttpDoor(url=url, token=None, timeout_s=PROBE_TIMEOUT_S).health()
    except ClientError:
        return None


def _job(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"
