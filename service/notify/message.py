"""A message on its way: what it says, to whom it goes, and what has become of it. Pure.

What has become of it is worked out from its log, a list of events that only grows; nothing is overwritten.

From names in the configuration to addresses with their secrets, which are read here and kept nowhere.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from service.config.telling import OWNERS, DeliveryConfig
from service.errors import FallowError
from service.secrets import REFERENCE, NoSecret, secret

FIRST_WAIT_MS = 30_000
"""A receiver that is restarted is back by then; each further try waits twice as long."""
LONGEST_WAIT_MS = 6 * 3_600_000
"""A receiver that was away all night hears in the morning."""
GIVE_UP_MS = 3 * 86_400_000
"""A long weekend: older news of idle GPUs is no news."""
KEPT_MS = 30 * 86_400_000
"""How long the outbox can be asked what became of a message."""


class Body(StrEnum):
    """How the text of a message is written."""

    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message for one receiver. ``key`` says what it is about: a second one with that key is the same.

    ``to`` is a route's name or an address *before* its secrets are filled in; ``attachments`` are file names
    beside the message.
    """

    key: str
    to: str
    title: str
    text: str
    body: Body = Body.TEXT
    attachments: tuple[str, ...] = ()
    made_ms: int = 0

    @property
    def id(self) -> str:
        """The name of its folder: the key's digest, so that any key may hold any character."""
        return hashlib.sha256(f"{self.key}\0{self.to}".encode()).hexdigest()[:20]


class What(StrEnum):
    """Events of a message's life."""

    BEGUN = "begun"
    SENT = "sent"
    FAILED = "failed"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that befell a message."""

    at_ms: int
    what: What
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a message stands. ``next_ms`` is when to try (again), ``None`` when it is settled."""

    state: What | None
    tries: int
    next_ms: int | None
    found: str = ""


def standing(message: Message, log: Sequence[Event]) -> Standing:
    """What its log says. A try that began and has no end was cut off with the machine: it is taken again."""
    tries = sum(event.what is What.BEGUN for event in log)
    newest = log[-1] if log else None
    if newest is None:
        return Standing(state=None, tries=0, next_ms=message.made_ms)
    match newest.what:
        case What.SENT | What.GIVEN_UP:
            return Standing(state=newest.what, tries=tries, next_ms=None, found=newest.found)
        case What.BEGUN | What.FAILED:
            next_ms = newest.at_ms + wait_ms(tries)
            return Standing(state=newest.what, tries=tries, next_ms=next_ms, found=newest.found)


def wait_ms(tries: int) -> int:
    """How long to wait after so many tries: doubled each time, up to six hours."""
    return int(min(FIRST_WAIT_MS * 2 ** max(0, min(tries, 30) - 1), LONGEST_WAIT_MS))


def is_hopeless(message: Message, now_ms: int) -> bool:
    """Whether it has been tried for so long that it is given up, aloud."""
    return now_ms - message.made_ms > GIVE_UP_MS


class NoAddress(FallowError):
    """A receiver cannot be reached as configured; the message says why."""


def receiver_of(user: str, config: DeliveryConfig) -> str | None:
    """The route or address of a person; ``None`` when the configuration knows none."""
    if user in config.people:
        return config.people[user]
    return config.person.replace("{user}", quote(user, safe="")) if config.person else None


def receivers(to: str, config: DeliveryConfig) -> tuple[str, ...]:
    """``to`` as single receivers: a route of three addresses is three, each with a message of its own.

    One of them may fail and be tried again without a second copy for the others.
    """
    many = len(config.routes.get(to, ()))
    return tuple(f"{to}#{place}" for place in range(many)) if many else (to,)


def address_of(receiver: str, config: DeliveryConfig, environment: Mapping[str, str] | None = None) -> str:
    """The address of one of ``receivers``, secrets filled in. Raises ``NoAddress``."""
    variables = os.environ if environment is None else environment
    if "://" in receiver:
        return _filled(receiver, variables)
    route, _, place = receiver.rpartition("#")
    channels = config.routes.get(route, ())
    addresses = {str(number): address for number, address in enumerate(channels)}
    if place not in addresses:
        choices = ", ".join(config.routes) or "none is configured"
        name = route or receiver
        if name == OWNERS:
            raise NoAddress(f"{OWNERS} is no address: it means every holder, each about themselves")
        raise NoAddress(
            f"there is no route {name!r} under [delivery.routes] ({choices}), and it is no address"
        )
    return _filled(addresses[place], variables)


def harmless(address: str) -> str:
    """An address as people may see it: no user, password, path or query, in which secrets stand.

    Only of schemes that name a server is it shown; elsewhere tokens stand in its place.
    """
    scheme, _, rest = address.partition("://")
    before_query = rest.partition("?")[0]
    head, _, path = before_query.partition("/")
    host = head.rpartition("@")[2]
    match = scheme in _HOSTED and "@" not in path and _HOST.fullmatch(host)
    return f"{scheme}://{host if match else '...'}"


_HOSTED = frozenset(
    {
        "mailto",
        "mailtos",
        "json",
        "jsons",
        "form",
        "forms",
        "ntfy",
        "ntfys",
        "matrix",
        "matrixs",
        "xml",
        "xmls",
    }
)
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d+)?")


def _filled(address: str, variables: Mapping[str, str]) -> str:
    def quoted(match: "re.Match[str]") -> str:
        name = match[0][2:-1]
        if not name.startswith("file:") and name not in variables:
            raise NoAddress(f"{harmless(address)} needs ${name} in the service's environment")
        try:
            return quote(secret(match[0], variables), safe="")
        except NoSecret as error:
            raise NoAddress(str(error)) from error

    return REFERENCE.sub(quoted, address)
