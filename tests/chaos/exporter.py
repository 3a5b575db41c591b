"""A dcgm-exporter that is well, or says nonsense, nothing, too much, or says it too slowly."""

import http.server
import random
import threading
import time

GOOD = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-eeeeeeee-0000-0000-0000-000000000001",Hostname="far"} 50
"""
MODES = ("good", "empty", "garbage", "binary", "error", "slow", "reset", "endless")


class Exporter:
    """On a free port; ``mode`` may be changed at any time."""

    def __init__(self) -> None:
        self.mode = "good"
        exporter = self

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter._answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.port = int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()

    def _answer(self, page: http.server.BaseHTTPRequestHandler) -> None:
        mode, dice = self.mode, random.Random(time.monotonic_ns())
        if mode == "reset":
            page.connection.close()
            return
        if mode == "slow":
            time.sleep(3)
        page.send_response(500 if mode == "error" else 200)
        page.send_header("Content-Type", "text/plain; version=0.0.4")
        page.end_headers()
        try:
            page.wfile.write(_body(mode, dice))
            if mode == "endless":
                for _ in range(200):
                    page.wfile.write(b"x" * 65_536)
        except OSError:
            pass


def _body(mode: str, dice: random.Random) -> bytes:
    match mode:
        case "empty":
            return b""
        case "garbage":
            text = list(GOOD * 3)
            for _ in range(20):
                text[dice.randrange(len(text))] = dice.choice('{}",=\n\x00é9e-')
            return "".join(text).encode()
        case "binary":
            return dice.randbytes(4_096)
        case _:
            return GOOD.encode()
