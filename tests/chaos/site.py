"""The machine of a chaos run: a stand-in driver, a service that is started again when it dies, accounts.

Everything lies in one folder that other accounts can pass but not write, but for the ledger.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.driver.driver import Driver

ROOT = Path(__file__).parents[2]
GPUS = 4
USERS = (4001, 4002)
"""Two uids that no account has; jobs run as them, half each."""
ATTACKER = 4003
LIMIT_S = 60.0
"""So long a start may take on a machine that does everything else as well."""

CONFIG = """
[collect]
sources = ["nvml", "dcgm=http://127.0.0.1:{exporter}/metrics"]
tick_s = 1

[acting]
every_s = 0.5
launcher_grace_s = 6

[deciding]
cooldown_s = 0
min_runtime_s = 0

[api]
socket = "{socket}"
"""


class UnixHttp(HTTPConnection):
    """HTTP over the service's Unix socket."""

    def __init__(self, path: Path, timeout: float = 10) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass
class Launched:
    """A ``fallow run`` that is under way or over."""

    key: str
    process: "subprocess.Popen[bytes]"
    restarts: int
    hurt: bool = False
    began_s: float = field(default_factory=time.monotonic)


@dataclass
class Site:
    """See the top of this file. ``with Site(...)`` starts the service and ends everything."""

    folder: Path
    exporter: int
    mount: Callable[[Path], None] | None = None
    """Puts a file system of its own where the service's folder is to be."""
    launched: list[Launched] = field(default_factory=list)
    said_lost: set[str] = field(default_factory=set)
    """Names of ended jobs that a damage took with it, which the service or the salvage said."""
    starts: int = 0

    def __enter__(self) -> "Site":
        self.folder.chmod(0o755)
        self.data, self.ledger = self.folder / "data", self.folder / "ledger"
        self.socket = self.folder / "run" / "fallow.sock"
        self.socket.parent.mkdir(mode=0o755)
        self.data.mkdir(mode=0o700)
        if self.mount is not None:
            self.mount(self.data)
        self.ledger.mkdir()
        self.ledger.chmod(0o1777)
        config = CONFIG.format(exporter=self.exporter, socket=self.socket)
        (self.data / "fallow.toml").write_text(config)
        self.driver = Driver(self.folder, gpus=GPUS)
        self.driver.path.chmod(0o666)
        for slot in range(GPUS):
            lock = self.ledger / f"{self.driver.gpu(slot).uuid}.lock"
            lock.touch()
            lock.chmod(0o666)
        self.service: subprocess.Popen[bytes] | None = None
        self.outages: list[tuple[float, float]] = []
        self._down_since_s = 0.0
        self.down = threading.Event()
        """Set while the service is away on purpose (killed, stopped, frozen), until it answers again."""
        self.start_service()
        self.wait_for_answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()
        self.driver.close()
        if self.mount is not None:
            subprocess.run(["umount", "--lazy", str(self.data)], check=False)

    def environment(self) -> dict[str, str]:
        plain = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
        return {**plain, **self.driver.variables(), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}

    def start_service(self) -> None:
        with (self.folder / "serve.log").open("ab") as log:
            self.service = subprocess.Popen(
                [sys.executable, "-m", "service.cli", "serve", "--data", str(self.data)],
                stdout=log,
                stderr=log,
                env=self.environment(),
                cwd="/",
            )
        self.starts += 1

    def answers(self, timeout: float = 2) -> bool:
        try:
            return self.ask("GET", "/v1/whoami", timeout=timeout)[0] == 200
        except OSError:
            return False

    def wait_for_answer(self, limit_s: float = LIMIT_S) -> bool:
        ends_s = time.monotonic() + limit_s
        while not self.answers():
            if self.service is not None and self.service.poll() is not None:
                self.start_service()
            if time.monotonic() > ends_s:
                return False
            time.sleep(0.1)
        if self.down.is_set():
            self.outages.append((self._down_since_s, time.monotonic()))
        self.down.clear()
        return True

    def goes_down(self) -> None:
        """From now on the service is away on purpose."""
        if not self.down.is_set():
            self._down_since_s = time.monotonic()
        self.down.set()

    def was_away_for(self, job: Launched, span_s: float) -> bool:
        """Whether no service was there for so long at once after a job was launched."""
        return any(end_s - max(start_s, job.began_s) >= span_s for start_s, end_s in self.outages)

    def kill_service(self, how: signal.Signals) -> None:
        """End it, and wait until it is gone."""
        self.goes_down()
        assert self.service is not None
        self.service.send_signal(how)
        self.service.wait(LIMIT_S)

    def ask(self, method: str, path: str, body: object = None, timeout: float = 10) -> tuple[int, Any]:
        """Status and answer of one request over the socket, as whoever runs this."""
        connection = UnixHttp(self.socket, timeout)
        try:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        except ValueError:
            return 0, None
        finally:
            connection.close()

    def jobs(self, words: str = "") -> list[dict[str, Any]] | None:
        """What is said of jobs, as the words of the question want it; ``None``: nothing."""
        try:
            status, found = self.ask("GET", f"/v1/jobs{words}")
        except OSError:
            return None
        return found if status == 200 else None

    def launch(self, uid: int, gpus: int, seconds: float, restarts: int = 0) -> Launched:
        """A ``fallow run`` of this account."""
        key = f"job-{len(self.launched)}"
        home = self.folder / f"home-{uid}"
        if not home.exists():
            home.mkdir(mode=0o700)
            os.chown(home, uid, uid)
        own = {"FALLOW_SOCKET": str(self.socket), "HOME": str(home), "XDG_STATE_HOME": str(home)}
        worker = [sys.executable, str(Path(__file__).with_name("worker.py")), str(self.ledger), key]
        words = ["--name", key, "--gpus", str(gpus), "--restarts", str(restarts), "--"]
        with (self.folder / "launchers.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "service.cli", "run", *words, *worker, f"{seconds:.2f}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self.environment(), **own},
                cwd="/",
                user=uid,
                group=uid,
                extra_groups=[],
                start_new_session=True,
            )
        made = Launched(key=key, process=process, restarts=restarts)
        self.launched.append(made)
        return made

    def running(self) -> list[Launched]:
        return [each for each in self.launched if each.process.poll() is None]

    def workers(self) -> dict[str, int]:
        """The workers that live, by their job's key."""
        found = {}
        for place in Path("/proc").iterdir():
            if place.name.isdigit():
                with suppress(OSError):
                    words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    if str(self.ledger) in words and "run" not in words:
                        found[words[words.index(str(self.ledger)) + 1]] = int(place.name)
        return found

    def ours(self) -> list[str]:
        """Every living process of this run but the service itself: launchers, guards, workers."""
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdigit() and int(place.name) != os.getpid():
                with suppress(OSError):
                    words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    environ = (place / "environ").read_bytes()
                    if str(self.socket).encode() in environ or str(self.ledger) in words:
                        found.append(f"{place.name} {words.strip()[:120]}")
        return found

    def sizes(self) -> dict[str, int]:
        """What the service holds: open descriptors, threads, memory in MiB."""
        assert self.service is not None
        place = Path(f"/proc/{self.service.pid}")
        status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        return {
            "descriptors": len(list((place / "fd").iterdir())),
            "threads": int(status["Threads"]),
            "memory MiB": int(status["VmRSS"].split()[0]) // 1024,
        }

    def end_all(self) -> None:
        for each in self.running():
            with suppress(ProcessLookupError):
                os.kill(each.process.pid, signal.SIGCONT)
                each.process.kill()
                each.process.wait()
        if self.service is not None and self.service.poll() is None:
            self.service.send_signal(signal.SIGCONT)
            self.service.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.service.wait(20)
            self.service.kill()
        for key, pid in self.workers().items():
            print(f"left behind and killed: {key} {pid}")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def make_folder() -> Path:
    """A folder that other accounts can pass, in memory where there is room."""
    base = Path("/dev/shm") if shutil.disk_usage("/dev/shm").free > 2 << 30 else Path("/tmp")
    folder = base / f"fallow-chaos-{os.getpid()}"
    folder.mkdir(mode=0o755)
    return folder
