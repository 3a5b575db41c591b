"""A thread that pushes each tick's page to a remote store, in order, and keeps what it could not send.

    every ``every_s``: page of the newest tick ──► requests ──► queue (bounded) ──► POST, the oldest first

    2xx                                           sent
    429, 5xx, 401, 403, 404, a redirect, silence  kept, tried at the next turn
    other 4xx                                     refused for good: dropped and counted

The queue is memory: a restart loses what waited. The store of the service has it all the same.
"""

import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from collector.metrics_endpoint import COUNTER, Metric, family, single
from service.errors import FallowError
from service.printable import on_a_line
from service.secrets import NoSecret, filled_in

if TYPE_CHECKING:
    import httpx

    from service.config.remote_write import RemoteWriteConfig
    from service.remote_write.series import SeriesPages

log = logging.getLogger(__name__)

NAME = "remote write"
"""Of the component, in ``/healthz`` and in ``fallow doctor``."""
SERIES_A_REQUEST = 5_000
"""Some 100 KiB compressed: receivers refuse some MiB, and each request costs a round trip."""
MIB = 1 << 20
TIMEOUT_S = 10.0
END_S = 2.0
"""A service that is being stopped waits no longer for a slow receiver."""
LONGEST_ANSWER = 200
"""Characters of a refusal that are shown."""
FIXABLE = frozenset({401, 403, 404, 407, 408, 425, 429})
"""Answers of the 4xx that somebody may mend (a token, a path, a limit) without the data being wrong."""


class NotTaken(FallowError):
    """The remote store did not take what was sent; the message says what it answered and what waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    body: bytes
    samples: int


class RemoteWriter:
    """Pushes between ``start`` and ``stop``; ``told`` is handed how each turn ended, ``None`` when well.

    ``page`` is the page of metrics, ``at_ms`` the UTC time of its tick: without a new tick nothing is pushed,
    so that no value looks newer than it is. While ``superseded`` says that another head is the one, nothing
    is: two would write the same series.
    """

    def __init__(
        self,
        config: "RemoteWriteConfig",
        page: Callable[[], bytes],
        at_ms: Callable[[], int],
        told: Callable[[str | None], None],
        superseded: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._config, self._page, self._at_ms, self._told = config, page, at_ms, told
        self._superseded = superseded
        self._pages: SeriesPages | None = None
        self._queue: deque[_Waiting] = deque()
        self._pushed_ms = 0
        self._counts = dict.fromkeys(("sent", "refused", "dropped"), 0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="remote-write", daemon=True)

    def start(self) -> None:
        """Begin, where there is an address; returns at once."""
        if self._config.url:
            self._thread.start()

    def stop(self) -> None:
        """End after a last turn, as far as there is an answer within ``END_S``."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(END_S)

    def turn(self) -> None:
        """Take the newest tick and send all that waits. Raises ``NotTaken``."""
        if (reason := self._superseded()) is not None:
            raise NotTaken(f"nothing is pushed, for another head is the one: {reason}")
        self._take()
        self._send()

    def metrics(self) -> bytes:
        """What became of the samples, as Prometheus text; nothing where nothing is pushed."""
        if not self._config.url:
            return b""
        waiting = tuple(self._queue)
        outcome = Metric(
            field="",
            name="fallow_remote_write_samples_total",
            says="Samples by what became of them: sent, refused by the receiver, dropped for want of room.",
            kind=COUNTER,
        )
        lines = (
            *family(outcome, (({"outcome": name}, count) for name, count in self._counts.items())),
            *single(
                "fallow_remote_write_waiting_samples",
                "Samples that wait to be sent.",
                sum(each.samples for each in waiting),
            ),
        )
        return ("\n".join(lines) + "\n").encode()

    def _run(self) -> None:
        while True:
            is_over = self._over.wait(self._config.every_s)
            try:
                self.turn()
            except NotTaken as error:
                self._told(str(error))
            except Exception as error:
                log.exception("remote write failed")
                self._told(f"it failed: {error}")
            else:
                self._told(None)
            if is_over:
                return

    def _take(self) -> None:
        at_ms = self._at_ms()
        if at_ms == self._pushed_ms:  # a clock that was set back is the receiver's to refuse, and told
            return
        page = self._page()
        while (now_ms := self._at_ms()) != at_ms:  # a tick came in between: the page may be the newer one's
            at_ms, page = now_ms, self._page()
        from service.remote_write import series, wire  # protocol buffers: for those who push

        if self._pages is None:
            self._pages = series.SeriesPages({"instance": socket.gethostname(), **self._config.labels})
        pages = iter(self._pages.of(page, at_ms))
        while some := list(islice(pages, SERIES_A_REQUEST)):
            self._queue.append(_Waiting(body=wire.body(some), samples=len(some)))
        self._pushed_ms = at_ms
        self._make_room()

    def _make_room(self) -> None:
        room = self._config.waiting_mib * MIB
        size = sum(len(each.body) for each in self._queue)
        while size > room and len(self._queue) > 1:
            oldest = self._queue.popleft()
            size -= len(oldest.body)
            self._counts["dropped"] += oldest.samples

    def _send(self) -> None:
        if not self._queue:
            return
        refused = ""
        with self._client() as client:
            while self._queue:
                next_one = self._queue[0]
                problem, keep = self._post(client, next_one.body)
                if problem and keep:
                    raise self._rejection(problem)
                self._queue.popleft()
                self._counts["refused" if problem else "sent"] += next_one.samples
                refused = problem or refused
        if refused:
            raise NotTaken(f"{self._place()} refused samples for good: {refused}")

    def _client(self) -> "httpx.Client":
        import httpx

        config = self._config
        try:
            headers = {name: filled_in(value) for name, value in config.headers.items()}
            if config.token:
                headers["Authorization"] = f"Bearer {filled_in(config.token)}"
            auth = httpx.BasicAuth(config.login, filled_in(config.password)) if config.login else None
            verify: ssl.SSLContext | bool = True
            if config.ca_file:
                verify = ssl.create_default_context()
                verify.load_verify_locations(cafile=config.ca_file)
            return httpx.Client(headers=headers, auth=auth, verify=verify, timeout=TIMEOUT_S, trust_env=False)
        except NoSecret as error:
            raise self._rejection(str(error)) from error
        except (OSError, ValueError) as error:
            raise self._rejection(f"ca_file {config.ca_file} cannot be used: {error}") from error

    def _post(self, client: "httpx.Client", body: bytes) -> tuple[str, bool]:
        """What went wrong with one request, empty if nothing, and whether it is to be tried again."""
        import httpx

        from service.remote_write.wire import HEADERS

        try:
            with client.stream("POST", self._config.url, content=body, headers=HEADERS) as response:
                status = response.status_code
                if response.is_success:
                    return "", False
                return (
                    f"HTTP {status}{_words(response.iter_bytes())}",
                    status < 400 or status >= 500 or status in FIXABLE,
                )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return on_a_line(str(error) or type(error).__name__, LONGEST_ANSWER), True

    def _rejection(self, problem: str) -> NotTaken:
        waiting = sum(each.samples for each in self._queue)
        dropped = self._counts["dropped"]
        lost = f", {dropped} were dropped for want of room" if dropped else ""
        return NotTaken(
            f"{self._place()}: {problem}; {waiting} samples wait{lost}, and are tried again every "
            f"{self._config.every_s:g} s"
        )

    def _place(self) -> str:
        from collector.dcgm.fetch import place

        return place(self._config.url)


def _words(answer: Iterator[bytes]) -> str:
    """The beginning of a refusal's text, for a person."""
    try:
        first = next(answer, b"")
    except Exception:
        return ""
    text = on_a_line(first[: 4 * LONGEST_ANSWER].decode(errors="replace").strip(), LONGEST_ANSWER)
    return f" ({text})" if text else ""
