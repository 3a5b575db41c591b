"""Orders and questions about jobs, queue, plans and actions: a method a route of docs/api.md.

What comes back are the API's own shapes (``service.schemas``), which also know the JSON that they came as;
what goes wrong is a ``ClientError`` whose message says what to do. A stream of directives ends when the
service goes: to come back is the reader's decision.
"""

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar
from urllib.parse import quote, urlencode

from service import data_folder as client_place
from service.client.local import is_alive, machine_service, named_socket, own_data, token_beside
from service.client.transport import UNIX, Wire
from service.errors import ServiceDown, ServiceOlder
from service.printable import shown_rows
from service.schemas import control, records
from service.schemas.answer import Answer, Row, read
from service.schemas.headers import TOTAL

if TYPE_CHECKING:
    from typing import Unpack


TIMEOUT_S = 30.0
"""An order waits for a commit of the store, on a busy machine behind those of many others."""
NAMES = 2
"""A launcher of this Fallow reads the names of commands since 0.1.0; an older service passes over that."""
SILENCE_S = 15.0
"""The service says something every 5 s: three times that without a word, and it is gone."""

A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[A]):
    """The rows that a list has, and how many there would be without a limit."""

    rows: list[A]
    total: int

    @property
    def sent(self) -> list[Row]:
        """The rows as JSON."""
        return [each.sent for each in self.rows]


class WhichJobs(TypedDict, total=False):
    """Which entries are asked for: all that fit everything that is said; ``limit``: how many of them."""

    state: str | None
    ended: bool | None
    user: str | None
    project: str | None
    limit: int | None


class ActingClient:
    """The acting routes of one service. Threads may share one. Made by ``connect_acting``.

    Every method blocks for one answer and raises ``ClientError``.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._for_people = False

    def for_people(self) -> "ActingClient":
        """This client, whose answers from now on hold only text that can be shown (``printable``)."""
        self._for_people = True
        return self

    @property
    def url(self) -> str:
        """The service's address: ``http://…`` or ``unix:PATH``."""
        return self._wire.url

    def now_ms(self) -> int:
        """The service's calendar now, UTC ms: a rehearsal's runs faster than the machine's clock."""
        result = self._health("now_ms")
        return int(result) if isinstance(result, int | float) else time.time_ns() // 1_000_000

    def is_simulated(self) -> bool:
        """Whether its GPUs are invented: a simulated cluster's; not where it cannot be asked that."""
        try:
            return self._health("simulated") is True
        except ServiceDown:  # a busy one may yet take an order
            return False

    def whoami(self) -> records.Caller:
        """Whom the service takes the asker for: ``name``, ``uid``, ``role``."""
        return self._row(records.Caller, "/v1/whoami")

    def submit(self, submission: Mapping[str, object]) -> records.Job:
        """The entry of a new job, or of the one that the same ``nonce`` made before."""
        return self._row(records.Job, "/v1/jobs", dict(submission))

    def jobs(self, **which: "Unpack[WhichJobs]") -> list[records.Job]:
        """Entries, the newest first; ``which`` and how many as in ``jobs_listed``."""
        return self.jobs_listed(**which).rows

    def jobs_listed(
        self,
        *,
        state: str | None = None,
        ended: bool | None = None,
        user: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> Listed[records.Job]:
        """The newest ``limit`` entries of those that are meant; ``ended``: whether they have."""
        over = None if ended is None else str(ended).lower()
        return self._listed(
            records.Job, "/v1/jobs", state=state, ended=over, user=user, project=project, limit=limit
        )

    def job(self, job: str) -> records.JobDetail:
        """One entry, with its ``directives``, ``actions`` and ``explain`` lines."""
        return self._row(records.JobDetail, _job(job))

    def directives(self, job: str, after: int = 0, silence_s: float = SILENCE_S, nonce: str = "") -> "Told":
        """What a job's launcher is told, as it comes; close it when done.

        ``nonce`` is the submission's: another job of that number is then an ``UnknownJob``, here and below.
        """
        query = {"after": after, "names": NAMES} | ({"nonce": nonce} if nonce else {})
        return Told(self._wire, f"{_job(job)}/directives?{urlencode(query)}", silence_s)

    def report(self, job: str, report: Mapping[str, object], nonce: str = "") -> control.Taken:
        """Tell how a job fares, as its launcher."""
        return self._row(control.Taken, f"{_job(job)}/reports{_meant(nonce)}", dict(report))

    def pause(self, job: str, because: str = "") -> control.Done:
        """Have a job give its GPUs back, to go on later."""
        return self._order(job, "pause", because=because)

    def resume(self, job: str, because: str = "", nonce: str = "") -> control.Done:
        """Let a paused job go on when there is room."""
        return self._order(job, f"resume{_meant(nonce)}", because=because)

    def cancel(self, job: str, because: str = "", nonce: str = "", *, force: bool = False) -> control.Done:
        """End a job for good; with ``force``, as an operator, its lease too, whatever its processes do."""
        body = {"force": True} if force else {}
        return self._order(job, f"cancel{_meant(nonce)}", because=because, **body)

    def resize(self, job: str, gpus: int, because: str = "") -> control.Done:
        """Give a job so many GPUs."""
        return self._order(job, "resize", gpus=gpus, because=because)

    def keep(self, job: str, hours: float, because: str = "") -> control.Done:
        """Leave a job alone for so long; foreign jobs too."""
        return self._order(job, "keep", hours=hours, because=because)

    def keep_alone(self, job: str, because: str = "", *, alone: bool) -> control.Done:
        """Let nobody compute in a job's idle gaps, or let them again."""
        return self._order(job, "keep", alone=alone, because=because)

    def consents(self, job: str | None = None) -> list[control.Consent]:
        """What owners allow with one job, or with one's own; for an operator: with all."""
        return self._listed(control.Consent, "/v1/consents", job=job).rows

    def consent(self, body: Mapping[str, object]) -> control.Consented:
        """Say what is allowed with own jobs: ``job``, ``allow``, ``withdraw``, ``forget``, ``hold_s``."""
        return self._row(control.Consented, "/v1/consents", dict(body))

    def queue(self, limit: int | None = None) -> list[control.Waiting]:
        """The jobs that wait, in order."""
        return self.queue_listed(limit).rows

    def queue_listed(self, limit: int | None = None) -> Listed[control.Waiting]:
        """The first ``limit`` of those that wait, and how many wait in all."""
        return self._listed(control.Waiting, "/v1/queue", limit=limit)

    def leases(self) -> list[control.Lease]:
        """Who was given which GPU."""
        return self._listed(control.Lease, "/v1/leases").rows

    def engines(self) -> list[control.Engine]:
        """What is done at all to jobs of each kind."""
        return self._listed(control.Engine, "/v1/engines").rows

    def plans(self) -> list[control.Plan]:
        """Plans, those that wait for somebody first."""
        return self._listed(control.Plan, "/v1/plans").rows

    def try_plan(self) -> control.PlanTrial:
        """What each step of a plan made now would do; nothing is done."""
        return self._row(control.PlanTrial, "/v1/plans/trial")

    def apply(self, plan: int, steps: Sequence[int] | None = None) -> control.Applied:
        """Do a waiting plan, or some of its steps."""
        return self._row(
            control.Applied, f"/v1/plans/{plan}/apply", {"steps": None if steps is None else list(steps)}
        )

    def reject(self, plan: int, because: str, snooze_hours: float | None = None) -> control.Rejected:
        """Turn a waiting plan down."""
        return self._row(
            control.Rejected, f"/v1/plans/{plan}/reject", {"because": because, "snooze_hours": snooze_hours}
        )

    def actions(self, *, since_ms: int | None = None, job: str | None = None) -> list[records.Action]:
        """The journal, the newest first."""
        return self._listed(records.Action, "/v1/actions", since_ms=since_ms, job=job).rows

    def undo(self, action: int) -> control.Applied:
        """Take an action back."""
        return self._row(control.Applied, f"/v1/actions/{action}/undo", {})

    def acting(self) -> control.Switch:
        """Whether the service acts, who said so, and the modes."""
        return self._row(control.Switch, "/v1/acting")

    def stop_acting(self, because: str = "") -> control.Switch:
        """The kill switch."""
        return self._row(control.Switch, "/v1/acting/stop", {"because": because})

    def start_acting(self) -> control.Switch:
        """Release the kill switch."""
        return self._row(control.Switch, "/v1/acting/start", {})

    def _health(self, name: str) -> object:
        """One of the things that the service says of its own state; ``None`` where it doesn't say."""
        with self._wire.asked("/healthz", accept="application/json") as answer:
            try:
                return json.loads(answer.read()).get(name)
            except (OSError, HTTPException, ValueError, AttributeError) as error:
                raise ServiceDown(self._wire.down(error)) from error

    def _order(self, job: str, verb: str, **given: object) -> control.Done:
        return self._row(control.Done, f"{_job(job)}/{verb}", given)

    def _row(self, kind: type[A], path: str, body: dict[str, object] | None = None) -> A:
        return self._read(kind, self._wire.told(path, body))

    def _listed(self, kind: type[A], path: str, **params: object) -> Listed[A]:
        query = {key: value for key, value in params.items() if value is not None}
        rows, headers = self._wire.answered(f"{path}?{urlencode(query)}" if query else path)
        total = str(headers.get(TOTAL, ""))
        return Listed(
            rows=[self._read(kind, row) for row in rows], total=int(total) if total.isdigit() else len(rows)
        )

    def _read(self, kind: type[A], row: Row) -> A:
        try:
            return read(kind, shown_rows(row) if self._for_people else row)
        except (ValueError, TypeError, AttributeError) as error:
            raise ServiceOlder(
                f"the service at {self.url} answers otherwise than this Fallow: {error}"
            ) from error


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
        response = self._wire.asked(
            self._path, accept="application/x-ndjson", timeout_s=self._silence_s, connected=self._hold
        )
        with response as answer:
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
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def connect_acting(
    data_dir: Path | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    timeout_s: float = TIMEOUT_S,
    only_looks: bool = False,
) -> ActingClient:
    """A client of the service that answers here. Blocks briefly. Raises ``ServiceDown``, ``Untrusted``.

    ``only_looks`` asks to be taken for a viewer, who is shown what everybody may see.

    ``url`` (``http://…`` or ``unix:PATH``) and ``token`` name one, and as whom to speak. Else, in order:
    $FALLOW_SOCKET; $FALLOW_URL with $FALLOW_TOKEN; what the DATA directory announces, by its socket where
    that can be opened; a service of the whole machine. Who gives a token speaks over TCP.
    """
    data = own_data(data_dir)
    by_token = token is not None
    if url is None and data_dir is None:
        url = (None if by_token else named_socket()) or os.environ.get(client_place.URL_VARIABLE)
    if url is not None:
        secret = None if url.startswith(UNIX) else token_beside(data) if token is None else token
        return ActingClient(Wire(url=url, token=secret, timeout_s=timeout_s, only_looks=only_looks))
    result = _announced(data, token) if isinstance(data, Path) else None
    if result is None and data_dir is None and not by_token:
        address = machine_service()
        result = None if address is None else (address, None)
    if result is None:
        if not isinstance(data, Path):
            raise data
        raise ServiceDown(
            f"no service answers for {data}; start one with `fallow serve`, or name one with --data, "
            f"{client_place.SOCKET_VARIABLE} or {client_place.URL_VARIABLE}"
        )
    return ActingClient(Wire(url=result[0], token=result[1], timeout_s=timeout_s, only_looks=only_looks))


def _announced(data: Path, token: str | None) -> tuple[str, str | None] | None:
    """Address and token of the service of a DATA directory, if it answers."""
    announcement = client_place.announced(data)
    if announcement is None:
        return None
    local = None if token is not None or announcement.socket is None else f"{UNIX}{announcement.socket}"
    if local is not None and is_alive(local, announcement.pid):
        return local, None
    secret = client_place.token(data) if token is None else token
    if secret is not None and is_alive(announcement.url, announcement.pid):
        return announcement.url, secret
    return None


def _job(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"


def _meant(nonce: str) -> str:
    return f"?{urlencode({'nonce': nonce})}" if nonce else ""
