"""Real servers on loopback that take messages, or fail, stall and recover as they are told."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Webhook:
    """An HTTP server. ``behave`` is one of: take, refuse (503), stall, cut (drop the connection)."""

    behave: str = "take"
    asked: int = 0
    taken: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0
    stall_s: float = 30.0

    @property
    def address(self) -> str:
        return f"json://127.0.0.1:{self.port}/hook?cto=1&rto=1"


@contextmanager
def webhook() -> Iterator[Webhook]:
    told = Webhook()

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.asked += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            match told.behave:
                case "refuse":
                    self.send_error(503)
                case "cut":
                    self.connection.close()
                case "stall":
                    time.sleep(told.stall_s)
                case _:
                    told.taken.append(json.loads(body))
                    self.send_response(200)
                    self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    server.daemon_threads = True
    told.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
