"""A head and nodes that push to it, each in a network namespace of its own, and an auditor from outside.

The auditor copies every tick that it sees in a node's spool, with SQLite alone; at the end the store's
samples are held against the pages of those ticks. A tick stays in its spool for a tick of the head at least,
which is longer than the auditor's pause.
"""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from tests.driver.driver import Driver

ROOT = Path(__file__).parents[1]
PAUSE_S = 0.2
SAMPLE = re.compile(rb'^fallow_gpu_sample_timestamp_seconds\{uuid="([^"]+)"[^}]*\} (\S+)$', re.MULTILINE)
LONGEST_S = 60
ANSWERS = "Fallow answers at"

FAKETIME = "faketime/libfaketime.so.1"
"""Of Debian's package libfaketime, in the folder of the machine's libraries."""

Row = tuple[str, int]
"""A GPU and the end of a sample of it, UTC ms."""


def can_be() -> str | None:
    """Why this machine cannot play it; ``None`` where it can."""
    if os.geteuid() != 0:
        return "network namespaces are root's to make"
    missing = [name for name in ("ip", "unshare", "ss") if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed (iproute2, util-linux)" if missing else None


def wrong_clock(ahead_s: float) -> dict[str, str] | None:
    """Variables under which a program's calendar is so far ahead, its steady clocks as they are; ``None``:
    libfaketime is not installed.
    """
    found = next(Path("/usr/lib").glob(f"*/{FAKETIME}"), None)
    if found is None:
        return None
    return {"LD_PRELOAD": str(found), "FAKETIME": f"{ahead_s:+g}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def until(what: str, holds: "object", limit_s: float = LONGEST_S) -> None:
    """Wait for it. Raises AssertionError when it does not come."""
    end_s = time.monotonic() + limit_s
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end_s, f"{what}: not within {limit_s:g} s"
        time.sleep(0.1)


@dataclass
class Machine:
    """A namespace, and what runs in it."""

    name: str
    space: str
    address: str
    data: Path
    process: "subprocess.Popen[bytes] | None" = None
    driver: Driver | None = None
    token: str = ""

    def run(self, *words: str, **variables: str) -> None:
        """Start a verb here, under this machine's own name."""
        assert self.process is None or self.process.poll() is not None
        script = 'hostname "$0" && exec "$@"'
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
        environment |= {} if self.driver is None else self.driver.variables()
        command = ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", script, self.name]
        command += [sys.executable, "-m", "service.cli", *words, "--data", str(self.data)]
        with (self.data.parent / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=environment | variables, stdout=log, stderr=log, cwd=ROOT, start_new_session=True
            )

    def log(self) -> str:
        return (self.data.parent / f"{self.name}.log").read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End what runs here."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(30)
        with suppress(ProcessLookupError, AttributeError):  # the child that reads NVML
            os.killpg(self.process.pid, signal.SIGKILL)  # type: ignore[union-attr]


@dataclass
class Audit:
    """What every spool has held."""

    spools: dict[str, Path]
    seen: dict[str, dict[tuple[str, int], bytes]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.over.wait(PAUSE_S):
            self.look()

    def look(self) -> None:
        for node, path in self.spools.items():
            with suppress(sqlite3.Error, TypeError):  # a spool that is being made
                db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)
                try:
                    name = db.execute("SELECT name FROM spool").fetchone()[0]
                    rows = db.execute("SELECT sequence, page FROM ticks").fetchall()
                finally:
                    db.close()
                self.seen.setdefault(node, {}).update({(name, number): page for number, page in rows})

    def rows(self, node: str) -> set[Row]:
        """Every sample that a page of the node's spool told."""
        return {
            (uuid.decode(), round(float(at_s) * 1000))
            for page in self.seen[node].values()
            for uuid, at_s in SAMPLE.findall(zlib.decompress(page))
        }

    def numbers(self, node: str) -> list[int]:
        return sorted(number for _, number in self.seen.get(node, {}))


@dataclass
class Site:
    """The head, its nodes and the auditor."""

    head: Machine
    nodes: dict[str, Machine]
    audit: Audit
    tick_s: float
    address: str = ""
    """Where the nodes push: the head's own, or one that moves between heads."""

    @property
    def url(self) -> str:
        return f"http://{self.address}:9475"

    def start_head(self, head: Machine | None = None, address: str | None = None) -> None:
        machine = head or self.head
        begun = machine.log().count(ANSWERS) if machine.process else 0
        words = ("serve", "--source", "nodes", "--host", address or self.address, "--port", "9475")
        machine.run(*words, "--tick", f"{self.tick_s:g}")
        until("the head answers", lambda: machine.log().count(ANSWERS) > begun)

    def start_node(self, name: str, url: str | None = None, **variables: str) -> None:
        node = self.nodes[name]
        words = ("node", "--head", url or self.url, "--source", "nvml", "--tick", f"{self.tick_s:g}")
        node.run(*words, FALLOW_TOKEN=node.token, **variables)

    def move_address(self, to: Machine) -> None:
        """Give the address that nodes push to to another machine, which says so to all."""
        _ip("-n", self.head.space, "addr", "del", f"{self.address}/24", "dev", "eth0")
        _ip("-n", to.space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for node in self.nodes.values():
            subprocess.run(["ip", "-n", node.space, "neigh", "flush", "all"], check=True)

    def ask_head(self, *words: str, head: Machine | None = None) -> str:
        """What a verb says at the head, where the service runs."""
        return self._asked(head or self.head, *words).stdout

    def told_head(self, *words: str, head: Machine) -> str:
        """The same, with what it says of what went wrong."""
        done = self._asked(head, *words)
        return done.stdout + done.stderr

    @staticmethod
    def _asked(machine: Machine, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "service.cli", *words, "--data", str(machine.data)]
        inside = ["ip", "netns", "exec", machine.space, *command]
        return subprocess.run(inside, capture_output=True, text=True, check=False, cwd=ROOT)

    def cable(self, name: str, state: str) -> None:
        """``up`` or ``down``."""
        machine = self.nodes.get(name, self.head)
        subprocess.run(["ip", "link", "set", f"{machine.space}h", state], check=True)

    def settled(self, name: str) -> bool:
        """Whether all but the node's newest ticks are stored."""
        db = sqlite3.connect(f"file:{self.nodes[name].data / 'spool.sqlite'}?mode=ro", uri=True, timeout=5)
        try:
            waiting = "SELECT count(*) FROM ticks WHERE sequence > (SELECT stored FROM head)"
            return bool(db.execute(waiting).fetchone()[0] <= 3)
        finally:
            db.close()

    def stored(self, name: str, head: Machine | None = None) -> list[Row]:
        """The samples of a node in the store; the head must have ended."""
        data = (head or self.head).data
        with duckdb.connect(str(data / "fallow.duckdb"), read_only=True) as store:
            return store.execute(
                "SELECT uuid, epoch_ms(ts) FROM samples JOIN gpus USING (gpu_id) WHERE node = ? ORDER BY ALL",
                [name],
            ).fetchall()

    def gaps(self, name: str) -> list[tuple[int, int, str]]:
        """The gaps of a node in the store; the head must have ended."""
        with duckdb.connect(str(self.head.data / "fallow.duckdb"), read_only=True) as store:
            return store.execute(
                "SELECT epoch_ms(from_ts), epoch_ms(to_ts), reason FROM gaps WHERE node = ? ORDER BY ALL",
                [name],
            ).fetchall()


@contextmanager
def site(folder: Path, names: tuple[str, ...] = ("gpu-a", "gpu-b"), *, tick_s: float = 1.0) -> Iterator[Site]:
    """Machines on one bridge; nothing runs on them yet but the auditor."""
    tag = f"{os.getpid() % 100_000:x}"
    bridge = f"fb{tag}"
    _ip("link", "add", bridge, "type", "bridge")
    _ip("link", "set", bridge, "up")
    made = [_machine(folder, bridge, name, f"f{tag}{i}", i + 1) for i, name in enumerate(("head", *names))]
    head, nodes = made[0], {machine.name: machine for machine in made[1:]}
    (head.data / "fallow.toml").write_text("[collect]\nslurm = false\n")
    for node in nodes.values():
        state = folder / f"{node.name}-driver"
        state.mkdir()
        node.driver = Driver(state, gpus=2)
        node.token = _token(head.data, node.name)
    audit = Audit({name: node.data / "spool.sqlite" for name, node in nodes.items()})
    thread = threading.Thread(target=audit.watch, daemon=True)
    thread.start()
    try:
        yield Site(head, nodes, audit, tick_s, head.address)
    finally:
        audit.over.set()
        thread.join(5)
        for machine in made:
            machine.stop(signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", machine.space], check=False)
        subprocess.run(["ip", "link", "del", bridge], check=False)


@contextmanager
def standby(made: Site, folder: Path) -> Iterator[Machine]:
    """A second machine for a head, and an address for the nodes to push to, which the first one has."""
    bridge = f"fb{os.getpid() % 100_000:x}"
    spare = _machine(folder, bridge, "standby", f"f{os.getpid() % 100_000:x}s", 90)
    made.address = "10.87.3.100"
    _ip("-n", made.head.space, "addr", "add", f"{made.address}/24", "dev", "eth0")
    try:
        yield spare
    finally:
        spare.stop(signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", spare.space], check=False)


def _machine(folder: Path, bridge: str, name: str, space: str, number: int) -> Machine:
    _ip("netns", "add", space)
    _ip("link", "add", f"{space}h", "type", "veth", "peer", "name", "eth0", "netns", space)
    _ip("link", "set", f"{space}h", "master", bridge, "up")
    _ip("-n", space, "link", "set", "lo", "up")
    _ip("-n", space, "link", "set", "eth0", "up")
    _ip("-n", space, "addr", "add", f"10.87.3.{number}/24", "dev", "eth0")
    data = folder / f"{name}-data"
    data.mkdir(mode=0o700)
    return Machine(name=name, space=space, address=f"10.87.3.{number}", data=data)


def _token(data: Path, name: str) -> str:
    command = [sys.executable, "-m", "service.cli", "token", "add", "--user", name, "--role", "node"]
    made = subprocess.run(
        [*command, "--data", str(data)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return made.stdout.strip()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
