"""A machine with toy GPUs, a real service on it, and what people do there, for stories told with both.

The service is ``fallow serve``, jobs are ``fallow run``, both in processes of their own; only the driver is a
stand-in, and the calendar runs fast so that an hour's patience takes seconds. What the driver saw, and when,
is kept beside (``Witness``): a story is held to that, never to what the service says of itself.
"""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from examples.demo.witness import Witness
from examples.toys.board import GIB, make_board
from tests.driver.driver import Driver

if TYPE_CHECKING:
    from service.client.jobs import ActingClient
    from service.schemas.records import Action, Job
    from service.schemas.rows import GpusNowRow, Rows

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
ASK_S = 0.2
TICK_S = 1.0
RING_PER_TICK = 100
START_LIMIT_S = 60.0
END_LIMIT_S = 30.0

SETTINGS = """
[collect]
sources = ["nvml"]
tick_s = {tick_s:g}
process_every_ticks = 1
inventory_every_s = {tick_s:g}

[rehearsal]
speed = {speed:g}
since_ms = {since_ms}

{more}
"""


class StoryFailed(Exception):
    """What a story waited for did not come; the message says what was awaited, and what there was."""


@dataclass(slots=True, kw_only=True)
class Launched:
    """A ``fallow run`` that somebody typed; ``log`` is what it wrote, ``keys`` its terminal if any."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    keys: int | None = None

    @property
    def text(self) -> str:
        """All that it has written."""
        return self.log.read_text(errors="replace")

    def type(self, text: str) -> None:
        """Type on its terminal."""
        assert self.keys is not None, f"{self.name} has no terminal"
        os.write(self.keys, text.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a stage is set with: so many GPUs, so fast a calendar, and more of the service's configuration.

    ``patience`` multiplies every limit: a slower calendar needs more of the machine's time.
    """

    gpus: int = 1
    speed: float = 60.0
    patience: float = 1.0
    settings: str = ""

    @property
    def tick_s(self) -> float:
        """A tick's length in the calendar: one second of the machine's."""
        return max(1.0, self.speed * TICK_S)


@dataclass(slots=True)
class Stage:
    """One machine. Use it in a ``with`` block: whatever it started has ended after it."""

    folder: Path
    setting: Setting
    driver: Driver = field(init=False)
    witness: Witness = field(init=False)
    service: "subprocess.Popen[str] | None" = field(init=False, default=None)
    launched: list[Launched] = field(init=False, default_factory=list)
    _since_ms: int = field(init=False, default=0)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.driver = Driver(self.folder, gpus=self.setting.gpus)
        self._since_ms = time.time_ns() // 1_000_000
        self.driver.hurry(self.setting.speed, self._since_ms)
        board = [self._furnished(slot) for slot in range(self.setting.gpus)]
        self.witness = Witness(make_board(self.driver.path, board))
        self.data.mkdir(mode=0o700)
        text = SETTINGS.format(
            tick_s=self.setting.tick_s,
            speed=self.setting.speed,
            since_ms=self._since_ms,
            more=self.setting.settings,
        )
        (self.data / "fallow.toml").write_text(text)
        try:
            self.serve()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for job in self.launched:
            _end(job.process)
            if job.keys is not None:
                os.close(job.keys)
        self.stop_serving()
        self.witness.close()
        self.driver.close()

    @property
    def data(self) -> Path:
        """The service's DATA directory."""
        return self.folder / "data"

    @property
    def environment(self) -> dict[str, str]:
        """What all processes on this machine find in their environment."""
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        own = {
            "FALLOW_DATA": str(self.data),
            "PYTHONPATH": paths,
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        return self.driver.environment({**os.environ, **own})

    @property
    def uuids(self) -> tuple[str, ...]:
        """Its GPUs, in the driver's order."""
        return tuple(self.driver.gpu(slot).uuid for slot in range(self.setting.gpus))

    def serve(self) -> None:
        """Start the service, and wait until it has measured every GPU. Raises ``StoryFailed``."""
        self.service = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve"],
            env=self.environment,
            cwd=self.folder,
            stdout=(self.folder / "service.log").open("a"),
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.until("the service has measured every GPU", self._sees_all, START_LIMIT_S)

    def stop_serving(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the service; jobs go on."""
        if self.service is not None:
            _end(self.service, how)

    def fallow(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Type a ``fallow`` command and wait for it."""
        return subprocess.run(
            [sys.executable, "-m", "service.cli", *words],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_LIMIT_S,
        )

    def jobs(self) -> "list[Job]":
        """Every submitted job as the service has it."""
        return self._acting().jobs()

    def actions(self) -> "list[Action]":
        """What the service's journal has, oldest first."""
        return sorted(self._acting().actions(), key=lambda each: each.action)

    def order(self, *words: str) -> str:
        """Type a ``fallow`` command that does something; what it said. Raises ``StoryFailed``."""
        done = self.fallow(*words)
        if done.returncode != 0:
            raise StoryFailed(f"fallow {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def run(self, name: str, flags: Sequence[str], toy: Sequence[str], *, terminal: bool = False) -> Launched:
        """Type ``fallow run FLAGS --name NAME -- python -m examples.toys.TOY``; with ``terminal`` on one."""
        module, *words = toy
        typed = ["run", *flags, "--name", name, "--", sys.executable, "-m", f"examples.toys.{module}", *words]
        log = self.folder / f"{name}.log"
        command = [sys.executable, "-m", "service.cli", *typed]
        log.touch()
        make = _on_terminal if terminal else _on_pipe
        process, keys = make(command, self.environment, ROOT, log)
        job = Launched(name=name, process=process, log=log, keys=keys)
        self.launched.append(job)
        return job

    def alone(self, toy: Sequence[str]) -> None:
        """Run a toy on the first GPU without anybody's help, to its end. Raises ``StoryFailed``."""
        module, *words = toy
        done = subprocess.run(
            [sys.executable, "-m", f"examples.toys.{module}", *words],
            env={**self.environment, "CUDA_VISIBLE_DEVICES": self.uuids[0]},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if done.returncode != 0:
            raise StoryFailed(f"{module} alone: {done.stdout}{done.stderr}")

    def now_ms(self) -> int:
        """What the machine's calendar says, UTC milliseconds."""
        now_ms = time.time_ns() // 1_000_000
        return round(self._since_ms + (now_ms - self._since_ms) * self.setting.speed)

    @property
    def rows(self) -> "Rows":
        """Asks the service's store one of its named queries."""
        from service.client import connect

        return connect(self.data).rows

    def on(self, gpu: int) -> Mapping[int, int]:
        """What the driver has on a GPU now: bytes by process."""
        return self.witness.now()[self.uuids[gpu]]

    def until(self, what: str, holds: Callable[[], T], limit_s: float = END_LIMIT_S) -> T:
        """Wait for something; what it was. Raises ``StoryFailed``, telling what stood there instead."""
        limit_s *= self.setting.patience
        ends_s = time.monotonic() + limit_s
        while not (found := holds()):
            if time.monotonic() > ends_s:
                raise StoryFailed(f"not within {limit_s:g} s: {what}\n{self.report()}")
            if self.service is not None and self.service.poll() is not None:
                raise StoryFailed(f"the service ended while waiting for: {what}\n{self.report()}")
            time.sleep(ASK_S)
        return found

    def report(self) -> str:
        """What there is on the GPUs, and the last words of everybody, for whoever looks into a failure."""
        gpus = [
            f"{uuid}: " + (", ".join(f"{pid} {size / GIB:.1f} GiB" for pid, size in held.items()) or "free")
            for uuid, held in self.witness.now().items()
        ]
        logs = [self.folder / "service.log", *(job.log for job in self.launched)]
        tails = [f"-- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs if log.is_file()]
        asked = [f"-- fallow {verb}\n{self._said(verb)}" for verb in ("actions", "advise")]
        return "\n".join([*gpus, *tails, *asked])

    def _said(self, verb: str) -> str:
        """The end of what a reading verb prints, or that it never ends: the service may be what hangs."""
        try:
            return self.fallow(verb).stdout[-3000:]
        except subprocess.TimeoutExpired:
            return f"no answer in {START_LIMIT_S:g} s"

    def _furnished(self, slot: int) -> tuple[str, int, int]:
        gpu = self.driver.gpu(slot)
        gpu.auto_ring_us, gpu.auto_process_samples = round(self.setting.tick_s * 1e6 / RING_PER_TICK), 1
        gpu.metrics(graphics=0, sm=0, occupancy=0, tensor=0, dram=0)
        return gpu.uuid, gpu.memory_total, gpu.memory_reserved

    def _acting(self) -> "ActingClient":
        from service.client.jobs import connect_acting

        return connect_acting(self.data)

    def _sees_all(self) -> bool:
        from service.client import running

        if running(self.data) is None:
            return False
        return sum(row["as_of"] is not None for row in self._gpus_now()) == self.setting.gpus

    def _gpus_now(self) -> "list[GpusNowRow]":
        from service.client import ClientError

        try:
            return self.rows("gpus_now")
        except ClientError:
            return []


@contextmanager
def staged(folder: Path, setting: Setting) -> Iterator[Stage]:
    """A stage, set."""
    with Stage(folder, setting) as stage:
        yield stage


def _on_pipe(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
) -> "tuple[subprocess.Popen[bytes], None]":
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, None


def _on_terminal(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
) -> "tuple[subprocess.Popen[bytes], int]":
    """The same on a terminal of its own, whose screen goes into the log."""
    keys, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _SESSION, os.ttyname(terminal), *command],
        env=environment,
        cwd=folder,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    threading.Thread(target=_copy, args=(keys, log), name="screen", daemon=True).start()
    return process, keys


_SESSION = (
    "import fcntl, os, sys, termios; "
    "fcntl.ioctl(os.open(sys.argv[1], os.O_RDWR), termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
"""Makes the terminal the session's own, as a login does, then becomes the command."""


def _copy(screen: int, log: Path) -> None:
    with log.open("ab", buffering=0) as out:
        while True:
            try:
                text = os.read(screen, 4096)
            except OSError:
                return
            if not text:
                return
            out.write(text)


def _end(
    process: "subprocess.Popen[bytes] | subprocess.Popen[str]", how: signal.Signals = signal.SIGTERM
) -> None:
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(timeout=END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
