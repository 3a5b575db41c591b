"""Services that are reached without an address: by a Unix socket that everybody on the machine knows."""

import os
from pathlib import Path

from service import data_folder as client_place
from service.client.http import HttpTransport
from service.client.transport import UNIX
from service.errors import ClientError, Untrusted

PROBE_TIMEOUT_S = 2.0
"""For "does a service answer here?", on this machine alone."""


def named_socket() -> str | None:
    """The address that $FALLOW_SOCKET names; nobody is asked whether it answers."""
    path = os.environ.get(client_place.SOCKET_VARIABLE)
    return f"{UNIX}{Path(path).expanduser().absolute()}" if path else None


def machine_service() -> str | None:
    """The address of a service of the whole machine, or of this user's session, that answers. Blocks briefly.

    ``None`` too where $FALLOW_DATA names another. Raises ``Untrusted``.
    """
    if os.environ.get(client_place.DATA_VARIABLE):
        return None
    result = (f"{UNIX}{path}" for path in client_place.machine_sockets() if path.exists())
    return next((url for url in result if health(url) is not None), None)


def own_data(chosen: Path | None) -> "Path | ClientError":
    """The DATA directory; for one that nobody chose and that cannot be used: why not.

    Raises ``Nowhere`` and ``Untrusted`` for one that was chosen.
    """
    try:
        return client_place.data_dir(chosen)
    except (client_place.Nowhere, Untrusted) as error:
        if chosen is not None or os.environ.get(client_place.DATA_VARIABLE):
            raise
        return error


def token_beside(data: "Path | ClientError") -> str | None:
    """The token for a service that was named by its address: $FALLOW_TOKEN, else the DATA directory's."""
    if isinstance(data, Path):
        return client_place.token(data)
    return client_place.given_token()


def health(url: str) -> dict[str, object] | None:
    """What a service says of itself; ``None`` where none answers, or this user may not ask.

    Raises ``Untrusted``.
    """
    try:
        return HttpTransport(url=url, token=None, timeout_s=PROBE_TIMEOUT_S).health()
    except Untrusted:
        raise
    except ClientError:
        return None


def is_alive(url: str, pid: int) -> bool:
    """Whether the service of this pid answers there; somebody who isn't believed has only come after it."""
    try:
        return (health(url) or {}).get("pid") == pid
    except Untrusted:
        return False
