"""The controller's ear: a local socket that takes one line a connection and answers with one line of JSON.

Who may open the socket's file may steer the training; there is no other check here.
"""

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from fallow.membership import View


class Steered(Protocol):
    """What a request can reach: the controller's target, its view and its end."""

    view: View
    exit_reason: str | None

    def resize(self, workers: int) -> int:
        """Ask for a world of ``workers``; returns the target within the limits."""
        ...


class ControlSocket:
    """A local socket: whoever may open its file can ask for ``resize N``, ``status`` or ``stop``."""

    def __init__(self, path: Path):
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.setblocking(False)

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
                connection.sendall((_answer(controller, words) + "\n").encode())
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
        return connection.recv(65536).decode().strip()


def _answer(controller: Steered, words: Sequence[str]) -> str:
    match words:
        case ["resize", number] if number.isdigit() and int(number) > 0:
            return json.dumps({"target": controller.resize(int(number))})
        case ["status"]:
            view = controller.view
            return json.dumps(
                {
                    "target": view.target,
                    "members": list(view.members),
                    "generation": view.generation,
                    "workers": {member: worker.phase.value for member, worker in view.workers.items()},
                }
            )
        case ["stop"]:
            controller.exit_reason = "stopped on request"
            return json.dumps({"stopping": True})
        case _:
            return json.dumps({"error": f"unknown request {' '.join(words)!r}: resize N, status or stop"})
