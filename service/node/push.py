"""Sends what waits in the spool to the head, the oldest first, and forgets what the head has stored.

a turn: ticks above what was received ──► POST ──► receipt: stored, received
        2xx     forget what is stored; go on while more waits and the head has room
        else    all stays in the spool, until the next turn
"""

import hashlib
import ssl
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from collector.sources.nodes.terms import Term, is_older
from collector.sources.nodes.wire import Batch, fitting, pack, term_of
from service.errors import FallowError
from service.node.spool import Spool
from service.printable import on_a_line
from service.schemas.service import HeadTerm, NodeReceipt
from service.secrets import NoSecret, filled_in
from service.version import own_version

if TYPE_CHECKING:
    import httpx

    from service.config.node import NodeConfig

PATH = "/v1/nodes/ticks"
MOST_BODY_BYTES = 1 << 20
"""What a head takes (``service.api.gate``)."""
MOST_PAGES_BYTES = 6 << 20
"""Pages pack to a tenth and less: half of a body."""
TIMEOUT_S = 20.0
"""A head that comes back is asked by all nodes at once, and reads each body for up to half a second."""
UNVERIFIED = "CERTIFICATE_VERIFY_FAILED"
"""How OpenSSL's trouble with a certificate is named in Python's message."""
UNPROVEN = (
    ". Nothing was sent: whoever answers there did not prove to be the head. Behind a CA of your own, name "
    "its certificate as ca_file in [node]; the head's certificate must name the host of its address"
)
OLDER = (
    "an older head answers there than this node has pushed to before; it gets nothing, and nothing is "
    "deleted here at its word. Give the node the address of the head that took over"
)
LONGEST_ANSWER = 400
"""Characters of an answer that are shown."""


class HeadAway(FallowError):
    """The head did not take what was sent; the message says what it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What tells this machine, and this boot of it, from others."""

    machine: str
    boot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """How a turn ended: whether more waits that the head has no room for yet, and what it has to say."""

    more: bool
    notes: tuple[str, ...]


def steady_ms() -> int:
    """Milliseconds since the machine's boot, sleep included; nobody can set it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Pusher:
    """One head; one thread at a time."""

    def __init__(
        self,
        config: "NodeConfig",
        spool: Spool,
        machine: Machine,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._config, self._spool, self._machine, self._now_ms = config, spool, machine, now_ms
        self._received = 0
        self._echo: tuple[int, int] | None = None
        """The head's time in its last answer, and our steady clock's when that came."""
        self._url = config.head.rstrip("/") + PATH

    def turn(self, timeout_s: float = TIMEOUT_S) -> Pushed:
        """Send all that waits. Raises ``HeadAway``, ``SpoolTrouble``."""
        with self._client(timeout_s) as client:
            while True:
                before, had_echo = self._received, self._echo is not None
                receipt = self._post(client)
                # Its numbers are of another spool: by them nothing of this one is forgotten.
                if receipt.spool != self._spool.name:
                    self._echo = receipt.now_ms, steady_ms()
                    return Pushed(more=True, notes=receipt.notes)
                self._spool.forget(receipt.stored)
                self._received = receipt.received
                self._echo = receipt.now_ms, steady_ms()
                if not had_echo:  # the first answer is only there to be sent back
                    continue
                waits = bool(self._spool.next(self._received, 1))
                if not waits or receipt.is_full or self._received == before:
                    return Pushed(more=waits, notes=receipt.notes)

    def _post(self, client: "httpx.Client") -> NodeReceipt:
        import httpx

        try:
            response = client.post(
                self._url, content=self._body(), headers={"Content-Type": "application/octet-stream"}
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = on_a_line(str(error) or type(error).__name__, LONGEST_ANSWER)
            raise HeadAway(f"{why}{UNPROVEN if UNVERIFIED in why else ''}") from error
        if response.status_code != 200:
            raise HeadAway(f"it answered HTTP {response.status_code}{_words(response)}")
        receipt = _receipt(response)
        self._meet(receipt)
        return receipt

    def _meet(self, receipt: NodeReceipt) -> None:
        """Remember who answers. Raises ``HeadAway`` where that is an older head than was heard before."""
        answers = None if receipt.head is None else Term(**asdict(receipt.head))
        head = self._spool.head
        if head is not None and is_older(answers, head):
            # Another head has taken over since: what this one stores, nobody reads (docs/decisions/0104).
            raise HeadAway(OLDER)
        if answers is not None:
            self._spool.heard(answers)

    def _body(self) -> bytes:
        has_echo = self._echo is not None
        records = fitting(self._spool.next(self._received), MOST_PAGES_BYTES) if has_echo else ()
        waiting, oldest_ms = self._spool.beyond(self._received)
        while True:
            now, sent_ms = steady_ms(), self._now_ms()
            body = pack(
                Batch(
                    spool=self._spool.name,
                    machine=self._machine.machine,
                    boot=self._machine.boot,
                    version=own_version(),
                    sent_ms=sent_ms,
                    steady_ms=now,
                    after=self._received,
                    echo_ms=0 if self._echo is None else self._echo[0],
                    held_ms=0 if self._echo is None else now - self._echo[1],
                    waiting=waiting,
                    waits_ms=0 if oldest_ms is None else max(0, sent_ms - oldest_ms),
                    head=self._spool.head,
                    records=records,
                )
            )
            if len(body) <= MOST_BODY_BYTES or len(records) < 2:
                return body
            # Halved until it fits: how long they are once packed is known only by packing them.
            records = records[: len(records) // 2]

    def _client(self, timeout_s: float) -> "httpx.Client":
        import httpx

        config = self._config
        try:
            token = filled_in(config.token)
            self._spool.by_credential(hashlib.sha256(b"fallow node token " + token.encode()).hexdigest())
            headers = {"Authorization": f"Bearer {token}"}
            verify: ssl.SSLContext | bool = True
            if config.ca_file:
                verify = ssl.create_default_context()
                verify.load_verify_locations(cafile=config.ca_file)
            return httpx.Client(headers=headers, verify=verify, timeout=timeout_s, trust_env=False)
        except NoSecret as error:
            raise HeadAway(f"this node has no token: {error}") from error
        except (OSError, ValueError) as error:
            raise HeadAway(f"ca_file {config.ca_file} cannot be used: {error}") from error


def _receipt(response: "httpx.Response") -> NodeReceipt:
    try:
        document = response.json()
        term = term_of(document.get("head"))
        return NodeReceipt(
            spool=str(document["spool"]),
            stored=int(document["stored"]),
            received=int(document["received"]),
            now_ms=int(document["now_ms"]),
            is_full=document["is_full"] is True,
            notes=tuple(on_a_line(str(note), LONGEST_ANSWER) for note in document["notes"]),
            head=None if term is None else HeadTerm(**asdict(term)),
        )
    except (ValueError, KeyError, TypeError) as error:  # BadBatch is a ValueError
        raise HeadAway("what answers there is no head of Fallow, or one of another version") from error


def _words(response: "httpx.Response") -> str:
    try:
        text = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        text = response.text[:LONGEST_ANSWER]
    return f": {on_a_line(text, LONGEST_ANSWER)}" if text else ""
