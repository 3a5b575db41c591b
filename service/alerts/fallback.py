"""The alerts that need no store: while it cannot be written, operators are told straight from here.

Alerts are cases in the store and messages in the outbox, on the same disk: a full one silences both, and with
them the word that it is full. So the store, the alerts and the delivery are watched from outside of all
three. Nothing is kept but in memory, and little: since when each is bad, and the newest message a receiver.

    bad for opens_after ──► a message to every operator ──well again──► one that it is over
            again after quiet_s ◄──┘
"""

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analytics import text
from service.errors import FallowError
from service.health.components import ALERTS, DELIVERY, STORE, Component
from service.logs import log_event
from service.notify.message import address_of, receivers

if TYPE_CHECKING:
    from collector.clock import Clock
    from service.config.alerting import AlertsConfig
    from service.config.telling import DeliveryConfig

log = logging.getLogger(__name__)

NEEDED = (STORE, ALERTS, DELIVERY)
"""Without one of these no alert goes out the usual way."""
SENDING_S = 120
"""A server that stalls is given up then: Apprise's own timeouts are 30 s to connect and 30 s to read."""
FIRST_WAIT_S, LONGEST_WAIT_S = 30, 900
MOST_RECEIVERS = 16
"""Each is a process of its own while it is sent to."""
SAID_BYTES = 2_000

Free = Callable[[], str]
"""How much room there is where the store lies, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectMessage:
    """What goes to every operator."""

    title: str
    text: str


class FallbackAlerts:
    """Watches what the other alerts stand on. ``look`` is called every few seconds, by one thread."""

    def __init__(
        self, config: "AlertsConfig", send: Callable[[DirectMessage], None], clock: "Clock", free: Free
    ) -> None:
        self._config, self._send, self._clock, self._free = config, send, clock, free
        self._since_ms: dict[str, int] = {}
        self._told_ms: int | None = None

    def look(self, components: Sequence[Component]) -> None:
        """See what is bad, and have it told where it is time. Never blocks for a server."""
        now_ms = self._clock.monotonic_ms()
        bad = {each.name: each for each in components if each.name in NEEDED and each.state.is_bad}
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in bad}
        if not bad:
            if self._told_ms is not None:
                self._told_ms = None
                self._send(over())
            return
        oldest_ms = min(self._since_ms.values())
        if now_ms - oldest_ms < self._config.opens_after_s * 1000:
            return
        if self._told_ms is None or now_ms - self._told_ms >= max(self._config.quiet_s, 60) * 1000:
            self._told_ms = now_ms
            # The message names what else is bad; it is sent for those alone that keep the usual alerts from
            # going out.
            everything = [each for each in components if each.state.is_bad]
            self._send(trouble(everything, (now_ms - oldest_ms) / 1000, self._free()))


def trouble(bad: Sequence[Component], for_s: float, free: str) -> DirectMessage:
    """The message that the usual alerts are silent, and why. Pure but for the machine's name."""
    names = ", ".join(each.name for each in bad)
    listing = "\n".join(f"- {each.sentence}" for each in bad)
    return DirectMessage(
        title=f"[Fallow] {socket.gethostname()}: not well: {names}",
        text=(
            f"For {text.length(for_s)} Fallow on {socket.gethostname()} has not been well:\n\n{listing}\n\n"
            f"There is {free}.\n\n"
            "This word comes straight from the service. Its usual alerts are kept in its store and can't go "
            "out meanwhile. What is measured and cannot be kept is unknown later. Jobs that run go on.\n\n"
            "To look at it: fallow doctor"
        ),
    )


def over() -> DirectMessage:
    """The message that the usual alerts go out again."""
    host = socket.gethostname()
    return DirectMessage(
        title=f"[Fallow] Over: {host} is well again",
        text=f"Fallow on {host} keeps what it measures again, and its usual alerts go out.",
    )


@dataclass(slots=True)
class _Way:
    """One receiver: the newest message that it has not got yet, and who sends it."""

    message: DirectMessage | None = None
    sending: DirectMessage | None = None
    process: "subprocess.Popen[bytes] | None" = None
    begun_ms: int = 0
    next_ms: int = 0
    wait_s: int = FIRST_WAIT_S


class DirectSender:
    """Sends the newest message to each operator, again until it is taken or another takes its place."""

    def __init__(self, config: "AlertsConfig", delivery: "DeliveryConfig", clock: "Clock") -> None:
        self._delivery, self._clock = delivery, clock
        names = [each for to in config.to for each in receivers(to, delivery)]
        self._ways = {name: _Way() for name in dict.fromkeys(names[:MOST_RECEIVERS])}

    @property
    def under_way(self) -> int:
        """How many messages are being sent now."""
        return sum(way.process is not None for way in self._ways.values())

    def send(self, message: DirectMessage) -> None:
        """Take a message for every operator; where there is none, the log has it. Never blocks."""
        log_event(log, "fallback-alert", logging.ERROR, title=message.title, text=message.text)
        for way in self._ways.values():
            way.message, way.next_ms, way.wait_s = message, 0, FIRST_WAIT_S

    def push(self) -> None:
        """See what became of those that are on their way, and begin those that are due. Never blocks."""
        now_ms = self._clock.monotonic_ms()
        for name, way in self._ways.items():
            if way.process is not None:
                self._settle(name, way, now_ms)
            if way.process is None and way.message is not None and way.next_ms <= now_ms:
                self._begin(name, way, now_ms)

    def _begin(self, name: str, way: _Way, now_ms: int) -> None:
        assert way.message is not None
        try:
            address = address_of(name, self._delivery)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "service.notify.direct"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (FallowError, OSError) as error:
            self._later(name, way, now_ms, str(error))
            return
        order = {"address": address, "title": way.message.title, "text": way.message.text}
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(order).encode())
            process.stdin.close()
        except OSError:
            process.kill()
        way.process, way.begun_ms, way.sending = process, now_ms, way.message
        way.next_ms = now_ms + way.wait_s * 1000

    def _settle(self, name: str, way: _Way, now_ms: int) -> None:
        process = way.process
        assert process is not None and process.stdout is not None
        status = process.poll()
        if status is None:
            if now_ms - way.begun_ms > SENDING_S * 1000:
                process.kill()
            return
        with process.stdout as out:
            output = out.read(SAID_BYTES).decode(errors="replace").strip()
        way.process = None
        if status == 0:
            # Where a newer one came meanwhile, that one is still to be sent.
            if way.message is way.sending:
                way.message = None
            log_event(log, "fallback-alert-sent", receiver=name)
        else:
            self._later(name, way, now_ms, output or f"status {status}")

    def _later(self, name: str, way: _Way, now_ms: int, problem: str) -> None:
        way.next_ms = now_ms + way.wait_s * 1000
        way.wait_s = min(way.wait_s * 2, LONGEST_WAIT_S)
        log_event(log, "fallback-alert-failed", logging.WARNING, receiver=name, reason=problem)
