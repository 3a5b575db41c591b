"""The service's end of a launcher's line, for tests: real HTTP on loopback, and what a test wants told.

It keeps what launchers say and decides nothing, so a test can say what no scheduler would: a directive twice,
a job that is not known, a service that goes away in the middle.
"""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from advisor.jobs.model import Command, Report
from advisor.serialize import to_tree
from advisor.tags import as_now

LIMIT_S = 60.0
JOB = "fallow:1"


class WireService:
    """One job's service. ``stop`` and ``start`` are what a restart is; the port stays the same."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.submissions: list[dict[str, Any]] = []
        self.reports: list[dict[str, Any]] = []
        self.orders: list[str] = []
        self.told: list[dict[str, Any]] = []
        self.listeners = 0
        self.caller = "ann"
        self.answers = threading.Event()
        self.answers.set()
        self.report_status = 200
        self.knows_proofs = True
        self.job = JOB
        self.nonces: set[str | None] = set()
        self.unknown = 0
        self.refusal: str | None = None
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self._over = threading.Event()
        self.start()

    @property
    def env(self) -> dict[str, str]:
        return {"FALLOW_URL": f"http://127.0.0.1:{self._port}", "FALLOW_TOKEN": "of-a-test"}

    def start(self) -> None:
        self._over = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.get(self)

            def do_POST(self) -> None:
                service.post(self)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._over.set()
        with self.changed:
            self.changed.notify_all()
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    # -- what tests say and ask ------------------------------------------------------------------------------

    def lose(self, job: str) -> None:
        """Know nothing of the job any more; what is submitted next is ``job``."""
        with self.changed:
            self.job, self.told = job, []
            self.changed.notify_all()
        self.stop()
        self.start()

    def tell(self, directive: Command) -> None:
        with self.changed:
            self.told.append({"directive": to_tree(directive, Command)})
            self.changed.notify_all()

    def lease(self, number: int, proof: str) -> None:
        with self.changed:
            self.told.append({"lease": {"number": number, "proof": proof}})
            self.changed.notify_all()

    def place(self, place: int, of: int, waits_for: str) -> None:
        with self.changed:
            self.told.append({"place": {"place": place, "of": of, "waits_for": waits_for}})
            self.changed.notify_all()

    def until(self, holds: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        with self.changed:
            while not holds():
                left = deadline - time.monotonic()
                said = [(each["state"], each["acknowledged"], each["failed"]) for each in self.reports]
                assert left > 0, f"not within {limit_s:g} s: {what}; reports {said}"
                self.changed.wait(min(left, 0.05))

    def handled(self, number: int) -> dict[str, Any]:
        """The first report that says that directive ``number`` was handled."""
        self.until(
            lambda: any(each["acknowledged"] >= number for each in self.reports), f"{number} is handled"
        )
        return next(each for each in self.reports if each["acknowledged"] >= number)

    # -- the wire --------------------------------------------------------------------------------------------

    def get(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == "/v1/whoami":
            self.answer(request, 200, {"name": self.caller, "uid": None, "role": "user"})
            return
        if request.path == "/healthz":
            self.answer(request, 200, {"service": "fallow", "status": "ok", "simulated": False})
            return
        path, _, query = request.path.partition("?")
        assert path.endswith("/directives"), path
        asked = parse_qs(query)
        after = int(asked["after"][0])
        if not self.knows(path, asked):
            self.refuse(request)
            return
        request.send_response(200)
        request.send_header("Content-Type", "application/x-ndjson")
        request.end_headers()
        at, over = 0, self._over
        with self.changed:
            self.listeners += 1
            self.changed.notify_all()
        try:
            while not over.is_set():
                with self.changed:
                    self.changed.wait_for(lambda at=at: over.is_set() or len(self.told) > at, 0.5)
                    news, at = self.told[at:], len(self.told)
                for each in news:
                    if each.get("directive", {}).get("number", after + 1) > after:
                        request.wfile.write(json.dumps(each).encode() + b"\n")
                request.wfile.write(b'{"alive": true}\n')
        except OSError:
            return
        finally:
            with self.changed:
                self.listeners -= 1

    def post(self, request: BaseHTTPRequestHandler) -> None:
        given = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        path, _, query = request.path.partition("?")
        status, answer = 200, dict[str, Any](known=True)
        with self.changed:
            if path == "/v1/jobs":
                self.submissions.append(given)
                status, answer = 201, {"job": self.job}
                if self.refusal is not None:
                    status, answer = 422, {"error": "bad-order", "message": self.refusal}
            elif path.endswith("/reports"):
                status = self.report_status if self.knows(path, parse_qs(query)) else 404
                if status == 200 and "proof" in given and not self.knows_proofs:
                    status = 422
                if status == 200:
                    self.reports.append(as_now(Report, given))
                else:
                    kind = {404: "unknown-job", 410: "job-ended", 422: "bad-order"}[status]
                    answer = {"error": kind, "message": f"{JOB} is not here"}
            else:
                self.knows(path, parse_qs(query))
                self.orders.append(path)
            self.changed.notify_all()
        self.answers.wait(LIMIT_S)
        self.answer(request, status, answer)

    def knows(self, path: str, asked: dict[str, list[str]]) -> bool:
        self.nonces.add(asked.get("nonce", [None])[0])
        known = f"/{self.job}/" in path.replace("%3A", ":")
        self.unknown += not known
        return known

    def refuse(self, request: BaseHTTPRequestHandler) -> None:
        self.answer(request, 404, {"error": "unknown-job", "message": "there is no such job"})

    def answer(self, request: BaseHTTPRequestHandler, status: int, answer: object) -> None:
        body = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
