"""A site for the documentation's commands: a day of two other machines, and one with four free GPUs.

The people of the others may hold every GPU of theirs at this hour of the day; the four, on the stand-in
driver, are nobody's, so that what is submitted here runs whenever the tests do.

Commands are typed in ``work``, which looks like a checkout after ``make install`` with a service on it. DATA
is ``var/lib/fallow`` beside it, so that what is written for the machine's service holds for it too. A word in
capitals stands for something that a reader has: ``real`` puts what the site has in its place.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO, TextIOWrapper
from pathlib import Path
from threading import Thread
from typing import Any

from service.cli import main
from service.client import ClientError, connect
from service.client.jobs import ActingClient, connect_acting
from service.errors import WrongState
from service.schemas.records import Job
from tests.collector.dcgm.loopback import QuietServer
from tests.docs.docs_reading import ROOT
from tests.driver.driver import Driver
from tests.other_machines import other_machines, remember

LINKED = (
    "examples",
    "packaging",
    "bench",
    "docs",
    "tests",
    "app.py",
    "Makefile",
    "pyproject.toml",
    "constraints.txt",
)
SETTINGS = """\
[collect]
sources = ["nvml", "fallow={others}"]
tick_s = 5
[api]
port = {port}
[prices]
currency = "EUR"
per_gpu_hour = {{ "*" = 1.9 }}
[modes.asked]
schedule = "ask"
"""
SAVES = """\
import os, pathlib, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
pathlib.Path("listens").write_text(str(os.getpid()))
time.sleep(3000)
"""
TRAIN = "print('trained')\n"
RECORDING = "t_s,gpu_id,util,mem_mib\n" + "".join(f"{60 * n},0,{n},2000\n" for n in range(20))
MAPPING = """\
width_s = 60
node_name = "recorded"
time = { column = "t_s", unit = "s", origin = "2026-03-02T00:00:00Z" }
gpu = { column = "gpu_id" }
[sample]
gpu_utilization_ratio = { column = "util", unit = "percent" }
memory_used_bytes = { column = "mem_mib", unit = "MiB" }
"""
EXPORTER = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-d0c5",modelName="NVIDIA A100-SXM4-80GB",Hostname="gpu-a"} 41
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-d0c5",modelName="NVIDIA A100-SXM4-80GB",Hostname="gpu-a"} 2048
"""
LIMIT_S = 120.0
OTHERS = 2


def free_port() -> int:
    """A port that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of a command."""

    status: int
    text: str


@dataclass(kw_only=True)
class Site:
    """The service, its DATA (or a ``copy`` of it), and whoever sits in ``work`` and types."""

    folder: Path
    copy: Path | None = None
    lent: Driver | None = None
    port: int = field(default_factory=free_port)
    variables: dict[str, str] = field(default_factory=dict)
    _service: "subprocess.Popen[bytes] | None" = None
    _training: "subprocess.Popen[str] | None" = None
    _exporter: ThreadingHTTPServer | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    @property
    def work(self) -> Path:
        """Where commands are typed."""
        return self.folder / "work"

    @property
    def data(self) -> Path:
        """The service's DATA."""
        return self.copy or self.folder / "var" / "lib" / "fallow"

    @property
    def environment(self) -> dict[str, str]:
        """What commands find in their environment."""
        own = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "XDG_STATE_HOME": str(self.folder / "home" / ".local" / "state"),
            "OMP_NUM_THREADS": "1",
            "TERM": "dumb",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FALLOW_", "XDG_"))}
        return self.driver.environment({**kept, **own, **self.variables})

    @cached_property
    def driver(self) -> Driver:
        """The stand-in for NVIDIA's driver; needs a C compiler once."""
        return self.lent or Driver(self.folder, gpus=4)

    def furnish(self) -> None:
        """Make the folders and files that a reader would have."""
        state = self.folder / "home" / ".local" / "state"
        for each in (self.work, self.data, state):
            each.mkdir(parents=True)
        (state / "fallow").symlink_to(self.data)
        for name in LINKED:
            (self.work / name).symlink_to(ROOT / name)
        (self.work / ".venv").symlink_to(sys.prefix)
        (self.work / ".fallow").symlink_to(self.data)
        (self.work / "train.py").write_text(TRAIN)
        (self.work / "saves.py").write_text(SAVES)
        night = self.work / "night.sh"
        night.write_text("#!/bin/sh\necho done\n")
        night.chmod(0o755)
        (self.work / "recording.csv").write_text(RECORDING)
        (self.work / "recording.csv.toml").write_text(MAPPING)
        others = self._open.enter_context(other_machines(nodes=OTHERS))
        (self.data / "fallow.toml").write_text(SETTINGS.format(port=self.port, others=others))
        remember(self.data, days=1, nodes=OTHERS)

    def start(self) -> None:
        """Start the service, and wait until it has measured something."""
        assert self._service is None, "it runs already"
        with (self.folder / "serve.log").open("ab") as log:
            self._service = subprocess.Popen(
                [sys.executable, "-m", "service.cli", "serve", "--data", str(self.data)],
                cwd=self.work,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._until("the service is well", self._is_well)
        (self.work / "peers.txt").write_text(f"{self.url} {self.token}\n")

    def stop(self) -> None:
        """Stop the service, as systemd does."""
        if self._service is not None:
            ending, self._service = self._service, None
            ending.send_signal(signal.SIGTERM)
            status = ending.wait(timeout=LIMIT_S)
            assert status == 0, f"{status}: {(self.folder / 'serve.log').read_text()[-2000:]}"

    def kill(self) -> None:
        """Have the service end as by kill -9."""
        assert self._service is not None
        self._service.kill()
        self._service.wait(timeout=LIMIT_S)
        self._service = None

    def close(self) -> None:
        """End everything that was started."""
        self.end_training()
        if self._service is not None:
            for row in self._alive():
                self.line.cancel(row.job)
            self._until("every job has ended", lambda: not self._alive())
            self._until("no launcher outlives us", lambda: not self._launchers())
        self.stop()
        if self._exporter is not None:
            self._exporter.shutdown()
            self._exporter.server_close()
        self._open.close()
        self.driver.close()

    @property
    def line(self) -> ActingClient:
        """A line of our own to the service."""
        return connect_acting(self.data)

    def verb(self, *words: str) -> Done:
        """A verb of ``fallow`` in this process, which saves starting one."""
        said = TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True)
        with self._typed(), redirect_stdout(said), redirect_stderr(said):
            try:
                status = main(words)
            except SystemExit as ended:
                status = int(ended.code or 0)
        said.seek(0)
        return Done(status=status, text=said.read())

    def shell(self, text: str) -> Done:
        """Anything else, in a shell."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Done(status=done.returncode, text=done.stdout)

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """What a reading verb says with --json; complaints of sources may stand before it."""
        done = self.verb(*words, "--json")
        assert done.status == 0, done.text
        rows: list[dict[str, Any]] = json.loads(done.text[done.text.index("[\n") :])
        return rows

    def real(self, text: str) -> str:
        """A command with what this site has in place of what the page could only name."""
        places: dict[str, Callable[[], str]] = {
            r"http://[\w-]+:9400": lambda: self.exporter,
            r"http://[\w-]+:9475": lambda: self.url,
            r"http://127\.0\.0\.1:9475": lambda: self.url,
            r"/run/fallow/fallow\.sock": lambda: str(self.data / "fallow.sock"),
            r"(?<![\w/])/var/lib(?=/| )": lambda: str(self.data.parent),
            r"\bgpu-a:3\b": lambda: self.gpu,
            r"\bJOB\b": self.job,
            r"\bPLAN\b": self.plan,
            r"\bACTION\b": self.action,
            r"\bUSER\b": lambda: self.user,
            r"\bPATH\b": self.control,
            r"\bSECRET\b": lambda: self.token,
        }
        for pattern, found in places.items():
            if re.search(pattern, text):
                text = re.sub(pattern, found().replace("\\", r"\\"), text)
        return text

    @property
    def url(self) -> str:
        """Where the service answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """What lets a reader in."""
        return (self.data / "token").read_text().strip()

    @cached_property
    def exporter(self) -> str:
        """Where a dcgm-exporter answers."""
        self._exporter = QuietServer(("127.0.0.1", 0), _Exporter)
        Thread(target=self._exporter.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._exporter.server_address[1]}"

    @cached_property
    def gpu(self) -> str:
        """A GPU by node and index."""
        row = self.rows("status")[0]
        return f"{row['node']}:{row['gpu_place']}"

    @cached_property
    def user(self) -> str:
        """Somebody who held GPUs."""
        return next(str(row["key"]) for row in self.rows("ledger", "--by", "user") if row["key"])

    def job(self) -> str:
        """A job that runs and saves itself when asked; submitted anew when the last one has ended."""
        mine = [row for row in self.line.jobs() if row.name == "saver" and row.state != "ended"]
        if not mine:
            words = "--detach --name saver --project vision --checkpoint-signal USR1"
            text = f"fallow run {words} --gpu-model '{self.driver.gpu(0).name}' -- python saves.py"
            # the driver may answer some cycles after the simulated machines: a model never seen is refused
            self._until("a job for the driver's GPUs is taken", lambda: self.shell(text).status == 0)
            mine = [row for row in self.line.jobs() if row.name == "saver" and row.state != "ended"]
        job = str(mine[0].job)
        self._until("the job has settled", lambda: self._listens(job) or self._stands(job, "paused"))
        return job

    def plan(self) -> str:
        """A plan that waits for a yes: to start a job of a project whose starts are asked for."""
        if not self._waiting():
            done = self.shell("fallow run --detach --name asked --project asked -- true")
            assert done.status == 0, done.text
        return str(self._until("a plan waits", self._waiting)[0].plan)

    def action(self) -> str:
        """Something that was done, and can be undone."""
        job = self.job()
        with suppress(WrongState):  # it runs, or goes on already
            self.line.resume(job)
        self._until("the job runs", lambda: self._listens(job))
        self.line.pause(job, because="to be undone")
        self._until("it is paused", lambda: self._stands(job, "paused"))
        return str(self.line.actions(job=job)[0].action)

    def train(self, text: str) -> None:
        """Start a training under its controller in the background, unless one runs."""
        if self._training is None or self._training.poll() is not None:
            log = (self.folder / "training.log").open("w")
            self._training = subprocess.Popen(
                ["bash", "-c", f"exec {text}"],
                cwd=self.work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._until("it trains", lambda: re.search(r"step +\d+ +loss", self._trained()))

    def end_training(self) -> None:
        """Stop the training, if one runs: it would keep a core busy as long as the site lives."""
        if self._training is not None and self._training.poll() is None:
            self._training.send_signal(signal.SIGINT)
            self._training.communicate(timeout=LIMIT_S)

    def control(self) -> str:
        """The path that a running controller printed."""
        self.train("python -m fallow.controller --min 1 --max 4 -- examples/text.py")
        found = re.search(r"--socket (\S+)", self._trained())
        assert found is not None, self._trained()
        return found[1]

    def _alive(self) -> list[Job]:
        return [row for row in self.line.jobs() if row.state != "ended"]

    def _launchers(self) -> list[str]:
        """Pids of those that were let go of by ``fallow run --detach`` here."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                here = (each / "cwd").resolve().is_relative_to(self.work)
                if here and b"--detach" in (each / "cmdline").read_bytes().split(b"\0"):
                    found.append(each.name)
        return found

    def _stands(self, job: str, stand: str) -> bool:
        return bool(self.line.job(job).state == stand)

    def _listens(self, job: str) -> bool:
        """Whether it runs, and its process is as far as to save itself: before, it refuses to be paused."""
        said = self.work / "listens"
        pid = said.read_text() if said.exists() else ""
        return bool(pid) and Path("/proc", pid).exists() and self._stands(job, "running")

    def _is_well(self) -> bool:
        assert self._service is not None
        assert self._service.poll() is None, (self.folder / "serve.log").read_text()
        try:
            with connect(self.data, url=self.url) as client:
                return bool(client.health().status == "ok")
        except ClientError:
            return False

    def _trained(self) -> str:
        return (self.folder / "training.log").read_text()

    def _waiting(self) -> list[Any]:
        return [row for row in self.line.plans() if row.state == "waiting"]

    def _until(self, what: str, holds: Callable[[], Any]) -> Any:
        limit = time.monotonic() + LIMIT_S
        while not (found := holds()):
            assert time.monotonic() < limit, f"not within {LIMIT_S:g} s: {what}"
            time.sleep(0.1)
        return found

    @contextmanager
    def _typed(self) -> Iterator[None]:
        """This process as if it had been started in ``work`` with the site's environment."""
        before = dict(os.environ)
        try:
            _become(self.environment)
            with chdir(self.work):
                yield
        finally:
            _become(before)


def _become(environment: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)


class _Exporter(BaseHTTPRequestHandler):
    """What a dcgm-exporter says."""

    def do_GET(self) -> None:
        body = EXPORTER.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
