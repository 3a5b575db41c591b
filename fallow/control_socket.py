"""The controller's ear: a local socket that takes one line a connection and answers with one line of JSON.

Who may open the socket's file (mode 0600: its owner) may steer the training; there is no other check here.
"""

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from fallow.membership import View
from fallow.protocol import MemberId


class Steered(Protocol):
    """What a request can reach: the controller's target, its view and its end."""

    view: View

    def resize(self, workers: int) -> int:
        """Ask for a world of ``workers``; returns the target within the limits."""
        ...

    def release(self, member: MemberId) -> None:
        """Let this very worker go."""
        ...

    def ask_to_stop(self, reason: str) -> None:
        """End the training at its next step boundary."""
        ...

    def report(self, member: MemberId) -> str | None:
        """The newest measurements of a member, as JSON."""
        ...


class ControlSocket:
    """A local socket: ask for ``resize N``, ``status``, ``release WORKER`` or ``stop``.

    Raises OSError when another controller listens at ``path``; a file that a dead one left is replaced.
    """

    def __init__(self, path: Path):
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _clear(path)
        mask = os.umask(0o177)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(mask)
        self._listener.listen()
        self._listener.setblocking(False)

    def fileno(self) -> int:
        """Readable when somebody asks."""
        return self._listener.fileno()

    def poll(self, controller: Steered) -> None:
        """Answer whoever waits; never blocks for longer than a slow client's half second."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        with connection:
            connection.settimeout(0.5)
            try:
                words = connection.recv(1024).decode(errors="replace").split()
                connection.sendall((json.dumps(_answer(controller, words)) + "\n").encode())
            except OSError:
                return

    def close(self) -> None:
        """Stop listening and remove the file."""
        self._listener.close()
        self.path.unlink(missing_ok=True)


def ask(path: Path, words: Sequence[str]) -> str:
    """One line to a running controller, one line back. Raises OSError when it isn't there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(str(path))
        connection.sendall(" ".join(words).encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile() as answer:
            return answer.read().strip()


def _clear(path: Path) -> None:
    """Remove a socket that nobody listens at any more. Raises OSError when somebody does."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise FileExistsError(f"a controller listens at {path} already; give another --socket")


def _answer(controller: Steered, words: Sequence[str]) -> dict[str, Any]:
    match words:
        case ["resize", number] if number.isdigit() and int(number) > 0:
            return {"target": controller.resize(int(number))}
        case ["status"]:
            return _status(controller)
        case ["release", member] if member in controller.view.workers:
            controller.release(MemberId(member))
            return {"releasing": member}
        case ["stop"]:
            controller.ask_to_stop("stopped on request")
            return {"stopping": True}
        case _:
            asked = " ".join(words)
            return {"error": f"unknown request {asked!r}: resize N, status, release WORKER or stop"}


def _status(controller: Steered) -> dict[str, Any]:
    view = controller.view
    reports = {member: controller.report(member) for member in view.members}
    return {
        "target": view.target,
        "spare": view.spare,
        "members": list(view.members),
        "generation": view.generation,
        "changing": view.pending is not None,
        "workers": {member: worker.phase.value for member, worker in view.workers.items()},
        "failures": view.failures,
        "last_failure": view.last_failure,
        "reports": {member: json.loads(told) for member, told in reports.items() if told is not None},
    }
