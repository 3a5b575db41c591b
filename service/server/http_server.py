"""The HTTP server on a thread of its own, so that the main thread keeps the signals."""

import logging
import socket
import threading
from collections.abc import Sequence
from functools import partial
from typing import cast

import uvicorn

from service.api.gate import App
from service.api.stream import Closing
from service.server.bounded_listener import Listener
from service.server.http_protocol import HttpProtocol
from service.server.person_limits import Bounds

KEEP_ALIVE_S = 5
BACKLOG = 4096
"""Connections that may wait to be accepted; the kernel's own bound (net.core.somaxconn, listen(2))."""
GRACE_S = 1


class Server:
    """uvicorn on sockets that listen already; started and stopped by the service."""

    def __init__(
        self,
        app: App,
        listeners: Sequence[socket.socket],
        *,
        bounds: Bounds,
        receive_timeout_s: float,
        closing: Closing | None = None,
    ) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        config = uvicorn.Config(
            app,
            http=cast(
                "type[HttpProtocol]",
                partial(
                    HttpProtocol,
                    head_timeout_s=receive_timeout_s,
                    places=bounds.places,
                    peers=bounds.peers,
                ),
            ),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
            proxy_headers=False,
        )
        self._server = uvicorn.Server(config)
        self._listeners: list[socket.socket] = [
            Listener(each, bounds.places, bounds.peers) for each in listeners
        ]
        self._closing = closing
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Begin to answer; returns at once."""
        self._thread.start()

    def connections(self) -> dict[str, int]:
        """Open connections of local users (``socket``) and over TCP (``tcp``), as they are now."""
        open_now = list(self._server.server_state.connections)
        local = sum(1 for each in open_now if isinstance(each, HttpProtocol) and each.uid is not None)
        return {"socket": local, "tcp": len(open_now) - local}

    def hurry(self) -> None:
        """The end is near: streams end, and questions that are cut short are no faults to be logged."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        if self._closing is not None:
            self._closing.close()

    def stop(self) -> None:
        """End the streams, answer what is under way for a moment at most, then close."""
        self.hurry()
        self._server.should_exit = True
        self._thread.join(timeout=GRACE_S + 2)
        for listener in self._listeners:
            listener.close()

    def _run(self) -> None:
        self._server.run(sockets=self._listeners)
