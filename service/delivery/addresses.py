"""From names in the configuration to addresses with their secrets, which are read here and kept nowhere."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from service.config.telling import OWNERS, DeliveryConfig
from service.errors import FallowError

_SECRET = re.compile(r"\$\{(?:file:)?[^}]+\}")


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
    given = os.environ if environment is None else environment
    if "://" in receiver:
        return _filled(receiver, given)
    route, _, place = receiver.rpartition("#")
    found = config.routes.get(route, ())
    addresses = {str(number): address for number, address in enumerate(found)}
    if place not in addresses:
        known = ", ".join(config.routes) or "none is configured"
        name = route or receiver
        if name == OWNERS:
            raise NoAddress(f"{OWNERS} is no address: it means every holder, each about themselves")
        raise NoAddress(f"there is no route {name!r} under [delivery.routes] ({known}), and it is no address")
    return _filled(addresses[place], given)


def harmless(address: str) -> str:
    """An address as people may see it: no user, password, path or query, in which secrets stand.

    Only of schemes that name a server is it shown; elsewhere tokens stand in its place.
    """
    scheme, _, rest = address.partition("://")
    before_query = rest.partition("?")[0]
    head, _, path = before_query.partition("/")
    host = head.rpartition("@")[2]
    told = scheme in _HOSTED and "@" not in path and _HOST.fullmatch(host)
    return f"{scheme}://{host if told else '...'}"


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


def _filled(address: str, given: Mapping[str, str]) -> str:
    def secret(found: "re.Match[str]") -> str:
        name = found[0][2:-1]
        if name.startswith("file:"):
            path = Path(name.removeprefix("file:")).expanduser()
            try:
                return quote(path.read_text().strip(), safe="")
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no text"
                raise NoAddress(f"the secret in {path} cannot be read: {why}") from error
        if name not in given:
            raise NoAddress(f"{harmless(address)} needs ${name} in the service's environment")
        return quote(given[name], safe="")

    return _SECRET.sub(secret, address)
