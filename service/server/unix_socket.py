"""The service's Unix socket: where it lies, and how it is opened, held and closed.

Everybody on the machine may connect (mode 0666), because the kernel tells who calls. A lock beside it is held
for as long as the service lives, so what a killed one left is told from what a living one holds.
"""

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from service.client.transport import reachable
from service.data_folder import RUN_DIR, SOCKET_NAME
from service.server.startup import SEND_BUFFER_BYTES, ServiceRefused
from service.trust.believed import way_fault

OFF = "off"
BACKLOG = 512


class SocketTaken(ServiceRefused):
    """Another service listens there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixListener:
    """An open Unix socket; ``close`` takes it away."""

    path: Path
    listener: socket.socket
    lock: int
    inode: int

    def close(self) -> None:
        """Remove the socket's file if it is still this one's, and let others have the place."""
        with contextlib.suppress(OSError):
            if self.path.lstat().st_ino == self.inode:
                self.path.unlink()
        self.listener.close()
        os.close(self.lock)


def open_local(chosen: str, data: Path, environment: Mapping[str, str]) -> tuple[UnixListener | None, str]:
    """The Unix socket, and a remark on it, empty for none. Raises ``ServiceRefused``.

    ``chosen`` is a path, ``off``, or empty: then systemd's folder for this service, else /run/fallow where
    this process may write there, else DATA. A place of the whole machine that somebody has already is left to
    them; one that was chosen, or is this DATA's own, must be had.
    """
    if chosen == OFF:
        return None, ""
    own = data / SOCKET_NAME
    if chosen:
        path = Path(chosen).expanduser()
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True)
                path.parent.chmod(0o755)
        except OSError as error:
            raise ServiceRefused(f"cannot make {path.parent} for api.socket: {error.strerror}") from error
        return _open(path if path.is_absolute() else data / path), ""
    # Where others look for a service of the machine, or of this user, and this process may write.
    paths = [Path(each) for each in environment.get("RUNTIME_DIRECTORY", "").split(":") if each]
    shared = next((each for each in (*paths, RUN_DIR) if each.is_dir() and os.access(each, os.W_OK)), None)
    if shared is None:
        return _open(own), ""
    try:
        return _open(shared / SOCKET_NAME), ""
    except SocketTaken as taken:
        return _open(own), f"{taken}; this one listens at {own} instead"


def _open(path: Path) -> UnixListener:
    try:
        if (fault := way_fault(path)) is not None:
            raise ServiceRefused(f"no socket is made at {path}: {fault}; choose another with api.socket")
        with reachable(path) as address:
            lock = _lock(path)
            try:
                listener = _listen(path, address)
            except BaseException:
                os.close(lock)
                raise
    except OSError as error:
        raise ServiceRefused(
            f"cannot listen on the socket {path}: {error.strerror or error}; choose another with api.socket, "
            f'or api.socket = "{OFF}" for none'
        ) from error
    return UnixListener(path=path, listener=listener, lock=lock, inode=path.lstat().st_ino)


def _lock(path: Path) -> int:
    handle = os.open(
        path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno != errno.EWOULDBLOCK:
            raise
        raise _in_use(path) from error
    return handle


def _listen(path: Path, address: str) -> socket.socket:
    _clear(path, address)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.bind(address)
        # Everybody may connect: the kernel names who it is, and roles decide what they may.
        path.chmod(0o666)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _clear(path: Path, address: str) -> None:
    """Remove what a dead service left; whatever else is there stays. Raises ``ServiceRefused``, OSError."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ServiceRefused(
            f"{path} is in the way, and is no socket; remove it, or choose another with api.socket"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            path.unlink()
            return
    raise _in_use(path)


def _in_use(path: Path) -> SocketTaken:
    return SocketTaken(
        f"another service listens on the socket {path}; use it, stop it, or choose another with api.socket"
    )
