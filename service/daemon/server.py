"""The HTTP server on a thread of its own, so that the main thread keeps the signals."""

import logging
import socket
import threading
from typing import Any

import uvicorn

KEEP_ALIVE_S = 5
GRACE_S = 3


class Server:
    """uvicorn on an already listening socket; started and stopped by the service."""

    def __init__(self, app: Any, listener: socket.socket, *, connections: int) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            limit_concurrency=connections,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._listener = listener
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Begin to answer; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what is under way for a few seconds at most, then close."""
        self._server.should_exit = True
        self._thread.join(timeout=GRACE_S + 2)
        self._listener.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._listener])
