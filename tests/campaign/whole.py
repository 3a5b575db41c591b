"""The whole service as the head: it collects, decides and answers orders, and is killed as any daemon is.

Orders come through its HTTP API, as a person's do, and their outcome is what its journal says in the end. A
dcgm-exporter of invented idle GPUs stands beside the cluster; everything else is what ``fallow serve`` runs.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.actions import Pause, Resume
from advisor.outcomes import Done, Failed, Outcome, Stale
from tests.campaign.crashes import HEAD, Crash
from tests.campaign.engine import REST_S
from tests.campaign.pauses import LATE_S, Pauses
from tests.chaos.site import ROOT, UnixHttp
from tests.slurm_cluster import PATIENCE_S, SlurmCluster

GPUS = 4
"""Of each node, as the campaign's cluster has them."""
FULL = 1024
"""MiB of a GPU that is held."""
CONFIG = """
[collect]
sources = ["dcgm={urls}"]
tick_s = 1
inventory_every_s = 1

[acting]
every_s = 0.5
manager_rest_s = {rest_s}

[api]
socket = "{socket}"
"""
NOT_DONE = frozenset({"stale", "unsupported", "undone"})
"""Results of the journal (``advisor.journal.records.Result``) after which a job is as it was."""


class Exporter:
    """One address a node, all of whose GPUs are idle."""

    def __init__(self) -> None:
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(_page(self.path.strip("/")).encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.port = int(self._server.server_address[1])

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()


def _page(node: str) -> str:
    lines = []
    for index in range(GPUS):
        uuid = f"GPU-00000000-0000-0000-{int(node[1:]):04d}-{index:012d}"
        labels = f'gpu="{index}",UUID="{uuid}",modelName="NVIDIA H200",Hostname="{node}"'
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 0",
            f"DCGM_FI_DEV_FB_USED{{{labels}}} {FULL}",
            f"DCGM_FI_DEV_FB_FREE{{{labels}}} {100 * FULL}",
            f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0",
        ]
    return "\n".join(lines) + "\n"


@dataclass
class Service:
    """``fallow serve`` in a process of its own, beside that cluster."""

    cluster: SlurmCluster
    data: Path
    exporter: Exporter = field(default_factory=Exporter)
    process: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        self.data.mkdir(mode=0o700)
        self.socket = self.data / "s"
        urls = ",".join(f"http://127.0.0.1:{self.exporter.port}/{node}" for node in self.cluster.nodes)
        text = CONFIG.format(urls=urls, rest_s=REST_S, socket=self.socket)
        (self.data / "fallow.toml").write_text(text)

    def start(self) -> None:
        """Returns once it answers."""
        with (self.data / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service.cli", "serve", "--data", str(self.data)],
                stdout=log,
                stderr=log,
                env={**self.cluster.environment, "PYTHONPATH": str(ROOT)},
                cwd="/",
            )
        end_s = time.monotonic() + LATE_S
        while self.ask("GET", "/v1/whoami")[0] != 200:
            assert time.monotonic() < end_s and self.process.poll() is None, self.log()
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it as a person does."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_S)
            self.process.kill()
            self.process.wait()
        self.exporter.close()

    def log(self) -> str:
        """What it wrote, the end of it."""
        return (self.data / "serve.log").read_text(errors="replace")[-4_000:]

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and answer of one request; status 0: nobody answered."""
        connection = UnixHttp(self.socket, timeout=LATE_S)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        except (OSError, ValueError) as failure:
            return 0, str(failure)
        finally:
            connection.close()

    def actions(self, job: str) -> list[dict[str, Any]]:
        """The journal of a job, the newest first."""
        status, rows = self.ask("GET", f"/v1/actions?job={job}")
        return rows if status == 200 else []


@dataclass
class WholePauses(Pauses):
    """Pauses and releases ordered of the whole service; something is killed while one is under way."""

    service: Service = field(init=False)

    def opens(self) -> None:
        """A service on a folder of its own."""
        self.service = Service(self.cluster, self.path.parent / "data")
        self.service.start()

    def close(self) -> None:
        """End the service."""
        self.service.close()

    def starts(self) -> None:
        """Nothing: it is killed where a head is to be."""

    def _act(self, step: Pause | Resume, crash: Crash | None) -> Outcome:
        service, verb = self.service, "pause" if isinstance(step, Pause) else "resume"
        if isinstance(step, Pause):
            self._is_seen(step.job)
        known = {row["action"] for row in service.actions(step.job)}
        came: list[tuple[int, Any]] = []
        order = threading.Thread(target=lambda: came.append(self._ordered(step.job, verb)))
        order.start()
        if crash is not None:
            if crash.is_after:
                self._until_begun(step.job, known, order)
            time.sleep(crash.delay_s)
            if crash.daemon == HEAD:
                service.kill()
                service.start()
            else:
                self.daemons.crash(crash.process, crash.away_s)
        order.join()
        if crash is not None:
            self._stranger()
        outcome = self._settled(step.job, known, came[0])
        if isinstance(outcome, Stale):
            print(f"      {verb} of {step.job}: {outcome.found}", flush=True)
        return outcome

    def _until_begun(self, job: str, known: set[int], order: threading.Thread) -> None:
        """Wait until the journal has the intent, or the order was answered without one."""
        while order.is_alive() and all(row["action"] in known for row in self.service.actions(job)):
            time.sleep(0.01)

    def _ordered(self, job: str, verb: str) -> tuple[int, Any]:
        """The answer to the order; once more where the acting half hasn't seen the job yet."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            came = self.service.ask("POST", f"/v1/jobs/{job}/{verb}", {"because": "a try"})
            if came[0] != 404 or time.monotonic() > end_s:
                return came
            time.sleep(0.2)

    def _is_seen(self, job: str) -> None:
        """Wait until the service has seen whose GPUs these are."""
        end_s = time.monotonic() + LATE_S
        while True:
            _, rows = self.service.ask("GET", "/v1/query/gpus_now")
            if isinstance(rows, list) and any(row["job"] == job for row in rows):
                return
            assert time.monotonic() < end_s, ("never seen", job, rows, self.service.log())
            time.sleep(0.2)

    def _settled(self, job: str, known: set[int], came: tuple[int, Any]) -> Outcome:
        """What the journal says in the end; an order that stands in none was not begun."""
        end_s = time.monotonic() + 2 * LATE_S
        while True:
            new = [row for row in self.service.actions(job) if row["action"] not in known]
            if not new:
                return Stale(found=f"not begun: {came}")
            outcome, found = new[0]["outcome"], new[0]["found"] or ""
            if outcome == "done":
                return Done(note=found)
            if outcome in NOT_DONE:
                return Stale(found=found)
            if outcome is not None:
                assert outcome == "failed", new[0]
                return Failed(found=found)
            assert time.monotonic() < end_s, (new[0], self.service.log())
            time.sleep(0.3)


@contextmanager
def whole_pauses(cluster: SlurmCluster, path: Path) -> Iterator[WholePauses]:
    """On a cluster that is up; the service's folder is made beside ``path``."""
    os.environ.pop("FALLOW_SOCKET", None)
    with closing(WholePauses(cluster, path)) as made:
        yield made
