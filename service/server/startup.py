"""What a service is started with, and what it does before it serves: directory, token, port, and a plain word
when one fails.
"""

import contextlib
import errno
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from service.config.model import Config
from service.data_folder import token_file
from service.errors import FallowError
from service.trust.believed import must_trust

SEND_BUFFER_BYTES = 256 * 1024
"""What the kernel holds for a reader who does not read; its own choice would grow to megabytes each."""


class ServiceRefused(FallowError):
    """The service cannot start; the message says what was found and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a service is started with. ``port_fixed`` when somebody chose the port: then no other will do.

    ``opened`` is called once, when all that there is has been read and nobody is answered yet.
    """

    config: Config
    data: Path
    port_fixed: bool
    say: Callable[[str], None]
    opened: Callable[[], None] = lambda: None


def make_data_dir(data: Path) -> None:
    """The DATA directory, readable by its owner alone when it is new.

    Raises ``ServiceRefused``, and ``Untrusted`` where somebody else was faster.
    """
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        must_trust(data)
        probe = data / f".write-probe-{os.getpid()}"
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        raise ServiceRefused(_storage_trouble(data, error)) from error


def make_token(data: Path) -> str:
    """The secret of this DATA: made at the first start with mode 0600, kept for good."""
    path = token_file(data)
    try:
        with contextlib.suppress(FileExistsError):
            # With its mode from the first byte on: a chmod afterwards would leave it open to others for a
            # moment.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as out:
                out.write(secrets.token_urlsafe(32) + "\n")
        token = path.read_text(encoding="ascii").strip()
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise ServiceRefused(_storage_trouble(path, error)) from error
    if not token:
        raise ServiceRefused(f"{path} is empty; remove it, and the next start makes a new token")
    return token


def bind(host: str, port: int, *, fall_back: bool) -> socket.socket:
    """A listening socket; a free port when ``port`` is taken and ``fall_back``. Raises ``ServiceRefused``."""
    try:
        return _listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and fall_back:
            return _listen(host, 0)
        raise ServiceRefused(_port_trouble(host, port, error)) from error


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol number says TCP (docs/decisions/0020).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _port_trouble(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} on {host} is in use by another program; choose another with --port or "
                "api.port, or leave both out and a free one is taken"
            )
        case errno.EACCES:
            return f"not allowed to listen on port {port}; choose one above 1023 with --port or api.port"
        case _:
            return f"cannot listen on {host}:{port}: {error.strerror or error}; check api.host"


def _storage_trouble(path: Path, error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return (
                f"no permission to write {path} ({error.strerror}); choose a folder of your own with --data"
            )
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space left to write {path}; free some, or move the store with --data"
        case errno.ENOTDIR | errno.EEXIST:
            return (
                f"{path} cannot be a directory: a file of that name is in the way; choose another with --data"
            )
        case _:
            return f"cannot write {path}: {error.strerror or error}"
