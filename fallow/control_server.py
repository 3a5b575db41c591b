"""The controller's ear: a local socket that takes one line a connection and answers with one line of JSON.

The socket's file has mode 0600, and whoever connects is looked at besides (``SO_PEERCRED``): only the
training's own account and root may steer it. Who asks looks as well: an answer from another account's socket
is none. A request that fails is answered with the error and logged: whoever listens has other work, which
goes on.
"""

import errno
import json
import logging
import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fallow import accounts

LOG = logging.getLogger("fallow")
# A request is one line of words; a client must not fill our memory.
LONGEST_REQUEST_BYTES = 65_536
LONGEST_ANSWER_BYTES = 16 * 1024 * 1024
"""A status of a thousand workers takes a megabyte; whoever asks must not run out of memory for an answer."""
MOST_QUOTED = 100
"""Characters of a request that are said again."""
PATIENCE_S = 0.5
"""How long a slow client may keep the controller from its work."""


Answer = dict[str, Any]
Waiting = Callable[[], Answer | None]
"""Asked again until it has an answer; asked no more when whoever wanted to know has gone."""


class ControlSocket:
    """A local socket; ``answers`` says what is answered to a request's words, at once or when it is known.

    Raises OSError when another controller listens at ``path``; a file that a dead one left is replaced.
    """

    def __init__(self, path: Path, answers: Callable[[Sequence[str]], Answer | Waiting] | None = None):
        self.path, self.answers = path, answers
        self._waiting: list[tuple[socket.socket, Waiting]] = []
        self._strangers: set[int] = set()
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

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for an answer that isn't known yet: poll soon again."""
        return bool(self._waiting)

    def poll(self, controller: object = None) -> None:
        """Answer whoever waits; blocks for a slow client's ``PATIENCE_S`` at most."""
        self._waiting = [(client, waiting) for client, waiting in self._waiting if _waits(client, waiting)]
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        client.settimeout(PATIENCE_S)
        account = accounts.of_socket(client)
        if account is not None and not accounts.is_ours(account):
            LOG.warning("account %d may not ask anything at %s, and was turned away", account, self.path)
            _tell(
                client, {"error": "only the account that runs this training, and root, may ask it anything"}
            )
            return
        try:
            words = _request(client).split()
        except OSError:
            client.close()
            return
        answer = self._answered(words)
        if isinstance(answer, dict):
            _tell(client, answer)
        elif _waits(client, waiting := _guarded(answer, words)):
            self._waiting.append((client, waiting))

    def close(self) -> None:
        """Stop listening, send away who still waits, and remove the file."""
        for client, _ in self._waiting:
            _tell(client, {"error": "the training has ended"})
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _turn_away(self, client: socket.socket, account: int) -> None:
        if account not in self._strangers:
            self._strangers.add(account)
            LOG.warning("account %d may not ask anything at %s, and is turned away", account, self.path)
        _tell(client, {"error": "only the account that runs this training, and root, may ask it anything"})

    def _answered(self, words: Sequence[str]) -> Answer | Waiting:
        if self.answers is None:
            return {"error": "not ready yet: ask again"}
        try:
            return self.answers(words)
        except Exception as error:
            return _failed(words, error)


def ask(path: Path, words: Sequence[str], timeout_s: float | None = 5) -> str:
    """One line to whoever listens at ``path``, one line back.

    Raises OSError when nobody answers in time, or when another account listens there than ours or root
    (root asks everybody).
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        account = accounts.of_socket(connection)
        if account is not None and not accounts.is_ours(account) and os.geteuid() != accounts.ROOT:
            raise PermissionError(errno.EPERM, f"account {account} listens there, not ours", str(path))
        with suppress(BrokenPipeError):  # turned away unheard: why, it says
            connection.sendall(" ".join(words).encode())
            connection.shutdown(socket.SHUT_WR)
        return _answer(connection, path)


def quoted(words: Sequence[str]) -> str:
    """A request as it can be said again: its beginning, if it is long."""
    request = " ".join(words)
    return repr(request if len(request) <= MOST_QUOTED else f"{request[:MOST_QUOTED]}...")


def _answer(connection: socket.socket, path: Path) -> str:
    """All that is answered. Raises OSError for more than an answer has, TimeoutError for none in time."""
    buffer = b""
    while len(buffer) <= LONGEST_ANSWER_BYTES:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            if not buffer:
                raise
            break
        buffer += part
        if not part:
            break
    if len(buffer) > LONGEST_ANSWER_BYTES:
        raise OSError(errno.EMSGSIZE, f"the answer is longer than {LONGEST_ANSWER_BYTES} bytes", str(path))
    return buffer.decode(errors="replace").strip()


def _guarded(waiting: Waiting, words: Sequence[str]) -> Waiting:
    """``waiting``, whose failure is an answer."""

    def look() -> Answer | None:
        try:
            return waiting()
        except Exception as error:
            return _failed(words, error)

    return look


def _failed(words: Sequence[str], error: Exception) -> Answer:
    LOG.error("the request %s failed", quoted(words), exc_info=error)
    return {"error": f"the request {quoted(words)} failed: {type(error).__name__}: {error}"}


def _waits(client: socket.socket, waiting: Waiting) -> bool:
    """Whether there is still somebody to answer and no answer yet; answers if there is one."""
    hung_up = select.poll()
    hung_up.register(client, 0)  # POLLHUP is told unasked
    if hung_up.poll(0):
        client.close()
        return False
    answer = waiting()
    if answer is not None:
        _tell(client, answer)
    return answer is None


def _request(client: socket.socket) -> str:
    """What the client says until it has no more to say. Raises OSError, TimeoutError included."""
    buffer = b""
    while len(buffer) <= LONGEST_REQUEST_BYTES:
        part = client.recv(4096)
        buffer += part
        if not part or part.endswith(b"\n"):
            break
    return buffer.decode(errors="replace")


def _tell(client: socket.socket, answer: Answer) -> None:
    try:
        line = json.dumps(answer)
    except (TypeError, ValueError) as error:
        LOG.error("an answer cannot be written", exc_info=error)
        line = json.dumps({"error": f"the answer cannot be written: {error}"})
    with client:
        try:
            client.sendall(f"{line}\n".encode())
        except OSError:
            return


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
