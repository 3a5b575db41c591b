"""One JSON line there, one back, on a Unix socket whose two ends the kernel names (SO_PEERCRED, unix(7))."""

import json
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

CREDENTIALS = struct.Struct("3i")

MOST_BYTES = 8 << 20
"""A request or answer holds so much at most: thousands of processes with their commands."""

ASK_TIMEOUT_S = 20.0
"""Of a request that is answered at once; those that move a GPU's memory wait on their socket instead."""

MOST_DESCRIPTORS = 16
"""A machine has so many GPUs at most, and a lock of each goes along with a resume."""

DESCRIPTORS = "descriptors"
"""The descriptors that came with a request, put into it here; what the other side writes there is dropped."""

MOST_CONNECTIONS = 32
"""The service asks one thing at a time, and an action or two beside it."""

Request = dict[str, Any]
Handler = Callable[[Request, int], Mapping[str, object]]
"""Answers a request of a uid; raises ``Refused``, or ValueError, KeyError, TypeError for nonsense."""


class Refused(Exception):
    """The request will not be carried out; the message says why."""


class Unanswered(Exception):
    """Nobody who may be trusted answers at that socket."""


def server(path: Path) -> socket.socket:
    """A listening socket that its owner and this process's group may connect to. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(FileNotFoundError):
        path.unlink()
    # bind(2) makes the socket with the mode that the umask leaves; a chmod afterwards leaves a moment for
    # others.
    before = os.umask(0o117)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(MOST_CONNECTIONS)
    return listener


def serve(listener: socket.socket, allowed: Collection[int], handle: Handler) -> None:
    """Answer until the listener is closed; each connection on a thread of its own. Blocks."""
    busy = threading.BoundedSemaphore(MOST_CONNECTIONS)
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if not busy.acquire(blocking=False):
            connection.close()
            continue
        threading.Thread(
            target=_converse, args=(connection, frozenset(allowed), handle, busy), daemon=True
        ).start()


def begin(
    path: Path, request: Request, trusted: Collection[int] = (0,), descriptors: Sequence[int] = ()
) -> socket.socket:
    """Send a request; its answer is read from what comes back. Raises ``Unanswered``.

    ``trusted`` are the uids that the process behind the socket may have. It gets copies of ``descriptors``.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ASK_TIMEOUT_S)
    try:
        connection.connect(str(path))
        # Before anything is said or handed over: a stranger may have made a socket of that name.
        uid = peer_uid(connection)
        if uid not in trusted:
            raise Unanswered(f"{path} is served by uid {uid}, which is not trusted to be it")
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # refused before it was heard: the answer says why
            line = _line(request)
            connection.sendall(
                line[socket.send_fds(connection, [line], list(descriptors)) :] if descriptors else line
            )
    except OSError as error:
        connection.close()
        raise Unanswered(f"{path} does not answer ({error.strerror or error})") from error
    except Unanswered:
        connection.close()
        raise
    return connection


def ask(path: Path, request: Request, trusted: Collection[int] = (0,)) -> Mapping[str, object]:
    """The answer. Raises ``Unanswered``, or ``Refused`` with the reason."""
    connection = begin(path, request, trusted)
    with connection:
        return finish(connection)


def finish(connection: socket.socket) -> Mapping[str, object]:
    """The answer on a connection that has one coming. Raises ``Unanswered``, ``Refused``."""
    try:
        answer = _received(connection)
    except OSError as error:
        raise Unanswered(f"the answer did not come ({error.strerror or error})") from error
    if answer is None:
        raise Unanswered("the connection ended without an answer")
    if "refused" in answer:
        raise Refused(str(answer["refused"]))
    return answer


def is_answered(connection: socket.socket, at_most_s: float) -> bool:
    """Whether an answer, or the end, has come within so long."""
    return bool(select.select([connection], [], [], max(0.0, at_most_s))[0])


def peer_uid(connection: socket.socket) -> int:
    """Whose process is at the other end."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(raw)[1])


def _converse(
    connection: socket.socket,
    allowed: frozenset[int],
    handle: Handler,
    busy: threading.BoundedSemaphore,
) -> None:
    descriptors: list[int] = []
    try:
        with connection, suppress(OSError):
            connection.settimeout(ASK_TIMEOUT_S)
            uid = peer_uid(connection)
            if uid not in allowed:
                connection.sendall(_line({"refused": f"uid {uid} may ask nothing here"}))
                return
            request = _received(connection, descriptors)
            if request is not None:
                request[DESCRIPTORS] = tuple(descriptors)
                connection.sendall(_line(_answer(request, uid, handle)))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        busy.release()


def _answer(request: Request, uid: int, handle: Handler) -> Mapping[str, object]:
    try:
        return handle(request, uid)
    except Refused as refused:
        return {"refused": str(refused)}
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        return {"refused": f"the request cannot be read: {type(error).__name__} {error}"}


def _received(connection: socket.socket, descriptors: list[int] | None = None) -> Request | None:
    """The next line as an object; ``None`` at the end, and for what is no such line.

    Descriptors that come with its beginning are added to ``descriptors``; without it the kernel closes them.
    """
    body = bytearray()
    while not body.endswith(b"\n"):
        if descriptors is None or body:
            piece = connection.recv(1 << 16)
        else:
            piece, came, _, _ = socket.recv_fds(connection, 1 << 16, MOST_DESCRIPTORS)
            descriptors += came
        if not piece:
            return None
        body += piece
        if len(body) > MOST_BYTES:
            return None
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value).encode() + b"\n"
